//! Routers of tests, and streams through them.

use std::future::poll_fn;
use std::net::TcpListener;
use std::time::Duration;

use selvedge_cluster::net::{Acceptor, Halves, PeerInfo, Transport, Zenoh, ZenohRouter, ZenohSettings};
use selvedge_cluster::peer::ProcessId;
use tokio::runtime::Builder;
use tokio::time::timeout;

/// An endpoint of this host that nobody uses.
pub(crate) fn free() -> String {
    let free = TcpListener::bind("127.0.0.1:0").unwrap();
    format!("tcp/{}", free.local_addr().unwrap())
}

pub(crate) fn router() -> ZenohRouter {
    ZenohRouter::start(&[free()], &[]).unwrap()
}

pub(crate) fn session(router: &ZenohRouter) -> Zenoh {
    Zenoh::open(&ZenohSettings::routers(router.endpoints())).unwrap()
}

/// Runs a test on one thread. A wait that does not end fails it.
pub(crate) fn run<T>(test: impl Future<Output = T>) -> T {
    let runtime = Builder::new_current_thread().enable_all().build().unwrap();
    let ended = runtime.block_on(async { timeout(Duration::from_secs(90), test).await });
    ended.expect("a wait has not ended")
}

pub(crate) fn to(place: &str) -> PeerInfo {
    let (process, connect_at) = (ProcessId::HEAD, place.to_owned());
    PeerInfo { process, connect_at }
}

pub(crate) async fn accept(acceptor: &mut dyn Acceptor) -> Halves {
    let accepted = poll_fn(|cx| acceptor.poll_accept(cx)).await.unwrap();
    accepted.halves.await.unwrap()
}

/// A stream from one node to another: the end of the dialer first.
pub(crate) async fn pair(listens: &Zenoh, dials: &Zenoh) -> (Halves, Halves) {
    let mut acceptor = listens.listen().await.unwrap();
    let place = to(acceptor.connect_at());
    let (near, far) = tokio::join!(dials.connect(&place), accept(&mut *acceptor));
    (near.unwrap(), far)
}
