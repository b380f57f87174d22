//! The exit of the process.

/// Ends the process.
pub(crate) fn exit_now(code: i32) -> ! {
    std::process::exit(code)
}
