//! Errors of the system: which of them are shortages, and how to mend them.

use std::io;
use std::path::Path;

/// Returns advice for an error of the system, if there is any.
pub(crate) fn mend(what: &str, source: &io::Error) -> &'static str {
    match source.raw_os_error() {
        Some(libc::EMFILE) => ": raise RLIMIT_NOFILE (`ulimit -n`)",
        Some(libc::ENFILE) => ": the machine has no descriptor left (`sysctl fs.file-max`)",
        Some(libc::EPERM | libc::EACCES | libc::ENOSYS) if what == "memfd_create" => {
            ": this process may not make shared memory; look at its seccomp filter, or keep actors to threads"
        }
        Some(libc::ENOENT) if opens_foreign_memory(what) && !Path::new("/proc/self").exists() => {
            ": memory of other processes is opened there; mount /proc"
        }
        Some(libc::EACCES | libc::EPERM) if opens_foreign_memory(what) => {
            ": processes that share memory are of one user, and none of them has capabilities or is undumpable"
        }
        _ => "",
    }
}

/// Whether a failed operation was the opening of another process's memory.
pub(crate) fn opens_foreign_memory(what: &str) -> bool {
    what.starts_with("opening /proc")
}

/// Whether the error says that this process has temporarily run out of descriptors or memory.
pub(crate) fn is_shortage(error: &io::Error) -> bool {
    let shortages = [libc::EMFILE, libc::ENFILE, libc::ENOMEM, libc::EAGAIN];
    error.raw_os_error().is_some_and(|code| shortages.contains(&code))
}
