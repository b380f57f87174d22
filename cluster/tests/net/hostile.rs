//! Strangers of every kind: their links are closed, nothing of theirs is acted upon, and they keep nobody out.

use std::future::poll_fn;
use std::time::Duration;

use selvedge_cluster::frame::{Class, Frame, FrameError, FrameLimits, HEADER_BYTES, Parts, Service};
use selvedge_cluster::handshake::{BYTES_MAX, Handshake, HandshakeError, Role, Step, TIME_MAX};
use selvedge_cluster::net::{Bridge, Halves, LinkCause, Listener, Tcp, Transport, dial};
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::join;
use tokio::time::{Instant, sleep};

use crate::support::{
    accept, at, first_arrival, identity, listener, refusal, run, run_in_virtual_time, transports, welcome,
};

/// Reads until the link is closed, and returns the number of bytes.
async fn until_closed(halves: &mut Halves) -> usize {
    let mut bytes = Vec::new();
    // A close with bytes that were not read is a reset.
    let _ = halves.reader.read_to_end(&mut bytes).await;
    bytes.len()
}

/// The error of a listener to which a stranger says this, and then waits for the end.
async fn said(transport: &dyn Transport, bytes: &[u8]) -> LinkCause {
    let mut listener = listener(transport).await;
    let to = at(listener.connect_at());
    let stranger = async {
        let mut halves = transport.connect(&to).await.unwrap();
        let _ = halves.writer.write_all(bytes).await;
        until_closed(&mut halves).await;
    };
    let (refused, ()) = join!(refusal(&mut listener), stranger);
    assert_eq!(listener.strangers(), 0);
    refused.cause
}

/// A frame of the handshake with this head.
fn of_handshake(head: Vec<u8>) -> Vec<u8> {
    let (service, class) = (Service::HANDSHAKE, Class::Ordered);
    let (sequence, acknowledged, head, parts) = (0, 0, head.into(), Parts::new());
    let frame = Frame::<Vec<u8>> {
        service,
        class,
        sequence,
        acknowledged,
        head,
        parts,
    };
    frame.prefix(&FrameLimits::default()).unwrap()
}

#[test]
fn bytes_that_are_no_handshake_close_the_link() {
    let http = b"GET / HTTP/1.1\r\nHost: selvedge\r\nAccept: everything\r\n\r\n";
    let mut of_another_service = of_handshake(vec![0; 9]);
    of_another_service[6] = 16;
    for transport in transports() {
        run(async {
            let cause = said(&*transport, http).await;
            assert!(
                matches!(
                    cause,
                    LinkCause::Handshake(HandshakeError::Frame(FrameError::Magic { .. }))
                ),
                "{cause}"
            );
            let cause = said(&*transport, &of_handshake(vec![0; 1 << 20])).await;
            let HandshakeError::Frame(FrameError::HeadTooLong { limit, .. }) = of_handshake_error(cause)
            else {
                panic!("an oversize head is read");
            };
            assert_eq!(limit as usize + HEADER_BYTES, BYTES_MAX);
            for bytes in [of_handshake(vec![99; 100]), of_another_service.clone()] {
                assert_eq!(
                    of_handshake_error(said(&*transport, &bytes).await),
                    HandshakeError::Unexpected
                );
            }
        });
    }
}

fn of_handshake_error(cause: LinkCause) -> HandshakeError {
    match cause {
        LinkCause::Handshake(error) => error,
        other => panic!("{other}"),
    }
}

/// The outcome does not depend on when the system carries the bytes: whatever has come, a proof has not.
#[test]
fn silence_and_a_byte_a_second_are_cut_off_at_the_deadline() {
    for transport in transports() {
        for pause in [Duration::from_secs(1), Duration::from_secs(3600)] {
            run_in_virtual_time(async {
                let mut listener = listener(&*transport).await;
                let to = at(listener.connect_at());
                let (_, hello) = Handshake::dial(Duration::ZERO, identity(Role::Worker)).unwrap();
                let stranger = async {
                    let mut halves = transport.connect(&to).await.unwrap();
                    for byte in hello.iter().take(30) {
                        sleep(pause).await;
                        if halves.writer.write_u8(*byte).await.is_err() {
                            break;
                        }
                    }
                    until_closed(&mut halves).await
                };
                let (refused, read) = join!(refusal(&mut listener), stranger);
                assert_eq!(refused.cause, LinkCause::Handshake(HandshakeError::TooLate));
                assert_eq!(read, 0, "the stranger was told something");
            });
        }
    }
}

#[test]
fn a_listener_that_ends_before_its_hello_has_refused_nobody() {
    let transport = Tcp::loopback();
    run(async {
        let mut listener = transport.listen().await.unwrap();
        let to = at(listener.connect_at());
        let worker = identity(Role::Worker);
        let ends = async {
            let accepted = poll_fn(|cx| listener.poll_accept(cx)).await.unwrap();
            let mut halves = accepted.halves.await.unwrap();
            // Without the bytes that were not read, the end is no reset.
            halves.reader.read_u8().await.unwrap();
            halves.writer.shutdown().await.unwrap();
            until_closed(&mut halves).await
        };
        let (dialled, _) = join!(dial(&transport, &to, &worker), ends);
        let cause = dialled.err().unwrap().cause;
        assert!(matches!(cause, LinkCause::Lost { .. }), "{cause:?}");
    });
}

#[test]
fn the_deadline_is_five_seconds_for_both_sides() {
    let transport = Bridge::new(1000);
    run_in_virtual_time(async {
        let mut listener = listener(&transport).await;
        let begun = Instant::now();
        let silent = transport.connect(&at(listener.connect_at())).await.unwrap();
        let refused = refusal(&mut listener).await;
        assert_eq!(refused.cause, LinkCause::Handshake(HandshakeError::TooLate));
        assert!(begun.elapsed().abs_diff(TIME_MAX) <= Duration::from_millis(2));
        drop(silent);

        let mut acceptor = transport.listen().await.unwrap();
        let (to, worker) = (at(acceptor.connect_at()), identity(Role::Worker));
        let begun = Instant::now();
        let (_silent, dialed) = join!(accept(&mut *acceptor), dial(&transport, &to, &worker));
        assert_eq!(
            dialed.unwrap_err().cause,
            LinkCause::Handshake(HandshakeError::TooLate)
        );
        assert!(begun.elapsed().abs_diff(TIME_MAX) <= Duration::from_millis(2));
    });
}

#[test]
fn a_stranger_who_leaves_is_forgotten_at_once() {
    for transport in transports() {
        run(async {
            let mut listener = listener(&*transport).await;
            let to = at(listener.connect_at());
            let leaver = async {
                let mut halves = transport.connect(&to).await.unwrap();
                halves.writer.write_all(b"SVF1").await.unwrap();
            };
            let (refused, ()) = join!(refusal(&mut listener), leaver);
            assert_eq!(refused.cause, LinkCause::HungUp);
        });
    }
}

/// The bytes that a dialer says in a handshake that succeeds, and that of an admitted link.
async fn recorded(transport: &dyn Transport, listener: &mut Listener) -> Vec<u8> {
    let to = at(listener.connect_at());
    let dialer = async {
        let mut halves = transport.connect(&to).await.unwrap();
        let mut worker = identity(Role::Worker);
        worker.hello.nonce = [77; 32];
        let (mut handshake, mut said) = Handshake::dial(Duration::ZERO, worker).unwrap();
        halves.writer.write_all(&said).await.unwrap();
        loop {
            let mut byte = [0];
            halves.reader.read_exact(&mut byte).await.unwrap();
            match handshake.receive(Duration::ZERO, &mut &byte[..]).unwrap() {
                Some(Step::Write(bytes)) => {
                    halves.writer.write_all(&bytes).await.unwrap();
                    said.extend(bytes);
                }
                Some(_) => return said,
                None => (),
            }
        }
    };
    let admitted = async { first_arrival(listener).await.welcome(&welcome()).await.unwrap() };
    join!(admitted, dialer).1
}

#[test]
fn a_replayed_handshake_is_refused() {
    for transport in transports() {
        run(async {
            let mut listener = listener(&*transport).await;
            let said = recorded(&*transport, &mut listener).await;
            let to = at(listener.connect_at());
            let replay = async {
                let mut halves = transport.connect(&to).await.unwrap();
                halves.writer.write_all(&said).await.unwrap();
                until_closed(&mut halves).await;
            };
            let (refused, ()) = join!(refusal(&mut listener), replay);
            assert_eq!(refused.cause, LinkCause::Handshake(HandshakeError::WrongCookie));
        });
    }
}

#[test]
fn a_dialer_that_hears_its_own_bytes_has_dialled_itself() {
    for transport in transports() {
        run(async {
            let mut acceptor = transport.listen().await.unwrap();
            let (to, worker) = (at(acceptor.connect_at()), identity(Role::Worker));
            let mirror = async {
                let mut halves = accept(&mut *acceptor).await;
                let _ = tokio::io::copy(&mut halves.reader, &mut halves.writer).await;
            };
            let ((), dialed) = join!(mirror, dial(&*transport, &to, &worker));
            assert_eq!(
                dialed.unwrap_err().cause,
                LinkCause::Handshake(HandshakeError::Itself)
            );
        });
    }
}

/// Of a stranger who says hello and then never stops, no more is read than the limit and one read.
#[test]
fn the_bytes_of_a_stranger_that_are_read_are_bounded() {
    const ROOM: usize = 64;
    let transport = Bridge::new(ROOM);
    run(async {
        let mut listener = listener(&transport).await;
        let to = at(listener.connect_at());
        let (_, hello) = Handshake::dial(Duration::ZERO, identity(Role::Worker)).unwrap();
        let stranger = async {
            let mut halves = transport.connect(&to).await.unwrap();
            // The listener's hello has to go somewhere.
            tokio::spawn(async move { tokio::io::copy(&mut halves.reader, &mut tokio::io::sink()).await });
            halves.writer.write_all(&hello).await.unwrap();
            let mut written = hello.len();
            // A header, and a head that lacks bytes.
            let header = of_handshake(vec![0; 4000]);
            for byte in header[..HEADER_BYTES].iter().chain(std::iter::repeat(&0)) {
                match halves.writer.write_u8(*byte).await {
                    Ok(()) => written += 1,
                    Err(_) => break,
                }
            }
            written
        };
        let (refused, written) = join!(refusal(&mut listener), stranger);
        assert_eq!(refused.cause, LinkCause::Handshake(HandshakeError::TooMuch));
        assert!(written <= 2 * BYTES_MAX + ROOM, "{written} bytes");
    });
}

/// NET-1: the oldest stranger goes, and the process that knows the cookie comes in.
#[test]
fn many_silent_strangers_keep_nobody_out() {
    for transport in transports() {
        run(async {
            let mut listener = listener(&*transport).await.strangers_max(4);
            let to = at(listener.connect_at());
            let mut strangers = Vec::new();
            let mut refused = Vec::new();
            for _ in 0..20 {
                let heard = listener.strangers() + 1;
                strangers.push(transport.connect(&to).await.unwrap());
                // Until the listener has taken the stranger in.
                while listener.strangers() < heard && refused.len() + 4 < strangers.len() {
                    refused.push(refusal(&mut listener).await.cause);
                }
            }
            let worker = identity(Role::Worker);
            let admitted = async { first_arrival(&mut listener).await.welcome(&welcome()).await };
            let (admitted, link) = join!(admitted, dial(&*transport, &to, &worker));
            assert!(admitted.is_ok() && link.is_ok());
            assert!(listener.strangers() <= 4);
            assert!(refused.len() >= 15 && refused.iter().all(|cause| *cause == LinkCause::CrowdedOut));
            // The oldest are closed, and the youngest are not.
            assert_eq!(until_closed(&mut strangers[0]).await, 0);
        });
    }
}

#[test]
#[cfg(target_os = "linux")]
fn strangers_leave_no_descriptor() {
    const STRANGERS: usize = 400;
    let descriptors = || std::fs::read_dir("/proc/self/fd").unwrap().count();
    run(async {
        let transport = Tcp::loopback();
        let mut listener = listener(&transport).await;
        let to = at(listener.connect_at());
        let before = descriptors();
        for _ in 0..STRANGERS {
            let noise = async {
                let mut halves = transport.connect(&to).await.unwrap();
                let _ = halves.writer.write_all(&[7; 100]).await;
                until_closed(&mut halves).await;
            };
            join!(refusal(&mut listener), noise);
        }
        // Tests beside this one open some and close some.
        let after = descriptors();
        assert!(
            after < before + STRANGERS / 2,
            "{after} descriptors, and {before} before"
        );
    });
}
