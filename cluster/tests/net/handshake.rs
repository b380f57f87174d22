//! Links are authenticated, or there is none.

use std::io::ErrorKind;

use selvedge_cluster::handshake::{HandshakeError, Hello, Identity, Role, TIME_MAX};
use selvedge_cluster::net::{Acceptor, Bridge, Halves, LinkCause, PeerInfo, Pending, Transport, dial};
use tokio::io::AsyncReadExt;
use tokio::join;

use crate::support::{
    accept, at, first_arrival, identity, listener, refusal, run, run_in_virtual_time, stranger,
    transports_and_tls, welcome,
};

/// The errors of the listener and of the dialer.
async fn refused(transport: &dyn Transport, dialer: &Identity) -> (LinkCause, LinkCause) {
    let mut listener = listener(transport).await;
    let to = at(listener.connect_at());
    let (there, here) = join!(refusal(&mut listener), dial(transport, &to, dialer));
    assert_eq!(listener.strangers(), 0);
    // The listener goes on.
    let worker = identity(Role::Worker);
    let admitted = async { first_arrival(&mut listener).await.welcome(&welcome()).await };
    let (admitted, link) = join!(admitted, dial(transport, &to, &worker));
    assert_eq!(admitted.unwrap().hello.role, Role::Worker);
    assert_eq!(link.unwrap().welcome, welcome());
    (there.cause, here.unwrap_err().cause)
}

/// A peer that was refused sees its link closed, with or without bytes that it had sent in vain.
fn is_closed(cause: &LinkCause) -> bool {
    matches!(cause, LinkCause::HungUp | LinkCause::Lost { .. })
}

#[test]
fn jnet_13_a_dialer_without_the_cookie_is_refused_and_others_are_admitted() {
    for transport in transports_and_tls() {
        run(async {
            let (there, here) = refused(&*transport, &stranger()).await;
            assert_eq!(there, LinkCause::Handshake(HandshakeError::WrongCookie));
            assert!(is_closed(&here), "{here:?}");
        });
    }
}

#[test]
fn jnet_17_another_protocol_cluster_or_build_is_refused_by_name() {
    let changed = |change: fn(&mut Identity)| {
        let mut identity = identity(Role::Worker);
        change(&mut identity);
        identity
    };
    let cases = [
        (changed(|it| it.hello.protocol = 9), "speaks version 9"),
        (
            changed(|it| it.hello.cluster = "elsewhere".into()),
            "cluster `elsewhere`",
        ),
        (changed(|it| it.hello.build = "two".into()), "build two"),
        (changed(|it| it.hello.registry = 8), "0000000000000008"),
    ];
    for transport in transports_and_tls() {
        for (dialer, name) in &cases {
            run(async {
                let (there, here) = refused(&*transport, dialer).await;
                assert!(there.to_string().contains(name), "{there}");
                // The hello of the listener shows the dialer why it was hung up on, unless the listener has sent none.
                let knows = matches!(
                    here,
                    LinkCause::Handshake(HandshakeError::Cluster { .. } | HandshakeError::Build { .. })
                );
                let has_hello = dialer.hello.protocol == Hello::PROTOCOL;
                assert!(if has_hello { knows } else { is_closed(&here) }, "{here:?}");
            });
        }
    }
}

#[test]
fn a_nonce_is_used_for_one_handshake() {
    run(async {
        for transport in transports_and_tls() {
            let mut acceptor = transport.listen().await.unwrap();
            let to = at(acceptor.connect_at());
            let mut hellos = Vec::new();
            for _ in 0..2 {
                let worker = identity(Role::Worker);
                let hello = async {
                    let mut halves = accept(&mut *acceptor).await;
                    let mut hello = [0; 64];
                    halves.reader.read_exact(&mut hello).await.unwrap();
                    let mut rest = vec![0; 1000];
                    let read = halves.reader.read(&mut rest).await.unwrap();
                    rest.truncate(read);
                    rest
                };
                let (hello, failed) = join!(hello, dial(&*transport, &to, &worker));
                assert!(failed.is_err());
                hellos.push(hello);
            }
            assert_ne!(hellos[0], hellos[1], "{}", transport.name());
        }
    });
}

/// A transport that reaches nobody, and never says so.
struct Nowhere;

impl Transport for Nowhere {
    fn name(&self) -> &str {
        "nowhere"
    }

    fn connect<'a>(&'a self, _: &'a PeerInfo) -> Pending<'a, Halves> {
        Box::pin(std::future::pending())
    }

    fn listen(&self) -> Pending<'_, Box<dyn Acceptor>> {
        Box::pin(std::future::pending())
    }
}

#[test]
fn jtopo_08_a_dial_that_nobody_answers_ends_with_an_error_that_names_the_process() {
    run_in_virtual_time(async {
        let unreached = dial(&Nowhere, &at("the moon"), &identity(Role::Worker))
            .await
            .unwrap_err();
        let LinkCause::Unreachable { kind, .. } = unreached.cause else {
            panic!("{unreached}");
        };
        assert_eq!(kind, ErrorKind::TimedOut);
        assert!(
            unreached.to_string().contains("to process 3 at the moon"),
            "{unreached}"
        );
    });
    run(async {
        for transport in transports_and_tls() {
            let to = at(transport.listen().await.unwrap().connect_at());
            let refused = dial(&*transport, &to, &identity(Role::Worker)).await.unwrap_err();
            assert!(
                matches!(refused.cause, LinkCause::Unreachable { .. }),
                "{refused}"
            );
        }
    });
}

#[test]
fn an_arrival_that_is_dropped_or_decided_too_late_is_not_admitted() {
    // In virtual time a deadline may pass before the system has carried a byte, so the link is in memory.
    let transport = Bridge::new(1000);
    run_in_virtual_time(async {
        let mut listener = listener(&transport).await;
        let to = at(listener.connect_at());
        let worker = identity(Role::Worker);
        let dropped = async { drop(first_arrival(&mut listener).await) };
        let ((), here) = join!(dropped, dial(&transport, &to, &worker));
        assert_eq!(here.unwrap_err().cause, LinkCause::HungUp);

        let late = async {
            let arrival = first_arrival(&mut listener).await;
            tokio::time::sleep(TIME_MAX).await;
            arrival.welcome(&welcome()).await
        };
        let (there, here) = join!(late, dial(&transport, &to, &worker));
        let too_late = LinkCause::Handshake(HandshakeError::TooLate);
        assert_eq!(there.unwrap_err().cause, too_late);
        assert!(here.is_err());
    });
}
