//! Frames, handshakes and sessions: the speech of processes.
//!
//! Everything in this crate is a state machine over plain values, but for `net` and
//! [`CookieSource`](handshake::CookieSource), which reads the cookie from where the user has put it. A state machine reads no
//! socket and no clock: bytes, packets and
//! the time go in, and bytes, packets and messages come out. So the product, the simulated network and the model
//! checker run the same code, and any transport fits below: a pair of sockets, TCP, TLS, a message broker.
//!
//! No transport is trusted with anything. A transport may lose, repeat and reorder frames; its bytes are hostile until
//! a handshake has succeeded, and are checked after that too.
//!
//! - [`peer`]: the names of processes and of their incarnations;
//! - [`id_map`]: maps whose keys are such names;
//! - [`frame`]: the unit of transport: a header of 40 bytes, an encoded head, and raw parts;
//! - [`handshake`]: the proof, before anything else, that both sides know the cluster's cookie and run the same build (feature
//!   `handshake`, which is on by default);
//! - [`session`]: messages between two living incarnations, exactly once and in order, whatever the transport loses;
//! - [`manager`]: how workers are named, launched, heard and ended: machine files, command lines, announcements (feature
//!   `managers`, which is on by default);
//! - `net`: transports, and links over them (feature `net`, which is off by default; feature `tls` encrypts
//!   them, and feature `cluster` leads them through routers).
//!
//! ```
//! use std::time::Duration;
//! use selvedge_cluster::peer::ProcessId;
//! use selvedge_cluster::session::{Session, SessionSettings};
//!
//! # fn main() -> Result<(), Box<dyn std::error::Error>> {
//! let head = ProcessId::HEAD.first_life();
//! let worker = ProcessId::new(2).ok_or("zero")?.first_life();
//! let (mut here, mut there) = (
//!     Session::new(head, worker, SessionSettings::default()),
//!     Session::new(worker, head, SessionSettings::default()),
//! );
//! let now = Duration::ZERO;
//! here.connected(now, worker)?;
//! there.connected(now, head)?;
//! let (_, packet) = here.send(now, "hello", 5).map_err(|_| "the window is full")?;
//! let received = there.received(now, packet.ok_or("there is a link")?, 5)?;
//! assert_eq!(received.messages[..], ["hello"]);
//! # Ok(())
//! # }
//! ```

pub mod id_map;

pub mod peer;

pub mod last_lives;

pub mod frame;

#[cfg(feature = "handshake")]
pub mod handshake;

#[cfg(feature = "managers")]
pub mod manager;

#[cfg(feature = "handshake")]
mod platform;

pub mod session;

#[cfg(feature = "net")]
pub mod net;

#[cfg(all(feature = "handshake", any(test, fuzzing)))]
pub mod fuzzing;
