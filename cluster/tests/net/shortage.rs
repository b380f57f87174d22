//! A shortage of descriptors neither ends a listener nor makes it spin.

use std::collections::VecDeque;
use std::io;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Arc, Mutex};
use std::task::{Context, Poll};
use std::time::Duration;

use selvedge_cluster::handshake::Role;
use selvedge_cluster::net::{
    Accepted, Acceptor, Halves, LinkCause, PeerInfo, Pending, Transport, bridge, dial,
};
use tokio::time::Instant;

use crate::support::{at, first_arrival, identity, listener, refusal, run_in_virtual_time, welcome};

/// A transport whose listener gives these in turn, and then nothing, and that dials once.
struct Script {
    turns: Mutex<VecDeque<io::Result<Halves>>>,
    dialer: Mutex<Option<Halves>>,
    asked: Arc<AtomicUsize>,
}

impl Transport for Script {
    fn name(&self) -> &str {
        "script"
    }

    fn connect<'a>(&'a self, _: &'a PeerInfo) -> Pending<'a, Halves> {
        let dialer = self.dialer.lock().unwrap().take();
        Box::pin(async { dialer.ok_or(io::ErrorKind::ConnectionRefused.into()) })
    }

    fn listen(&self) -> Pending<'_, Box<dyn Acceptor>> {
        let turns = std::mem::take(&mut *self.turns.lock().unwrap());
        let asked = self.asked.clone();
        Box::pin(async { Ok(Box::new(Turns { turns, asked }) as Box<dyn Acceptor>) })
    }
}

struct Turns {
    turns: VecDeque<io::Result<Halves>>,
    asked: Arc<AtomicUsize>,
}

impl Acceptor for Turns {
    fn connect_at(&self) -> &str {
        "a script"
    }

    fn poll_accept(&mut self, _: &mut Context<'_>) -> Poll<io::Result<Accepted>> {
        self.asked.fetch_add(1, Ordering::Relaxed);
        match self.turns.pop_front() {
            Some(turn) => Poll::Ready(turn.map(|halves| Accepted::new(halves, "a page"))),
            None => Poll::Pending,
        }
    }
}

/// `EMFILE` of Linux.
fn shortage() -> io::Result<Halves> {
    Err(io::Error::from_raw_os_error(24))
}

#[test]
fn a_shortage_closes_the_oldest_stranger_and_then_pauses() {
    run_in_virtual_time(async {
        let ((silent, _one), (quiet, _other), (friend, dialer)) = (bridge(1000), bridge(1000), bridge(1000));
        let asked = Arc::<AtomicUsize>::default();
        let mut turns = VecDeque::from([Ok(silent), Ok(quiet)]);
        turns.extend((0..5).map(|_| shortage()));
        turns.extend([Err(io::ErrorKind::ConnectionAborted.into()), Ok(friend)]);
        let script = Script {
            turns: turns.into(),
            dialer: Some(dialer).into(),
            asked: asked.clone(),
        };
        let mut listener = listener(&script).await;
        let to = at(listener.connect_at());
        let begun = Instant::now();
        let is_short = |cause: &LinkCause| matches!(cause, LinkCause::NotAccepted { .. });
        // Two strangers make room, and then there are only pauses.
        for (link, waits) in [
            ("page", 0),
            ("page", 0),
            ("script", 0),
            ("script", 100),
            ("script", 200),
            ("script", 300),
        ] {
            let refused = refusal(&mut listener).await;
            assert!(
                is_short(&refused.cause) && refused.link.ends_with(link),
                "{refused}"
            );
            let waited = begun.elapsed();
            assert!(
                waited.abs_diff(Duration::from_millis(waits)) <= Duration::from_millis(5),
                "{waited:?}"
            );
        }
        let worker = identity(Role::Worker);
        let admitted = async { first_arrival(&mut listener).await.welcome(&welcome()).await };
        let (admitted, link) = tokio::join!(admitted, dial(&script, &to, &worker));
        assert!(admitted.is_ok() && link.is_ok());
        assert!(asked.load(Ordering::Relaxed) < 20, "the listener spins");
    });
}

/// In a process of its own, which may have few descriptors.
#[test]
#[cfg(target_os = "linux")]
fn a_listener_outlives_a_process_without_descriptors() {
    const CHILD: &str = "SELVEDGE_FEW_DESCRIPTORS";
    if std::env::var_os(CHILD).is_none() {
        let test = std::thread::current().name().unwrap().to_owned();
        let child = std::process::Command::new("sh")
            .args(["-c", "ulimit -n 100 && exec \"$@\"", "sh"])
            .arg(std::env::current_exe().unwrap())
            .args([&*test, "--exact", "--nocapture", "--test-threads", "1"])
            .env(CHILD, "1")
            .output()
            .unwrap();
        let text = [child.stdout, child.stderr].map(|text| String::from_utf8_lossy(&text).into_owned());
        assert!(child.status.success() && text[0].contains("1 passed"), "{text:?}");
        return;
    }
    crate::support::run(async {
        let transport = selvedge_cluster::net::Tcp::loopback();
        let mut listener = listener(&transport).await;
        let to = at(listener.connect_at());
        let mut files: Vec<_> = std::iter::from_fn(|| std::fs::File::open("/dev/null").ok()).collect();
        assert!(files.len() < 100);
        // One for the dialer, and none for the listener.
        files.pop();
        let worker = identity(Role::Worker);
        let listen = async {
            let refused = refusal(&mut listener).await;
            drop(files);
            let LinkCause::NotAccepted { ref text, .. } = refused.cause else {
                panic!("{refused}");
            };
            assert!(text.contains("Too many open files"), "{refused}");
            first_arrival(&mut listener).await.welcome(&welcome()).await
        };
        let (admitted, link) = tokio::join!(listen, dial(&transport, &to, &worker));
        assert!(admitted.is_ok() && link.is_ok());
    });
}
