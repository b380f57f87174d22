//! Links whose rings are full, and links into which a leader looks.

use std::io::Read;
use std::sync::atomic::AtomicU64;
use std::thread;
use std::time::Instant;

use selvedge_cluster::frame::HEADER_BYTES;

use super::duo::Duo;
use super::raw_end::RawEnd;
use super::*;
use crate::hub::post::Post;

fn loose(number: u64, body: impl Into<Body>) -> Letter {
    Letter {
        class: Class::Loose,
        ..letter(number, body)
    }
}

#[test]
fn letters_that_fill_a_ring_to_its_last_byte_are_followed_by_the_others() {
    let reactor = Reactor::start();
    let driver = peer(1, 1);
    let worker = Hub::of_worker(peer(2, 1), driver, LinkSettings::default(), |_| {});
    worker.set_reactor(reactor.handle.clone());
    Recorder::register(&worker);
    // Each frame has 256 bytes: the header, a head of 8, a table of 8, the body.
    let body = vec![7_u8; 256 - HEADER_BYTES - 16];
    for count in 0..1100 {
        worker.send(driver, loose(count, body.clone())).unwrap();
    }
    let (ours, theirs) = crate::platform::peer_socket::pair().unwrap();
    worker.notice(Notice::Linked(driver), Some(ours));
    let mut raw = RawEnd::new(theirs);
    // The first bytes are read when the ring is full, and nothing but room wakes the writer.
    thread::sleep(Duration::from_millis(50));
    raw.read_exact(&mut vec![0; 1100 * 256]).unwrap();
    worker.close();
}

#[test]
fn a_peer_that_takes_single_bytes_does_not_keep_the_reactor() {
    let reactor = Reactor::start();
    let driver = Hub::of_driver(LinkSettings::default());
    driver.set_reactor(reactor.handle.clone());
    Recorder::register(&driver);
    let (courier, notices) = ToTest::new();
    let worker = peer(2, 1);
    driver.joined(worker, courier, None);
    driver.send(worker, letter(1, "first")).unwrap();
    let mut raw = RawEnd::new(notices.recv().unwrap().1.unwrap());
    driver.send(worker, letter(2, vec![1_u8; 900_000])).unwrap();
    let mut byte = [0];
    // The ring is full, and never has room for more than this byte.
    for _ in 0..2_000 {
        raw.read_exact(&mut byte).unwrap();
    }
    let (answer, answered) = mpsc::channel();
    reactor.handle.spawn(async move {
        let _ = answer.send(());
    });
    assert_eq!(answered.recv_timeout(TIMEOUT), Ok(()));
    let mut rest = vec![0; 900_000 - 2_000];
    raw.read_exact(&mut rest).unwrap();
    driver.close();
}

#[test]
fn a_leader_that_has_looked_is_told_of_bytes_when_it_must_not_look_any_more() {
    let duo = Duo::new();
    duo.driver.set_spin(Some(Duration::MAX));
    let lead = duo.lead();
    let leading = lead.take().unwrap();
    let _stall = duo.at_driver.stall();
    let mut led = |count| {
        duo.worker.send(duo.driver.me(), loose(count, "")).unwrap();
        while duo.seen.try_recv().is_err() {
            let arrivals = leading.wait(Some(Instant::now() + TIMEOUT)).unwrap();
            leading.read(arrivals, || false);
        }
    };
    led(1);
    duo.driver.set_spin(Some(Duration::ZERO));
    let began = Instant::now();
    (2..50).for_each(&mut led);
    assert!(began.elapsed() < TIMEOUT, "no wait lasted until its deadline");
}

/// A service that is busy until it is told to go on.
struct BusyService(Mutex<(mpsc::Sender<()>, mpsc::Receiver<()>)>);

impl Receiver for BusyService {
    fn received(&self, _: Peer, _: Letter) {
        let it = self.0.lock();
        let _ = it.0.send(());
        let _ = it.1.recv_timeout(TIMEOUT);
    }

    fn died(&self, _: Peer, _: &[(u64, Outcome)]) {}
}

#[test]
fn a_leader_sleeps_while_another_thread_reads_the_link() {
    const BUSY: Service = Service(901);
    let (begin, begun) = mpsc::channel();
    let (end, ended) = mpsc::channel();
    let duo = Duo::with(|driver, _| {
        driver.register(BUSY, Arc::new(BusyService(Mutex::new((begin, ended)))));
    });
    let busy = Letter {
        service: BUSY,
        ..letter(1, "")
    };
    duo.worker.send(duo.driver.me(), busy).unwrap();
    begun.recv_timeout(TIMEOUT).unwrap();
    duo.worker.send(duo.driver.me(), letter(2, "")).unwrap();
    let lead = duo.lead();
    let leading = lead.take().unwrap();
    let until = Instant::now() + Duration::from_millis(100);
    let mut waits = 0;
    while let Some(arrivals) = leading.wait(Some(until)) {
        leading.read(arrivals, || false);
        waits += 1;
    }
    assert!(waits < 20, "{waits} waits within 100 ms");
    end.send(()).unwrap();
    assert_eq!(number(&next_letter(&duo.seen).1), 2);
}

/// A service that counts its letters.
struct CountingService(Arc<AtomicU64>);

impl Receiver for CountingService {
    fn received(&self, _: Peer, _: Letter) {
        self.0.fetch_add(1, Ordering::Relaxed);
    }

    fn died(&self, _: Peer, _: &[(u64, Outcome)]) {}
}

#[test]
fn letters_are_read_beside_senders_that_never_pause() {
    const MANY: Service = Service(902);
    let count = Arc::new(AtomicU64::new(0));
    let duo = Duo::with(|_, worker| worker.register(MANY, Arc::new(CountingService(Arc::clone(&count)))));
    let is_over = AtomicBool::new(false);
    thread::scope(|scope| {
        for _ in 0..3 {
            scope.spawn(|| {
                while !is_over.load(Ordering::Relaxed) {
                    let many = Letter {
                        service: MANY,
                        ..loose(1, "xxxxxxxx")
                    };
                    // A peer that cannot keep up makes the backlog full.
                    let _ = duo.driver.send(duo.worker.me(), many);
                }
            });
        }
        let read = (0..100).try_for_each(|number| {
            duo.worker.send(duo.driver.me(), letter(number, "")).unwrap();
            duo.seen.recv_timeout(TIMEOUT).map(drop)
        });
        is_over.store(true, Ordering::Relaxed);
        read.unwrap();
    });
    assert!(count.load(Ordering::Relaxed) > 0);
}
