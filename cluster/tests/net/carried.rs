//! Streams that are no sockets, and are carried by a pair: their ends are told apart as those of TCP are.

use std::io::ErrorKind;
use std::os::unix::net::UnixStream as StdStream;
use std::time::Duration;

use selvedge_cluster::handshake::Role;
use selvedge_cluster::net::{Bridge, Carried, Halves, Link, PeerNames, Tcp, Tls, Transport};
use selvedge_cluster::net::{StreamSocket, dial};
use tokio::io::{AsyncReadExt, AsyncWriteExt, Interest};
use tokio::join;
use tokio::net::UnixStream;
use tokio::time::{sleep, timeout};

use crate::support::{at, first_arrival, identity, listener, run, run_in_virtual_time, welcome};
use crate::tls::Lab;

/// A link over a transport: our end as a socket, and the halves of the other one.
async fn carried(transport: &dyn Transport) -> (UnixStream, Carried, Halves) {
    let mut listener = listener(transport).await;
    let to = at(listener.connect_at());
    let far = async {
        first_arrival(&mut listener)
            .await
            .welcome(&welcome())
            .await
            .unwrap()
    };
    let identity = identity(Role::Worker);
    let (near, far): (_, Link) = join!(dial(transport, &to, &identity), far);
    let (StreamSocket { descriptor, carried }, _) = near.unwrap().into_socket().unwrap();
    let socket = UnixStream::from_std(StdStream::from(descriptor)).unwrap();
    (socket, carried.unwrap(), far.halves)
}

fn tls() -> Tls {
    Lab::new().transport(Tcp::loopback(), PeerNames::Any)
}

/// Whether a socket polls as a hang-up.
async fn hangs_up(socket: &UnixStream) -> bool {
    let ready = socket
        .ready(Interest::READABLE | Interest::WRITABLE)
        .await
        .unwrap();
    ready.is_read_closed() && ready.is_write_closed()
}

#[test]
fn bytes_go_both_ways_and_the_end_of_the_stream_is_no_loss() {
    for transport in [&tls() as &dyn Transport, &Bridge::new(1000)] {
        run(async {
            let (mut near, _carried, mut far) = carried(transport).await;
            let long = vec![7; 1 << 20];
            let (mut there, mut back) = (vec![0; long.len()], Vec::new());
            let write = async {
                near.write_all(&long).await.unwrap();
                near.read_to_end(&mut back).await.unwrap();
            };
            let answer = async {
                far.reader.read_exact(&mut there).await.unwrap();
                far.writer.write_all(&long).await.unwrap();
                far.writer.shutdown().await.unwrap();
            };
            join!(write, answer);
            assert!(there == long && back == long);
            assert!(!hangs_up(&near).await, "the end of the stream is no loss");
            // What this side writes now is lost, and changes nothing.
            drop(far);
            near.write_all(&[1; 1000]).await.unwrap();
            assert!(!hangs_up(&near).await);
        });
    }
}

#[test]
fn a_stream_that_breaks_off_hangs_up() {
    run(async {
        let (mut near, _carried, mut far) = carried(&tls()).await;
        far.writer.write_all(b"before").await.unwrap();
        far.writer.flush().await.unwrap();
        far.cut.take().unwrap()();
        drop(far);
        let mut read = Vec::new();
        near.read_to_end(&mut read).await.unwrap();
        assert_eq!(read, b"before");
        assert!(hangs_up(&near).await);
    });
}

#[test]
fn a_socket_that_is_closed_ends_the_stream_and_one_that_is_abandoned_breaks_it_off() {
    run(async {
        let (mut near, _carried, mut far) = carried(&tls()).await;
        near.write_all(b"the last words").await.unwrap();
        drop(near);
        let mut read = Vec::new();
        far.reader.read_to_end(&mut read).await.unwrap();
        assert_eq!(read, b"the last words");

        let (near, carried, mut far) = carried(&tls()).await;
        carried.abandon();
        drop(near);
        let torn = far.reader.read_to_end(&mut read).await.unwrap_err();
        assert_eq!(torn.kind(), ErrorKind::UnexpectedEof);
    });
}

/// Whoever closes its socket leaves no task behind, although the peer takes nothing of what is still to be carried.
#[test]
fn a_socket_that_is_closed_before_a_peer_that_reads_nothing_breaks_the_stream_off() {
    run_in_virtual_time(async {
        let transport = Lab::new().transport(Bridge::new(1000), PeerNames::Any);
        let (near, carried, mut far) = carried(&transport).await;
        let bytes = vec![7; 1 << 20];
        let mut written = 0;
        // Until nobody takes any more.
        while let Ok(Ok(())) = timeout(Duration::from_secs(1), near.writable()).await {
            written += near.try_write(&bytes).unwrap_or_default();
        }
        drop((near, carried));
        // Longer than the last bytes have.
        sleep(Duration::from_secs(5)).await;
        let mut read = Vec::new();
        let torn = far.reader.read_to_end(&mut read).await.unwrap_err();
        assert_eq!(torn.kind(), ErrorKind::UnexpectedEof);
        assert!(read.len() < written, "{} of {written}", read.len());
    });
}

/// A stream of TCP is a socket, which nobody carries.
#[test]
fn a_socket_is_taken_as_it_is() {
    run(async {
        let transport = Tcp::loopback();
        let mut listener = listener(&transport).await;
        let to = at(listener.connect_at());
        let identity = identity(Role::Worker);
        let far = async { first_arrival(&mut listener).await.welcome(&welcome()).await };
        let (near, _far) = join!(dial(&transport, &to, &identity), far);
        let (StreamSocket { descriptor, carried }, _) = near.unwrap().into_socket().unwrap();
        assert!(carried.is_none());
        let stream = std::net::TcpStream::from(descriptor);
        assert_eq!(stream.peer_addr().unwrap().to_string(), to.connect_at);
    });
}
