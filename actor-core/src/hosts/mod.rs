//! Workers on other hosts: how they are started, found and spoken to.
//!
//! A [`ClusterManager`] says which workers to start. The driver starts each by a command, gives it the cookie, hears where it
//! listens, dials it, and proves that it knows the cookie, as the worker does. From then on the two have a link of the hub,
//! like a driver and a child: all letters take it, and so do the words by which actors are built and called.
//!
//! - `manager`, `local`, `ssh`, `slurm`, `dial_in`: who decides which workers there are.
//! - `add`, `adding`: workers are added to a runtime; `agreement`, `terms`: what all managers have in common; `managing`: the thread that
//!   tells managers of them.
//! - `link_transport`, `watched_tcp`: the transport of links; `keys`: the secrets that workers get.
//! - `launcher`, `dialing`, `tunnelling`: the driver's side of one worker, up to its link; `control/host_start.rs` goes on from
//!   there.
//! - `door`, `guests`: the driver's side of workers that dial in; `control/guest_start.rs` goes on from there.
//! - `serve`: the worker's side; `guest`: that of a worker that dials in; `met_driver`: the result of both; `init_worker`: a worker over a transport of the user's own.
//! - `reception`: processes that the door lets in as they come; `job`: the job's side; `head`: a process that is only a head; `way_back`: how
//!   a worker finds its next life; `rejoin_terms`: the terms of that; `restored_names`: the names in it.
//! - `identity`, `host_key`: what a process says of itself, and which processes can share memory.

mod add;
mod adding;
pub(crate) mod agreement;
mod dial_in;
pub(crate) mod dialing;
pub(crate) mod door;
mod guest;
pub(crate) mod guests;
mod head;
pub(crate) mod host_key;
mod identity;
mod init_worker;
pub(crate) mod job;
mod keys;
mod launcher;
mod link_transport;
mod local;
mod manager;
pub(crate) mod managing;
mod met_driver;
mod reception;
pub(crate) mod rejoin_terms;
mod restored_names;
pub(crate) mod serve;
mod slurm;
mod ssh;
mod terms;
pub(crate) mod tunnelling;
mod watched_tcp;
mod way_back;

pub use add::{AddError, SetCookieError};
pub use dial_in::{DialIn, Invitation};
pub use head::{HeadError, HeadOptions, HeadProcess, HeadStopper};
pub use init_worker::{InitWorkerError, init_worker};
pub use job::ConnectError;
pub use link_transport::LinkTransport;
pub use local::LocalManager;
pub use manager::ClusterManager;
pub use slurm::SlurmManager;
pub use ssh::SshManager;

pub use crate::head_log::error::{HeadLogCause, HeadLogError};
pub use crate::topology::Topology;

/// The secret of a cluster, and where it comes from.
pub use selvedge_cluster::handshake::{
    Cookie, CookieError, CookieSource, CookieText, HandshakeError, NoRandomness,
};
/// The words of managers: machines, commands, and the ways of `ssh`.
pub use selvedge_cluster::manager::{
    BindAddress, CommandError, Count, HostName, MachineSpec, MachineSpecError, ManageEvent, PartError,
    SshOptions, UserName, WorkerAddress, WorkerCommand, WorkerConfig,
};
/// Transports: for links that go neither over TCP nor under TLS.
pub use selvedge_cluster::net::{
    Accepted, Acceptor, Bridge, Cut, DirectOr, Halves, LinkCause, LinkError, PeerInfo, Pending, Tcp,
    Transport, Uds, bridge,
};
/// TLS over a transport of the user's own.
#[cfg(feature = "tls")]
pub use selvedge_cluster::net::{
    CredentialTexts, Credentials, CredentialsError, Issuer, PeerNames, SecretText, Tls, TlsError,
};
#[cfg(feature = "cluster")]
pub use selvedge_cluster::net::{Zenoh, ZenohError, ZenohRouter, ZenohSettings};
/// The number of a process.
pub use selvedge_cluster::peer::ProcessId;
