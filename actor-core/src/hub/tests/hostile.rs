//! A peer written by hand, which does what no hub does.

use std::io::{Read, Write};
use std::time::Instant;

use selvedge_cluster::frame::{Decoder, Frame, FrameError, FrameLimits, HEADER_BYTES, Header, chunk_head};
use selvedge_cluster::session::SessionError;

use super::raw_end::RawEnd;
use super::*;
use crate::hub::link_end::LinkEnd;
use crate::hub::post::{Post, PostError};
use crate::process_end::ProcessEnd;

/// A driver, and the raw end of its link to a worker.
struct Scene {
    driver: Arc<Hub>,
    worker: Peer,
    courier: Arc<ToTest>,
    seen: mpsc::Receiver<Seen>,
    raw: RawEnd,
    reactor: Reactor,
}

impl Scene {
    fn new() -> Self {
        let reactor = Reactor::start();
        let driver = Hub::of_driver(narrow(8));
        driver.set_reactor(reactor.handle.clone());
        let seen = Recorder::register(&driver);
        let (courier, notices) = ToTest::new();
        let worker = peer(2, 1);
        driver.joined(worker, Arc::clone(&courier) as Arc<dyn Courier>, None);
        driver.send(worker, letter(1, "first")).unwrap();
        let (notice, end) = notices.recv().unwrap();
        assert_eq!(notice, Notice::Linked(driver.me()));
        Scene {
            driver,
            worker,
            courier,
            seen,
            raw: RawEnd::new(end.unwrap()),
            reactor,
        }
    }

    /// Writes bytes, and returns the reason for which the driver cut the peer off because of them.
    fn cut_by(mut self, bytes: &[u8]) -> LinkEnd {
        // The link may be cut before everything is written.
        let _ = self.raw.write_all(bytes);
        let (dead, fates) = next_death(&self.seen);
        assert_eq!((dead, fates), (self.worker, vec![(1, Outcome::Unknown)]));
        assert!(self.courier.killed().is_some(), "it must not live on");
        assert_eq!(
            self.driver.send(self.worker, letter(2, "")),
            Err(PostError::Dead(self.worker))
        );
        // The link is closed: after the first letter there is only the end of the stream.
        let mut left = Vec::new();
        match self.raw.read_to_end(&mut left) {
            Ok(_) => {}
            // The driver had not read everything.
            Err(error) => assert_eq!(error.kind(), std::io::ErrorKind::ConnectionReset),
        }
        let why = self.driver.end_of(self.worker).unwrap();
        self.driver.close();
        why
    }
}

/// The header of a letter for the service of the tests.
fn header(sequence: u64, acknowledged: u64) -> Header {
    Header {
        service: SERVICE,
        class: Class::Ordered,
        head_bytes: 0,
        parts: 0,
        body_bytes: 0,
        sequence,
        acknowledged,
    }
}

#[test]
fn hub_4_garbage_cuts_the_peer_off() {
    let why = Scene::new().cut_by(&[0xa5; 4 * HEADER_BYTES]);
    assert_eq!(why, LinkEnd::Frame(FrameError::Magic { found: [0xa5; 4] }));
}

#[test]
fn hub_4_a_frame_above_the_limits_cuts_the_peer_off_before_its_bytes_arrive() {
    let limit = LinkSettings::default().letter_bytes_max() as u64;
    let huge = Header {
        parts: 1,
        body_bytes: limit + 1,
        ..header(1, 0)
    };
    let why = Scene::new().cut_by(&huge.encode());
    let bytes = limit + 1;
    assert_eq!(why, LinkEnd::Frame(FrameError::BodyTooLong { bytes, limit }));
    let split = Header {
        parts: 2,
        ..header(1, 0)
    };
    let why = Scene::new().cut_by(&split.encode());
    assert_eq!(
        why,
        LinkEnd::Frame(FrameError::TooManyParts { parts: 2, limit: 1 })
    );
}

/// A chunk with this head and body.
fn chunk(sequence: u64, head: Vec<u8>, body: &[u8]) -> Vec<u8> {
    let frame = Frame {
        service: SERVICE,
        class: Class::Chunk,
        sequence,
        acknowledged: 0,
        head: head.into(),
        parts: [body].into(),
    };
    let prefix = frame.prefix(&FrameLimits::default()).unwrap();
    [&prefix, body].concat()
}

#[test]
fn hub_4_chunks_that_make_no_body_cut_the_peer_off() {
    let limit = LinkSettings::default().body_bytes_max as u64;
    let begin = |bytes: usize| chunk(1, chunk_head(bytes, b"head"), b"abc");
    let cases = [
        (
            begin(limit as usize + 1),
            FrameError::MessageTooLong {
                bytes: limit + 1,
                limit,
            },
        ),
        (begin(2), FrameError::Chunk("is longer than its message")),
        (
            [begin(4), chunk(2, Vec::new(), b"de")].concat(),
            FrameError::Chunk("is longer than its message"),
        ),
        (
            chunk(1, Vec::new(), b"abc"),
            FrameError::Chunk("belongs to no message"),
        ),
        (
            [begin(1 << 20), chunk(2, chunk_head(4, b""), b"abcd")].concat(),
            FrameError::Chunk("begins a message, and the one before is not complete"),
        ),
    ];
    for (bytes, error) in cases {
        assert_eq!(Scene::new().cut_by(&bytes), LinkEnd::Frame(error));
    }
}

#[test]
fn a_peer_that_dies_in_mid_body_leaves_no_letter() {
    let mut scene = Scene::new();
    let begin = chunk(1, chunk_head(64 << 20, b"head"), &[1; 100_000]);
    scene.raw.write_all(&begin).unwrap();
    let second = chunk(2, Vec::new(), &[1; 200_000]);
    scene.raw.write_all(&second[..150_000]).unwrap();
    drop(scene.raw);
    assert_eq!(
        next_death(&scene.seen),
        (scene.worker, vec![(1, Outcome::Unknown)])
    );
    scene.driver.close();
}

#[test]
fn a_long_letter_holds_up_a_short_one_for_a_chunk_and_is_not_sent_before_its_end() {
    let mut scene = Scene::new();
    let send = |number, stream, body| {
        let letter = Letter {
            stream,
            ..letter(number, vec![0; body])
        };
        assert_eq!(scene.driver.send(scene.worker, letter), Ok(number));
    };
    // The peer reads nothing until all are sent.
    send(2, 7, 20 << 20);
    send(3, 7, 10);
    send(4, 8, 10);
    let (mut decoder, mut classes) = (Decoder::<Vec<u8>>::new(FrameLimits::default()), Vec::new());
    let mut bytes = vec![0; 1 << 20];
    while classes.len() < 8 {
        let read = scene.raw.read(&mut bytes).unwrap();
        let mut read = &bytes[..read];
        while let Some(frame) = decoder.decode(&mut read).unwrap() {
            classes.push(frame.class);
            let acknowledge = Header {
                class: Class::Acknowledgement,
                ..header(0, frame.sequence)
            };
            scene.raw.write_all(&acknowledge.encode()).unwrap();
        }
    }
    let shorts = (0..8).filter(|at| classes[*at] == Class::Ordered);
    // The window has room for three chunks, and a fourth may wait for more.
    assert!(
        shorts.eq([0, 5]) || classes[1..5].contains(&Class::Ordered),
        "{classes:?}"
    );
    drop(scene.raw);
    let (dead, fates) = next_death(&scene.seen);
    assert_eq!(dead, scene.worker);
    let fates: Vec<_> = fates.into_iter().filter(|(number, _)| *number != 4).collect();
    assert_eq!(fates, [(2, Outcome::NotSent), (3, Outcome::NotSent)]);
    scene.driver.close();
}

#[test]
fn hub_4_a_sequence_that_the_window_forbids_cuts_the_peer_off() {
    let violations = [
        (
            header(9, 0),
            SessionError::BeyondWindow {
                sequence: 9,
                limit: 8,
            },
        ),
        (header(0, 0), SessionError::NoSequence),
        (
            header(1, 2),
            SessionError::NeverSent {
                acknowledged: 2,
                sent: 1,
            },
        ),
    ];
    for (header, error) in violations {
        assert_eq!(Scene::new().cut_by(&header.encode()), LinkEnd::Session(error));
    }
}

#[test]
fn hub_4_a_letter_for_an_unknown_service_cuts_the_peer_off() {
    let unknown = Header {
        service: Service(1),
        ..header(1, 0)
    };
    let why = Scene::new().cut_by(&unknown.encode());
    assert_eq!(why, LinkEnd::UnknownService(Service(1)));
}

#[test]
fn a_service_that_panics_costs_the_peer_and_not_the_process() {
    struct Panics;

    impl Receiver for Panics {
        fn received(&self, _: Peer, _: Letter) {
            panic!("on purpose: a service");
        }

        fn died(&self, _: Peer, _: &[(u64, Outcome)]) {
            panic!("on purpose: a service that is told of a death");
        }
    }

    let scene = Scene::new();
    scene.driver.register(Service(899), Arc::new(Panics));
    let frame = Header {
        service: Service(899),
        ..header(1, 0)
    };
    let why = scene.cut_by(&frame.encode());
    let (service, text) = (Service(899), "on purpose: a service".to_owned());
    assert_eq!(why, LinkEnd::ServiceFailed { service, text });
}

/// A service that is replaced while it is called, and whose drop panics behind the call.
struct PanicsBehind(std::sync::Weak<Hub>);

/// The number of that service.
const BEHIND: Service = Service(898);

impl PanicsBehind {
    fn register(hub: &Arc<Hub>) {
        hub.register(BEHIND, Arc::new(PanicsBehind(Arc::downgrade(hub))));
    }
}

impl Receiver for PanicsBehind {
    fn received(&self, _: Peer, _: Letter) {
        if let Some(hub) = self.0.upgrade() {
            Recorder::register_as(&hub, BEHIND);
        }
    }

    fn died(&self, _: Peer, _: &[(u64, Outcome)]) {}
}

impl Drop for PanicsBehind {
    fn drop(&mut self) {
        panic!("on purpose: behind a service");
    }
}

#[test]
fn whatever_unwinds_in_a_turn_ends_the_link_with_a_reason() {
    let scene = Scene::new();
    PanicsBehind::register(&scene.driver);
    let frame = Header {
        service: BEHIND,
        ..header(1, 0)
    };
    let why = scene.cut_by(&frame.encode());
    assert_eq!(why, LinkEnd::Failed("on purpose: behind a service".to_owned()));
}

#[test]
fn whatever_unwinds_in_a_turn_of_the_leader_leaves_it_the_lead_and_the_death_to_the_links_task() {
    let mut scene = Scene::new();
    PanicsBehind::register(&scene.driver);
    scene.raw.write_all(&header(1, 0).encode()).unwrap();
    next_letter(&scene.seen);
    let stall = scene.reactor.stall();
    let frame = Header {
        service: BEHIND,
        ..header(2, 0)
    };
    let lead = Post::lead(&*scene.driver);
    let leading = lead.take().unwrap();
    scene.raw.write_all(&frame.encode()).unwrap();
    while scene.driver.link(scene.worker).is_ok_and(|link| link.is_open()) {
        let arrivals = leading.wait(Some(Instant::now() + TIMEOUT)).expect("no letter");
        leading.read(arrivals, || true);
    }
    drop(leading);
    drop(stall);
    assert_eq!(next_death(&scene.seen).0, scene.worker);
    let why = scene.driver.end_of(scene.worker).unwrap();
    assert_eq!(why, LinkEnd::Failed("on purpose: behind a service".to_owned()));
    assert!(lead.take().is_some(), "the lead is free again");
    scene.driver.close();
}

#[test]
fn rref_41_hub_3_the_fates_tell_what_was_never_sent_and_letters_before_the_end_are_delivered() {
    let mut scene = Scene::new();
    let body = vec![1; 200_000];
    for count in 2..=100 {
        let sent = scene.driver.send(scene.worker, letter(count, body.clone()));
        assert_eq!(sent, Ok(count));
    }
    // The peer has read nothing, so the window and the socket are full. It acknowledges the first letter, says its last
    // words, and closes its end.
    scene.raw.write_all(&header(1, 1).encode()).unwrap();
    scene.raw.write_all(&header(2, 1).encode()).unwrap();
    drop(scene.raw);
    scene.driver.buried(scene.worker, ProcessEnd::unknown());
    for _ in 0..2 {
        assert_eq!(next_letter(&scene.seen).0, scene.worker);
    }
    let (dead, fates) = next_death(&scene.seen);
    assert_eq!((dead, fates.len()), (scene.worker, 99));
    assert_fates(&fates, 100);
    assert_eq!(fates[0], (2, Outcome::Unknown));
    assert_eq!(fates[98], (100, Outcome::NotSent));
    assert_eq!(scene.courier.killed(), None);
    scene.driver.close();
    assert!(scene.seen.recv_timeout(TIMEOUT).is_err(), "a second death");
}

#[test]
fn a_worker_whose_descriptor_is_lost_in_transit_learns_of_it() {
    let reactor = Reactor::start();
    let worker = Hub::of_worker(peer(2, 1), peer(1, 1), LinkSettings::default(), |_| {});
    worker.set_reactor(reactor.handle.clone());
    let seen = Recorder::register(&worker);
    worker.send(peer(1, 1), letter(1, "")).unwrap();
    worker.notice(Notice::Linked(peer(1, 1)), None);
    assert_eq!(next_death(&seen), (peer(1, 1), vec![(1, Outcome::NotSent)]));
    worker.send(peer(3, 1), letter(1, "")).unwrap();
    worker.notice(Notice::NotLinked(peer(3, 1), "no descriptors".to_owned()), None);
    assert_eq!(next_death(&seen), (peer(3, 1), vec![(1, Outcome::NotSent)]));
    let why = worker.end_of(peer(3, 1)).unwrap();
    assert_eq!(why, LinkEnd::NoLink("no descriptors".to_owned()));
}

#[test]
fn more_waiting_letters_than_the_limit_are_refused() {
    let reactor = Reactor::start();
    let settings = LinkSettings {
        backlog_bytes_max: 1000,
        ..narrow(8)
    };
    let worker = Hub::of_worker(peer(2, 1), peer(1, 1), settings, |_| {});
    worker.set_reactor(reactor.handle.clone());
    let sent = (1..).map(|count| worker.send(peer(1, 1), letter(count, vec![0; 52])));
    let sent: Vec<_> = sent.take(11).collect();
    assert_eq!(sent[9], Ok(10));
    let (peer, bytes, limit) = (peer(1, 1), 1000, 1000);
    assert_eq!(sent[10], Err(PostError::Full { peer, bytes, limit }));
}
