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
    }
}
