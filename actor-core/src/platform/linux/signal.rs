//! Signals that end processes.

use crate::death::Exit;

/// Returns the name of a signal.
pub(crate) fn name(signal: i32) -> Option<&'static str> {
    Some(match signal {
        libc::SIGHUP => "SIGHUP",
        libc::SIGINT => "SIGINT",
        libc::SIGQUIT => "SIGQUIT",
        libc::SIGILL => "SIGILL",
        libc::SIGABRT => "SIGABRT",
        libc::SIGBUS => "SIGBUS",
        libc::SIGFPE => "SIGFPE",
        libc::SIGKILL => "SIGKILL",
        libc::SIGSEGV => "SIGSEGV",
        libc::SIGPIPE => "SIGPIPE",
        libc::SIGTERM => "SIGTERM",
        _ => return None,
    })
}

/// The meaning of a signal and the way to mend its cause, if its name does not say that.
pub(crate) fn help(signal: i32) -> &'static str {
    match signal {
        libc::SIGSEGV => {
            ": an invalid memory access, or a stack overflow (help: a recursion without end overflows any stack; for one that is only \
             deep, RUST_MIN_STACK=<bytes> in the environment makes the stacks of threads larger, which have 2 MiB by default)"
        }
        _ => "",
    }
}

/// Whether a process was ended by force.
pub(crate) fn is_forced(exit: &Exit) -> bool {
    *exit == Exit::Signal(libc::SIGKILL)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_exit_names_its_signal() {
        assert_eq!(Exit::Signal(9).to_string(), "signal 9 (SIGKILL)");
        assert_eq!(Exit::Signal(63).to_string(), "signal 63");
        let text = Exit::Signal(11).to_string();
        assert!(text.starts_with("signal 11 (SIGSEGV): ") && text.contains("RUST_MIN_STACK"));
    }
}
