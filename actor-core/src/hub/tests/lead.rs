//! The thread that leads reads the links while their tasks cannot, and leaves them to the tasks when it goes.

use std::sync::atomic::{AtomicBool, Ordering};
use std::thread;
use std::time::Instant;

use selvedge_channels::{Berth, Doorbell, Waiting};

use super::duo::Duo;
use super::*;
use crate::cancel::{CallCancel, Cancellation, Scope, within};
use crate::hub::lead::Lead;
use crate::hub::link_end::LinkEnd;
use crate::hub::post::Post;
use crate::promise::promise_by_letter;
use crate::sleeper::Sleeper;
use crate::testing::wait_until;
use crate::waiting::{Unanswered, wait_for};

#[test]
fn the_thread_that_leads_reads_its_letter_itself() {
    let duo = Duo::new();
    // Once a letter has come, the link's task waits.
    duo.say(1, "");
    assert_eq!(number(&next_letter(&duo.seen).1), 1);
    let _stall = duo.at_driver.stall();
    for count in 2..100 {
        duo.say(count, "");
        assert_eq!(duo.led_letter(), count);
    }
}

#[test]
fn the_waiter_of_a_doorbell_reads_letters_in_its_berth_and_is_woken_there() {
    let duo = Duo::new();
    duo.say(1, "");
    assert_eq!(number(&next_letter(&duo.seen).1), 1);
    let stall = duo.at_driver.stall();
    let berth: Arc<dyn Berth> = Sleeper::new(Some(duo.lead()));
    let bell = Doorbell::heap().with_berth(berth);
    for count in 2..50 {
        duo.say(count, "");
        let late = Instant::now() + TIMEOUT;
        let mut found = None;
        while found.is_none() && Instant::now() < late {
            // Nobody rings.
            let soon = Instant::now() + Duration::from_millis(1);
            bell.wait(&Waiting::Park, Some(soon), || {
                found = found.take().or_else(|| duo.seen.try_recv().ok());
                found.is_some()
            });
        }
        let Some(Seen::Letter(_, letter)) = found else {
            panic!("{found:?}")
        };
        assert_eq!(number(&letter), count);
    }
    drop(stall);
    let lead = duo.lead();
    for _ in 0..100 {
        let is_open = AtomicBool::new(false);
        let late = Instant::now() + TIMEOUT;
        let wait = || bell.wait(&Waiting::Park, Some(late), || is_open.load(Ordering::Acquire));
        thread::scope(|scope| {
            let waits = scope.spawn(wait);
            until_taken(&lead);
            is_open.store(true, Ordering::Release);
            bell.ring();
            assert!(waits.join().unwrap() && Instant::now() < late);
        });
    }
}

#[test]
fn the_links_task_reads_what_the_leader_leaves_and_what_comes_when_nobody_leads() {
    let duo = Duo::new();
    for count in 0..200 {
        // More than one read takes.
        duo.say(2 * count, vec![7; 300_000]);
        if count % 2 == 0 {
            let lead = duo.lead();
            let leading = lead.take().unwrap();
            // The link's task may have read everything already.
            let arrivals = leading.wait(Some(Instant::now() + Duration::from_millis(1)));
            if let Some(arrivals) = arrivals {
                leading.read(arrivals, || false);
            }
        }
        duo.say(2 * count + 1, "");
        assert_eq!(number(&next_letter(&duo.seen).1), 2 * count);
        assert_eq!(number(&next_letter(&duo.seen).1), 2 * count + 1);
    }
}

#[test]
fn hub_1_a_leader_that_reads_the_end_leaves_the_death_to_the_links_task() {
    let duo = Duo::new();
    duo.say(1, "");
    assert_eq!(number(&next_letter(&duo.seen).1), 1);
    let stall = duo.at_driver.stall();
    duo.say(2, "last words");
    duo.worker.close();
    assert_eq!(duo.led_letter(), 2);
    assert!(
        duo.seen.try_recv().is_err(),
        "the death is not the leader's to tell"
    );
    drop(stall);
    assert_eq!(next_death(&duo.seen).0, duo.worker.me());
    assert_eq!(duo.driver.end_of(duo.worker.me()), Some(LinkEnd::Closed));
}

#[test]
fn the_end_of_a_stream_is_seen_though_one_event_told_of_it_and_of_the_bytes_before_it() {
    let duo = Duo::new();
    // A loose letter is not acknowledged, so nobody writes and learns of the end in that way.
    let say_loose = |count| {
        let loose = Letter {
            class: Class::Loose,
            ..letter(count, "")
        };
        duo.worker.send(duo.driver.me(), loose).unwrap();
    };
    say_loose(1);
    next_letter(&duo.seen);
    // The worker's end would be closed again by its task, which makes another event.
    let (at_driver, _at_worker) = (duo.at_driver.stall(), duo.at_worker.stall());
    let link = duo.worker.link(duo.driver.me()).unwrap();
    say_loose(2);
    link.socket().unwrap().close();
    drop(at_driver);
    assert_eq!(number(&next_letter(&duo.seen).1), 2);
    assert_eq!(next_death(&duo.seen).0, duo.worker.me());
}

fn until_taken(lead: &Lead) {
    wait_until("a thread leads", || lead.is_taken());
}

/// Passes the time in steps that the compiler keeps.
fn linger(steps: u64) {
    (0..steps).for_each(|step| _ = std::hint::black_box(step));
}

#[test]
fn no_letter_is_lost_between_a_leader_that_looks_for_a_while_and_the_links_task() {
    let duo = Duo::new();
    let lead = duo.lead();
    let (go, told) = mpsc::channel();
    thread::scope(|scope| {
        let (worker, driver) = (Arc::clone(&duo.worker), duo.driver.me());
        let said = scope.spawn(move || {
            for count in told {
                linger(count * 37 % 4_000);
                worker.send(driver, letter(2 * count, "")).unwrap();
                linger(count * 7 % 500);
                worker.send(driver, letter(2 * count + 1, "")).unwrap();
            }
        });
        for count in 0..20_000 {
            // The leader looks for its whole time, or sleeps in between; often a letter comes as it ends.
            let time = Duration::from_micros([30, 400, 400][(count % 3) as usize]);
            duo.driver.set_spin(Some(time * (1 + (count % 2) as u32) / 2));
            go.send(count).unwrap();
            let leading = lead.take().unwrap();
            if let Some(arrivals) = leading.wait(Some(Instant::now() + time)) {
                leading.read(arrivals, || false);
            }
            drop(leading);
            for number in [2 * count, 2 * count + 1] {
                assert_eq!(super::number(&next_letter(&duo.seen).1), number, "nobody leads");
            }
        }
        drop(go);
        said.join().unwrap();
    });
}

#[test]
fn a_leader_that_looks_all_the_time_gets_its_letters_and_is_nudged() {
    let duo = Duo::new();
    let lead = duo.lead();
    duo.driver.set_spin(Some(Duration::MAX));
    duo.say(1, "");
    assert_eq!(number(&next_letter(&duo.seen).1), 1);
    let _stall = duo.at_driver.stall();
    for count in 2..100 {
        duo.say(count, "");
        assert_eq!(duo.led_letter(), count);
    }
    for round in 0..200_u64 {
        let (promise, mut answer) = promise_by_letter(duo.lead());
        let waiting = thread::spawn(move || answer.wait(Some(Instant::now() + TIMEOUT)));
        until_taken(&lead);
        linger(round * 500);
        promise.keep(round);
        assert_eq!(waiting.join().unwrap(), Some(Ok(round)));
    }
    let (_promise, mut answer) = promise_by_letter::<u8>(duo.lead());
    let soon = Instant::now() + Duration::from_millis(5);
    assert_eq!(answer.wait(Some(soon)), None);
}

#[test]
fn one_thread_leads_and_others_wait_as_before_until_it_is_nudged() {
    let duo = Duo::new();
    let lead = duo.lead();
    let (first, mut answer) = promise_by_letter::<u8>(duo.lead());
    let (second, mut other) = promise_by_letter::<u8>(duo.lead());
    let waiting = thread::spawn(move || answer.wait(Some(Instant::now() + TIMEOUT)));
    until_taken(&lead);
    let following = thread::spawn(move || other.wait(Some(Instant::now() + TIMEOUT)));
    second.keep(2);
    assert_eq!(following.join().unwrap(), Some(Ok(2)));
    first.keep(1);
    assert_eq!(waiting.join().unwrap(), Some(Ok(1)));
    assert!(lead.take().is_some(), "the lead is free again");
}

#[test]
fn a_wait_with_a_deadline_ends_on_it_for_a_leader_too() {
    let duo = Duo::new();
    let (_promise, mut answer) = promise_by_letter::<u8>(duo.lead());
    let soon = Instant::now() + Duration::from_millis(5);
    assert_eq!(answer.wait(Some(soon)), None);
    assert!(Instant::now() >= soon);
    assert!(duo.lead().take().is_some());
}

#[test]
fn the_wait_of_a_cancelled_call_ends_whether_its_thread_leads_or_not() {
    let duo = Duo::new();
    let lead = duo.lead();
    let waiting = |call: &Arc<CallCancel>| {
        let scope = Scope::Of(Cancellation::of_call(Arc::clone(call)));
        let lead = duo.lead();
        thread::spawn(move || {
            let (_promise, mut answer) = promise_by_letter::<u8>(lead);
            within(&scope, || wait_for(&mut answer, TIMEOUT))
        })
    };
    let [first, second] = [(); 2].map(|()| Arc::<CallCancel>::default());
    let leader = waiting(&first);
    until_taken(&lead);
    let follower = waiting(&second);
    wait_until("the second one waits", || second.is_slept_on());
    second.cancel();
    assert_eq!(follower.join().unwrap(), Err(Unanswered::Cancelled));
    assert!(lead.is_taken());
    first.cancel();
    assert_eq!(leader.join().unwrap(), Err(Unanswered::Cancelled));
    assert!(lead.take().is_some(), "the lead is free again");
}
