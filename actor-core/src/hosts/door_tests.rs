//! Tests of the door.

use std::sync::Barrier;
use std::time::Duration;

use selvedge_cluster::net::{Bridge, PeerInfo, dial};

use super::*;
use crate::hub::LinkSettings;
use crate::testing::peer;

/// A worker that has dialled, and waits for its welcome.
async fn worker() -> Arrival {
    let (transport, cookie) = (Bridge::new(4096), Cookie::new([7; 32]));
    let head = identity(Role::Head, Some(peer(1)), None, cookie.clone());
    let mut listener = Listener::bind(&transport, head).await.unwrap();
    let to = PeerInfo {
        process: peer(1).process,
        connect_at: listener.connect_at().to_owned(),
    };
    tokio::spawn(async move {
        let worker = identity(Role::Worker, None, None, cookie);
        dial(&transport, &to, &worker).await.map(drop)
    });
    listener.next().await.unwrap()
}

#[test]
fn a_worker_that_comes_just_when_workers_are_let_in_is_let_in() {
    let reactor = tokio::runtime::Builder::new_current_thread().enable_all().build();
    let mut arrival = reactor.unwrap().block_on(worker());
    let (hub, port) = (
        Hub::of_driver(LinkSettings::default()),
        TcpPort::bind(([127, 0, 0, 1], 0).into()).unwrap(),
    );
    for round in 0..10_000_u32 {
        let door = Arc::new(Door::new(port.clone()));
        let keeper = Keeper {
            door: Arc::downgrade(&door),
            hub: Arc::downgrade(&hub),
            me: hub.me(),
        };
        let (lets_in, came) = std::sync::mpsc::channel();
        let both = Barrier::new(2);
        std::thread::scope(|scope| {
            scope.spawn(|| {
                both.wait();
                keeper.hear(arrival);
            });
            both.wait();
            (0..round % 100).for_each(|step| _ = std::hint::black_box(step));
            door.let_workers_in(move |_, arrival| lets_in.send(arrival).unwrap());
        });
        arrival = came.recv_timeout(Duration::ZERO).expect("it is let in");
    }
}
