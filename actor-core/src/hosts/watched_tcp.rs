//! Transports whose connections of TCP are asked by the system whether they still stand.

use std::io;
use std::task::{Context, Poll};

use selvedge_cluster::net::{Accepted, Acceptor, Halves, PeerInfo, Pending, Transport};

use crate::platform::peer_socket::watch_over;

/// A transport between processes that may have nothing to say for long, while something between them forgets their connection of TCP.
/// Streams of another kind are as they were.
#[derive(Clone, Copy, Debug)]
pub(super) struct WatchedTcp<T>(pub(super) T);

impl<T: Transport> Transport for WatchedTcp<T> {
    fn name(&self) -> &str {
        self.0.name()
    }

    fn connect<'a>(&'a self, to: &'a PeerInfo) -> Pending<'a, Halves> {
        Box::pin(async { watched(self.0.connect(to).await) })
    }

    fn listen(&self) -> Pending<'_, Box<dyn Acceptor>> {
        Box::pin(async {
            let acceptor: Box<dyn Acceptor> = Box::new(WatchedAcceptor(self.0.listen().await?));
            Ok(acceptor)
        })
    }
}

struct WatchedAcceptor(Box<dyn Acceptor>);

impl Acceptor for WatchedAcceptor {
    fn connect_at(&self) -> &str {
        self.0.connect_at()
    }

    fn poll_accept(&mut self, cx: &mut Context<'_>) -> Poll<io::Result<Accepted>> {
        self.0.poll_accept(cx).map_ok(|accepted| {
            let Accepted { from, halves } = accepted;
            let halves = Box::pin(async { watched(halves.await) });
            Accepted { from, halves }
        })
    }
}

fn watched(halves: io::Result<Halves>) -> io::Result<Halves> {
    if let Ok(halves) = &halves {
        watch_over(halves);
    }
    halves
}
