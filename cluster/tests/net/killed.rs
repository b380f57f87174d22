//! A process that is killed ends every wait of its peers, without any timer.

use std::process::{Command, Stdio};

use selvedge_cluster::handshake::Role;
use selvedge_cluster::net::{Halves, Tcp, Transport, Uds, dial};
use tokio::io::{AsyncReadExt, AsyncWriteExt};

use crate::support::{at, first_arrival, identity, listener, run, welcome};

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
            let Halves {
                mut reader,
                mut writer,
                ..
            } = link.halves;
            // The child reads nothing, so the writer waits in the end.
            let bytes = vec![0; 1 << 20];
            let write = async { while writer.write_all(&bytes).await.is_ok() {} };
            let mut read = [0];
            let kill = async {
                tokio::task::yield_now().await;
                child.kill().unwrap();
            };
            let ((), read, ()) = tokio::join!(write, reader.read(&mut read), kill);
            assert!(matches!(read, Ok(0) | Err(_)), "{read:?}");
            child.wait().unwrap();
        });
    }
}
