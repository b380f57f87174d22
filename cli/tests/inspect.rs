//! Tests of `selvedge calls`, `objects` and the other looks into a running program, run as a user runs them. The program is this file's
//! own binary, run again.
#![allow(clippy::unwrap_used, reason = "a test may panic")]

use std::fs;
use std::io::{BufRead, BufReader, Read, Write};
use std::os::linux::net::SocketAddrExt;
use std::os::unix::net::{SocketAddr, UnixListener, UnixStream};
use std::process::{Child, ChildStdout, Command, Output, Stdio};
use std::sync::Mutex;
use std::time::{Duration, Instant};

use rustix::process::{Pid, Resource, Rlimit, Signal, getrlimit, kill_process, setrlimit};
use selvedge::inspect::{InspectError, InspectTopic, inspect};
use selvedge::prelude::*;
use serde_json::Value;

/// The variable that says what the program does.
const PART: &str = "SELVEDGE_INSPECTED";

#[remote(pure, retries = 2)]
fn length(text: &str) -> u64 {
    text.len() as u64
}

/// Never ends, and holds up its thread.
#[remote]
fn stuck() {
    loop {
        std::thread::park();
    }
}

/// Not a test: the program that the tests look into. It says `ready`, and ends when its input does.
#[test]
fn program() -> Result<()> {
    let Ok(part) = std::env::var(PART) else {
        return Ok(());
    };
    let runtime = Runtime::new();
    match part.as_str() {
        "two" => {
            Runtime::new().worker("ended")?.end(Duration::from_secs(60))?;
            let (other, _worker) = (Runtime::new(), runtime.worker("first")?);
            let _other = other.worker("second")?;
            ready();
        }
        "busy" => {
            let worker = runtime.worker("a")?;
            let made = runtime.submit(length::remote("abc"));
            assert_eq!(*made.fetch()?, 3);
            let image = runtime.put(Tensor::from_slice(&[1.0_f32; 1 << 16], &[1 << 16])?)?;
            let _held = image.fetch()?;
            runtime.name("image", &image)?;
            let waits = runtime.submit(stuck::remote().on(&worker));
            let infeasible = runtime.submit(length::remote("x").gpus(9));
            assert!(infeasible.fetch().is_err());
            ready();
            drop(waits);
        }
        // All threads of the program wait for what never comes: a lock for itself, and a call for ever.
        "stuck" => {
            let worker = runtime.worker("a")?;
            runtime.submit(stuck::remote().on(&worker));
            let lock = Mutex::new(());
            let _first = lock.lock().unwrap();
            println!("ready");
            let _second = lock.lock().unwrap();
        }
        // No descriptor is left for a while.
        "short" => {
            let _worker = runtime.worker("a")?;
            let limits = Rlimit {
                current: Some(256),
                ..getrlimit(Resource::Nofile)
            };
            setrlimit(Resource::Nofile, limits)?;
            let taken: Vec<_> = std::iter::from_fn(|| fs::File::open("/dev/null").ok()).collect();
            ready();
            drop(taken);
            ready();
        }
        other => panic!("no such part: {other}"),
    }
    Ok(())
}

fn ready() {
    println!("ready");
    let _ = std::io::stdin().read(&mut [0]);
}

struct Program {
    child: Child,
    said: BufReader<ChildStdout>,
}

impl Program {
    fn start(part: &str) -> Self {
        Program::start_by(Command::new(std::env::current_exe().unwrap()), part)
    }

    /// Starts the program by a command that begins with it, or that ends with its path.
    fn start_by(mut command: Command, part: &str) -> Self {
        let mut child = command
            .args(["program", "--exact", "--nocapture"])
            .env(PART, part)
            .stdin(Stdio::piped())
            .stdout(Stdio::piped())
            .spawn()
            .unwrap();
        let said = BufReader::new(child.stdout.take().unwrap());
        let mut program = Program { child, said };
        program.says_that_it_is_ready();
        program
    }

    fn says_that_it_is_ready(&mut self) {
        let mut line = String::new();
        while !line.trim_end().ends_with("ready") {
            line.clear();
            assert!(self.said.read_line(&mut line).unwrap() > 0, "it has ended");
        }
    }

    fn pid(&self) -> u32 {
        self.child.id()
    }

    fn kill(&mut self) {
        self.child.kill().unwrap();
        self.child.wait().unwrap();
    }
}

impl Drop for Program {
    fn drop(&mut self) {
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

fn look(topic: &str, pid: u32, options: &[&str]) -> Output {
    let mut command = Command::new(env!("CARGO_BIN_EXE_selvedge"));
    let command = command.args([topic, &pid.to_string()]).args(options);
    command.output().unwrap()
}

/// The rows of a topic, as scripts get them.
fn rows(topic: &str, pid: u32) -> Vec<Value> {
    let output = look(topic, pid, &["--json"]);
    let text = String::from_utf8(output.stdout).unwrap();
    assert!(
        output.status.success(),
        "{}",
        String::from_utf8_lossy(&output.stderr)
    );
    text.lines()
        .map(|line| serde_json::from_str(line).unwrap())
        .collect()
}

fn error(topic: &str, pid: u32) -> String {
    let output = look(topic, pid, &[]);
    assert_eq!(output.status.code(), Some(1));
    assert!(output.stdout.is_empty());
    String::from_utf8(output.stderr).unwrap()
}

/// Whether the kernel has a name of a process at which it can be asked.
fn listens(pid: u32) -> bool {
    let names = fs::read("/proc/net/unix").unwrap();
    String::from_utf8_lossy(&names).contains(&format!("@selvedge-inspect-{pid}-"))
}

#[test]
fn rtask_06_rtask_10_rfn_04_a_running_program_is_looked_into_from_the_shell() {
    let program = Program::start("busy");
    let pid = program.pid();

    let functions = rows("functions", pid);
    let length = functions
        .iter()
        .find(|row| row["function"] == "inspect::length")
        .unwrap();
    assert_eq!(length["retries"], 2);
    assert!(length["signature"].as_str().unwrap().starts_with("fn length("));
    let stuck = functions
        .iter()
        .find(|row| row["function"] == "inspect::stuck")
        .unwrap();
    assert_eq!(stuck["retries"], Value::Null);

    let calls = rows("calls", pid);
    let state = |state: &str| calls.iter().find(|row| row["state"] == state).unwrap();
    assert_eq!(calls.len(), 3, "{calls:?}");
    assert_eq!(state("made")["function"], "inspect::length");
    assert_eq!(state("running")["function"], "inspect::stuck");
    assert_eq!(state("running")["process"], 2);
    assert_eq!(state("failed")["needs"], "1 cpus, 9 gpus");

    let objects = rows("objects", pid);
    assert_eq!(objects.len(), 1);
    assert!(objects[0]["bytes"].as_u64().unwrap() >= 4 << 16);
    assert_eq!(objects[0]["place"], "memory");
    assert_eq!(objects[0]["read_by"], serde_json::json!([1]));

    let references = rows("references", pid);
    let made = references.iter().filter(|row| row["state"] == "made").count();
    assert_eq!((references.len(), made), (4, 3), "{references:?}");

    let names = rows("names", pid);
    assert_eq!((names.len(), &names[0]["name"]), (1, &"image".into()));
    assert!(names[0]["type"].as_str().unwrap().ends_with("Tensor"));
    assert_eq!(
        (&names[0]["owner"], &names[0]["named_by"]),
        (&1.into(), &1.into())
    );

    let members = rows("members", pid);
    let states: Vec<_> = members
        .iter()
        .map(|row| (&row["worker"], &row["state"]))
        .collect();
    assert_eq!(states[0], (&Value::Null, &"answers".into()));
    assert_eq!(states[1], (&"a".into(), &"lives".into()));
    assert_eq!(members[0]["pid"], pid);

    // A worker is told from a process without a runtime.
    let worker = u32::try_from(members[1]["pid"].as_u64().unwrap()).unwrap();
    let said = error("calls", worker);
    let hint = format!("process {worker} is a child of process {pid}, which has the runtime: ask that one");
    assert!(said.contains(&hint), "{said}");
}

#[test]
fn a_table_is_printed_for_people_and_says_what_it_lacks() {
    let program = Program::start("busy");
    let output = look("calls", program.pid(), &["--limit", "1"]);
    let text = String::from_utf8(output.stdout).unwrap();
    let mut lines = text.lines();
    assert!(lines.next().unwrap().starts_with("call "), "{text}");
    assert!(lines.next().unwrap().contains("inspect::length"), "{text}");
    assert_eq!(lines.next(), None);
    let left = String::from_utf8(output.stderr).unwrap();
    assert!(left.contains("2 calls are left out, of 3"), "{left}");
    let left = look("objects", program.pid(), &["--limit", "0"]).stderr;
    let left = String::from_utf8(left).unwrap();
    assert!(left.contains("1 objects are left out, of 1"), "{left}");
}

#[test]
fn a_program_whose_threads_are_all_stuck_answers() {
    let program = Program::start("stuck");
    let begun = Instant::now();
    let calls = rows("calls", program.pid());
    assert_eq!(calls.len(), 1);
    assert_eq!(calls[0]["state"], "running");
    assert_eq!(rows("members", program.pid()).len(), 2);
    assert!(begun.elapsed() < Duration::from_secs(60));
}

#[test]
fn each_runtime_of_a_process_that_has_not_ended_answers_for_itself() {
    let program = Program::start("two");
    let members = rows("members", program.pid());
    let named = |runtime: u64, worker: &str| {
        let mut of_it = members.iter().filter(move |row| row["runtime"] == runtime);
        of_it.any(|row| row["worker"] == worker)
    };
    // The first runtime of the process has ended.
    assert!(named(2, "first") && !named(2, "second"), "{members:?}");
    assert!(named(3, "second") && !named(3, "first"), "{members:?}");
    assert_eq!(members.len(), 4, "{members:?}");
}

#[test]
fn who_cannot_be_asked_is_an_error_that_says_why() {
    let mut program = Program::start("busy");
    let pid = program.pid();
    // A process without a runtime; the error names one that has.
    let mut other = Command::new("sleep").arg("600").spawn().unwrap();
    let said = error("calls", other.id());
    other.kill().unwrap();
    other.wait().unwrap();
    assert!(said.contains("has no runtime with actors or workers"), "{said}");
    assert!(said.contains(&pid.to_string()), "{said}");

    // Stopped as a whole, it cannot answer: the command ends all the same.
    kill_process(Pid::from_child(&program.child), Signal::STOP).unwrap();
    let said = error("calls", pid);
    assert!(
        said.contains(&format!("process {pid} has not answered within 5s")),
        "{said}"
    );
    kill_process(Pid::from_child(&program.child), Signal::CONT).unwrap();
    assert_eq!(rows("calls", pid).len(), 3);

    program.kill();
    let said = error("calls", pid);
    assert!(said.contains(&format!("there is no process {pid}")), "{said}");
}

#[test]
fn nothing_is_left_of_a_killed_program() {
    let mut program = Program::start("busy");
    let pid = program.pid();
    assert!(listens(pid));
    let held = descriptors(pid);
    for _ in 0..20 {
        assert_eq!(rows("calls", pid).len(), 3);
    }
    // The thread of the last answer ends a moment after the answer.
    let begun = Instant::now();
    while descriptors(pid) > held || has_thread(pid, "selvedge-inspec") {
        assert!(
            begun.elapsed() < Duration::from_secs(60),
            "descriptors or threads are left"
        );
        std::thread::yield_now();
    }
    program.kill();
    assert!(!listens(pid));
}

#[test]
fn a_program_that_had_no_descriptor_left_answers_when_it_has_one_again() {
    let mut program = Program::start("short");
    let said = error("members", program.pid());
    assert!(said.contains("has not answered within 5s"), "{said}");
    program.child.stdin.as_mut().unwrap().write_all(b"1").unwrap();
    program.says_that_it_is_ready();
    assert_eq!(rows("members", program.pid()).len(), 2);
}

/// The program has pids of its own, as in a container, so for it the asker has no pid.
#[test]
fn a_program_with_a_namespace_of_pids_of_its_own_answers() {
    let mut unshare = Command::new("unshare");
    unshare.args(["--pid", "--fork", "--kill-child", "--mount-proc"]);
    let tried = Command::new("unshare")
        .args(["--pid", "--fork", "--kill-child", "--mount-proc", "true"])
        .output();
    if !tried.is_ok_and(|tried| tried.status.success()) {
        let _ = std::io::stderr().write_all(b"\nleft out: only root can make a namespace of pids\n");
        return;
    }
    unshare.arg(std::env::current_exe().unwrap());
    let program = Program::start_by(unshare, "busy");
    let outside = program.pid();
    let children = fs::read_to_string(format!("/proc/{outside}/task/{outside}/children")).unwrap();
    let pid = children.trim().parse().unwrap();
    assert_eq!(rows("calls", pid).len(), 3);
    assert_eq!(rows("members", pid)[0]["pid"], 1, "as it names itself");
}

fn descriptors(pid: u32) -> usize {
    fs::read_dir(format!("/proc/{pid}/fd")).unwrap().count()
}

fn has_thread(pid: u32, name: &str) -> bool {
    let threads = fs::read_dir(format!("/proc/{pid}/task")).unwrap();
    let mut names = threads.filter_map(|thread| fs::read_to_string(thread.ok()?.path().join("comm")).ok());
    names.any(|it| it.trim() == name)
}

/// The name of the first runtime of a process.
fn address(pid: u32) -> SocketAddr {
    let names = fs::read("/proc/net/unix").unwrap();
    let names = String::from_utf8_lossy(&names).into_owned();
    let begin = format!("selvedge-inspect-{pid}-");
    let name = names.split_whitespace().find_map(|word| {
        let name = word.strip_prefix('@')?;
        name.starts_with(&begin).then(|| name.to_owned())
    });
    SocketAddr::from_abstract_name(name.unwrap()).unwrap()
}

#[test]
fn hostile_askers_get_nothing_and_hold_up_nobody() {
    let program = Program::start("busy");
    let pid = program.pid();
    let address = address(pid);
    let connect = || UnixStream::connect_addr(&address).unwrap();

    // Something else than a question ends the conversation, without an answer.
    let mut answer = Vec::new();
    let mut stream = connect();
    stream.write_all(&[0xff; 24]).unwrap();
    let _ = stream.read_to_end(&mut answer);
    assert!(answer.is_empty());

    // A question of a later version is answered with the version of the program.
    let mut stream = connect();
    let mut question = b"selvedge".to_vec();
    question.extend(99_u32.to_le_bytes());
    question.extend([0; 12]);
    stream.write_all(&question).unwrap();
    stream.read_to_end(&mut answer).unwrap();
    assert!(String::from_utf8_lossy(&answer).ends_with(env!("CARGO_PKG_VERSION")));

    // Askers that say nothing, more than may be open, are cut off in time, and whoever waits behind them is answered or told.
    let silent: Vec<_> = (0..4).map(|_| connect()).collect();
    let begun = Instant::now();
    let output = look("calls", pid, &[]);
    assert!(begun.elapsed() < Duration::from_secs(30));
    assert!(output.status.success() || String::from_utf8_lossy(&output.stderr).contains("has not answered"));
    for mut stream in silent {
        assert_eq!(stream.read(&mut [0]).unwrap(), 0, "it was cut off");
    }
    assert_eq!(rows("calls", pid).len(), 3);

    // One that goes in the middle of its question, and one that reads nothing of its answer.
    connect().write_all(b"selv").unwrap();
    for _ in 0..100 {
        let mut stream = connect();
        let mut question = b"selvedge".to_vec();
        question.extend([1_u32.to_le_bytes(), 1_u32.to_le_bytes()].concat());
        question.extend(u64::MAX.to_le_bytes());
        stream.write_all(&question).unwrap();
    }
    assert_eq!(rows("calls", pid).len(), 3);
}

/// One thread of this process plays another user: credentials are a thread's.
#[test]
fn another_user_is_refused_by_the_asker_and_by_the_program() {
    if !rustix::process::geteuid().is_root() {
        let _ = std::io::stderr().write_all(b"\nleft out: only root can become another user\n");
        return;
    }
    let program = Program::start("busy");
    let (pid, address) = (program.pid(), address(program.pid()));
    let (refused, answer) = std::thread::spawn(move || {
        rustix::thread::set_thread_uid(rustix::process::Uid::from_raw(65_534)).unwrap();
        let refused = inspect(pid, InspectTopic::Calls, 1);
        let mut stream = UnixStream::connect_addr(&address).unwrap();
        let mut answer = Vec::new();
        stream.read_to_end(&mut answer).unwrap();
        (refused, answer)
    })
    .join()
    .unwrap();
    assert!(matches!(refused, Err(InspectError::OtherUser { pid: of }) if of == pid));
    // The kind of the answer, and no byte of a table.
    assert_eq!((answer.len(), answer[12]), (24, 1));
    assert_eq!(rows("calls", pid).len(), 3);
}

/// Another version of selvedge, and a liar, are played by a process that listens under its own name.
#[test]
fn an_answer_of_another_version_or_of_a_liar_is_an_error_that_says_so() {
    let pid = std::process::id();
    let head = |protocol: u32, status: u32, length: u64| {
        let mut head = b"selvedge".to_vec();
        head.extend(protocol.to_le_bytes());
        head.extend(status.to_le_bytes());
        head.extend(length.to_le_bytes());
        head
    };
    let version = [head(7, 2, 7), b"9.8\x1b[2J".to_vec()].concat();
    let ours = env!("CARGO_PKG_VERSION");
    for (number, (answer, said)) in [
        (
            version,
            format!("has selvedge 9.8[2J, which does not understand a question of selvedge {ours}"),
        ),
        (head(1, 1, 0), "belongs to another user".to_owned()),
        (head(1, 0, u64::MAX), "it is too long".to_owned()),
        (
            [head(1, 0, 3), vec![0xff; 3]].concat(),
            "its rows cannot be decoded".to_owned(),
        ),
        (vec![0; 24], "it begins with something else".to_owned()),
        (head(1, 9, 0), "its kind is unknown".to_owned()),
        (Vec::new(), "has ended the conversation".to_owned()),
    ]
    .into_iter()
    .enumerate()
    {
        let name = format!("selvedge-inspect-{pid}-{}", 100 + number);
        let listener = UnixListener::bind_addr(&SocketAddr::from_abstract_name(name).unwrap()).unwrap();
        let heard = std::thread::scope(|scope| {
            scope.spawn(|| {
                let (mut stream, _) = listener.accept().unwrap();
                stream.read_exact(&mut [0; 24]).unwrap();
                stream.write_all(&answer).unwrap();
            });
            error("calls", pid)
        });
        assert!(heard.contains(&said), "{heard}");
    }

    // A runtime that answers is shown beside one that does not.
    let runtime = Runtime::new();
    let _worker = runtime.worker("a").unwrap();
    let name = format!("selvedge-inspect-{pid}-200");
    let listener = UnixListener::bind_addr(&SocketAddr::from_abstract_name(name).unwrap()).unwrap();
    let output = std::thread::scope(|scope| {
        scope.spawn(|| drop(listener.accept().unwrap()));
        look("members", pid, &["--json"])
    });
    let (rows, said) = (
        String::from_utf8(output.stdout).unwrap(),
        String::from_utf8(output.stderr).unwrap(),
    );
    assert!(
        rows.lines().count() == 2 && rows.contains(r#""worker":"a""#),
        "{rows}"
    );
    assert!(!output.status.success() && said.contains("runtime 200"), "{said}");
}
