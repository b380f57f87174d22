//! Flags that every program understands, whatever it makes of its own command line.
//!
//! [`init`](crate::init) finds them before the program does, and starts the program anew without them, with what they ask for in the
//! environment: the program's own parser never sees them.

use std::ffi::{OsStr, OsString};

/// How a compiled graph is to be printed (`--selvedge-graph[=FORMAT]`); the program ends then.
pub const ENV_GRAPH: &str = "SELVEDGE_GRAPH";
/// A compiled graph is to be checked (`--selvedge-check`); the program ends then.
pub const ENV_CHECK: &str = "SELVEDGE_CHECK";
/// Where the trace of a graph is to be written when it is torn down (`--selvedge-trace=FILE`).
pub const ENV_TRACE: &str = "SELVEDGE_TRACE_FILE";

/// All of them: workers get none.
pub(crate) const ALL: [&str; 3] = [ENV_GRAPH, ENV_CHECK, ENV_TRACE];

/// What a flag sets, if it is one of ours.
fn setting(argument: &OsStr) -> Option<(&'static str, &str)> {
    let argument = argument.to_str()?;
    match argument {
        "--selvedge-graph" => Some((ENV_GRAPH, "text")),
        "--selvedge-check" => Some((ENV_CHECK, "1")),
        _ => {
            let graph = argument
                .strip_prefix("--selvedge-graph=")
                .map(|format| (ENV_GRAPH, format));
            graph.or_else(|| {
                argument
                    .strip_prefix("--selvedge-trace=")
                    .map(|file| (ENV_TRACE, file))
            })
        }
    }
}

/// A command line without our flags, and what they set. What stands behind `--` is the program's.
fn split(arguments: Vec<OsString>) -> (Vec<OsString>, Vec<(&'static str, String)>) {
    let mut rest = Vec::with_capacity(arguments.len());
    let mut found = Vec::new();
    let mut ours = true;
    for argument in arguments {
        ours &= argument != "--";
        match setting(&argument).filter(|_| ours) {
            Some((name, value)) => found.push((name, value.to_owned())),
            None => rest.push(argument),
        }
    }
    (rest, found)
}

/// Starts the program anew if its command line has any of the flags; otherwise does nothing.
#[cfg(unix)]
pub(crate) fn take() {
    use std::os::unix::process::CommandExt;
    let mut arguments = std::env::args_os();
    let program = arguments.next();
    let (rest, found) = split(arguments.collect());
    if found.is_empty() {
        return;
    }
    let Ok(executable) = std::env::current_exe() else {
        return;
    };
    let mut command = std::process::Command::new(executable);
    if let Some(program) = program {
        command.arg0(program);
    }
    // Comes back only where it fails; then the program sees the flags, and says what it thinks of them.
    let _ = command.args(rest).envs(found).exec();
}

#[cfg(test)]
mod tests {
    use super::*;

    fn words(text: &str) -> Vec<OsString> {
        text.split_whitespace().map(OsString::from).collect()
    }

    #[test]
    fn our_flags_are_taken_and_the_rest_stays_in_order() {
        let (rest, found) = split(words("run --selvedge-graph=dot --fast --selvedge-trace=t.json x"));
        assert_eq!(rest, words("run --fast x"));
        assert_eq!(
            found,
            [(ENV_GRAPH, "dot".to_owned()), (ENV_TRACE, "t.json".to_owned())]
        );
        let (rest, found) = split(words("--selvedge-check --selvedge-graph"));
        assert!(rest.is_empty());
        assert_eq!(
            found,
            [(ENV_CHECK, "1".to_owned()), (ENV_GRAPH, "text".to_owned())]
        );
    }

    #[test]
    fn what_is_not_ours_is_left_alone() {
        for line in [
            "--selvedge",
            "--selvedge-graphs",
            "--selvedge-trace",
            "a -- --selvedge-check",
        ] {
            assert_eq!(split(words(line)), (words(line), Vec::new()), "{line}");
        }
    }
}
