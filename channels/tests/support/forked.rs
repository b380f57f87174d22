//! Forked children, of programs without other threads.

/// Drops a value in a forked child, and waits until the child has ended. The value of this process stays.
#[allow(unsafe_code)]
pub fn drop_in_a_child<T>(value: &mut Option<T>) {
    // SAFETY: the child only drops its copy of the value, and exits.
    let child = unsafe { libc::fork() };
    if child == 0 {
        // SAFETY: sets a timer, whose signal ends a child that would wait for ever.
        unsafe { libc::alarm(30) };
        drop(value.take());
        // SAFETY: ends the child, which has no other thread.
        unsafe { libc::_exit(0) }
    }
    let mut status = 0;
    // SAFETY: waits for the child made above, and writes to a local number.
    let waited = unsafe { libc::waitpid(child, &raw mut status, 0) };
    assert_eq!((waited, status), (child, 0), "the child did not leave");
}
