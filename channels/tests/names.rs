//! Names by which unrelated processes find a channel.
#![cfg(all(not(loom), target_os = "linux", not(selvedge_portable)))]
#![allow(
    missing_docs,
    clippy::unwrap_used,
    clippy::expect_used,
    clippy::panic,
    clippy::indexing_slicing
)] // a test may panic

use selvedge_channels::{ChannelError, ChannelOptions, SharedChannel};

#[test]
#[cfg_attr(miri, ignore = "Miri has no shared memory")]
fn chan_24_a_stranger_finds_a_channel_by_its_name() {
    let name = format!("test-{}", std::process::id());
    let find = || SharedChannel::<u64>::find(&name, ChannelOptions::new());
    assert!(
        matches!(find(), Err(ChannelError::Name { .. })),
        "nobody has published it"
    );
    let channel = ChannelOptions::new().shared::<u64>().unwrap();
    let published = channel.publish(&name).unwrap();
    let twice = channel.publish(&name).unwrap_err().to_string();
    assert!(
        twice.contains(&name) && twice.contains("somebody else has it"),
        "{twice}"
    );
    let (mut writer, mut reader) = (find().unwrap().writer().unwrap(), channel.reader(0).unwrap());
    writer.send(7).unwrap();
    assert_eq!(reader.recv().unwrap(), 7);
    let wrong = SharedChannel::<String>::find(&name, ChannelOptions::new()).unwrap_err();
    assert!(matches!(wrong, ChannelError::WrongType { .. }), "{wrong}");
    drop(published);
    assert!(matches!(find(), Err(ChannelError::Name { .. })), "no longer");
    drop(channel.publish(&name).unwrap());
    for name in ["", "../etc", "a b", &"x".repeat(101)] {
        assert!(
            matches!(channel.publish(name), Err(ChannelError::Name { .. })),
            "{name:?}"
        );
    }
}

/// The test runs itself again as a process that publishes a name and is killed.
#[test]
#[cfg_attr(miri, ignore = "Miri starts no processes")]
fn chan_25_a_name_goes_with_its_process_however_it_ends() {
    const CHILD: &str = "SELVEDGE_TEST_PUBLISHER";
    let own = std::env::var(CHILD).ok();
    let name = own
        .clone()
        .unwrap_or_else(|| format!("killed-{}", std::process::id()));
    let channel = ChannelOptions::new().shared::<u64>().unwrap();
    if own.is_some() {
        let _published = channel.publish(&name).unwrap();
        println!("published");
        let _ = std::io::stdin().read_line(&mut String::new());
        return;
    }
    let mut child = std::process::Command::new(std::env::current_exe().unwrap())
        .args([
            "--exact",
            "--nocapture",
            "chan_25_a_name_goes_with_its_process_however_it_ends",
        ])
        .env(CHILD, &name)
        .stdin(std::process::Stdio::piped())
        .stdout(std::process::Stdio::piped())
        .spawn()
        .unwrap();
    let mut lines = std::io::BufRead::lines(std::io::BufReader::new(child.stdout.take().unwrap()));
    assert!(lines.any(|line| line.unwrap().contains("published")));
    SharedChannel::<u64>::find(&name, ChannelOptions::new()).unwrap();
    let taken = channel.publish(&name).unwrap_err().to_string();
    assert!(taken.contains("somebody else has it"), "{taken}");
    child.kill().unwrap();
    child.wait().unwrap();
    assert!(SharedChannel::<u64>::find(&name, ChannelOptions::new()).is_err());
    // Every publication sweeps files that dead processes have left, including the file of this name.
    let other = channel.publish(&format!("{name}-other")).unwrap();
    let left = |folder: &str| {
        let entries = std::fs::read_dir(folder).unwrap().flatten();
        entries
            .filter(|entry| entry.file_name().to_string_lossy().ends_with(&name))
            .count()
    };
    let own = std::env::var("XDG_RUNTIME_DIR").ok();
    let own = own.filter(|folder| std::path::Path::new(folder).is_dir());
    assert_eq!(left(&own.unwrap_or_else(|| "/dev/shm".to_owned())), 0);
    drop(other);
    drop(channel.publish(&name).unwrap());
}

/// The path of the file of a name.
fn file_of(name: &str) -> std::path::PathBuf {
    let own = std::env::var_os("XDG_RUNTIME_DIR").map(std::path::PathBuf::from);
    let folder = own
        .filter(|folder| folder.is_dir())
        .unwrap_or_else(|| "/dev/shm".into());
    folder.join(format!(
        "selvedge-channel-{}-{name}",
        rustix::process::getuid().as_raw()
    ))
}

/// The test runs itself again with a folder of its own: in a common folder, every publication removes files that no
/// process has locked.
#[test]
#[cfg_attr(miri, ignore = "Miri starts no processes")]
fn chan_24_a_file_that_somebody_has_put_there_before_is_not_taken() {
    const TEST: &str = "chan_24_a_file_that_somebody_has_put_there_before_is_not_taken";
    const CHILD: &str = "SELVEDGE_TEST_OWN_FOLDER";
    if std::env::var_os(CHILD).is_some() {
        return files_that_somebody_has_put_there();
    }
    let folder = std::env::temp_dir().join(format!("selvedge-names-{}", std::process::id()));
    std::fs::create_dir(&folder).unwrap();
    let done = std::process::Command::new(std::env::current_exe().unwrap())
        .args(["--exact", "--nocapture", TEST])
        .env(CHILD, "1")
        .env("XDG_RUNTIME_DIR", &folder)
        .output()
        .unwrap();
    let left = std::fs::read_dir(&folder).unwrap().count();
    std::fs::remove_dir_all(&folder).unwrap();
    let said = String::from_utf8_lossy(&done.stdout);
    let errors = String::from_utf8_lossy(&done.stderr);
    assert!(
        done.status.success() && said.contains("1 passed"),
        "{said}{errors}"
    );
    assert_eq!(left, 0);
    // `println!` does not serve: its output is hidden for tests that pass.
    for line in errors.lines().filter(|line| line.contains("left out")) {
        std::io::Write::write_all(&mut std::io::stderr(), format!("\n{line}\n").as_bytes()).unwrap();
    }
}

fn files_that_somebody_has_put_there() {
    let channel = ChannelOptions::new().shared::<u64>().unwrap();
    let refused = |name: &str, why: &str| {
        let refused = channel.publish(name).unwrap_err();
        assert!(matches!(refused, ChannelError::Name { .. }), "{refused}");
        assert!(refused.to_string().contains(why), "{refused}");
    };
    let path = file_of("linked");
    let precious = path.with_file_name("precious.txt");
    std::fs::write(&precious, "precious").unwrap();
    std::fs::hard_link(&precious, &path).unwrap();
    refused("linked", "has other names");
    assert_eq!(std::fs::read_to_string(&precious).unwrap(), "precious");
    std::fs::remove_file(&path).unwrap();
    std::fs::remove_file(&precious).unwrap();
    drop(channel.publish("linked").unwrap());
    // Only the superuser can give files away; a unit test beside the code checks the effect of an owner for all users.
    let path = file_of("foreign");
    std::fs::write(&path, "").unwrap();
    let somebody = rustix::process::getuid().as_raw() ^ 1;
    match std::os::unix::fs::chown(&path, Some(somebody), None) {
        Ok(()) => {
            refused("foreign", "another user's");
            let found = SharedChannel::<u64>::find("foreign", ChannelOptions::new()).unwrap_err();
            assert!(found.to_string().contains("another user's"), "{found}");
            assert_eq!(std::fs::read_to_string(&path).unwrap(), "");
        }
        Err(error) => {
            let _ = std::io::Write::write_all(
                &mut std::io::stderr(),
                format!("\nleft out: a file of another user, which needs a superuser: {error}\n").as_bytes(),
            );
        }
    }
    std::fs::remove_file(&path).unwrap();
}
