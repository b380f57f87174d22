//! The listening side of links: it hears many strangers at once, and none of them can keep others out.

use std::collections::VecDeque;
use std::future::poll_fn;
use std::io;
use std::pin::Pin;
use std::sync::Arc;
use std::task::{Context, Poll, ready};
use std::time::Duration;

use tokio::time::{Sleep, sleep};

use super::authenticate::{Arrival, answer_soon};
use super::error::{LinkCause, LinkError};
use super::transport::{Accepted, Acceptor, Transport};
use crate::handshake::Identity;

/// The strangers that are heard at once, unless [`Listener::strangers_max`] says otherwise.
const STRANGERS_MAX: usize = 64;
/// The pause after a shortage. The system tells nobody when a descriptor is free again.
const PAUSE: Duration = Duration::from_millis(100);

/// The listener of a process: it accepts links, and hands over the processes that have proved that they know the cookie.
///
/// A link whose peer has not proved itself is a *stranger*. A limited number of strangers is heard at once (`NET-1`), and
/// everything happens within [`next`](Self::next): a listener has no task of its own, and dropping it closes the strangers.
pub struct Listener {
    transport: String,
    acceptor: Box<dyn Acceptor>,
    identity: Identity,
    /// The oldest first.
    strangers: VecDeque<Stranger>,
    strangers_max: usize,
    /// The pause after a shortage.
    pause: Option<Pin<Box<Sleep>>>,
}

struct Stranger {
    name: Arc<str>,
    answer: Pin<Box<dyn Future<Output = Result<Arrival, LinkError>> + Send>>,
}

impl Listener {
    /// Begins to listen. The nonce and the binding of the identity are replaced for each link, as by [`dial`](super::dial).
    ///
    /// # Errors
    /// [`LinkCause::NotAccepted`]: the transport has no place to listen at.
    pub async fn bind(transport: &dyn Transport, identity: Identity) -> Result<Self, LinkError> {
        let acceptor = transport.listen().await;
        let acceptor =
            acceptor.map_err(|error| LinkCause::not_accepted(&error).of(&transport.name().into()))?;
        Ok(Listener {
            transport: transport.name().to_owned(),
            acceptor,
            identity,
            strangers: VecDeque::new(),
            strangers_max: STRANGERS_MAX,
            pause: None,
        })
    }

    /// Hears at most so many strangers at once, at least 1, instead of 64. One more closes the oldest.
    #[must_use]
    pub fn strangers_max(mut self, most: usize) -> Self {
        self.strangers_max = most.max(1);
        self
    }

    /// The text by which other processes connect to this listener.
    pub fn connect_at(&self) -> &str {
        self.acceptor.connect_at()
    }

    /// The number of links whose peers have not proved themselves yet.
    pub fn strangers(&self) -> usize {
        self.strangers.len()
    }

    /// Waits for the next process that has proved itself. Dropping the future loses nothing.
    ///
    /// # Errors
    /// [`LinkError`]: a stranger was refused or gave up, or a link could not be taken. The error is about that link alone, so
    /// call again.
    pub async fn next(&mut self) -> Result<Arrival, LinkError> {
        poll_fn(|cx| self.poll_next(cx)).await
    }

    fn poll_next(&mut self, cx: &mut Context<'_>) -> Poll<Result<Arrival, LinkError>> {
        loop {
            if let Some(heard) = self.poll_strangers(cx) {
                return Poll::Ready(heard);
            }
            if let Some(pause) = &mut self.pause {
                ready!(pause.as_mut().poll(cx));
                self.pause = None;
            }
            let refused = match ready!(self.acceptor.poll_accept(cx)) {
                Ok(accepted) => self.hear(accepted),
                Err(error) => Some(self.not_accepted(&error)),
            };
            if let Some(refused) = refused {
                return Poll::Ready(Err(refused));
            }
        }
    }

    /// The first stranger whose handshake has ended.
    fn poll_strangers(&mut self, cx: &mut Context<'_>) -> Option<Result<Arrival, LinkError>> {
        let mut ended = None;
        for (place, stranger) in self.strangers.iter_mut().enumerate() {
            if let Poll::Ready(heard) = stranger.answer.as_mut().poll(cx) {
                ended = Some((place, heard));
                break;
            }
        }
        let (place, heard) = ended?;
        self.strangers.remove(place);
        Some(heard)
    }

    /// Begins to hear a stranger. Returns the error of the one whose place it takes.
    fn hear(&mut self, accepted: Accepted) -> Option<LinkError> {
        let Accepted { from, halves } = accepted;
        let name: Arc<str> = format!("{} from {from}", self.transport).into();
        let (identity, link) = (self.identity.clone(), name.clone());
        let answer = Box::pin(async move { answer_soon(halves, link, &identity).await });
        self.strangers.push_back(Stranger { name, answer });
        match self.strangers.len() > self.strangers_max {
            true => self.close_oldest(LinkCause::CrowdedOut),
            false => None,
        }
    }

    /// Makes room after a shortage: by the oldest stranger, or else by a pause in which others may make room.
    fn not_accepted(&mut self, error: &io::Error) -> LinkError {
        let cause = LinkCause::not_accepted(error);
        if is_of_one_link(error) {
            return cause.of(&self.place());
        }
        if let Some(closed) = self.close_oldest(cause.clone()) {
            return closed;
        }
        self.pause = Some(Box::pin(sleep(PAUSE)));
        cause.of(&self.place())
    }

    fn close_oldest(&mut self, cause: LinkCause) -> Option<LinkError> {
        let oldest = self.strangers.pop_front()?;
        Some(cause.of(&oldest.name))
    }

    /// The name of this listener in errors.
    fn place(&self) -> Arc<str> {
        format!("{} at {}", self.transport, self.connect_at()).into()
    }
}

/// Whether an error is about one link that its maker has given up.
fn is_of_one_link(error: &io::Error) -> bool {
    matches!(
        error.kind(),
        io::ErrorKind::ConnectionAborted | io::ErrorKind::ConnectionReset | io::ErrorKind::ConnectionRefused
    )
}
