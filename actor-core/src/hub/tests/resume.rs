//! Links that go on over another connection, over real TCP connections that are reset at random.

use std::future::Future;
use std::net::{SocketAddr, TcpListener, TcpStream};
use std::pin::Pin;
use std::sync::atomic::AtomicU64;
use std::time::Instant;

use super::*;
use crate::hub::connection::{Connection, NoConnection, Redial, Resume};
use crate::hub::link_end::LinkEnd;
use crate::hub::peer_link::PeerLink;
use crate::hub::post::Post;
use crate::hub::queue::CHUNK_BYTES_MAX;
use crate::looking::Looking;
use crate::platform::muting::REFUSES_TO_WATCH;
use crate::process_end::ProcessEnd;
use crate::testing::wait_until;
use crate::topology::Station;

/// The place where a worker's hub takes connections.
struct TestPlace(SocketAddr);

impl TestPlace {
    fn connect(&self) -> Result<Connection, std::io::Error> {
        let stream = TcpStream::connect(self.0)?;
        stream.set_nonblocking(true)?;
        Ok((PeerEnd::of_socket(stream), Vec::new()))
    }
}

impl Redial for TestPlace {
    fn dial(&self) -> Pin<Box<dyn Future<Output = Result<Connection, NoConnection>> + Send + '_>> {
        Box::pin(async {
            self.connect().map_err(|error| match error.kind() {
                std::io::ErrorKind::ConnectionRefused => NoConnection::Gone(error.to_string()),
                _ => NoConnection::Failed(error.to_string()),
            })
        })
    }
}

/// Has a hub take the connections of a peer, until there is none that takes the next one.
fn take_connections(
    listener: TcpListener,
    from: Peer,
    taker: impl Fn() -> Option<Arc<Hub>> + Send + 'static,
) {
    std::thread::spawn(move || {
        for stream in listener.incoming() {
            let Some(hub) = taker() else { return };
            let stream = stream.unwrap();
            stream.set_nonblocking(true).unwrap();
            hub.adopt(from, (PeerEnd::of_socket(stream), Vec::new()), Resume::Waits)
                .unwrap();
        }
    });
}

/// A driver and a worker with a link between them, over TCP.
struct Hosts {
    hubs: [Arc<Hub>; 2],
    seen: [mpsc::Receiver<Seen>; 2],
    /// The driver's connections so far.
    dialled: Arc<AtomicU64>,
    is_closed: Arc<AtomicBool>,
    place: SocketAddr,
    _reactors: [Reactor; 2],
}

impl Hosts {
    fn new(settings: LinkSettings) -> Self {
        let reactors = [Reactor::start(), Reactor::start()];
        let driver = Hub::of_driver(settings);
        let worker = Hub::of_worker(peer(2, 1), driver.me(), settings, |_| {});
        for (hub, reactor) in [&driver, &worker].into_iter().zip(&reactors) {
            hub.set_reactor(reactor.handle.clone());
        }
        let seen = [&driver, &worker].map(|hub| Recorder::register(hub));
        let listener = TcpListener::bind("127.0.0.1:0").unwrap();
        let place = listener.local_addr().unwrap();
        let (dialled, is_closed) = (Arc::<AtomicU64>::default(), Arc::<AtomicBool>::default());
        let (taking, of_driver) = (Arc::clone(&worker), driver.me());
        let (count, closed) = (Arc::clone(&dialled), Arc::clone(&is_closed));
        take_connections(listener, of_driver, move || {
            let is_open = !closed.load(Ordering::Acquire);
            is_open.then(|| {
                count.fetch_add(1, Ordering::AcqRel);
                Arc::clone(&taking)
            })
        });
        let (courier, _) = ToTest::new();
        let first = TestPlace(place).connect().unwrap();
        driver
            .adopt(worker.me(), first, Resume::Dials(Arc::new(TestPlace(place))))
            .unwrap();
        driver.joined(worker.me(), courier, Some(Station::default()));
        Hosts {
            hubs: [driver, worker],
            seen,
            dialled,
            is_closed,
            place,
            _reactors: reactors,
        }
    }

    /// Resets the present connection from one side. The other side may notice first or last.
    fn reset(&self, side: usize) -> bool {
        let [one, other] = [side, 1 - side].map(|side| &self.hubs[side]);
        let socket = one.link(other.me()).ok().and_then(|link| link.socket());
        socket.is_some_and(|socket| socket.reset().is_ok())
    }

    fn next_letter(&self, side: usize) -> Letter {
        match next(&self.seen[side]) {
            Seen::Letter(_, letter) => letter,
            Seen::Died(peer, _) => panic!("{peer} has died: {:?}", self.hubs[side].end_of(peer)),
        }
    }

    /// Nobody listens any more.
    fn stop_listening(&self) {
        self.is_closed.store(true, Ordering::Release);
        // Wakes the thread that accepts.
        drop(TcpStream::connect(self.place));
        wait_until("it is closed", || TcpStream::connect(self.place).is_err());
    }
}

impl Drop for Hosts {
    fn drop(&mut self) {
        self.hubs.iter().for_each(|hub| hub.close());
        self.stop_listening();
    }
}

#[test]
fn jrem_10_rref_28_letters_of_all_lengths_arrive_once_and_in_order_however_often_the_connection_is_reset() {
    const LETTERS: u64 = 2_000;
    let length = |count: u64| match count % 97 {
        0 => 3 * CHUNK_BYTES_MAX + count as usize,
        1 => CHUNK_BYTES_MAX / 2,
        _ => count as usize % 700,
    };
    for settings in [LinkSettings::default(), narrow(8)] {
        let hosts = Hosts::new(settings);
        let senders = [0, 1].map(|side| {
            let (from, to) = (Arc::clone(&hosts.hubs[side]), hosts.hubs[1 - side].me());
            std::thread::spawn(move || {
                for count in 0..LETTERS {
                    let body = vec![count as u8; length(count)];
                    assert_eq!(from.send(to, letter(count, body)), Ok(count + 1));
                }
            })
        });
        let (mut state, mut resets) = (7, 0);
        for count in 0..LETTERS {
            for side in [0, 1] {
                let letter = hosts.next_letter(side);
                assert_eq!((number(&letter), letter.body.len()), (count, length(count)));
                assert!(letter.body.to_bytes().iter().all(|byte| *byte == count as u8));
                if dice(&mut state).is_multiple_of(50) {
                    resets += u64::from(hosts.reset(dice(&mut state) as usize % 2));
                }
            }
        }
        senders.into_iter().for_each(|sender| sender.join().unwrap());
        assert!(resets > 5, "{resets}");
        assert!(hosts.dialled.load(Ordering::Acquire) > 1);
        // Long bodies were received into memory of the receiver's, and nobody keeps any of it.
        assert!(LENT_SO_FAR.load(Ordering::Acquire) as u64 >= LETTERS / 97);
        drop(hosts);
        wait_until("no memory is lent any more", || LENT.load(Ordering::Acquire) == 0);
    }
}

#[test]
fn a_peer_that_listens_no_more_has_died() {
    let hosts = Hosts::new(LinkSettings::default());
    let [driver, worker] = &hosts.hubs;
    driver.send(worker.me(), letter(0, Vec::new())).unwrap();
    next_letter(&hosts.seen[1]);
    hosts.stop_listening();
    assert!(hosts.reset(0));
    let (died, _) = next_death(&hosts.seen[0]);
    assert_eq!(died, worker.me());
    assert!(matches!(driver.end_of(died), Some(LinkEnd::Lost(_))));
}

#[test]
fn a_peer_that_is_reported_dead_while_its_connection_is_broken_is_dead_at_once() {
    let hosts = Hosts::new(LinkSettings::default());
    let [driver, worker] = &hosts.hubs;
    driver.send(worker.me(), letter(0, Vec::new())).unwrap();
    next_letter(&hosts.seen[1]);
    let link = driver.link(worker.me()).unwrap();
    // The other side is told before it can answer the next dial.
    worker.close_link(driver.me(), LinkEnd::Buried);
    hosts.reset(0);
    driver.buried(worker.me(), ProcessEnd::unknown());
    let (died, _) = next_death(&hosts.seen[0]);
    assert_eq!(died, worker.me());
    assert!(!link.is_open());
}

#[test]
fn the_end_of_the_stream_is_the_death_of_the_peer() {
    let hosts = Hosts::new(LinkSettings::default());
    let [driver, worker] = &hosts.hubs;
    driver.send(worker.me(), letter(0, Vec::new())).unwrap();
    next_letter(&hosts.seen[1]);
    worker.close_link(driver.me(), LinkEnd::Buried);
    let (died, _) = next_death(&hosts.seen[0]);
    assert_eq!(died, worker.me());
}

#[test]
fn a_peer_whose_every_connection_breaks_before_a_frame_arrives_is_lost() {
    let reactor = Reactor::start();
    let driver = Hub::of_driver(LinkSettings::default());
    driver.set_reactor(reactor.handle.clone());
    let seen = Recorder::register(&driver);
    let listener = TcpListener::bind("127.0.0.1:0").unwrap();
    let place = listener.local_addr().unwrap();
    let is_over = Arc::<AtomicBool>::default();
    let ends = Arc::clone(&is_over);
    let resets = std::thread::spawn(move || {
        for stream in listener.incoming() {
            crate::platform::peer_socket::drop_unused(PeerEnd::of_socket(stream.unwrap()));
            if ends.load(Ordering::Acquire) {
                return;
            }
        }
    });
    let first = TestPlace(place).connect().unwrap();
    let way = Resume::Dials(Arc::new(TestPlace(place)));
    driver.adopt(peer(2, 1), first, way).unwrap();
    driver.send(peer(2, 1), letter(0, Vec::new())).unwrap();
    let (died, fates) = next_death(&seen);
    assert_eq!((died, fates), (peer(2, 1), vec![(1, Outcome::Unknown)]));
    assert!(matches!(driver.end_of(died), Some(LinkEnd::Lost(_))));
    is_over.store(true, Ordering::Release);
    drop(TcpStream::connect(place));
    resets.join().unwrap();
    driver.close();
}

#[test]
fn a_leader_that_looks_at_a_socket_reads_it_and_the_links_task_has_the_rest() {
    let hosts = Hosts::new(LinkSettings::default());
    let [driver, worker] = &hosts.hubs;
    let lead = driver.lead();
    for count in 0..2_000 {
        // The leader looks for its whole time, or sleeps in between; often a letter comes as it ends.
        let looking = Looking {
            limit: Duration::from_micros([10, 100, 1_000][(count % 3) as usize]),
            leaves: u32::MAX,
        };
        std::thread::scope(|scope| {
            scope.spawn(|| {
                (0..count * 37 % 4_000).for_each(|step| _ = std::hint::black_box(step));
                worker.send(driver.me(), letter(2 * count, "")).unwrap();
                worker.send(driver.me(), letter(2 * count + 1, "")).unwrap();
            });
            let mut leading = lead.take().unwrap();
            leading.look_at_all(looking);
            let soon = Instant::now() + Duration::from_micros(count * 7 % 500);
            if let Some(arrivals) = leading.wait(Some(soon)) {
                leading.read(arrivals, || false);
            }
        });
        for expected in [2 * count, 2 * count + 1] {
            assert_eq!(number(&next_letter(&hosts.seen[0]).1), expected, "nobody leads");
        }
    }
}

#[test]
fn a_link_that_the_system_watches_no_more_goes_on_over_another_connection() {
    let hosts = Hosts::new(LinkSettings::default());
    let [driver, worker] = &hosts.hubs;
    let lead = driver.lead();
    let looking = Looking {
        limit: Duration::from_micros(10),
        leaves: u32::MAX,
    };
    for count in 0..20 {
        let mut leading = lead.take().unwrap();
        leading.look_at_all(looking);
        REFUSES_TO_WATCH.set(true);
        if let Some(arrivals) = leading.wait(Some(Instant::now() + Duration::from_millis(1))) {
            leading.read(arrivals, || false);
        }
        drop(leading);
        REFUSES_TO_WATCH.set(false);
        worker.send(driver.me(), letter(count, "")).unwrap();
        assert_eq!(number(&hosts.next_letter(0)), count, "nobody hears it");
    }
    assert!(hosts.dialled.load(Ordering::Acquire) > 1);
}

/// A hub that takes connections at a place.
fn listening(me: Peer, other: Peer) -> (Arc<Hub>, Reactor, mpsc::Receiver<Seen>, TestPlace) {
    let reactor = Reactor::start();
    let hub = Hub::of_worker(me, peer(1, 1), LinkSettings::default(), |_| {});
    hub.set_reactor(reactor.handle.clone());
    let seen = Recorder::register(&hub);
    let listener = TcpListener::bind("127.0.0.1:0").unwrap();
    let place = TestPlace(listener.local_addr().unwrap());
    let taking = Arc::downgrade(&hub);
    take_connections(listener, other, move || taking.upgrade());
    (hub, reactor, seen, place)
}

#[test]
fn two_sides_that_dial_each_other_at_once_end_with_one_connection() {
    for round in 0..100 {
        let (one, two) = (peer(2, 1), peer(3, 1));
        let (hub_one, _reactor_one, seen_one, place_one) = listening(one, two);
        let (hub_two, _reactor_two, seen_two, place_two) = listening(two, one);
        let first = place_two.connect().unwrap();
        let second = place_one.connect().unwrap();
        let ends = [place_one.0, place_two.0];
        hub_one
            .adopt(two, first, Resume::Dials(Arc::new(place_two)))
            .unwrap();
        hub_two
            .adopt(one, second, Resume::Dials(Arc::new(place_one)))
            .unwrap();
        let hubs = [(&hub_one, two, &seen_one), (&hub_two, one, &seen_two)];
        for count in 0..20 {
            if count == 10 {
                // Whoever notices first, one side dials.
                let socket = hub_one.link(two).unwrap().socket();
                drop(socket.map(|socket| socket.reset()));
            }
            for (hub, to, _) in hubs {
                hub.send(to, letter(count, "")).unwrap();
            }
            for (hub, from, seen) in hubs {
                match next(seen) {
                    Seen::Letter(_, found) => assert_eq!(number(&found), count, "round {round}"),
                    Seen::Died(..) => panic!("round {round}: {:?}", hub.end_of(from)),
                }
            }
        }
        hub_one.close();
        hub_two.close();
        drop((hub_one, hub_two));
        ends.into_iter().for_each(|end| drop(TcpStream::connect(end)));
    }
}

#[test]
fn of_two_dials_that_of_the_higher_number_counts_in_any_order() {
    let dials = || Resume::Dials(Arc::new(TestPlace("127.0.0.1:1".parse().unwrap())));
    let (low, high) = (peer(2, 1), peer(3, 1));
    for (local, remote, ours_counts) in [(high, low, true), (low, high, false)] {
        let link = || PeerLink::new(local, remote, LinkSettings::default());
        let ours_first = link();
        assert!(ours_first.made(dials()));
        assert_eq!(ours_first.made(Resume::Waits), !ours_counts);
        assert_eq!(ours_first.made(dials()), ours_counts);
        let theirs_first = link();
        assert!(theirs_first.made(Resume::Waits));
        assert_eq!(theirs_first.made(dials()), ours_counts);
        assert_eq!(theirs_first.made(Resume::Waits), !ours_counts);
    }
}
