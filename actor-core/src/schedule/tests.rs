//! The scheduler under random load, compared with an interpreter that looks at every call.

use std::collections::{BTreeMap, BTreeSet};

use proptest::prelude::*;
use selvedge_cluster::peer::{Incarnation, Peer, ProcessId};

use super::scheduler::CallStart;
use super::{AHEAD_MAX, HOPS_MAX, PASSES_MAX, Resources, Scheduler, forwarded};

fn worker(number: u32) -> Peer {
    Peer {
        process: ProcessId::new(number + 2).unwrap(),
        incarnation: Incarnation(1),
    }
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

/// What the interpreter knows of a call.
#[derive(Clone, Debug)]
struct SeenCall {
    needs: Resources,
    missing: usize,
    at: Option<Peer>,
    is_blocked: bool,
    passed: u64,
}

#[derive(Default)]
struct Interpreter {
    calls: BTreeMap<u64, SeenCall>,
    offers: BTreeMap<Peer, Resources>,
}

impl Interpreter {
    /// The calls of a worker, in the order of their start.
    fn at(&self, worker: Peer) -> impl Iterator<Item = &SeenCall> {
        self.calls.values().filter(move |call| call.at == Some(worker))
    }

    /// The resources of the calls of a worker that do not wait, but for at most two that are pushed ahead.
    fn check(&self) {
        for (worker, offers) in &self.offers {
            let (mut sum, mut plain) = (Resources::default(), 0);
            for call in self.at(*worker) {
                let is_plain = call.needs.is_one_cpu() && !call.is_blocked;
                plain += usize::from(is_plain);
                sum.add(&match call.is_blocked {
                    true => call.needs.clone().with_cpus(0),
                    false => call.needs.clone(),
                });
            }
            let ahead = plain.min(AHEAD_MAX);
            let least = sum.clone().with_cpus(sum.cpu_count() - ahead as u32);
            assert!(offers.covers(&least), "{offers} for {sum}");
            // Whoever has something pushed ahead runs nothing else.
            if !offers.covers(&sum) {
                assert!(self.at(*worker).all(|call| call.needs.is_one_cpu()));
            }
        }
    }

    /// The starts agree with the order of submission.
    fn started(&mut self, starts: &[CallStart]) {
        for CallStart { call, worker } in starts {
            let started = self.calls[call].clone();
            assert!(started.missing == 0 && started.at.is_none(), "{started:?}");
            for (older, seen) in self.calls.range_mut(..call) {
                if seen.missing == 0 && seen.at.is_none() {
                    assert_ne!(seen.needs, started.needs, "{older} before {call}");
                    seen.passed += 1;
                    assert!(seen.passed <= PASSES_MAX, "{older} was passed over");
                }
            }
            self.calls.get_mut(call).unwrap().at = Some(*worker);
            self.check();
        }
    }
}

fn needs() -> impl Strategy<Value = Resources> {
    prop_oneof![
        6 => Just(Resources::cpus(1)),
        1 => (0u32..4).prop_map(Resources::cpus),
        1 => (0u32..3, 0u32..2).prop_map(|(cpus, gpus)| Resources::cpus(cpus).gpus(gpus)),
        1 => (0u32..3).prop_map(|number| Resources::cpus(1).and("licence", number)),
    ]
}

#[derive(Clone, Debug)]
enum Event {
    Submit(Resources, usize),
    Input(prop::sample::Index),
    End(prop::sample::Index),
    Die(u32),
    Come(u32, Resources),
}

fn events() -> impl Strategy<Value = Vec<Event>> {
    let event = prop_oneof![
        8 => (needs(), 0usize..3).prop_map(|(needs, missing)| Event::Submit(needs, missing)),
        8 => any::<prop::sample::Index>().prop_map(Event::Input),
        8 => any::<prop::sample::Index>().prop_map(Event::End),
        1 => (0u32..3).prop_map(Event::Die),
        1 => (0u32..3, needs()).prop_map(|(number, offers)| Event::Come(number, offers)),
    ];
    prop::collection::vec(event, 1..200)
}

fn picked(index: prop::sample::Index, of: Vec<u64>) -> Option<u64> {
    (!of.is_empty()).then(|| of[index.index(of.len())])
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(512))]

    #[test]
    fn rtask_07_rtask_08_random_loads_are_never_overcommitted_and_in_order(events in events()) {
        let start = Resources::cpus(2).gpus(1).and("licence", 1);
        let mut scheduler = with_workers(&[start.clone(), Resources::cpus(1)]);
        let mut seen = Interpreter::default();
        seen.offers.insert(worker(0), start);
        seen.offers.insert(worker(1), Resources::cpus(1));
        let mut next = 0;
        for event in events {
            match event {
                Event::Submit(needs, missing) => {
                    next += 1;
                    let fits = seen.offers.is_empty() || seen.offers.values().any(|offers| offers.covers(&needs));
                    prop_assert_eq!(scheduler.submit(next, needs.clone(), missing).is_ok(), fits);
                    if fits {
                        let (at, is_blocked, passed) = (None, false, 0);
                        seen.calls.insert(next, SeenCall { needs, missing, at, is_blocked, passed });
                    }
                }
                Event::Input(index) => {
                    let open = seen.calls.iter().filter(|(_, call)| call.missing > 0).map(|(call, _)| *call);
                    if let Some(call) = picked(index, open.collect()) {
                        scheduler.input_made(call);
                        seen.calls.get_mut(&call).unwrap().missing -= 1;
                    }
                }
                Event::End(index) => {
                    if let Some(call) = picked(index, seen.calls.keys().copied().collect()) {
                        let ended = seen.calls.remove(&call).unwrap();
                        prop_assert_eq!(scheduler.end(call), ended.at);
                    }
                }
                Event::Die(number) => {
                    let had: BTreeSet<u64> = seen.calls.iter().filter(|(_, call)| call.at == Some(worker(number))).map(|(call, _)| *call).collect();
                    let (lost, hopeless) = scheduler.remove_worker(worker(number));
                    prop_assert_eq!(lost.into_iter().collect::<BTreeSet<_>>(), had.clone());
                    seen.calls.retain(|call, _| !had.contains(call));
                    seen.offers.remove(&worker(number));
                    forget(&mut seen, hopeless);
                }
                Event::Come(number, offers) => {
                    if seen.offers.contains_key(&worker(number)) {
                        continue;
                    }
                    let hopeless = scheduler.add_worker(worker(number), offers.clone());
                    seen.offers.insert(worker(number), offers);
                    forget(&mut seen, hopeless);
                }
            }
            seen.started(&scheduler.starts());
        }
        // Whatever waits can run: with all inputs, and as calls end, everything ends.
        let waiting: Vec<(u64, usize)> = seen.calls.iter().map(|(call, it)| (*call, it.missing)).collect();
        for (call, missing) in waiting {
            (0..missing).for_each(|_| scheduler.input_made(call));
            seen.calls.get_mut(&call).unwrap().missing = 0;
        }
        seen.started(&scheduler.starts());
        while let Some(call) = seen.calls.iter().find(|(_, call)| call.at.is_some()).map(|(call, _)| *call) {
            scheduler.end(call);
            seen.calls.remove(&call);
            seen.started(&scheduler.starts());
        }
        prop_assert!(seen.calls.is_empty() || seen.offers.is_empty());
    }
}

fn forget(seen: &mut Interpreter, hopeless: Vec<u64>) {
    for call in hopeless {
        let call = seen.calls.remove(&call).unwrap();
        assert!(call.at.is_none() && !seen.offers.values().any(|offers| offers.covers(&call.needs)));
    }
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
