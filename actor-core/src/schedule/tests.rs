//! The rules of the scheduler, one by one.

use selvedge_cluster::peer::Peer;

use super::scheduler::CallStart;
use super::{HOPS_MAX, PASSES_MAX, Resources, Scheduler, forwarded};
use crate::testing::peer;

fn worker(number: u32) -> Peer {
    peer(number + 2)
}

fn with_workers(offers: &[Resources]) -> Scheduler {
    let mut scheduler = Scheduler::default();
    for (number, offers) in (0..).zip(offers) {
        assert!(scheduler.add_worker(worker(number), offers.clone()).is_empty());
    }
    scheduler
}

fn calls(starts: &[CallStart]) -> Vec<u64> {
    starts.iter().map(|start| start.call).collect()
}

#[test]
fn rtask_07_calls_start_in_the_order_of_submission_and_two_are_pushed_ahead() {
    let mut scheduler = with_workers(&[Resources::cpus(1)]);
    for call in 1..=5 {
        scheduler
            .submit(call, Resources::cpus(1), usize::from(call == 2))
            .unwrap();
    }
    assert_eq!(calls(&scheduler.starts()), [1, 3, 4]);
    scheduler.input_made(2);
    scheduler.end(1);
    assert_eq!(calls(&scheduler.starts()), [2], "the older one first");
    assert!(scheduler.is_ready(5));
    // What was pushed ahead can be taken back by its end.
    scheduler.end(4);
    assert_eq!(calls(&scheduler.starts()), [5]);
}

#[test]
fn rtask_08_nothing_is_pushed_ahead_to_a_worker_that_has_more_threads_than_it_offers_cpus() {
    let mut scheduler = with_workers(&[Resources::cpus(1)]);
    scheduler.set_apart_from_threads(worker(0));
    (1..=3).for_each(|call| scheduler.submit(call, Resources::cpus(1), 0).unwrap());
    assert_eq!(calls(&scheduler.starts()), [1]);
    scheduler.end(1);
    assert_eq!(calls(&scheduler.starts()), [2]);
}

#[test]
fn workers_get_calls_in_turn() {
    let mut scheduler = with_workers(&[const { 2 }; 3].map(Resources::cpus));
    (1..=6).for_each(|call| scheduler.submit(call, Resources::cpus(1), 0).unwrap());
    let at: Vec<Peer> = scheduler.starts().iter().map(|start| start.worker).collect();
    assert_eq!(at, [0, 1, 2, 0, 1, 2].map(worker));
}

#[test]
fn rtask_12_what_no_worker_could_run_is_refused_at_once() {
    let mut scheduler = with_workers(&[Resources::cpus(2), Resources::cpus(1).gpus(1)]);
    assert!(scheduler.submit(1, Resources::cpus(2).gpus(1), 0).is_err());
    assert_eq!(scheduler.offered(), "2 cpus; 1 cpus, 1 gpus");
    assert!(
        scheduler
            .submit(2, Resources::cpus(1).and("licence", 1), 1)
            .is_err()
    );
    // A worker that goes takes the hope of those that only it could have run.
    scheduler.submit(3, Resources::cpus(0).gpus(1), 0).unwrap();
    scheduler.submit(4, Resources::cpus(0).gpus(1), 1).unwrap();
    scheduler.submit(5, Resources::cpus(0).gpus(1), 0).unwrap();
    assert_eq!(calls(&scheduler.starts()), [3]);
    assert_eq!(scheduler.remove_worker(worker(1)), (vec![3], vec![5, 4]));
    assert!(scheduler.is_open(worker(0)) && !scheduler.is_open(worker(1)));
}

#[test]
fn rtask_12_forwarding_ends() {
    let hops = std::iter::successors(Some(0), |hops| forwarded(*hops));
    assert_eq!(hops.count(), usize::from(HOPS_MAX) + 1);
}

#[test]
fn a_call_that_does_not_fit_is_passed_over_64_times_and_then_waited_for() {
    let mut scheduler = with_workers(&[Resources::cpus(2).gpus(1)]);
    scheduler.submit(1, Resources::cpus(1).gpus(1), 0).unwrap();
    assert_eq!(calls(&scheduler.starts()), [1]);
    scheduler.submit(2, Resources::cpus(2), 0).unwrap();
    let mut next = 3;
    let mut passed = 0;
    loop {
        scheduler.submit(next, Resources::cpus(1), 0).unwrap();
        if scheduler.starts().is_empty() {
            break;
        }
        passed += 1;
        scheduler.end(next);
        next += 1;
    }
    assert_eq!(passed, PASSES_MAX);
    scheduler.end(1);
    assert_eq!(
        calls(&scheduler.starts()),
        [2],
        "and what came after it goes on waiting"
    );
    scheduler.end(2);
    assert_eq!(calls(&scheduler.starts()), [next]);
}

/// Calls that wait for calls that they have submitted: as many as there may be, with one cpu in all (O6).
#[test]
fn nested_calls_that_wait_end_with_one_cpu() {
    let mut scheduler = with_workers(&[Resources::cpus(1)]);
    for depth in 1..=200 {
        scheduler.submit(depth, Resources::cpus(1), 0).unwrap();
        scheduler.starts();
        assert!(!scheduler.is_ready(depth), "{depth} is at the worker");
        scheduler.set_blocked(depth, true);
    }
    for depth in (1..=200).rev() {
        scheduler.set_blocked(depth, false);
        scheduler.end(depth);
    }
    let [(_, used, ahead)] = &scheduler.used()[..] else {
        panic!()
    };
    assert_eq!((used, *ahead), (&Resources::default(), 0));
}

/// The threads of a worker are faster than its letters: the call that was pushed ahead waits before the one before it is known to.
#[test]
fn a_call_that_was_pushed_ahead_may_wait_before_the_one_before_it() {
    let mut scheduler = with_workers(&[Resources::cpus(1)]);
    (1..=3).for_each(|call| scheduler.submit(call, Resources::cpus(1), 0).unwrap());
    assert_eq!(calls(&scheduler.starts()), [1, 2, 3]);
    scheduler.set_blocked(2, true);
    scheduler.set_blocked(1, true);
    assert_eq!(
        scheduler.used(),
        [(Resources::cpus(1), Resources::cpus(1), 0)],
        "3 runs"
    );
    scheduler.submit(4, Resources::cpus(1), 0).unwrap();
    assert_eq!(calls(&scheduler.starts()), [4]);
}

/// A call that waits keeps its gpu. The call that it waits for must not stand behind one that waits for that gpu.
#[test]
fn what_a_blocked_call_holds_holds_up_nobody_behind_the_one_that_waits_for_it() {
    let mut scheduler = with_workers(&[Resources::cpus(1).gpus(1)]);
    scheduler.submit(1, Resources::cpus(1).gpus(1), 0).unwrap();
    scheduler.submit(2, Resources::cpus(1).gpus(1), 0).unwrap();
    scheduler.starts();
    scheduler.set_blocked(1, true);
    for call in 3..3 + 2 * PASSES_MAX {
        scheduler.submit(call, Resources::cpus(1), 0).unwrap();
        assert_eq!(calls(&scheduler.starts()), [call]);
        scheduler.end(call);
    }
}

/// A call that needs a gpu and no cpu, as an `async fn` does, counts as one that waits from its start.
#[test]
fn a_call_that_waits_from_its_start_holds_up_nobody_behind_the_one_that_waits_for_its_gpu() {
    let mut scheduler = with_workers(&[Resources::cpus(1).gpus(1)]);
    let on_gpu = Resources::cpus(0).gpus(1);
    scheduler.submit(1, on_gpu.clone(), 0).unwrap();
    scheduler.submit(2, on_gpu, 0).unwrap();
    assert_eq!(scheduler.next_start().map(|start| start.call), Some(1));
    scheduler.set_blocked(1, true);
    for call in 3..3 + 2 * PASSES_MAX {
        scheduler.submit(call, Resources::cpus(1), 0).unwrap();
        assert_eq!(calls(&scheduler.starts()), [call]);
        scheduler.end(call);
    }
}

/// The gpu that a call keeps while it waits is no reason to pass over one that needs cpus alone.
#[test]
fn a_call_that_needs_nothing_of_what_a_blocked_call_holds_is_passed_over_64_times() {
    let mut scheduler = with_workers(&[Resources::cpus(2).gpus(1)]);
    scheduler.submit(1, Resources::cpus(0).gpus(1), 0).unwrap();
    scheduler.submit(2, Resources::cpus(1), 0).unwrap();
    assert_eq!(calls(&scheduler.starts()), [1, 2]);
    scheduler.set_blocked(1, true);
    scheduler.submit(3, Resources::cpus(2), 0).unwrap();
    let mut next = 4;
    loop {
        scheduler.submit(next, Resources::cpus(1), 0).unwrap();
        if scheduler.starts().is_empty() {
            break;
        }
        scheduler.end(next);
        next += 1;
    }
    assert_eq!(next, 4 + PASSES_MAX);
    scheduler.end(2);
    assert_eq!(calls(&scheduler.starts()), [3]);
}

/// A call that goes on takes its cpu back at once; nothing starts until one is given back.
#[test]
fn a_call_that_goes_on_after_a_wait_keeps_others_from_starting() {
    let mut scheduler = with_workers(&[Resources::cpus(1)]);
    (1..=3).for_each(|call| scheduler.submit(call, Resources::cpus(1), 0).unwrap());
    scheduler.starts();
    scheduler.set_blocked(1, true);
    scheduler.set_blocked(1, true);
    scheduler.set_blocked(1, false);
    assert_eq!(scheduler.used()[0].1, Resources::cpus(2), "1 and 2");
    scheduler.end(1);
    assert_eq!(scheduler.used()[0].1, Resources::cpus(1), "2");
    scheduler.end(2);
    scheduler.end(3);
    assert_eq!(scheduler.used()[0].1, Resources::default());
}

#[test]
fn rtask_05_a_call_starts_iff_its_inputs_are_there_and_a_worker_has_room() {
    let offered = || Resources::cpus(2).gpus(1);
    let one = || Resources::cpus(1);
    // What runs already, what the call needs, its missing inputs, and whether it starts.
    let table = [
        (vec![], one(), 0, true),
        (vec![], one(), 1, false),
        (vec![], one().gpus(1), 0, true),
        (vec![one().gpus(1)], one().gpus(1), 0, false),
        (vec![one().gpus(1)], one(), 0, true),
        (vec![Resources::cpus(2)], Resources::cpus(2), 0, false),
        (vec![Resources::cpus(2)], Resources::cpus(0).gpus(1), 0, true),
        (vec![Resources::cpus(2)], Resources::cpus(0).gpus(1), 2, false),
    ];
    for (running, needs, missing, starts) in table {
        let mut scheduler = with_workers(&[offered()]);
        let number = running.len() as u64;
        for (call, needs) in (0..).zip(&running) {
            scheduler.submit(call, needs.clone(), 0).unwrap();
        }
        assert_eq!(scheduler.starts().len() as u64, number);
        scheduler.submit(number, needs.clone(), missing).unwrap();
        let started = calls(&scheduler.starts()).contains(&number);
        assert_eq!(started, starts, "{running:?}, {needs}, {missing} missing");
        // Another worker that has room gets it, as soon as the inputs are there.
        (0..missing).for_each(|_| scheduler.input_made(number));
        assert!(scheduler.add_worker(worker(7), offered()).is_empty());
        let started = started || calls(&scheduler.starts()).contains(&number);
        assert!(started, "{running:?}, {needs}");
    }
}

#[test]
fn rtask_08_the_cores_of_a_host_are_counted_once_for_the_workers_that_share_them() {
    let mut scheduler = Scheduler::on_host(2);
    for number in 0..4 {
        scheduler.add_worker(worker(number), Resources::cpus(2));
        // The last one has cpus of its own.
        scheduler.set_sharing(worker(number), number < 3);
    }
    (1..=9).for_each(|call| scheduler.submit(call, Resources::cpus(1), 0).unwrap());
    let starts = scheduler.starts();
    let of_others = |it: &&CallStart| it.worker != worker(3);
    let shared: Vec<&CallStart> = starts.iter().filter(of_others).collect();
    assert_eq!(shared.len(), 2, "as many as cores, and nothing ahead: {starts:?}");
    // A call that needs all cores is feasible, and waits for all of them.
    scheduler.remove_worker(worker(3));
    assert_eq!(scheduler.next_start(), None, "all cores are in use");
    scheduler.submit(10, Resources::cpus(2), 0).unwrap();
    scheduler.set_blocked(shared[0].call, true);
    assert_eq!(scheduler.starts().len(), 1, "its cpu is free for the time");
    scheduler.set_blocked(shared[0].call, false);
    assert_eq!(scheduler.end(shared[0].call), Some(shared[0].worker));
    assert_eq!(scheduler.starts(), [], "the two that go on need both");
}
