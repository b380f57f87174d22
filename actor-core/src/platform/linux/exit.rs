//! The exit without destructors.

#![allow(unsafe_code, reason = "the exit call")]

/// Ends the process at once, without destructors or exit handlers.
pub(crate) fn exit_now(code: i32) -> ! {
    // SAFETY: the call ends the process, so no state has to stay sound.
    unsafe { libc::_exit(code) }
}
