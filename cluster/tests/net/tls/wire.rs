//! What a wire shows of a link.

use std::cell::Cell;
use std::net::Ipv4Addr;

use selvedge_cluster::handshake::{Cookie, Identity, Role};
use selvedge_cluster::net::{LinkCause, Listener, Tcp, TlsError, Transport, dial};
use tokio::io::{AsyncRead, AsyncReadExt, AsyncWrite, AsyncWriteExt};
use tokio::join;
use tokio::net::{TcpListener, TcpStream};

use crate::support::{at, exchange, first_arrival, identity, refusal, run, welcome};

/// Hands on all bytes, changed if the wire is noisy, and returns them.
async fn tap(
    is_noisy: &Cell<bool>,
    mut from: impl AsyncRead + Unpin,
    mut to: impl AsyncWrite + Unpin,
) -> Vec<u8> {
    let (mut record, mut bytes) = (Vec::new(), vec![0; 64 << 10]);
    while let Ok(read @ 1..) = from.read(&mut bytes).await {
        bytes[read - 1] ^= u8::from(is_noisy.get());
        record.extend(&bytes[..read]);
        if to.write_all(&bytes[..read]).await.is_err() {
            break;
        }
    }
    let _ = to.shutdown().await;
    record
}

/// What was seen on the wire of a link: the dialer's bytes and the listener's.
type Capture = [Vec<u8>; 2];

/// A wire that is listened to: it leads from a place of its own to another one.
struct Wire(TcpListener);

impl Wire {
    async fn new() -> Self {
        Wire(TcpListener::bind((Ipv4Addr::LOCALHOST, 0)).await.unwrap())
    }

    fn connect_at(&self) -> String {
        self.0.local_addr().unwrap().to_string()
    }

    async fn capture(self, is_noisy: &Cell<bool>, to: &str) -> Capture {
        let (here, _) = self.0.accept().await.unwrap();
        let there = TcpStream::connect(to).await.unwrap();
        let ((read_here, write_here), (read_there, write_there)) = (here.into_split(), there.into_split());
        let (dialers, listeners) = join!(
            tap(is_noisy, read_here, write_there),
            tap(is_noisy, read_there, write_here)
        );
        [dialers, listeners]
    }
}

/// Random bytes that stand for something secret.
fn marker() -> [u8; 32] {
    let mut marker = [0; 32];
    let text = Cookie::random().unwrap().text();
    for (place, digits) in marker.iter_mut().zip(text.as_ref().chunks(2)) {
        let digits = std::str::from_utf8(digits).unwrap();
        *place = u8::from_str_radix(digits, 16).unwrap();
    }
    marker
}

fn has(record: &[u8], marker: &[u8]) -> bool {
    record.windows(marker.len()).any(|window| window == marker)
}

/// The capture of a link of this cluster, over which each side has sent something.
async fn capture(
    transport: &dyn Transport,
    of: impl Fn(Role) -> Identity,
    content: [[u8; 32]; 2],
) -> Capture {
    let mut listener = Listener::bind(transport, of(Role::Head)).await.unwrap();
    let (wire, behind) = (Wire::new().await, listener.connect_at().to_owned());
    let (to, worker) = (at(&wire.connect_at()), of(Role::Worker));
    let there = async {
        let link = first_arrival(&mut listener)
            .await
            .welcome(&welcome())
            .await
            .unwrap();
        assert_eq!(exchange(link, &content[1]).await.unwrap(), content[0]);
    };
    let here = async {
        let link = dial(transport, &to, &worker).await.unwrap();
        assert_eq!(exchange(link, &content[0]).await.unwrap(), content[1]);
    };
    let is_noisy = Cell::new(false);
    let (captured, (), ()) = join!(wire.capture(&is_noisy, &behind), there, here);
    captured
}

#[test]
fn jnet_08_a_capture_of_the_wire_under_tls_has_nothing_of_what_was_said() {
    let (cookie, content) = (marker(), [marker(), marker()]);
    let of = |role| {
        let mut identity = identity(role);
        identity.cookie = Cookie::new(cookie);
        identity
    };
    let text = of(Role::Worker).cookie.text();
    let (cluster, secret) = (of(Role::Worker).hello.build, text.as_ref().trim_ascii());
    run(async {
        let [dialers, listeners] = capture(&Tcp::loopback(), of, content).await;
        assert!(
            has(&dialers, &content[0]) && has(&listeners, &content[1]),
            "TCP hides nothing"
        );
        assert!(has(&dialers, cluster.as_bytes()) && has(&listeners, cluster.as_bytes()));
        let secured = capture(&super::tls(), of, content).await;
        for record in [&dialers, &listeners, &secured[0], &secured[1]] {
            assert!(
                !has(record, &cookie) && !has(record, secret),
                "the cookie never travels"
            );
        }
        for record in &secured {
            assert!(record.len() > 500, "{} bytes are no link", record.len());
            assert!(
                !content.iter().any(|content| has(record, content)),
                "what was sent is seen"
            );
            assert!(
                !has(record, b"SVF1") && !has(record, cluster.as_bytes()),
                "the handshake is seen"
            );
        }
    });
}

#[test]
fn a_session_of_tls_that_is_replayed_is_refused() {
    run(async {
        let transport = super::tls();
        let [said, _] = capture(&transport, identity, [marker(), marker()]).await;
        let mut listener = Listener::bind(&transport, identity(Role::Head)).await.unwrap();
        let replay = async {
            let mut stream = TcpStream::connect(listener.connect_at().to_owned())
                .await
                .unwrap();
            stream.write_all(&said).await.unwrap();
            stream
        };
        let stream = replay.await;
        let refused = refusal(&mut listener).await;
        assert!(
            matches!(refused.cause, LinkCause::Tls(TlsError::Protocol { .. })),
            "{refused}"
        );
        drop(stream);
    });
}

#[test]
fn a_byte_that_is_changed_on_the_way_ends_the_link() {
    run(async {
        let transport = super::tls();
        let mut listener = Listener::bind(&transport, identity(Role::Head)).await.unwrap();
        let (wire, behind) = (Wire::new().await, listener.connect_at().to_owned());
        let (to, worker, is_noisy) = (at(&wire.connect_at()), identity(Role::Worker), Cell::new(false));
        let links = async {
            let admitted = async { first_arrival(&mut listener).await.welcome(&welcome()).await };
            let (there, here) = join!(admitted, dial(&transport, &to, &worker));
            is_noisy.set(true);
            let (mut here, mut there) = (here.unwrap().halves, there.unwrap().halves);
            here.writer.write_all(&[7; 100]).await.unwrap();
            let ended = there.reader.read(&mut [0; 100]).await.unwrap_err();
            assert!(ended.to_string().contains("decrypt"), "{ended}");
        };
        join!(wire.capture(&is_noisy, &behind), links);
    });
}
