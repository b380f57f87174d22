//! Frames, handshakes and sessions: the speech of processes.
//!
//! Everything in this crate is a state machine over plain values. It reads no socket and no clock: bytes, packets and
//! the time go in, and bytes, packets and messages come out. So the product, the simulated network and the model
//! checker run the same code, and any transport fits below: a pair of sockets, TCP, TLS, a message broker.
//!
//! No transport is trusted with anything. A transport may lose, repeat and reorder frames; its bytes are hostile until
//! a handshake has succeeded, and are checked after that too.
//!
//! - [`peer`]: the names of processes and of their incarnations;
//! - [`frame`]: the unit of transport: a header of 40 bytes, an encoded head, and raw parts;

pub mod peer;

pub mod frame;
