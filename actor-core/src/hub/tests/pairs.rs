//! Hubs of a driver and workers within one process, over real sockets.

use super::*;
use crate::death::Exit;
use crate::hub::link_end::LinkEnd;
use crate::hub::post::{Post, PostError};
use crate::hub::queue::CHUNK_BYTES_MAX;
use crate::hub::tests::processes::eventually;
use crate::process_end::ProcessEnd;

/// A courier to a worker's hub in this process.
struct ToHub(Arc<Hub>);

impl Courier for ToHub {
    fn tell(&self, notice: Notice, end: Option<PeerEnd>) {
        self.0.notice(notice, end);
    }

    fn kill(&self, _: &str) {}
}

/// A driver with two workers, and what each of them sees.
struct Trio {
    driver: Arc<Hub>,
    workers: [Arc<Hub>; 2],
    seen: [mpsc::Receiver<Seen>; 3],
    _reactor: Reactor,
}

/// The hub of a worker in this process, which the driver does not know yet.
fn worker(process: u32, driver: &Arc<Hub>, settings: LinkSettings, reactor: &Reactor) -> Arc<Hub> {
    let me = peer(process, 1);
    let asked = Arc::downgrade(driver);
    let handle = reactor.handle.clone();
    let hub = Hub::of_worker(me, driver.me(), settings, move |about| {
        // The driver is asked by a message, so its answer comes later.
        let asked = asked.clone();
        handle.spawn(async move {
            if let Some(driver) = asked.upgrade() {
                driver.asked(me, about);
            }
        });
    });
    hub.set_reactor(reactor.handle.clone());
    hub
}

impl Trio {
    fn new(settings: LinkSettings) -> Self {
        let reactor = Reactor::start();
        let driver = Hub::of_driver(settings);
        driver.set_reactor(reactor.handle.clone());
        let workers = [2, 3].map(|process| worker(process, &driver, settings, &reactor));
        let seen = [&driver, &workers[0], &workers[1]].map(|hub| Recorder::register(hub));
        for worker in &workers {
            driver.joined(worker.me(), Arc::new(ToHub(Arc::clone(worker))), None);
        }
        Trio {
            driver,
            workers,
            seen,
            _reactor: reactor,
        }
    }
}

impl Drop for Trio {
    fn drop(&mut self) {
        for hub in [&self.driver, &self.workers[0], &self.workers[1]] {
            hub.close();
        }
    }
}

#[test]
fn everybody_knows_everybody_else_and_nobody_is_linked_before_the_first_letter() {
    let trio = Trio::new(LinkSettings::default());
    let [one, two] = &trio.workers;
    assert_eq!(trio.driver.peers(), [one.me(), two.me()]);
    assert_eq!(one.peers(), [trio.driver.me(), two.me()]);
    assert_eq!(two.peers(), [trio.driver.me(), one.me()]);
    let none = trio.driver.link(one.me());
    assert!(
        none.is_ok_and(|link| link.is_made()),
        "it is linked when it is needed"
    );
    assert!(trio.driver.traffic(two.me()).is_empty());
}

#[test]
fn jrem_10_letters_arrive_in_order_both_ways_between_any_two() {
    let trio = Trio::new(LinkSettings::default());
    let [one, two] = &trio.workers;
    let pairs = [
        (&trio.driver, one, 1),
        (one, two, 2),
        (two, &trio.driver, 0),
        (two, one, 1),
    ];
    for (from, to, seen) in pairs {
        for count in 0..500 {
            let sent = from.send(to.me(), letter(count, vec![7; 30]));
            assert_eq!(sent, Ok(count + 1));
        }
        for count in 0..500 {
            let (peer, letter) = next_letter(&trio.seen[seen]);
            assert_eq!((peer, number(&letter), letter.body.len()), (from.me(), count, 30));
        }
    }
}

#[test]
fn a_hundred_thousand_letters_pass_a_window_of_eight() {
    let trio = Trio::new(narrow(8));
    let (driver, worker) = (Arc::clone(&trio.driver), trio.workers[0].me());
    let sender = std::thread::spawn(move || {
        for count in 0..100_000 {
            driver.send(worker, letter(count, "")).unwrap();
        }
    });
    for count in 0..100_000 {
        let (_, letter) = next_letter(&trio.seen[1]);
        assert_eq!(number(&letter), count);
    }
    sender.join().unwrap();
}

#[test]
fn many_threads_share_a_link_and_each_keeps_its_order() {
    let trio = Trio::new(narrow(16));
    let senders: Vec<_> = (0..4_u64)
        .map(|thread| {
            let (driver, worker) = (Arc::clone(&trio.driver), trio.workers[0].me());
            std::thread::spawn(move || {
                for count in 0..5_000 {
                    driver.send(worker, letter(thread << 32 | count, "body")).unwrap();
                }
            })
        })
        .collect();
    let mut counts = [0; 4];
    for _ in 0..20_000 {
        let (_, letter) = next_letter(&trio.seen[1]);
        let (thread, count) = (number(&letter) >> 32, number(&letter) & 0xffff_ffff);
        let expected = &mut counts[usize::try_from(thread).unwrap()];
        assert_eq!(count, *expected);
        *expected += 1;
    }
    senders.into_iter().for_each(|sender| sender.join().unwrap());
}

#[test]
fn large_letters_arrive_whole_and_one_above_the_limit_is_refused() {
    let limit = 11 << 20;
    let settings = LinkSettings {
        body_bytes_max: limit,
        ..LinkSettings::default()
    };
    let trio = Trio::new(settings);
    let (driver, worker) = (&trio.driver, trio.workers[0].me());
    let lengths = [
        0,
        100_000,
        CHUNK_BYTES_MAX,
        CHUNK_BYTES_MAX + 1,
        3 * CHUNK_BYTES_MAX,
        limit,
        1,
    ];
    for (count, bytes) in lengths.into_iter().enumerate() {
        let body: Vec<u8> = (0..bytes).map(|at| (at % 251) as u8).collect();
        driver.send(worker, letter(count as u64, body.clone())).unwrap();
        let (_, letter) = next_letter(&trio.seen[1]);
        assert_eq!(number(&letter), count as u64);
        assert!(letter.body == body.into(), "{bytes} bytes were damaged");
    }
    let refused = driver.send(worker, letter(9, vec![0; limit + 1]));
    let bytes = limit + 1;
    assert_eq!(refused, Err(PostError::TooLarge { bytes, limit }));
    let loose = Letter {
        class: Class::Loose,
        ..letter(9, vec![0; 4 << 20])
    };
    let refused = driver.send(worker, loose);
    assert!(
        matches!(refused, Err(PostError::TooLarge { .. })),
        "it goes in one frame"
    );
}

#[test]
fn a_question_and_its_answer_are_two_frames() {
    let trio = Trio::new(LinkSettings::default());
    let (driver, worker) = (&trio.driver, &trio.workers[0]);
    driver.send(worker.me(), letter(1, "question")).unwrap();
    next_letter(&trio.seen[1]);
    worker.send(driver.me(), letter(2, "answer!!")).unwrap();
    next_letter(&trio.seen[0]);
    // Counted whole: a header of 40 bytes, a head of 8, a table of 8 and a body of 8.
    let expected = crate::hub::ServiceTraffic {
        frames_sent: 1,
        bytes_sent: 64,
        frames_received: 1,
        bytes_received: 64,
    };
    let traffic = driver.traffic(worker.me());
    assert!(traffic.contains(&(SERVICE, expected)), "{traffic:?}");
}

#[test]
fn loose_letters_have_no_number_and_arrive_over_a_socket_too() {
    let trio = Trio::new(LinkSettings::default());
    let loose = Letter {
        class: Class::Loose,
        ..letter(5, "loose")
    };
    assert_eq!(trio.driver.send(trio.workers[0].me(), loose.clone()), Ok(0));
    assert_eq!(trio.driver.send(trio.workers[0].me(), letter(6, "")), Ok(1));
    assert_eq!(next_letter(&trio.seen[1]).1, loose);
    assert_eq!(number(&next_letter(&trio.seen[1]).1), 6);
}

#[test]
fn hub_1_a_peer_that_has_closed_its_pair_is_dead_when_it_is_buried_and_takes_letters_until_then() {
    let trio = Trio::new(LinkSettings::default());
    let [one, two] = &trio.workers;
    for hub in [&trio.driver, two] {
        one.send(hub.me(), letter(1, "")).unwrap();
    }
    for place in [0, 2] {
        next_letter(&trio.seen[place]);
    }
    one.close();
    for hub in [&trio.driver, two] {
        eventually("the end of the pair", || {
            hub.end_of(one.me()) == Some(LinkEnd::Closed)
        });
        assert_eq!(hub.send(one.me(), letter(2, "")), Ok(1));
        assert_eq!(hub.ends.known_end(one.me()), None);
        assert!(!hub.peers().contains(&one.me()));
    }
    let end = ProcessEnd::of(Exit::Code(3));
    trio.driver.buried(one.me(), end.clone());
    for (hub, place) in [(&trio.driver, 0), (two, 2)] {
        let dead = (one.me(), vec![(1, Outcome::NotSent)]);
        assert_eq!(next_death(&trio.seen[place]), dead);
        assert_eq!(*hub.ends.end(one.me()), end);
        assert_eq!(hub.send(one.me(), letter(3, "")), Err(PostError::Dead(one.me())));
    }
}

#[test]
fn hub_1_a_death_is_told_once_to_all_even_without_a_link() {
    let trio = Trio::new(LinkSettings::default());
    let [one, two] = &trio.workers;
    one.send(trio.driver.me(), letter(1, "last words")).unwrap();
    next_letter(&trio.seen[0]);
    one.close(); // as its process ends, its sockets close
    trio.driver.buried(one.me(), ProcessEnd::unknown());
    trio.driver.buried(one.me(), ProcessEnd::unknown());
    assert_eq!(next_death(&trio.seen[0]), (one.me(), vec![]));
    assert_eq!(next_death(&trio.seen[2]), (one.me(), vec![]));
    for hub in [&trio.driver, two] {
        assert_eq!(hub.send(one.me(), letter(2, "")), Err(PostError::Dead(one.me())));
        assert!(!hub.peers().contains(&one.me()));
    }
    // Letters and deaths come by one way, so a second death would have come before this letter.
    two.send(trio.driver.me(), letter(3, "")).unwrap();
    assert_eq!(next_letter(&trio.seen[0]).0, two.me());
    trio.driver.send(two.me(), letter(4, "")).unwrap();
    assert_eq!(next_letter(&trio.seen[2]).0, trio.driver.me());
}

#[test]
fn a_letter_to_nobody_is_an_error_in_the_driver_and_a_death_in_a_worker() {
    let trio = Trio::new(LinkSettings::default());
    let nobody = peer(77, 1);
    let driver = &trio.driver;
    assert_eq!(
        driver.send(nobody, letter(1, "")),
        Err(PostError::NoSuchPeer(nobody.process))
    );
    let me = driver.me();
    assert_eq!(
        driver.send(me, letter(1, "")),
        Err(PostError::NoSuchPeer(me.process))
    );
    assert_eq!(trio.workers[0].send(nobody, letter(1, "")), Ok(1));
    assert_eq!(next_death(&trio.seen[1]), (nobody, vec![(1, Outcome::NotSent)]));
}

#[test]
fn a_peer_that_is_cut_off_is_dead_on_both_sides() {
    let trio = Trio::new(LinkSettings::default());
    let [one, two] = &trio.workers;
    one.send(two.me(), letter(1, "")).unwrap();
    next_letter(&trio.seen[2]);
    two.cut(one.me(), "a head that is none".to_owned());
    assert_eq!(next_death(&trio.seen[2]).0, one.me());
    let (dead, _) = next_death(&trio.seen[1]);
    assert_eq!(dead, two.me());
    let why = two.end_of(one.me()).unwrap().to_string();
    assert_eq!(why, "it was cut off: a head that is none");
}

#[test]
fn jtran_01_a_process_has_one_task_for_each_peer_that_it_is_connected_with() {
    const PROCESSES: usize = 12;
    let (reactor, settings) = (Reactor::start(), LinkSettings::default());
    let driver = Hub::of_driver(settings);
    driver.set_reactor(reactor.handle.clone());
    let numbers = 2..=u32::try_from(PROCESSES).unwrap();
    let mut hubs: Vec<_> = numbers
        .map(|process| worker(process, &driver, settings, &reactor))
        .collect();
    let mut seen = vec![Recorder::register(&driver)];
    seen.extend(hubs.iter().map(|hub| Recorder::register(hub)));
    for worker in &hubs {
        driver.joined(worker.me(), Arc::new(ToHub(Arc::clone(worker))), None);
    }
    hubs.insert(0, driver);
    let tasks = || reactor.handle.metrics().num_alive_tasks();
    assert_eq!(tasks(), 0, "nobody is connected");
    for from in &hubs {
        for to in hubs.iter().filter(|to| to.me() != from.me()) {
            from.send(to.me(), letter(1, "")).unwrap();
        }
    }
    for seen in &seen {
        (1..PROCESSES).for_each(|_| drop(next_letter(seen)));
    }
    eventually("only the links have tasks", || {
        tasks() == PROCESSES * (PROCESSES - 1)
    });
    hubs.iter().for_each(|hub| hub.close());
    eventually("no link is left", || tasks() == 0);
}
