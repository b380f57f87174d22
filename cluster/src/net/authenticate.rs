//! The handshake over a stream, with its deadline.

use std::fmt;
use std::io::ErrorKind;
use std::sync::Arc;
use std::time::Duration;

use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::time::{Instant, timeout_at};

use super::error::{LinkCause, LinkError};
use super::link::Link;
use super::random;
use super::transport::{Halves, PeerInfo, Pending, Transport};
use crate::handshake::{BYTES_MAX, Handshake, HandshakeError, Hello, Identity, Step, TIME_MAX, Welcome};

/// Connects to a process, and introduces this one. All of it is over within 5 s, or has failed. The nonce and the binding
/// of the identity are replaced, by fresh random bytes and by those of the stream.
///
/// # Errors
/// [`LinkError`]: nobody answers, or the handshake fails. The peer is told nothing of the reason.
pub async fn dial(transport: &dyn Transport, to: &PeerInfo, identity: &Identity) -> Result<Link, LinkError> {
    let begun = Instant::now();
    let name = format!("{} to {} at {}", transport.name(), to.process, to.connect_at);
    let name: Arc<str> = name.into();
    let halves = match timeout_at(begun + TIME_MAX, transport.connect(to)).await {
        Ok(Ok(halves)) => halves,
        Ok(Err(error)) => return Err(LinkCause::unreachable(&error).of(&name)),
        Err(_) => {
            let (kind, text) = (std::io::ErrorKind::TimedOut, "no answer within 5 s".into());
            return Err(LinkCause::Unreachable { kind, text }.of(&name));
        }
    };
    let dialed = Talk::dial(begun, halves, name.clone(), identity);
    let (mut talk, hello) = dialed.map_err(|cause| cause.of(&name))?;
    let step = talk.in_time(async |talk| {
        talk.write(&hello).await?;
        talk.decision().await
    });
    match step.await? {
        Step::Welcomed(hello, welcome) => Ok(talk.over(hello, welcome)),
        Step::Authenticated(_) | Step::Write(_) => Err(talk.failed(HandshakeError::Unexpected)),
    }
}

/// Waits for a stream, and hears the introduction of the process that has made it, both before one deadline.
pub(super) async fn answer_soon(
    halves: Pending<'static, Halves>,
    name: Arc<str>,
    identity: &Identity,
) -> Result<Arrival, LinkError> {
    let begun = Instant::now();
    let halves = match timeout_at(begun + TIME_MAX, halves).await {
        Ok(Ok(halves)) => halves,
        Ok(Err(error)) => return Err(LinkCause::lost(&error).of(&name)),
        Err(_) => return Err(LinkCause::from(HandshakeError::TooLate).of(&name)),
    };
    let listening = Talk::listen(begun, halves, name.clone(), identity);
    let mut talk = listening.map_err(|cause| cause.of(&name))?;
    match talk.in_time(Talk::decision).await? {
        Step::Authenticated(hello) => Ok(Arrival { hello, talk }),
        Step::Welcomed(..) | Step::Write(_) => Err(talk.failed(HandshakeError::Unexpected)),
    }
}

/// A process that has proved that it knows the cookie, and that waits to be admitted. Dropping the arrival closes its link.
pub struct Arrival {
    hello: Hello,
    talk: Talk,
}

impl Arrival {
    /// The process, as it has introduced itself.
    pub fn hello(&self) -> &Hello {
        &self.hello
    }

    /// The name of the link.
    pub fn name(&self) -> &str {
        &self.talk.name
    }

    /// Admits the process. The time of the handshake goes on while the caller decides.
    ///
    /// # Errors
    /// [`LinkError`]: the peer has closed the link, or the time is over.
    pub async fn welcome(mut self, welcome: &Welcome) -> Result<Link, LinkError> {
        let say = async |talk: &mut Talk| {
            let bytes = talk.handshake.welcome(welcome)?;
            talk.write(&bytes).await
        };
        self.talk.in_time(say).await?;
        Ok(self.talk.over(self.hello, welcome.clone()))
    }
}

impl fmt::Debug for Arrival {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Arrival")
            .field("name", &self.talk.name)
            .field("hello", &self.hello)
            .finish_non_exhaustive()
    }
}

/// A handshake and its stream.
struct Talk {
    name: Arc<str>,
    halves: Halves,
    handshake: Handshake,
    begun: Instant,
    /// The bytes that were read and not taken yet.
    bytes: Vec<u8>,
    /// Whether any were read.
    has_heard: bool,
}

impl Talk {
    fn dial(
        begun: Instant,
        halves: Halves,
        name: Arc<str>,
        identity: &Identity,
    ) -> Result<(Self, Vec<u8>), LinkCause> {
        let identity = for_one_link(identity, &halves)?;
        let (handshake, hello) = Handshake::dial(Duration::ZERO, identity)?;
        Ok((Self::new(begun, halves, name, handshake), hello))
    }

    fn listen(
        begun: Instant,
        halves: Halves,
        name: Arc<str>,
        identity: &Identity,
    ) -> Result<Self, LinkCause> {
        let handshake = Handshake::listen(Duration::ZERO, for_one_link(identity, &halves)?);
        Ok(Self::new(begun, halves, name, handshake))
    }

    fn new(begun: Instant, halves: Halves, name: Arc<str>, handshake: Handshake) -> Self {
        Talk {
            name,
            halves,
            handshake,
            begun,
            bytes: Vec::new(),
            has_heard: false,
        }
    }

    /// Performs a part of the handshake before its deadline.
    async fn in_time<T>(
        &mut self,
        part: impl AsyncFnOnce(&mut Talk) -> Result<T, LinkCause>,
    ) -> Result<T, LinkError> {
        let deadline = self.begun + self.handshake.deadline();
        let result = match Instant::now() < deadline {
            true => timeout_at(deadline, part(self)).await.ok(),
            false => None,
        };
        let result = result.unwrap_or(Err(HandshakeError::TooLate.into()));
        result.map_err(|cause| cause.of(&self.name))
    }

    /// Goes on to the step that the caller decides about.
    async fn decision(&mut self) -> Result<Step, LinkCause> {
        loop {
            let mut input = &self.bytes[..];
            let step = self.handshake.receive(self.begun.elapsed(), &mut input)?;
            let taken = self.bytes.len() - input.len();
            self.bytes.drain(..taken);
            match step {
                Some(Step::Write(bytes)) => self.write(&bytes).await?,
                Some(step) => return Ok(step),
                None => self.read().await?,
            }
        }
    }

    async fn read(&mut self) -> Result<(), LinkCause> {
        self.bytes.reserve(BYTES_MAX);
        let mut limited = (&mut self.halves.reader).take(BYTES_MAX as u64);
        match limited.read_buf(&mut self.bytes).await {
            // Whoever refuses this process has heard it, and has said its own hello before.
            Ok(0) if !self.has_heard => Err(LinkCause::Lost {
                kind: ErrorKind::UnexpectedEof,
                text: "the peer has closed it before it said a word".to_owned(),
            }),
            Ok(0) => Err(self.hung_up().unwrap_or(LinkCause::HungUp)),
            Ok(_) if !std::mem::replace(&mut self.has_heard, true) && is_tls(&self.bytes) => {
                Err(LinkCause::SpeaksTls)
            }
            Ok(_) => Ok(()),
            Err(error) => Err(self.hung_up().unwrap_or_else(|| LinkCause::lost(&error))),
        }
    }

    /// The reason why the peer has closed the link, as far as its hello shows it.
    fn hung_up(&self) -> Option<LinkCause> {
        self.handshake.hung_up().map(LinkCause::Handshake)
    }

    async fn write(&mut self, bytes: &[u8]) -> Result<(), LinkCause> {
        let writer = &mut self.halves.writer;
        let written = async {
            writer.write_all(bytes).await?;
            writer.flush().await
        };
        written.await.map_err(|error| LinkCause::lost(&error))
    }

    fn failed(&self, error: HandshakeError) -> LinkError {
        LinkCause::Handshake(error).of(&self.name)
    }

    fn over(self, hello: Hello, welcome: Welcome) -> Link {
        Link {
            name: self.name,
            hello,
            welcome,
            halves: self.halves,
            beyond: self.bytes,
        }
    }
}

/// Whether a stream begins with a record of TLS: an alert or a hello, of a version 3.x.
fn is_tls(bytes: &[u8]) -> bool {
    matches!(bytes, [0x15 | 0x16, 3, ..])
}

/// The identity with a fresh nonce and the stream's binding.
fn for_one_link(identity: &Identity, halves: &Halves) -> Result<Identity, LinkCause> {
    let mut identity = identity.clone();
    let nonce = random::bytes();
    identity.hello.nonce = nonce.map_err(|error| LinkCause::NoRandomBytes(error.to_string()))?;
    identity.binding.clone_from(&halves.binding);
    Ok(identity)
}
