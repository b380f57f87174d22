//! Transports, and authenticated links over them.
//!
//! All input and output of this crate is here, in feature `net`, which is off by default. The
//! [README](https://github.com/selvedge-rs/selvedge/tree/main/cluster/src/net) of this folder has the invariant `NET-1`, and [`Link`] an
//! example.
//!
//! - [`Transport`] makes streams: [`Tcp`], [`TcpPort`], [`Uds`], [`Bridge`], `Zenoh` through a router (feature `cluster`), and the user's
//!   own. `Tls` encrypts those of another (feature `tls`), and [`DirectOr`] takes one where a dial works, and another where it does not.
//! - [`dial`] and [`Listener`] make links: streams to processes that have proved that they know the cookie. Frames travel over the socket
//!   of one ([`Link::into_socket`]), which belongs to whoever reads and writes them.
//!
//! All of it runs on a runtime of tokio that has input, output and time.

mod authenticate;
mod bridge;
pub(crate) mod carried;
mod direct_or;
mod error;
mod link;
mod listener;
mod random;
mod tcp;
mod tcp_port;
#[cfg(feature = "tls")]
mod tls;
mod transport;
mod uds;
#[cfg(feature = "cluster")]
mod zenoh;

#[cfg(feature = "contract")]
pub mod contract;

pub use authenticate::{Arrival, dial};
pub use bridge::{Bridge, bridge};
pub use carried::Carried;
pub use direct_or::DirectOr;
pub use error::{LinkCause, LinkError};
pub use link::Link;
pub use listener::Listener;
pub use tcp::Tcp;
pub use tcp_port::TcpPort;
#[cfg(feature = "tls")]
pub use tls::{CredentialTexts, Credentials, CredentialsError, Issuer, PeerNames, SecretText, Tls, TlsError};
pub use transport::{
    Accepted, Acceptor, ByteReader, ByteWriter, Cut, Halves, PeerInfo, Pending, ReadHalf, Transport,
    WriteHalf,
};
pub use uds::Uds;
#[cfg(feature = "cluster")]
pub use zenoh::{Zenoh, ZenohError, ZenohRouter, ZenohSettings};

pub use crate::platform::stream_socket::StreamSocket;
