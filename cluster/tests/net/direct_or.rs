//! Direct streams where a dial works, and others where it does not.

use std::future::poll_fn;
use std::io::ErrorKind;

use selvedge_cluster::net::{Acceptor, DirectOr, Halves, PeerInfo, Pending, Tcp, Transport};
use selvedge_cluster::peer::ProcessId;
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::TcpListener;

use crate::support::run;

/// TCP of a host that nobody reaches.
#[derive(Clone, Copy)]
pub(crate) struct Unreachable;

impl Transport for Unreachable {
    fn name(&self) -> &str {
        "nowhere"
    }

    fn connect<'a>(&'a self, _: &'a PeerInfo) -> Pending<'a, Halves> {
        Box::pin(async { Err(ErrorKind::HostUnreachable.into()) })
    }

    fn listen(&self) -> Pending<'_, Box<dyn Acceptor>> {
        Box::pin(async { Tcp::loopback().listen().await })
    }
}

fn to(place: &str) -> PeerInfo {
    let (process, connect_at) = (ProcessId::HEAD, place.to_owned());
    PeerInfo { process, connect_at }
}

/// Accepts a stream, and reads the first byte.
async fn first_byte(acceptor: &mut dyn Acceptor) -> u8 {
    let accepted = poll_fn(|cx| acceptor.poll_accept(cx)).await.unwrap();
    accepted.halves.await.unwrap().reader.read_u8().await.unwrap()
}

/// Dials a place whose direct listener is another one, and reaches the right one by the other transport.
async fn reaches_the_right_one(stranger: TcpListener, says: &'static [u8]) {
    let transport = DirectOr::new(Tcp::loopback(), Tcp::loopback());
    let mut acceptor = transport.listen().await.unwrap();
    let (name, places) = acceptor.connect_at().split_once(' ').unwrap();
    let (_, other) = places.split_once(" | ").unwrap();
    let place = format!("{name} {} | {other}", stranger.local_addr().unwrap());
    let stranger = async {
        let (mut stream, _) = stranger.accept().await.unwrap();
        stream.write_all(says).await.unwrap();
        // It is left, whatever it says.
        let mut heard = Vec::new();
        let _ = stream.read_to_end(&mut heard).await;
        heard
    };
    let dial = async {
        let mut halves = transport.connect(&to(&place)).await.unwrap();
        halves.writer.write_u8(7).await.unwrap();
        halves
    };
    let (heard, _halves, byte) = tokio::join!(stranger, dial, first_byte(&mut *acceptor));
    assert_eq!((heard.len(), byte), (0, 7), "nothing is said to a stranger");
}

#[test]
fn a_stranger_at_the_same_address_is_not_taken_for_the_process_that_was_dialled() {
    run(async {
        for says in [&[9; 16][..], b"HTTP/1.1 400 Bad Request", b"short", b""] {
            reaches_the_right_one(TcpListener::bind("127.0.0.1:0").await.unwrap(), says).await;
        }
    });
}

#[test]
fn an_error_says_why_neither_way_leads_there() {
    run(async {
        let transport = DirectOr::new(Tcp::loopback(), Unreachable);
        let acceptor = transport.listen().await.unwrap();
        let place = acceptor.connect_at().to_owned();
        drop(acceptor);
        let error = transport.connect(&to(&place)).await.unwrap_err();
        assert_eq!(error.kind(), ErrorKind::HostUnreachable);
        let direct = place.split(' ').nth(1).unwrap();
        assert!(
            error.to_string().contains(&format!("directly, at {direct}: ")),
            "{error}"
        );
        let error = transport.connect(&to("127.0.0.1:1")).await.unwrap_err();
        assert_eq!(error.kind(), ErrorKind::InvalidInput);
    });
}

#[test]
fn tcp_towards_a_place_listens_where_packets_to_it_leave() {
    let transport = Tcp::towards("127.0.0.1:9").unwrap();
    assert_eq!(transport.address(), "127.0.0.1:0".parse().unwrap());
    assert!(Tcp::towards("a name that nobody has:1").is_err());
}
