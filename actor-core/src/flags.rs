//! Flags that every program understands, in addition to its own command line, and environment variables that selvedge
//! reads.
//!
//! [`init`](crate::init) finds the flags before the program does. It starts the program again without them and passes
//! the requests in the environment, so that the program's own parser never sees the flags. An unknown flag or variable
//! with the prefix of selvedge is refused.

use std::ffi::{OsStr, OsString};
use std::io::Write;
use std::num::NonZeroU16;

#[cfg(feature = "hosts")]
use selvedge_cluster::manager::{WorkerFlagError, WorkerFlags};

use crate::flag_answer::answer;
use crate::platform::restart::restart;
use crate::worker::exit::exit_now;
use crate::worker::{ENV_DEPTH, ENV_DRIVER, ENV_FD};

/// The format in which a compiled graph is printed (`--selvedge-graph[=FORMAT]`); the program ends then.
pub const ENV_GRAPH: &str = "SELVEDGE_GRAPH";
/// Requests a check of a compiled graph (`--selvedge-check`); the program ends then.
pub const ENV_CHECK: &str = "SELVEDGE_CHECK";
/// The file to which the trace of a graph is written at its tear-down (`--selvedge-trace=FILE`).
pub const ENV_TRACE: &str = "SELVEDGE_TRACE_FILE";

/// The number of workers on this host (`--selvedge-workers=N`), of [`Runtime::requested_workers`](crate::Runtime::requested_workers).
pub const ENV_WORKERS: &str = "SELVEDGE_WORKERS";

/// All variables that flags set. Workers get none of them.
#[allow(dead_code, reason = "only Linux has workers")]
pub(crate) const ALL: [&str; 4] = [ENV_GRAPH, ENV_CHECK, ENV_TRACE, ENV_WORKERS];

/// The prefix of all flags of selvedge.
const PREFIX: &str = "--selvedge-";

const HELP: &str = "\
Flags of every program that uses selvedge, given before any `--`:
  --selvedge-graph[=FORMAT]  prints the first graph and ends: text, dot, mermaid, json, svg or html
  --selvedge-check           proves the first graph and ends
  --selvedge-trace=FILE      writes a trace when the graph ends: a page for .html, a picture for .svg, else JSON
  --selvedge-workers=N       starts N workers on this host, or `auto` for one a core, if the program takes them
  --selvedge-worker [--bind-to HOST] [--tls-input | --tls-files CHAIN KEY AUTHORITY [--tls-any-name]]
                             becomes a worker of another host (feature `hosts`), as `Runtime::add` starts it
  --selvedge-worker --dial HOST:PORT [--cookie-file FILE] [--no-port | --bind-to HOST] [--tls-..]
                             becomes a worker that dials its driver (`DialIn`), with the cookie in FILE or on standard input
  --selvedge-help            prints this and ends

Variables of the environment:
";

/// The variables that selvedge reads, with their descriptions.
const VARIABLES: [(&str, &str); 16] = [
    (ENV_GRAPH, "as --selvedge-graph"),
    (ENV_CHECK, "as --selvedge-check"),
    (ENV_TRACE, "as --selvedge-trace"),
    (ENV_WORKERS, "as --selvedge-workers"),
    (
        "SELVEDGE_COMMUNICATOR",
        "the communicator of graphs that name none",
    ),
    (
        "SELVEDGE_MAX_INFLIGHT",
        "of `Options::from_env`: unfinished executions at most",
    ),
    (
        "SELVEDGE_MAX_BUFFERED",
        "of `Options::from_env`: results that wait at most",
    ),
    (
        "SELVEDGE_BUFFER_BYTES",
        "of `Options::from_env`: bytes of a slot between processes",
    ),
    (
        "SELVEDGE_MAX_PAYLOAD_BYTES",
        "of `Options::from_env`: the largest payload between processes",
    ),
    (
        "SELVEDGE_TIMEOUT_MS",
        "of `Options::from_env`: how long `wait` waits",
    ),
    (
        "SELVEDGE_SUBMIT_TIMEOUT_MS",
        "of `Options::from_env`: how long `execute` waits for room",
    ),
    (
        "SELVEDGE_TEARDOWN_TIMEOUT_MS",
        "of `Options::from_env`: how long a tear-down may take",
    ),
    ("SELVEDGE_TRACE", "of `Options::from_env`: events kept per lane"),
    (
        "SELVEDGE_WORKER_TIMEOUT_MS",
        "how long a worker of another host lives without its driver",
    ),
    ("SELVEDGE_CUDA_LIB", "the path of NVIDIA's driver library"),
    ("SELVEDGE_NCCL_LIB", "the path of NCCL"),
];

/// The variables that selvedge sets for its own processes and for fault injection.
const OWN: [&str; 6] = [
    "SELVEDGE_HOST",
    ENV_FD,
    ENV_DRIVER,
    ENV_DEPTH,
    "SELVEDGE_FAULT_POINT",
    "SELVEDGE_SKIP_STEP",
];

/// The prefixes of variables for tests and for the simulated driver.
const TESTS: [&str; 2] = ["SELVEDGE_TEST_", "SELVEDGE_SIM_"];

/// Whether selvedge reads a variable of this name.
#[must_use]
pub fn is_variable(name: &str) -> bool {
    VARIABLES.iter().any(|(known, _)| *known == name)
        || OWN.contains(&name)
        || TESTS.iter().any(|prefix| name.starts_with(prefix))
}

/// Returns the first of these names, in alphabetical order, that begins with `SELVEDGE_` and that selvedge does not
/// read.
#[must_use]
pub fn unknown_variable(names: impl IntoIterator<Item = OsString>) -> Option<String> {
    names
        .into_iter()
        .map(|name| name.to_string_lossy().into_owned())
        .filter(|name| name.starts_with("SELVEDGE_") && !is_variable(name))
        .min()
}

/// The request of a flag of selvedge.
#[derive(Debug, PartialEq, Eq)]
enum Flag {
    Help,
    Sets(&'static str, String),
}

/// The flags of a worker (`--selvedge-worker`, and those behind it), if the command line has them.
///
/// # Errors
/// [`WorkerFlagError`]: the process was to be a worker, and its flags are wrong.
#[cfg(feature = "hosts")]
pub(crate) fn hosted_worker() -> Result<Option<WorkerFlags>, WorkerFlagError> {
    let arguments = std::env::args_os()
        .skip(1)
        .map(|it| it.to_string_lossy().into_owned());
    WorkerFlags::of(arguments.take_while(|argument| argument != "--"))
}

/// The number of workers that a text asks for: `Some(None)` for one a core.
#[allow(clippy::option_option, reason = "no number, no fixed number, and a number")]
pub(crate) fn worker_count(text: &str) -> Option<Option<NonZeroU16>> {
    match text {
        "auto" => Some(None),
        digits => digits.parse().ok().map(Some),
    }
}

/// Reads an argument; returns `None` if it is not a flag of selvedge.
///
/// # Errors
/// A message about a flag that has the prefix of selvedge and is unknown or malformed.
fn flag(argument: &OsStr) -> Result<Option<Flag>, String> {
    let argument = argument.to_string_lossy();
    let Some(name) = argument.strip_prefix(PREFIX) else {
        return Ok(None);
    };
    let (name, value) = match name.split_once('=') {
        Some((name, value)) => (name, Some(value)),
        None => (name, None),
    };
    let sets = |variable, value: &str| Ok(Some(Flag::Sets(variable, value.to_owned())));
    match (name, value) {
        ("help", None) => Ok(Some(Flag::Help)),
        ("worker", None) => Err(format!(
            "`{argument}` begins a worker of another host, for which this program lacks selvedge's feature `hosts`"
        )),
        ("check", None) => sets(ENV_CHECK, "1"),
        ("graph", None) => sets(ENV_GRAPH, "text"),
        ("graph", Some("")) => Err(format!("`{argument}` names no format")),
        ("graph", Some(format)) => sets(ENV_GRAPH, format),
        ("trace", None | Some("")) => Err(format!("`{argument}` names no file")),
        ("trace", Some(file)) if file.contains(['\0', char::REPLACEMENT_CHARACTER]) => {
            Err(format!("`{argument}` names a file that is not UTF-8"))
        }
        ("trace", Some(file)) => sets(ENV_TRACE, file),
        ("workers", Some(count)) if worker_count(count).is_some() => sets(ENV_WORKERS, count),
        ("workers", _) => Err(format!(
            "`{argument}` needs a number of workers from 1 to 65535, or `auto` for one a core, as in `--selvedge-workers=4`"
        )),
        ("help" | "check", Some(_)) => Err(format!("`{argument}`: the flag takes no value")),
        _ => Err(format!("`{argument}` is no flag of selvedge")),
    }
}

/// Splits a command line into the program's own arguments and the flags of selvedge. Arguments after `--` belong to the
/// program.
///
/// # Errors
/// A message about the first invalid flag.
fn split(arguments: Vec<OsString>) -> Result<(Vec<OsString>, Vec<Flag>), String> {
    let mut rest = Vec::with_capacity(arguments.len());
    let mut found = Vec::new();
    let mut ours = true;
    for argument in arguments {
        ours &= argument != "--";
        match ours.then(|| flag(&argument)).transpose()?.flatten() {
            Some(flag) => found.push(flag),
            None => rest.push(argument),
        }
    }
    Ok((rest, found))
}

/// Starts the program again without the flags of selvedge, if its command line has any; otherwise does nothing. Ends
/// the program if a flag asks for help or is invalid.
pub(crate) fn take() {
    let mut arguments = std::env::args_os();
    let program = arguments.next();
    let (rest, found) = match split(arguments.collect()) {
        Ok(split) => split,
        Err(wrong) => {
            // If standard error cannot be written, the exit code still reports the mistake.
            let _ = writeln!(std::io::stderr(), "error: {wrong}\n\n{HELP}{}", variables());
            exit_now(EXIT_USAGE);
        }
    };
    if found.is_empty() {
        return;
    }
    if found.contains(&Flag::Help) {
        exit_now(answer(Ok(format!("{HELP}{}", variables()))));
    }
    let Ok(executable) = std::env::current_exe() else {
        return;
    };
    let mut command = std::process::Command::new(executable);
    let settings = found.into_iter().filter_map(|flag| match flag {
        Flag::Help => None,
        Flag::Sets(name, value) => Some((name, value)),
    });
    // Returns only if it fails; the program then sees the flags and decides what to do with them.
    restart(command.args(rest).envs(settings), program);
}

/// The exit code for an invalid command line.
const EXIT_USAGE: i32 = 2;

fn variables() -> String {
    VARIABLES
        .iter()
        .map(|(name, says)| format!("  {name:<28}  {says}\n"))
        .collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn words(text: &str) -> Vec<OsString> {
        text.split_whitespace().map(OsString::from).collect()
    }

    fn sets(name: &'static str, value: &str) -> Flag {
        Flag::Sets(name, value.to_owned())
    }

    #[test]
    fn our_flags_are_taken_and_the_rest_stays_in_order() {
        let (rest, found) =
            split(words("run --selvedge-graph=dot --fast --selvedge-trace=t.json x")).unwrap();
        assert_eq!(rest, words("run --fast x"));
        assert_eq!(found, [sets(ENV_GRAPH, "dot"), sets(ENV_TRACE, "t.json")]);
        let (rest, found) = split(words("--selvedge-check --selvedge-graph --selvedge-help")).unwrap();
        assert!(rest.is_empty());
        assert_eq!(found, [sets(ENV_CHECK, "1"), sets(ENV_GRAPH, "text"), Flag::Help]);
    }

    #[test]
    fn what_is_not_ours_is_left_alone() {
        for line in [
            "--selvedge",
            "selvedge-check",
            "a -- --selvedge-check --selvedge-foo",
        ] {
            assert_eq!(split(words(line)), Ok((words(line), Vec::new())), "{line}");
        }
    }

    #[test]
    fn a_flag_that_is_none_is_refused_by_name() {
        for argument in [
            "--selvedge-foo",
            "--selvedge-graphs",
            "--selvedge-graph=",
            "--selvedge-trace",
            "--selvedge-trace=",
            "--selvedge-check=1",
            "--selvedge-workers",
            "--selvedge-workers=0",
            "--selvedge-workers=65536",
            "--selvedge-workers=many",
            "--selvedge-",
        ] {
            let wrong = split(words(argument)).unwrap_err();
            assert!(wrong.contains(&format!("`{argument}`")), "{wrong}");
        }
    }

    #[test]
    fn a_variable_that_begins_like_ours_and_is_none_is_found() {
        let unknown = |names: &str| unknown_variable(words(names));
        assert_eq!(
            unknown("PATH SELVEDGE_TIMEOUTS_MS SELVEDGE_TIMEOUT").as_deref(),
            Some("SELVEDGE_TIMEOUT")
        );
        assert_eq!(
            unknown("SELVEDGE_TIMEOUT_MS SELVEDGE_SIM_SEED SELVEDGE_DEPTH MY_SELVEDGE_X"),
            None
        );
    }
}
