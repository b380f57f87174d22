//! A gate at which functions wait until the test's process opens it.

use std::io::Read;
use std::os::unix::net::{UnixListener, UnixStream};

/// A socket on which nobody answers; its drop opens the gate.
pub(super) struct Gate {
    pub(super) path: String,
    _listener: UnixListener,
}

impl Gate {
    pub(super) fn closed(name: &str) -> Self {
        let path = std::env::temp_dir().join(format!("selvedge-{name}-{}", std::process::id()));
        Gate {
            _listener: UnixListener::bind(&path).unwrap(),
            path: path.into_os_string().into_string().unwrap(),
        }
    }
}

impl Drop for Gate {
    fn drop(&mut self) {
        let _ = std::fs::remove_file(&self.path);
    }
}

/// Waits until the gate at this path is open.
pub(super) fn wait_at(gate: &str) {
    // An open gate is no more there.
    if let Ok(mut gate) = UnixStream::connect(gate) {
        let _ = gate.read(&mut [0]);
    }
}
