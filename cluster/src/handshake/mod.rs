//! The handshake: both sides prove that they know the cluster's cookie, and agree on who is who.
//!
//! The [README](https://github.com/selvedge-rs/selvedge/tree/main/cluster/src/handshake) of this folder has the messages and
//! the invariants `HELLO-1` to `HELLO-5`. Nothing of a peer is acted upon before it has proved that it knows the
//! cookie: until then at most 4 KiB are read, within 5 seconds, and only a hello and a proof are parsed.
//!
//! ```
//! use std::time::Duration;
//! use selvedge_cluster::handshake::{Cookie, Handshake, Hello, Identity, Role, Step, Welcome};
//! use selvedge_cluster::peer::ProcessId;
//!
//! # fn main() -> Result<(), Box<dyn std::error::Error>> {
//! let identity = |role, nonce| Identity {
//!     hello: Hello { nonce: [nonce; 32], ..Hello::new("lab", "1a2b", 7, role) }, // fresh random bytes
//!     cookie: Cookie::new([9; 32]),
//!     binding: Vec::new(),
//! };
//! let now = Duration::ZERO;
//! let (mut worker, hello) = Handshake::dial(now, identity(Role::Worker, 1))?;
//! let mut head = Handshake::listen(now, identity(Role::Head, 2));
//!
//! let Some(Step::Write(answer)) = head.receive(now, &mut &hello[..])? else { return Err("no hello".into()) };
//! let Some(Step::Write(proof)) = worker.receive(now, &mut &answer[..])? else { return Err("no proof".into()) };
//! let Some(Step::Authenticated(hello)) = head.receive(now, &mut &proof[..])? else { return Err("refused".into()) };
//! assert_eq!(hello.role, Role::Worker);
//! let peer = |number| ProcessId::new(number).map(ProcessId::first_life);
//! let (head_peer, worker_peer) = (peer(1).ok_or("zero")?, peer(2).ok_or("zero")?);
//! let welcome = Welcome { you: worker_peer, me: head_peer, note: b"hello".to_vec() };
//! let bytes = head.welcome(&welcome)?;
//! assert!(matches!(worker.receive(now, &mut &bytes[..])?, Some(Step::Welcomed(_, found)) if found == welcome));
//! # Ok(())
//! # }
//! ```

mod cookie;
mod cookie_source;
mod cookie_text;
mod error;
mod message;
#[cfg(test)]
mod model;
#[cfg(test)]
mod mutant;

use std::time::Duration;

pub use cookie::{Cookie, NoRandomness};
pub use cookie_source::{CookieError, CookieSource};
pub use cookie_text::CookieText;
#[cfg(feature = "tls")]
pub(crate) use cookie_text::wipe;
pub use error::HandshakeError;
pub use message::{Hello, Role, Welcome};

use crate::frame::{Class, Decoder, Frame, FrameLimits, HEADER_BYTES, Parts, Service};
use cookie::Side;
use message::Message;
#[cfg(test)]
use mutant::HandshakeMutant;

/// The bytes that are read of a peer in a handshake.
pub const BYTES_MAX: usize = 4096;
/// The longest note of a welcome.
pub const NOTE_BYTES_MAX: usize = 256;
/// The bytes that a hello leaves for the other message of its author, a proof or a welcome, in a frame of its own.
const SECOND_BYTES_MAX: usize = HEADER_BYTES + 67 + NOTE_BYTES_MAX;
/// The time for the whole handshake.
pub const TIME_MAX: Duration = Duration::from_secs(5);

/// The name and the knowledge of one side.
#[derive(Clone, Debug)]
pub struct Identity {
    /// The message about this side.
    pub hello: Hello,
    /// The secret of the cluster.
    pub cookie: Cookie,
    /// Bytes that both ends of this link know and no other link has: the exporter of TLS. Empty without TLS.
    pub binding: Vec<u8>,
}

/// The next thing that the owner of a handshake has to do.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Step {
    /// Write these bytes.
    Write(Vec<u8>),
    /// The dialer has proved that it knows the cookie, and it fits. Decide about it, and call [`Handshake::welcome`].
    Authenticated(Hello),
    /// The listener has proved that it knows the cookie, it fits, and it has welcomed this process. The handshake is over.
    Welcomed(Hello, Welcome),
}

/// One side of a handshake.
#[derive(Debug)]
pub struct Handshake {
    identity: Identity,
    side: Side,
    /// The encoded hellos, this side's and the other's.
    own: Vec<u8>,
    peer: Vec<u8>,
    expected: Expected,
    decoder: Decoder,
    /// The bytes that may still be read.
    bytes_left: usize,
    deadline: Duration,
    #[cfg(test)]
    mutant: HandshakeMutant,
}

/// The message that comes next.
#[derive(Clone, Debug)]
enum Expected {
    Hello,
    Proof(Hello),
    Welcome(Hello),
    /// Nothing: the dialer was authenticated, and it is this side's turn to welcome it.
    Decision,
    /// Nothing: the handshake is over or has failed.
    Nothing,
}

impl Handshake {
    /// The side that made the link. Write the bytes first.
    ///
    /// # Errors
    /// [`HandshakeError::Frame`]: the hello has more than 4 KiB.
    pub fn dial(now: Duration, identity: Identity) -> Result<(Self, Vec<u8>), HandshakeError> {
        let mut handshake = Self::new(now, identity, Side::Dialer);
        let bytes = handshake.say_hello()?;
        Ok((handshake, bytes))
    }

    /// The side that accepted the link.
    pub fn listen(now: Duration, identity: Identity) -> Self {
        Self::new(now, identity, Side::Listener)
    }

    fn new(now: Duration, identity: Identity, side: Side) -> Self {
        Handshake {
            identity,
            side,
            own: Vec::new(),
            peer: Vec::new(),
            expected: Expected::Hello,
            decoder: Decoder::new(FrameLimits::HANDSHAKE),
            bytes_left: BYTES_MAX,
            deadline: now.saturating_add(TIME_MAX),
            #[cfg(test)]
            mutant: HandshakeMutant::None,
        }
    }

    /// The moment at which the handshake has failed unless it is over.
    pub fn deadline(&self) -> Duration {
        self.deadline
    }

    /// Takes bytes from `input` until there is something to do or the input is empty. Bytes that follow the handshake
    /// stay in the input.
    ///
    /// # Errors
    /// Any [`HandshakeError`]. Close the link; tell the peer nothing.
    pub fn receive(&mut self, now: Duration, input: &mut &[u8]) -> Result<Option<Step>, HandshakeError> {
        if now >= self.deadline {
            return Err(HandshakeError::TooLate);
        }
        let before = input.len();
        let frame = self.decoder.decode(input)?;
        let read = before - input.len();
        self.bytes_left = self.bytes_left.checked_sub(read).ok_or(HandshakeError::TooMuch)?;
        let Some(frame) = frame else {
            return Ok(None);
        };
        let is_ours = frame.service == Service::HANDSHAKE;
        #[cfg(test)]
        let is_ours = is_ours || self.mutant == HandshakeMutant::TakesAnyService;
        if !is_ours {
            return Err(HandshakeError::Unexpected);
        }
        let message = postcard::from_bytes(&frame.head).map_err(|_| HandshakeError::Unexpected)?;
        match (std::mem::replace(&mut self.expected, Expected::Nothing), message) {
            (Expected::Hello, Message::Hello(hello)) => self.hear_hello(hello, frame.head.into_vec()),
            (Expected::Proof(hello), Message::Proof(proof)) => {
                self.verify(Side::Dialer, &[], &proof)?;
                self.identity.hello.check(&hello)?;
                self.expected = Expected::Decision;
                Ok(Some(Step::Authenticated(hello)))
            }
            (Expected::Welcome(hello), Message::Welcome(bytes, proof)) => {
                self.verify(Side::Listener, &bytes, &proof)?;
                self.identity.hello.check(&hello)?;
                let welcome = postcard::from_bytes(&bytes).map_err(|_| HandshakeError::Unexpected)?;
                Ok(Some(Step::Welcomed(hello, welcome)))
            }
            _ => Err(HandshakeError::Unexpected),
        }
    }

    /// The peer has closed the link: the reason that the hellos of both sides give, such as another build. Nothing has proved who wrote
    /// that hello, so this is for an error alone, which the handshake has anyway.
    pub fn hung_up(&self) -> Option<HandshakeError> {
        match &self.expected {
            Expected::Welcome(hello) => self.identity.hello.check(hello).err(),
            _ => None,
        }
    }

    /// Admits the dialer that was authenticated. Write the bytes; the handshake is over.
    ///
    /// # Errors
    /// [`HandshakeError::Unexpected`]: nobody was authenticated, or the dialer was welcomed already. [`HandshakeError::LongNote`].
    pub fn welcome(&mut self, welcome: &Welcome) -> Result<Vec<u8>, HandshakeError> {
        let is_due = matches!(self.expected, Expected::Decision);
        #[cfg(test)]
        let is_due = is_due || self.mutant == HandshakeMutant::WelcomesRefused;
        if !is_due {
            return Err(HandshakeError::Unexpected);
        }
        if welcome.note.len() > NOTE_BYTES_MAX {
            return Err(HandshakeError::LongNote(welcome.note.len()));
        }
        self.expected = Expected::Nothing;
        let bytes = postcard::to_stdvec(welcome).map_err(|_| HandshakeError::Unexpected)?;
        let proof = self.prove(&bytes);
        Ok(encode(&Message::Welcome(bytes, proof))?.0)
    }

    fn say_hello(&mut self) -> Result<Vec<u8>, HandshakeError> {
        let (bytes, head) = encode(&Message::Hello(self.identity.hello.clone()))?;
        self.own = head;
        Ok(bytes)
    }

    fn hear_hello(&mut self, hello: Hello, head: Vec<u8>) -> Result<Option<Step>, HandshakeError> {
        let ours = self.identity.hello.protocol;
        if hello.protocol != ours {
            let theirs = hello.protocol;
            return Err(HandshakeError::Protocol { ours, theirs });
        }
        if hello.nonce == self.identity.hello.nonce {
            return Err(HandshakeError::Itself);
        }
        self.peer = head;
        match self.side {
            Side::Listener => {
                self.expected = Expected::Proof(hello);
                Ok(Some(Step::Write(self.say_hello()?)))
            }
            Side::Dialer => {
                self.expected = Expected::Welcome(hello);
                let proof = self.prove(&[]);
                Ok(Some(Step::Write(encode(&Message::Proof(proof))?.0)))
            }
        }
    }

    fn prove(&self, content: &[u8]) -> [u8; 32] {
        self.identity.cookie.prove(self.side, self.transcript(content))
    }

    fn verify(&self, side: Side, content: &[u8], proof: &[u8; 32]) -> Result<(), HandshakeError> {
        #[cfg(test)]
        if self.mutant == HandshakeMutant::BelievesAll {
            return Ok(());
        }
        match self.identity.cookie.verify(side, self.transcript(content), proof) {
            true => Ok(()),
            false => Err(HandshakeError::WrongCookie),
        }
    }

    /// Everything that was said, the dialer's hello first.
    fn transcript<'a>(&'a self, content: &'a [u8]) -> [&'a [u8]; 4] {
        let (dialer, listener) = match self.side {
            Side::Dialer => (&self.own, &self.peer),
            Side::Listener => (&self.peer, &self.own),
        };
        let transcript: [&[u8]; 4] = [dialer, listener, &self.identity.binding, content];
        #[cfg(test)]
        let transcript = self.mutant.leave_out(transcript);
        transcript
    }
}

/// The bytes of a frame with this message, and its head.
fn encode(message: &Message) -> Result<(Vec<u8>, Vec<u8>), HandshakeError> {
    let head = postcard::to_stdvec(message).map_err(|_| HandshakeError::Unexpected)?;
    let frame = frame(Service::HANDSHAKE, head);
    let limits = FrameLimits {
        head_bytes_max: (BYTES_MAX - HEADER_BYTES - SECOND_BYTES_MAX) as u32,
        ..FrameLimits::HANDSHAKE
    };
    Ok((frame.prefix(&limits)?, frame.head.into_vec()))
}

fn frame(service: Service, head: Vec<u8>) -> Frame<Vec<u8>> {
    Frame {
        service,
        class: Class::Ordered,
        sequence: 0,
        acknowledged: 0,
        head: head.into(),
        parts: Parts::new(),
    }
}

#[cfg(test)]
mod tests;
