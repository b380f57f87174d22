//! Routers that start again, and processes that die.

use std::io::{BufRead, BufReader, Write};
use std::process::{Child, Command, Stdio};
use std::time::Duration;

use selvedge_cluster::net::{Halves, PeerInfo, Transport, Zenoh, ZenohError, ZenohRouter, ZenohSettings};
use selvedge_cluster::peer::ProcessId;
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::time::{sleep, timeout};

use crate::routers::{accept, free, pair, router, run, session, to};

/// The time that a router takes to start again.
const RESTART: Duration = Duration::from_secs(10);

#[test]
fn a_router_that_is_away_for_ten_seconds_loses_no_byte_and_no_stream() {
    run(async {
        let first = router();
        let (listens, dials) = (session(&first), session(&first));
        let (mut near, mut far) = pair(&listens, &dials).await;
        let (stop, mut stopped) = tokio::sync::oneshot::channel::<()>();
        let writing = async {
            let mut written = 0_u64;
            while stopped.try_recv().is_err() {
                near.writer.write_u64(written).await.unwrap();
                written += 1;
                tokio::task::yield_now().await;
            }
            near.writer.shutdown().await.unwrap();
            written
        };
        let reading = async {
            let mut read = 0_u64;
            while let Ok(number) = far.reader.read_u64().await {
                assert_eq!(number, read);
                read += 1;
            }
            read
        };
        let endpoints = first.endpoints().to_vec();
        let restarting = async {
            // There and gone while both talk.
            drop(first);
            sleep(RESTART).await;
            let again = ZenohRouter::start(&endpoints, &[]).unwrap();
            // Whoever calls at once when it is there reaches a new listener.
            let (mut near, mut far) = pair(&dials, &listens).await;
            near.writer.write_u8(7).await.unwrap();
            assert_eq!(far.reader.read_u8().await.unwrap(), 7);
            stop.send(()).unwrap();
            again
        };
        let (written, read, _router) = tokio::join!(writing, reading, restarting);
        assert_eq!(written, read);
        assert!(written > 0);
    });
}

#[test]
fn without_a_router_a_session_is_an_error_that_names_it() {
    let endpoint = free();
    let error = Zenoh::open(&ZenohSettings::routers([&endpoint])).unwrap_err();
    assert!(
        matches!(&error, ZenohError::Unreachable { routers, .. } if *routers == endpoint),
        "{error}"
    );
}

#[test]
fn a_port_that_is_taken_is_an_error_of_the_router() {
    let first = router();
    let error = ZenohRouter::start(first.endpoints(), &[]).unwrap_err();
    assert!(matches!(error, ZenohError::NotListening { .. }), "{error}");
}

/// The variable by which a part of a test learns where the router is.
const ROUTER: &str = "SELVEDGE_TEST_ROUTER";

/// A process that listens, takes one stream and waits.
#[test]
#[ignore = "a part of the tests below"]
fn a_listener() {
    let Ok(endpoint) = std::env::var(ROUTER) else {
        return;
    };
    let zenoh = Zenoh::open(&ZenohSettings::routers([endpoint])).unwrap();
    run(async {
        let mut acceptor = zenoh.listen().await.unwrap();
        println!("\nplace: {}", acceptor.connect_at());
        std::io::stdout().flush().unwrap();
        let mut halves = accept(&mut *acceptor).await;
        halves.writer.write_u8(1).await.unwrap();
        std::future::pending::<()>().await;
    });
}

fn listening(endpoint: &str) -> (Child, PeerInfo) {
    let program = std::env::current_exe().unwrap();
    let mut command = Command::new(program);
    command.args(["--exact", "restarts::a_listener", "--ignored", "--nocapture"]);
    command.env(ROUTER, endpoint).stdout(Stdio::piped());
    let mut child = command.spawn().unwrap();
    let lines = BufReader::new(child.stdout.take().unwrap()).lines();
    let mut places = lines.filter_map(|line| Some(line.unwrap().strip_prefix("place: ")?.to_owned()));
    let connect_at = places.next().unwrap();
    let process = ProcessId::HEAD;
    (child, PeerInfo { process, connect_at })
}

/// Connects to a process of its own.
async fn connected(zenoh: &Zenoh, at: &PeerInfo) -> Halves {
    let mut halves = zenoh.connect(at).await.unwrap();
    assert_eq!(halves.reader.read_u8().await.unwrap(), 1);
    halves
}

#[test]
fn a_killed_process_ends_every_wait_for_it() {
    let router = router();
    let zenoh = session(&router);
    let (mut child, place) = listening(&router.endpoints()[0]);
    run(async {
        let mut halves = connected(&zenoh, &place).await;
        child.kill().unwrap();
        child.wait().unwrap();
        let bytes = vec![0; 64 << 10];
        let writes = async {
            loop {
                if let Err(error) = halves.writer.write_all(&bytes).await {
                    return error.kind();
                }
            }
        };
        let (read, written) = tokio::join!(halves.reader.read_u8(), writes);
        assert_eq!(read.unwrap_err().kind(), std::io::ErrorKind::ConnectionReset);
        assert_eq!(written, std::io::ErrorKind::ConnectionReset);
        // Nobody is called who is not there, and that takes no longer.
        let error = zenoh.connect(&place).await.unwrap_err();
        assert_eq!(error.kind(), std::io::ErrorKind::HostUnreachable);
    });
}

#[test]
fn a_process_that_dies_while_the_router_is_away_is_missed_when_that_is_back() {
    let first = router();
    let zenoh = session(&first);
    let (mut child, place) = listening(&first.endpoints()[0]);
    run(async {
        let mut halves = connected(&zenoh, &place).await;
        let endpoints = first.endpoints().to_vec();
        drop(first);
        child.kill().unwrap();
        child.wait().unwrap();
        // While there is no router, nobody is dead.
        let read = timeout(Duration::from_secs(4), halves.reader.read_u8()).await;
        assert!(read.is_err(), "{read:?}");
        let _again = ZenohRouter::start(&endpoints, &[]).unwrap();
        let error = halves.reader.read_u8().await.unwrap_err();
        assert_eq!(error.kind(), std::io::ErrorKind::ConnectionReset);
    });
}

#[test]
fn what_names_no_listener_at_a_router_is_refused() {
    let zenoh = session(&router());
    run(async {
        for wrong in ["", "1", "127.0.0.1:80", "x.1", "1.x", "1.2.3"] {
            let error = zenoh.connect(&to(wrong)).await.unwrap_err();
            assert_eq!(error.kind(), std::io::ErrorKind::InvalidInput, "{wrong}");
        }
    });
}
