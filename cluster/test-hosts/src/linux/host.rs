//! One host.

use std::fmt;
use std::io;
use std::net::Ipv4Addr;
use std::process::Command;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use super::host_thread::HostThread;
use super::init::{Init, Order};
use super::interface::address;
use super::look::{self, HostProcess, InterfaceBytes, Socket};
use super::process::{Process, SharedChild};
use super::switch::Switch;

/// A host: processes, an interface to the other hosts, and a name of their own.
///
/// Files are those of this machine, except `/proc`. So Unix sockets with paths lead from host to host, and those with abstract
/// names do not.
pub struct Host {
    number: usize,
    name: String,
    address: Ipv4Addr,
    thread: HostThread,
    switch: Arc<Switch>,
    life: Mutex<Life>,
}

/// What is alive on a host.
struct Life {
    /// Process 1; `None` once the host is dead.
    init: Option<Init>,
    /// The children of this process on the host.
    children: Vec<Arc<SharedChild>>,
}

impl Host {
    pub(super) fn new(number: usize, settled: (HostThread, Init), switch: Arc<Switch>) -> Self {
        let (thread, init) = settled;
        Host {
            number,
            name: name(number),
            address: address(number),
            thread,
            switch,
            life: Mutex::new(Life {
                init: Some(init),
                children: Vec::new(),
            }),
        }
    }

    /// The host's place among the hosts, counted from 0.
    pub fn number(&self) -> usize {
        self.number
    }

    /// The hostname.
    pub fn name(&self) -> &str {
        &self.name
    }

    /// The address of the interface to the other hosts.
    pub fn address(&self) -> Ipv4Addr {
        self.address
    }

    /// Starts a process on the host. A path is looked up there, and `/proc/self/exe` is the program of the caller.
    ///
    /// # Errors
    /// The host is dead, or the program cannot be started.
    pub fn spawn(&self, mut command: Command) -> io::Result<Process> {
        let mut life = self.life();
        if life.init.is_none() {
            return Err(dead());
        }
        life.children.retain(|child| !child.is_over());
        let child = self.thread.perform(move || command.spawn())??;
        let child = Arc::new(SharedChild::new(child)?);
        life.children.push(Arc::clone(&child));
        Ok(Process::new(child))
    }

    /// Has the host's kernel pass on packets that are for other hosts.
    ///
    /// # Errors
    /// The kernel refuses.
    pub fn forward(&self) -> io::Result<()> {
        self.thread.perform(super::interface::forward)?
    }

    /// Stops all processes of the host, all at one moment. Its kernel goes on: it acknowledges what arrives, until buffers are
    /// full. Each process stops when it next leaves the kernel ([`Process::wait_for_stop`]), and one that is started later
    /// runs.
    ///
    /// # Errors
    /// The host is dead.
    pub fn freeze(&self) -> io::Result<()> {
        self.obey(Order::Freeze)
    }

    /// Lets all processes of the host go on.
    ///
    /// # Errors
    /// The host is dead.
    pub fn thaw(&self) -> io::Result<()> {
        self.obey(Order::Thaw)
    }

    fn obey(&self, order: Order) -> io::Result<()> {
        self.life().init.as_mut().ok_or_else(dead)?.obey(order)
    }

    /// Kills all processes of the host, and waits until they are gone. Its kernel goes on, and says goodbye for them: it ends
    /// each of their connections.
    ///
    /// # Errors
    /// A process does not die, which is a fault of the system.
    pub fn kill(&self) -> io::Result<()> {
        let mut life = self.life();
        let Some(init) = life.init.take() else {
            return Ok(());
        };
        init.kill();
        for child in life.children.drain(..) {
            child.reap()?;
        }
        init.reap()
    }

    /// Cuts the host's interface from the network, then kills its processes: nobody hears from it again. That is how a host ends
    /// whose power fails.
    ///
    /// # Errors
    /// Those of [`kill`](Self::kill).
    pub fn power_off(&self) -> io::Result<()> {
        self.switch.with(|network| network.isolate(self.number));
        self.kill()
    }

    /// The processes of the host, as they see each other, in the order of their pids.
    ///
    /// # Errors
    /// `/proc` cannot be read.
    pub fn processes(&self) -> io::Result<Vec<HostProcess>> {
        look::processes(&format!("{}/root/proc", self.thread.folder()))
    }

    /// The TCP sockets of the host, also those that its kernel keeps for dead processes.
    ///
    /// # Errors
    /// `/proc` cannot be read.
    pub fn sockets(&self) -> io::Result<Vec<Socket>> {
        look::sockets(&format!("{}/net", self.thread.folder()))
    }

    /// The bytes that the interface to the other hosts has carried, as the kernel counts them.
    ///
    /// # Errors
    /// `/proc` cannot be read.
    pub fn interface_bytes(&self) -> io::Result<InterfaceBytes> {
        look::interface_bytes(&format!("{}/net/dev", self.thread.folder()))
    }

    fn life(&self) -> MutexGuard<'_, Life> {
        self.life.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// The hostname of the host with this number.
pub(super) fn name(number: usize) -> String {
    format!("host-{number}")
}

fn dead() -> io::Error {
    io::Error::new(io::ErrorKind::NotConnected, "the host is dead")
}

impl fmt::Debug for Host {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{} at {}", self.name, self.address)
    }
}

impl Drop for Host {
    fn drop(&mut self) {
        // An error is a fault of the system. The end of the thread kills once more.
        let _ = self.kill();
    }
}
