//! Strangers who do not end the handshake of TLS.

use std::io::ErrorKind;
use std::time::Duration;

use selvedge_cluster::handshake::{HandshakeError, Role, TIME_MAX};
use selvedge_cluster::net::{
    Acceptor, Bridge, Halves, LinkCause, PeerInfo, PeerNames, Pending, Tcp, Tls, TlsError, Transport, dial,
};
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::join;
use tokio::net::TcpStream;
use tokio::time::{Instant, sleep};

use super::Lab;
use crate::support::{
    accept, at, first_arrival, identity, listener, refusal, run, run_in_virtual_time, welcome,
};

/// TLS over streams in memory, and these streams.
fn in_memory(bytes: usize) -> (Tls, Bridge) {
    let inner = Bridge::new(bytes);
    (Lab::new().transport(inner.clone(), PeerNames::Any), inner)
}

fn is_deadline(begun: Instant) -> bool {
    begun.elapsed().abs_diff(TIME_MAX) <= Duration::from_millis(2)
}

/// The record and the head of a hello of TLS, of so many bytes.
fn begun_hello(bytes: u32) -> Vec<u8> {
    let [_, length @ ..] = bytes.to_be_bytes();
    [&[0x16, 3, 1, 0x40, 0, 1][..], &length, &[0; 0x4000 - 4]].concat()
}

#[test]
fn silence_and_a_byte_a_second_within_the_handshake_of_tls_are_cut_off_at_the_deadline() {
    for pause in [Duration::from_secs(1), Duration::from_secs(3600)] {
        run_in_virtual_time(async {
            let (transport, inner) = in_memory(1000);
            let mut listener = listener(&transport).await;
            let begun = Instant::now();
            let mut stranger = inner.connect(&at(listener.connect_at())).await.unwrap();
            let trickle = async {
                for byte in begun_hello(500) {
                    sleep(pause).await;
                    if stranger.writer.write_u8(byte).await.is_err() {
                        break;
                    }
                }
                stranger.reader.read_u8().await.unwrap_err()
            };
            let refused = async {
                let refused = refusal(&mut listener).await;
                assert!(is_deadline(begun), "{:?}", begun.elapsed());
                refused
            };
            let (refused, told) = join!(refused, trickle);
            assert_eq!(refused.cause, LinkCause::Handshake(HandshakeError::TooLate));
            assert_eq!(
                told.kind(),
                ErrorKind::UnexpectedEof,
                "the stranger was told something"
            );
        });
    }
}

/// A transport whose dialers are slow.
struct Slow(Bridge);

impl Transport for Slow {
    fn name(&self) -> &str {
        "slow"
    }

    fn connect<'a>(&'a self, to: &'a PeerInfo) -> Pending<'a, Halves> {
        Box::pin(async {
            let halves = self.0.connect(to).await?;
            sleep(TIME_MAX / 2).await;
            Ok(halves)
        })
    }

    fn listen(&self) -> Pending<'_, Box<dyn Acceptor>> {
        self.0.listen()
    }
}

#[test]
fn the_handshakes_of_tls_and_of_the_link_have_one_deadline() {
    run_in_virtual_time(async {
        let (lab, inner) = (Lab::new(), Bridge::new(1000));
        let (there, here) = (
            lab.transport(inner.clone(), PeerNames::Any),
            lab.transport(Slow(inner.clone()), PeerNames::Any),
        );
        let mut listener = listener(&there).await;
        let to = at(listener.connect_at());
        let begun = Instant::now();
        // Within the time it ends the handshake of TLS, and says nothing more.
        let (refused, silent) = join!(refusal(&mut listener), here.connect(&to));
        assert_eq!(refused.cause, LinkCause::Handshake(HandshakeError::TooLate));
        assert!(is_deadline(begun), "{:?}", begun.elapsed());
        drop(silent.unwrap());

        let mut acceptor = inner.listen().await.unwrap();
        let (to, worker) = (at(acceptor.connect_at()), identity(Role::Worker));
        let begun = Instant::now();
        let (_silent, dialed) = join!(accept(&mut *acceptor), dial(&there, &to, &worker));
        let dialed = dialed.unwrap_err();
        assert!(is_deadline(begun), "{:?}", begun.elapsed());
        let LinkCause::Unreachable { kind, .. } = dialed.cause else {
            panic!("{dialed}");
        };
        assert_eq!(kind, ErrorKind::TimedOut);
    });
}

#[test]
fn a_hello_of_tls_that_never_ends_is_read_up_to_a_limit() {
    const ROOM: usize = 64;
    let (transport, inner) = in_memory(ROOM);
    // The longest that is read at all, and one that is longer.
    for (bytes, most) in [(0xffff, 0x1_4000), (0xff_ffff, 0x5000)] {
        run(async {
            let mut listener = listener(&transport).await;
            let to = at(listener.connect_at());
            let stranger = async {
                let mut halves = inner.connect(&to).await.unwrap();
                let mut written = 0;
                let (mut hello, record) = (
                    begun_hello(bytes),
                    [&[0x16, 3, 1, 0x40, 0][..], &[0; 0x4000]].concat(),
                );
                loop {
                    for byte in hello {
                        if halves.writer.write_u8(byte).await.is_err() {
                            return written;
                        }
                        written += 1;
                    }
                    hello = record.clone();
                }
            };
            let (refused, written) = join!(refusal(&mut listener), stranger);
            assert!(
                matches!(refused.cause, LinkCause::Tls(TlsError::Protocol { .. })),
                "{refused}"
            );
            assert!(written <= most + ROOM, "{written} bytes of {most} were read");
        });
    }
}

#[test]
fn strangers_who_are_silent_before_tls_keep_nobody_out() {
    run(async {
        let transport = super::tls();
        let mut listener = listener(&transport).await.strangers_max(2);
        let to = at(listener.connect_at());
        let mut silent = Vec::new();
        for _ in 0..5 {
            silent.push(TcpStream::connect(&to.connect_at).await.unwrap());
        }
        let mut refused = Vec::new();
        while refused.len() < 3 {
            refused.push(refusal(&mut listener).await.cause);
        }
        assert!(refused.iter().all(|cause| *cause == LinkCause::CrowdedOut));
        let worker = identity(Role::Worker);
        let admitted = async { first_arrival(&mut listener).await.welcome(&welcome()).await };
        let (there, here) = join!(admitted, dial(&transport, &to, &worker));
        assert!(there.is_ok() && here.is_ok());
        assert_eq!(listener.strangers(), 1, "a silent one is still heard");
    });
}

#[test]
fn a_stranger_who_leaves_within_the_handshake_of_tls_is_forgotten_at_once() {
    run(async {
        let transport = super::tls();
        let mut listener = listener(&transport).await;
        let mut stranger = Tcp::loopback().connect(&at(listener.connect_at())).await.unwrap();
        stranger.writer.write_all(&begun_hello(500)[..20]).await.unwrap();
        drop(stranger);
        assert_eq!(
            refusal(&mut listener).await.cause,
            LinkCause::Tls(TlsError::HungUp)
        );
    });
}
