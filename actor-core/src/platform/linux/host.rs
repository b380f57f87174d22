//! The name of this host, of its boot, and of what its processes share.

use std::fs;

/// The boot, the namespace of pids, and the user. Processes for which all three are equal can open each other's memory.
pub(crate) fn name() -> String {
    let boot = fs::read_to_string("/proc/sys/kernel/random/boot_id").unwrap_or_default();
    let namespace = fs::read_link("/proc/self/ns/pid").unwrap_or_default();
    let user = rustix::process::geteuid().as_raw();
    if boot.is_empty() || namespace.as_os_str().is_empty() {
        // A name of its own: nothing says that another process could open this one's memory.
        return format!("unknown {user} {}", std::process::id());
    }
    format!("{} {} {user}", boot.trim(), namespace.display())
}

/// The name by which this host is known in its network.
pub(crate) fn network_name() -> String {
    rustix::system::uname().nodename().to_string_lossy().into_owned()
}
