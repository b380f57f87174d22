//! The command lines by which a tunnel of `ssh` is opened.

use std::io;

use selvedge_cluster::manager::{CommandLine, MachineSpec, SshOptions, TunnelEntry, WorkerAddress};
use selvedge_cluster::net::Uds;

/// The way to the worker's port through `ssh`.
#[derive(Clone)]
pub(crate) struct Tunnelling {
    pub(super) ssh: SshOptions,
    pub(super) machine: MachineSpec,
}

/// How a tunnel is opened.
pub(crate) enum Opening {
    /// By a program that carries the tunnel, and announces the worker once the tunnel is open.
    Own(CommandLine),
    /// In the connection to the machine that is there.
    Shared {
        forward: CommandLine,
        cancel: CommandLine,
    },
}

impl Tunnelling {
    /// Makes the directory in which a tunnel to a worker begins, and says how the tunnel is opened.
    ///
    /// # Errors
    /// The directory cannot be made, or `ssh` would not take its path.
    pub(crate) fn opening(&self, to: &WorkerAddress) -> io::Result<(Uds, Opening)> {
        let place = Uds::new()?;
        let (ssh, machine) = (&self.ssh, &self.machine);
        let entry = TunnelEntry::socket(&entry(&place)).map_err(io::Error::other)?;
        let opening = match ssh.multiplex {
            false => ssh.tunnel_to(machine, &entry, to).map(Opening::Own),
            true => ssh.forward(machine, &entry, to).and_then(|forward| {
                let cancel = ssh.cancel(machine, &entry, to)?;
                Ok(Opening::Shared { forward, cancel })
            }),
        };
        opening.map(|opening| (place, opening)).map_err(io::Error::other)
    }
}

/// The socket at which a tunnel begins.
pub(super) fn entry(place: &Uds) -> String {
    place.directory().join("tunnel").to_string_lossy().into_owned()
}
