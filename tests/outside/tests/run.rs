//! Runs each program of `src/bin` to its end: it succeeds, it ends in time, and its source is short.
use std::fs;
use std::io::Read;
use std::path::{Path, PathBuf};
use std::process::{Command, Output, Stdio};
use std::sync::mpsc::channel;
use std::thread;
use std::time::Duration;

/// The longest source of a program, in lines.
const LINES_MAX: usize = 40;
/// How long a program may run. None needs more than a moment; a program that hangs is killed.
const DEADLINE: Duration = Duration::from_secs(120);

/// The sources of the programs, in the order of their names.
fn sources() -> Vec<PathBuf> {
    let folder = Path::new(env!("CARGO_MANIFEST_DIR")).join("src/bin");
    let entries = fs::read_dir(folder).unwrap().map(|entry| entry.unwrap().path());
    let mut sources: Vec<_> = entries.filter(|path| path.extension().is_some_and(|it| it == "rs")).collect();
    sources.sort();
    sources
}

/// The program that Cargo built from `source`, beside every other one.
fn program(source: &Path) -> PathBuf {
    let built = Path::new(env!("CARGO_BIN_EXE_sender_in_an_edge")).parent().unwrap();
    built.join(source.file_stem().unwrap())
}

/// Runs a program, and returns its end or what it has written until it was killed.
fn run(program: &Path) -> Result<Output, Output> {
    let mut command = Command::new(program);
    let piped = command.stdin(Stdio::null()).stdout(Stdio::piped()).stderr(Stdio::piped());
    let mut child = piped.spawn().unwrap();
    let (mut out, mut err) = (child.stdout.take().unwrap(), child.stderr.take().unwrap());
    let (ended, end) = channel();
    let err = thread::spawn(move || {
        let mut text = Vec::new();
        err.read_to_end(&mut text).unwrap();
        text
    });
    let out = thread::spawn(move || {
        let mut text = Vec::new();
        out.read_to_end(&mut text).unwrap();
        // The program and its workers have closed their output: they have ended, or are about to.
        ended.send(()).unwrap();
        text
    });
    let in_time = end.recv_timeout(DEADLINE).is_ok();
    if !in_time {
        child.kill().unwrap();
    }
    let status = child.wait().unwrap();
    let output = Output { status, stdout: out.join().unwrap(), stderr: err.join().unwrap() };
    if in_time { Ok(output) } else { Err(output) }
}

#[test]
fn every_program_ends_in_time_and_succeeds() {
    let mut failed = Vec::new();
    for source in sources() {
        let name = source.file_stem().unwrap().display().to_string();
        let told = |output: &Output| {
            let texts =
                [&output.stdout, &output.stderr].map(|text| String::from_utf8_lossy(text).into_owned());
            texts.concat()
        };
        match run(&program(&source)) {
            Ok(output) if output.status.success() => println!("{name}: passed"),
            Ok(output) => failed.push(format!("{name}: {}\n{}", output.status, told(&output))),
            Err(output) => failed.push(format!("{name}: not over after {DEADLINE:?}\n{}", told(&output))),
        }
    }
    assert!(failed.is_empty(), "{}", failed.join("\n"));
}

#[test]
fn every_program_is_short() {
    let sources = sources();
    assert!(!sources.is_empty());
    for source in sources {
        let lines = fs::read_to_string(&source).unwrap().lines().count();
        assert!(lines <= LINES_MAX, "{}: {lines} lines, at most {LINES_MAX}", source.display());
    }
}
