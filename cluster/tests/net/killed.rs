//! A process that is killed ends every wait of its peers, without any timer.

use std::process::{Command, Stdio};

use selvedge_cluster::handshake::Role;
use selvedge_cluster::net::{FrameSettings, LinkCause, SendError, Tcp, Transport, Uds, dial};

use crate::support::{at, first_arrival, frame, identity, listener, run, welcome};

const CHILD: &str = "SELVEDGE_CONNECT_AT";

/// In the child: dials, and does nothing more until it is killed.
fn dial_and_wait(connect_at: &str) {
    run(async {
        let transport: Box<dyn Transport> = match connect_at.starts_with('/') {
            true => Box::new(Uds::within(std::path::Path::new(connect_at).parent().unwrap()).unwrap()),
            false => Box::new(Tcp::loopback()),
        };
        let _link = dial(&*transport, &at(connect_at), &identity(Role::Worker))
            .await
            .unwrap();
        std::future::pending::<()>().await;
    });
}

#[test]
fn a_killed_process_ends_every_wait_of_its_peer() {
    if let Ok(connect_at) = std::env::var(CHILD) {
        return dial_and_wait(&connect_at);
    }
    let test = std::thread::current().name().unwrap().to_owned();
    let transports: [Box<dyn Transport>; 2] = [Box::new(Tcp::loopback()), Box::new(Uds::new().unwrap())];
    for transport in transports {
        run(async {
            let mut listener = listener(&*transport).await;
            let mut child = Command::new(std::env::current_exe().unwrap())
                .args([&*test, "--exact"])
                .env(CHILD, listener.connect_at())
                .stdout(Stdio::null())
                .spawn()
                .unwrap();
            let link = first_arrival(&mut listener)
                .await
                .welcome(&welcome())
                .await
                .unwrap();
            let (sender, mut reader, writer) = link.frames(FrameSettings::default());
            // The child reads nothing, so the senders wait in the end.
            let send = async {
                loop {
                    if let Err(refused) = sender.send(frame(1, vec![0; 1 << 20])).await {
                        return refused.why;
                    }
                }
            };
            let kill = async {
                tokio::task::yield_now().await;
                child.kill().unwrap();
            };
            let (sent, written, read, ()) = tokio::join!(send, writer.run(), reader.next(), kill);
            let written = written.unwrap_err();
            assert!(matches!(written.cause, LinkCause::Lost { .. }), "{written}");
            assert_eq!(sent, SendError::Ended(Box::new(written)));
            assert!(matches!(read, Ok(None) | Err(_)), "{read:?}");
            child.wait().unwrap();
        });
    }
}
