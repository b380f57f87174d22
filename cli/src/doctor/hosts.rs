//! `selvedge doctor --hosts FILE`: whether workers can be started on the machines of a file, and what to mend where not.

use std::fmt::Write as _;
use std::io::{BufRead, BufReader, Read, Write as _};
use std::net::{TcpStream, ToSocketAddrs};
use std::path::Path;
use std::process::{Child, Command, Stdio};
use std::sync::mpsc::{Receiver, RecvTimeoutError, channel};
use std::thread;
use std::time::{Duration, Instant};

use anyhow::Context;
use selvedge::hosts::{Cookie, CookieSource, MachineSpec, SshOptions, WorkerCommand};

use crate::args::DoctorArgs;

/// The time that a machine gets for each check.
const LIMIT: Duration = Duration::from_secs(30);
/// The time that a connection to a port gets.
const CONNECT_LIMIT: Duration = Duration::from_secs(5);
/// The time for which the last words of a command that has ended are awaited.
const LAST_WORDS_LIMIT: Duration = Duration::from_secs(1);
/// The time after which a worker ends that was started for a check.
const WORKER_TIMEOUT_MS: &str = "5000";
/// The beginning of the line by which a worker says where it listens.
const ANNOUNCEMENT: &str = "selvedge-worker#";

/// The outcome of the checks.
pub struct Checks {
    /// The text to print, one line for each check, and one below it where something is to be mended.
    pub text: String,
    /// The number of checks that have failed.
    pub failed: usize,
}

/// A check that has failed: what is wrong, and how to mend it.
type Wrong = (String, String);

impl Checks {
    fn note(&mut self, place: &str, found: Result<String, Wrong>) {
        // Writing to a text cannot fail.
        let _ = match found {
            Ok(found) => writeln!(self.text, "ok     {place}: {found}"),
            Err((wrong, help)) => {
                self.failed += 1;
                writeln!(self.text, "WRONG  {place}: {wrong}\n       help: {help}")
            }
        };
    }
}

/// Checks the machines of a file.
///
/// # Errors
/// The file cannot be read, or has a line that names no machine.
pub fn run(file: &Path, args: &DoctorArgs) -> anyhow::Result<Checks> {
    let text = std::fs::read_to_string(file).with_context(|| file.display().to_string())?;
    let machines = MachineSpec::parse_file(&text).with_context(|| file.display().to_string())?;
    let mut checks = Checks {
        text: String::new(),
        failed: 0,
    };
    if let Some(path) = &args.cookie_file {
        let found = CookieSource::File(path.clone()).read(&mut std::io::empty());
        let found = found.map(|_| "has a cookie that only its owner may read".to_owned());
        let help = || "write one by `(umask 077; openssl rand -hex 32 > FILE)`".to_owned();
        checks.note(
            &path.display().to_string(),
            found.map_err(|error| (error.to_string(), help())),
        );
    }
    let ssh = SshOptions::default().program(&args.ssh);
    let ssh = args.ssh_flags.iter().fold(ssh, SshOptions::flag);
    for machine in &machines {
        let place = machine.host.as_str();
        let reached = file_there(&ssh, machine, args.program.as_deref());
        let goes_on = reached.is_ok();
        checks.note(place, reached);
        if let (true, Some(program)) = (goes_on, &args.program) {
            checks.note(place, worker_there(&ssh, machine, program));
        }
    }
    Ok(checks)
}

/// Whether `ssh` reaches a machine, and whether the program there is the one here.
fn file_there(ssh: &SshOptions, machine: &MachineSpec, program: Option<&str>) -> Result<String, Wrong> {
    let sum = |program: &str| {
        let command = WorkerCommand::new("sh");
        let command = command.argument("-c").argument("cksum <\"$0\" || echo missing");
        command.argument(program)
    };
    let command = sum(program.unwrap_or("/dev/null"));
    let login = format!(
        "`{} {} true` has to work without a question: a key (`ssh-copy-id`), a known host, the user and the port in the machine's line",
        ssh.program,
        machine.host.as_str()
    );
    let (there, _) = said(ssh, machine, &command, b"", |line| !line.is_empty())
        .map_err(|why| (format!("`ssh` does not reach it: {why}"), login))?;
    let Some(program) = program else {
        return Ok("is reached by `ssh`".to_owned());
    };
    let here = std::fs::File::open(program).ok().and_then(|file| {
        let output = Command::new("cksum").stdin(file).output().ok()?;
        String::from_utf8(output.stdout).ok()
    });
    let copy =
        format!("copy `{program}` there, to the same path, or name the one there by the manager's `command`");
    match here {
        None => Err((
            format!("`{program}` cannot be read here"),
            "name the program of the driver".to_owned(),
        )),
        Some(_) if there == "missing" => Err((format!("`{program}` is not there"), copy)),
        Some(here) if here.trim() != there => Err((
            format!("`{program}` is another file there: a worker of another build is refused"),
            copy,
        )),
        Some(_) => Ok(format!("is reached by `ssh`, and has the same `{program}`")),
    }
}

/// Whether a worker starts on a machine, and whether its port is reached from here.
fn worker_there(ssh: &SshOptions, machine: &MachineSpec, program: &str) -> Result<String, Wrong> {
    let mut command = WorkerCommand::new(program).variable("SELVEDGE_WORKER_TIMEOUT_MS", WORKER_TIMEOUT_MS);
    command.bind.clone_from(&machine.bind);
    let cookie = Cookie::random().map_err(|error| (error.to_string(), "try again".to_owned()))?;
    let line = said(ssh, machine, &command, cookie.text().as_ref(), |line| {
        line.starts_with(ANNOUNCEMENT)
    });
    let (line, _running) = line.map_err(|why| {
        let help = "the program has to have selvedge's feature `hosts`, and `selvedge::init()` first in `main` without `premain`";
        (format!("no worker starts there: {why}"), help.to_owned())
    })?;
    let address = line.split_whitespace().nth(1).unwrap_or_default();
    let found = address.to_socket_addrs().map(|mut found| found.next());
    let reached = match found {
        Ok(Some(found)) => TcpStream::connect_timeout(&found, CONNECT_LIMIT).map(drop),
        Ok(None) => Err(std::io::ErrorKind::AddrNotAvailable.into()),
        Err(error) => Err(error),
    };
    match reached {
        Ok(()) => Ok(format!("a worker listens at {address}, and is reached from here")),
        Err(error) => Err((
            format!("a worker listens at {address}, which is not reached from here: {error}"),
            "open its ports, give another address as the second word of the machine's line, or use `SshOptions::tunnel`".to_owned(),
        )),
    }
}

/// The first line of a command's output that is wanted, and the command, which runs on. It gets a limited time.
fn said(
    ssh: &SshOptions,
    machine: &MachineSpec,
    command: &WorkerCommand,
    input: &[u8],
    is_wanted: impl Fn(&str) -> bool,
) -> Result<(String, Running), String> {
    let line = ssh.launch(machine, command).map_err(|error| error.to_string())?;
    let started = Command::new(&line.program)
        .args(&line.arguments)
        .stdin(Stdio::piped())
        .stdout(Stdio::piped())
        .stderr(Stdio::piped())
        .spawn();
    let child = started.map_err(|error| format!("`{}`: {error}", line.program))?;
    let mut running = Running(child);
    if let Some(mut stdin) = running.0.stdin.take() {
        // A program that does not read its input says why.
        let _ = stdin.write_all(input);
    }
    let errors = running.0.stderr.take().map(lines);
    let output = running.0.stdout.take().map(lines);
    let found = output.map_or(Err(RecvTimeoutError::Disconnected), |output| {
        wanted(&output, is_wanted)
    });
    let found = found.map_err(|error| {
        // A program that the child has started may hold the output open.
        let next = |errors: &Receiver<String>| errors.recv_timeout(LAST_WORDS_LIMIT).ok();
        let last = errors.and_then(|errors| std::iter::from_fn(|| next(&errors)).last());
        match (error, last) {
            (RecvTimeoutError::Timeout, _) => format!("nothing has come within {LIMIT:?}"),
            (RecvTimeoutError::Disconnected, Some(last)) => last,
            (RecvTimeoutError::Disconnected, None) => "it has ended without a word".to_owned(),
        }
    });
    Ok((found?, running))
}

fn wanted(output: &Receiver<String>, is_wanted: impl Fn(&str) -> bool) -> Result<String, RecvTimeoutError> {
    let deadline = Instant::now() + LIMIT;
    loop {
        let line = output.recv_timeout(deadline.saturating_duration_since(Instant::now()))?;
        if is_wanted(line.trim()) {
            return Ok(line.trim().to_owned());
        }
    }
}

/// The lines of an output, which a thread reads until its end.
fn lines(output: impl Read + Send + 'static) -> Receiver<String> {
    let (sender, lines) = channel();
    thread::spawn(move || {
        for line in BufReader::new(output).lines().map_while(Result::ok) {
            if sender.send(line).is_err() {
                return;
            }
        }
    });
    lines
}

/// A command that runs. The drop ends it.
struct Running(Child);

impl Drop for Running {
    fn drop(&mut self) {
        // Errors mean that it has ended.
        let _ = self.0.kill();
        let _ = self.0.wait();
    }
}
