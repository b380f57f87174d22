//! Streams over one transport where a dial works, and over another one where it does not.

use std::io;
use std::task::{Context, Poll};
use std::time::Duration;

use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::time::timeout;

use super::random;
use super::transport::{Accepted, Acceptor, Halves, PeerInfo, Pending, Transport};

/// The time in which a direct dial has to succeed. What is left of the time of a handshake belongs to the other transport.
const DIRECT_MAX: Duration = Duration::from_secs(2);
/// The text between the place of the direct listener and the other one.
const OR: &str = " | ";

/// Streams over a direct transport where a dial works, and over another one where it does not: over TCP between processes whose hosts reach
/// each other, and through a router between all others.
///
/// A process listens by both, and its place names both listeners. Whoever dials tries the direct one for 2 s, and then the other one. The
/// same private address may be another machine's elsewhere, so a direct listener says a name that it has drawn at random, and one with
/// another name is not the one that was dialled. The name is no secret; who the peer is, the handshake of the link finds out.
///
/// ```
/// # #[cfg(feature = "cluster")] {
/// use selvedge_cluster::net::{DirectOr, Tcp, Zenoh, ZenohSettings};
///
/// # fn run() -> Result<(), Box<dyn std::error::Error>> {
/// let router = "router.example.org:7447";
/// let zenoh = Zenoh::open(&ZenohSettings::routers([format!("tcp/{router}")]))?;
/// let transport = DirectOr::new(Tcp::towards(router)?, zenoh);
/// # Ok(())
/// # }
/// # }
/// ```
#[derive(Clone, Debug)]
pub struct DirectOr<D, R> {
    direct: D,
    other: R,
    name: String,
}

impl<D: Transport, R: Transport> DirectOr<D, R> {
    /// Streams over `direct` where a dial works, and over `other` where it does not.
    pub fn new(direct: D, other: R) -> Self {
        let name = format!("{} or {}", direct.name(), other.name());
        DirectOr { direct, other, name }
    }

    async fn reach(&self, to: &PeerInfo) -> io::Result<Halves> {
        let place = TwoPlaces::of(&to.connect_at).ok_or_else(|| {
            let text = format!("`{}` is no place of two listeners", to.connect_at);
            io::Error::new(io::ErrorKind::InvalidInput, text)
        })?;
        let at = |connect_at: &str| PeerInfo {
            process: to.process,
            connect_at: connect_at.to_owned(),
        };
        let direct = at(place.direct);
        let error = match timeout(DIRECT_MAX, self.dial_direct(&direct, place.name)).await {
            Ok(Ok(halves)) => return Ok(halves),
            Ok(Err(error)) => error,
            Err(_) => io::ErrorKind::TimedOut.into(),
        };
        let routed = self.other.connect(&at(place.other)).await;
        routed.map_err(|other| {
            let text = format!("{other} (directly, at {}: {error})", place.direct);
            io::Error::new(other.kind(), text)
        })
    }

    async fn dial_direct(&self, to: &PeerInfo, name: ListenerName) -> io::Result<Halves> {
        let mut halves = self.direct.connect(to).await?;
        let mut found = ListenerName::default();
        halves.reader.read_exact(&mut found).await?;
        match found == name {
            true => Ok(halves),
            false => Err(io::Error::other("somebody else listens there")),
        }
    }

    async fn open(&self) -> io::Result<Box<dyn Acceptor>> {
        let (direct, other) = (self.direct.listen().await?, self.other.listen().await?);
        let place = TwoPlaces {
            name: random::bytes()?,
            direct: direct.connect_at(),
            other: other.connect_at(),
        };
        let connect_at = place.text();
        if TwoPlaces::of(&connect_at).as_ref() != Some(&place) {
            let text = format!("`{}` cannot be a part of a place of two listeners", place.direct);
            return Err(io::Error::new(io::ErrorKind::InvalidInput, text));
        }
        Ok(Box::new(EitherAcceptor {
            name: place.name,
            connect_at,
            direct,
            other,
            is_directs_turn: false,
        }))
    }
}

impl<D: Transport, R: Transport> Transport for DirectOr<D, R> {
    fn name(&self) -> &str {
        &self.name
    }

    fn connect<'a>(&'a self, to: &'a PeerInfo) -> Pending<'a, Halves> {
        Box::pin(self.reach(to))
    }

    fn listen(&self) -> Pending<'_, Box<dyn Acceptor>> {
        Box::pin(self.open())
    }
}

/// The name of a direct listener.
type ListenerName = [u8; 16];

/// The places of the two listeners of a process.
#[derive(Debug, PartialEq, Eq)]
struct TwoPlaces<'a> {
    name: ListenerName,
    direct: &'a str,
    other: &'a str,
}

impl<'a> TwoPlaces<'a> {
    fn text(&self) -> String {
        let name = u128::from_be_bytes(self.name);
        format!("{name:032x} {}{OR}{}", self.direct, self.other)
    }

    /// The places that a text names.
    fn of(text: &'a str) -> Option<Self> {
        let (name, places) = text.split_once(' ')?;
        let (direct, other) = places.split_once(OR)?;
        let name = u128::from_str_radix(name, 16).ok()?.to_be_bytes();
        Some(TwoPlaces { name, direct, other })
    }
}

struct EitherAcceptor {
    name: ListenerName,
    connect_at: String,
    direct: Box<dyn Acceptor>,
    other: Box<dyn Acceptor>,
    /// Whether the direct listener was asked first the last time: a crowd at one keeps nobody out at the other.
    is_directs_turn: bool,
}

impl EitherAcceptor {
    fn poll_one(&mut self, is_direct: bool, cx: &mut Context<'_>) -> Poll<io::Result<Accepted>> {
        let name = self.name;
        match is_direct {
            true => self
                .direct
                .poll_accept(cx)
                .map_ok(|accepted| named(accepted, name)),
            false => self.other.poll_accept(cx),
        }
    }
}

impl Acceptor for EitherAcceptor {
    fn connect_at(&self) -> &str {
        &self.connect_at
    }

    fn poll_accept(&mut self, cx: &mut Context<'_>) -> Poll<io::Result<Accepted>> {
        self.is_directs_turn = !self.is_directs_turn;
        let first = self.is_directs_turn;
        match self.poll_one(first, cx) {
            Poll::Pending => self.poll_one(!first, cx),
            accepted => accepted,
        }
    }
}

/// A direct stream, on which the listener says its name.
fn named(Accepted { from, halves }: Accepted, name: ListenerName) -> Accepted {
    let halves = Box::pin(async move {
        let mut halves = halves.await?;
        halves.writer.write_all(&name).await?;
        halves.writer.flush().await?;
        Ok(halves)
    });
    Accepted { from, halves }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_place_is_read_as_it_was_written() {
        let place = TwoPlaces {
            name: [9; 16],
            direct: "10.0.0.7:4711",
            other: "node | 7",
        };
        assert_eq!(TwoPlaces::of(&place.text()), Some(place));
        for wrong in ["", "7", "7 10.0.0.7:4711", "x 10.0.0.7:4711 | 7"] {
            assert_eq!(TwoPlaces::of(wrong), None, "{wrong}");
        }
    }
}
