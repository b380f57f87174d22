use std::io::Write;
use std::num::{NonZeroU16, NonZeroUsize};
use std::process::{Command, Stdio};
use std::{env, fs, process};

use proptest::prelude::*;

use crate::handshake::CookieSource;
use crate::manager::shell::sentence;
use crate::manager::{
    CommandError, CommandLine, Count, MachineSpec, SshOptions, TunnelEntry, WorkerAddress, WorkerCommand,
    WorkerConfig,
};

fn machine(line: &str) -> MachineSpec {
    line.parse().unwrap()
}

fn address() -> WorkerAddress {
    "10.0.0.7:4711".parse().unwrap()
}

fn socket() -> TunnelEntry {
    TunnelEntry::socket("/tmp/selvedge-1/w.sock").unwrap()
}

/// The arguments, an option with its value on each line.
fn shown(line: Result<CommandLine, CommandError>) -> String {
    let line = line.unwrap();
    let mut text = line.program;
    for argument in line.arguments {
        text += if argument.starts_with('-') || argument.contains(' ') {
            "\n"
        } else {
            " "
        };
        text += &argument;
    }
    text
}

/// What a shell prints; `None` where there is no shell.
fn in_a_shell(text: &str) -> Option<Vec<u8>> {
    let mut shell = Command::new("sh");
    let Ok(output) = shell.arg("-c").arg(text).stderr(Stdio::inherit()).output() else {
        let _ = std::io::stderr().write_all(b"\nleft out: there is no `sh`\n");
        return None;
    };
    assert!(output.status.success(), "{text}");
    Some(output.stdout)
}

/// What `ssh` understands of a command line; `None` where there is none.
fn understood(
    ssh: SshOptions,
    line: impl Fn(&SshOptions) -> Result<CommandLine, CommandError>,
) -> Option<String> {
    let ssh = ssh.flag("-F").flag("none").flag("-G");
    let CommandLine { program, arguments } = line(&ssh).unwrap();
    let Ok(output) = Command::new(program)
        .args(arguments)
        .stdin(Stdio::null())
        .output()
    else {
        let _ = std::io::stderr().write_all(b"\nleft out: there is no `ssh`\n");
        return None;
    };
    assert!(
        output.status.success(),
        "{}",
        String::from_utf8_lossy(&output.stderr)
    );
    Some(String::from_utf8(output.stdout).unwrap())
}

#[test]
fn jnet_05_a_worker_is_launched_by_ssh_without_a_question_and_with_the_users_flags_in_front() {
    let ssh = SshOptions::default().flag("-i").flag("/home/ada/my key");
    let command = WorkerCommand::new("/opt/train")
        .argument("--size")
        .argument("two words");
    let line = ssh.launch(&machine("4*ada@gpu0:2222 10.0.0.7:4711"), &command);
    let expected = "ssh\n-i\n/home/ada/my key\n-T\n-a\n-x\n-o BatchMode=yes\n-o ConnectTimeout=30\n-o ServerAliveInterval=15
-o ServerAliveCountMax=3\n-o ClearAllForwardings=yes\n-p 2222\n-l ada gpu0
exec /opt/train --size 'two words' --selvedge-worker --bind-to 10.0.0.7:4711";
    assert_eq!(shown(line), expected);
}

#[test]
fn jnet_04_ssh_launches_and_forwards_nothing_unless_there_is_a_tunnel() {
    let ssh = SshOptions::default();
    let line = ssh.launch(&machine("[fe80::1]"), &WorkerCommand::new("train"));
    assert!(
        line.unwrap()
            .arguments
            .iter()
            .any(|it| it == "ClearAllForwardings=yes")
    );
    let launch = |ssh: &SshOptions| ssh.launch(&machine("ada@[fe80::1]:2222"), &WorkerCommand::new("train"));
    let Some(config) = understood(ssh, launch) else {
        return;
    };
    for line in [
        "hostname fe80::1",
        "user ada",
        "port 2222",
        "batchmode yes",
        "clearallforwardings yes",
    ] {
        assert!(config.lines().any(|it| it == line), "{line}:\n{config}");
    }
}

#[test]
fn jnet_06_a_tunnel_leads_to_the_worker_and_says_when_it_is_open() {
    let ssh = SshOptions::default().tunnel(true);
    let expected = "ssh\n-T\n-a\n-x\n-o BatchMode=yes\n-o ConnectTimeout=30\n-o ServerAliveInterval=15
-o ServerAliveCountMax=3\n-o ExitOnForwardFailure=yes\n-L /tmp/selvedge-1/w.sock:10.0.0.7:4711 gpu0
echo 'selvedge-worker#1 10.0.0.7:4711' && exec cat >/dev/null";
    assert_eq!(
        shown(ssh.tunnel_to(&machine("gpu0"), &socket(), &address())),
        expected
    );
    let port = TunnelEntry::port(NonZeroU16::new(9000).unwrap());
    let far = "[::1]:4711".parse().unwrap();
    let line = ssh.tunnel_to(&machine("gpu0"), &port, &far).unwrap();
    assert!(
        line.arguments.iter().any(|it| it == "127.0.0.1:9000:[::1]:4711"),
        "{line:?}"
    );
    let tunnel = |ssh: &SshOptions| ssh.tunnel_to(&machine("gpu0"), &socket(), &far);
    let Some(config) = understood(ssh.clone(), tunnel) else {
        return;
    };
    for line in [
        "localforward /tmp/selvedge-1/w.sock [::1]:4711",
        "exitonforwardfailure yes",
    ] {
        assert!(config.lines().any(|it| it == line), "{line}:\n{config}");
    }
}

#[test]
fn jnet_06_the_far_end_of_a_tunnel_announces_the_worker_and_ends_with_its_input() {
    let line = SshOptions::default()
        .tunnel_to(&machine("gpu0"), &socket(), &address())
        .unwrap();
    let mut shell = Command::new("sh");
    shell.arg("-c").arg(line.arguments.last().unwrap());
    let Ok(mut shell) = shell.stdin(Stdio::piped()).stdout(Stdio::piped()).spawn() else {
        let _ = std::io::stderr().write_all(b"\nleft out: there is no `sh`\n");
        return;
    };
    shell
        .stdin
        .take()
        .unwrap()
        .write_all(b"what comes is nobody's")
        .unwrap();
    let output = shell.wait_with_output().unwrap();
    assert!(output.status.success());
    assert_eq!(output.stdout, b"selvedge-worker#1 10.0.0.7:4711\n");
}

#[test]
fn jnet_06_a_socket_has_a_path_that_ssh_reads_as_one() {
    let long = format!("/{}", "x".repeat(100));
    for path in [
        "", "w.sock", "/tmp/a:b", "/tmp/a b", "/tmp/%h", "/tmp/$X", "~/w.sock", &long,
    ] {
        let error = TunnelEntry::socket(path).unwrap_err();
        assert!(matches!(error, CommandError::SocketPath { .. }), "{path}");
    }
}

#[test]
fn jnet_09_multiplexing_shares_one_connection_under_a_control_path_of_our_own() {
    let ssh = SshOptions::default().multiplex(true);
    let (gpu0, path) = (machine("ada@gpu0"), "-o ControlPath=~/.ssh/selvedge-%C");
    let launch = shown(ssh.launch(&gpu0, &WorkerCommand::new("train")));
    let shared = format!("-o ControlMaster=auto\n{path}\n-o ControlPersist=no");
    assert!(launch.contains(&shared), "{launch}");
    let to = "-L /tmp/selvedge-1/w.sock:10.0.0.7:4711\n-l ada gpu0";
    assert_eq!(
        shown(ssh.forward(&gpu0, &socket(), &address())),
        format!("ssh\n-O forward\n{path}\n{to}")
    );
    assert_eq!(
        shown(ssh.cancel(&gpu0, &socket(), &address())),
        format!("ssh\n-O cancel\n{path}\n{to}")
    );
    assert_eq!(
        shown(ssh.check(&gpu0)),
        format!("ssh\n-O check\n{path}\n-l ada gpu0")
    );
    let alone = shown(SshOptions::default().launch(&gpu0, &WorkerCommand::new("train")));
    assert!(
        !alone.contains("Control"),
        "the user's own settings hold: {alone}"
    );
}

#[test]
fn jnet_05_the_users_flags_win() {
    let ssh = SshOptions::default()
        .flag("-o")
        .flag("BatchMode=no")
        .multiplex(true)
        .flag("-oControlPath=/tmp/own");
    let launch = |ssh: &SshOptions| ssh.launch(&machine("gpu0"), &WorkerCommand::new("train"));
    let Some(config) = understood(ssh, launch) else {
        return;
    };
    for line in ["batchmode no", "controlpath /tmp/own", "controlmaster auto"] {
        assert!(config.lines().any(|it| it == line), "{line}:\n{config}");
    }
}

#[test]
fn jmgr_10_no_command_line_has_the_cookie() {
    let command = WorkerCommand::new("train").variable(CookieSource::VARIABLE, "0f".repeat(32));
    let name = CookieSource::VARIABLE.to_owned();
    assert_eq!(command.local(), Err(CommandError::Secret { name: name.clone() }));
    assert_eq!(
        SshOptions::default().launch(&machine("gpu0"), &command),
        Err(CommandError::Secret { name })
    );
    assert!(!command.remote().unwrap_err().to_string().contains("0f0f"));
}

#[test]
fn jmgr_11_a_worker_gets_the_address_to_listen_on() {
    let command = WorkerCommand::new("/opt/train")
        .argument("x")
        .bind("[::1]:99".parse().unwrap());
    let line = command.local().unwrap();
    assert_eq!(
        line.arguments,
        ["x", "--selvedge-worker", "--bind-to", "[::1]:99"]
    );
    let launched = SshOptions::default()
        .launch(&machine("gpu0 10.0.0.7"), &command)
        .unwrap();
    assert!(
        launched
            .arguments
            .last()
            .unwrap()
            .ends_with("--bind-to '[::1]:99'"),
        "the command's own counts"
    );
}

#[test]
fn jmgr_13_the_settings_of_a_worker_have_defaults_and_a_builder() {
    let config = WorkerConfig::default();
    assert_eq!(
        (config.count, &config.command, &config.ssh),
        (Count::ONE, &None, &None)
    );
    assert_eq!((config.ident, config.connect_idents), (None, Vec::new()));
    let ssh = SshOptions::default().program("/opt/ssh").tunnel(true);
    assert_eq!(ssh.max_parallel.get(), 10);
    let ssh = ssh.max_parallel(NonZeroUsize::MIN);
    let config = WorkerConfig::default()
        .count(Count::Auto)
        .command(WorkerCommand::new("train").directory("/data"))
        .ssh(ssh.clone())
        .ident("a")
        .connect_ident("b")
        .connect_ident("c");
    assert_eq!((config.count, config.ssh), (Count::Auto, Some(ssh)));
    assert_eq!(
        config.command.unwrap().remote().unwrap(),
        "cd -- /data && exec train --selvedge-worker"
    );
    assert_eq!(config.ident.as_deref(), Some("a"));
    assert_eq!(config.connect_idents, ["b", "c"]);
}

#[test]
fn jmgr_16_a_managers_own_data_comes_back_as_it_was() {
    let mut config = WorkerConfig::default().user_data(vec![1, 2]);
    config.user_data_mut::<Vec<i32>>().unwrap().push(3);
    assert_eq!(config.user_data_mut::<Vec<i32>>(), Some(&mut vec![1, 2, 3]));
    assert_eq!(config.user_data_mut::<String>(), None);
}

#[test]
fn jnet_05_parts_that_no_process_can_get_are_refused() {
    let nul = |command: WorkerCommand| matches!(command.remote(), Err(CommandError::Nul { .. }));
    let train = || WorkerCommand::new("train");
    assert!(
        nul(train().argument("a\0b")) && nul(train().directory("\0")) && nul(train().variable("A", "\0"))
    );
    assert!(nul(WorkerCommand::new("tr\0ain")));
    for program in ["", "-c", "A=b"] {
        assert!(
            matches!(
                WorkerCommand::new(program).remote(),
                Err(CommandError::Program { .. })
            ),
            "{program}"
        );
    }
    for name in ["", "1A", "A-B", "A=B", "é", "A\0"] {
        assert!(
            matches!(
                train().variable(name, "").remote(),
                Err(CommandError::Variable { .. })
            ),
            "{name:?}"
        );
    }
    let flag = SshOptions::default().flag("\0").check(&machine("gpu0"));
    assert!(matches!(flag, Err(CommandError::Nul { .. })));
}

#[test]
fn jnet_05_a_real_shell_gives_directory_environment_and_arguments_to_the_program() {
    let directory = env::temp_dir().join(format!("selvedge's \"$HOME\" {}", process::id()));
    fs::create_dir(&directory).unwrap();
    let value = "a b'c\"$(id)`id`\\\n*";
    let script = r#"pwd && printf '%s\0' "$VALUE" "$@""#;
    let command = WorkerCommand::new("sh")
        .argument("-c")
        .argument(script)
        .argument("sh")
        .argument("!$x");
    let command = command
        .directory(directory.to_str().unwrap())
        .variable("VALUE", value);
    let printed = in_a_shell(&command.remote().unwrap());
    fs::remove_dir(&directory).unwrap();
    if let Some(printed) = printed {
        let printed = String::from_utf8(printed).unwrap();
        let (place, words) = printed.split_once('\n').unwrap();
        assert!(
            place.ends_with(directory.file_name().unwrap().to_str().unwrap()),
            "{place}"
        );
        assert_eq!(words, format!("{value}\0!$x\0--selvedge-worker\0"));
    }
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(64))]

    #[test]
    fn jnet_05_a_real_shell_reads_every_word_as_it_was(
        words in proptest::collection::vec("[^\0]{0,20}|[-a '\"\\\\$`!*?~#&;|<>(){}\\[\\]\n\t=%^]{0,20}", 1..10),
    ) {
        let printed = in_a_shell(&format!("printf '%s\\0' {}", sentence(&words).unwrap()));
        let expected: Vec<u8> = words.iter().flat_map(|word| [word.as_bytes(), b"\0"].concat()).collect();
        prop_assert!(printed.is_none_or(|printed| printed == expected), "{words:?}");
    }
}
