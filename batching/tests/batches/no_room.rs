//! A graph that has no room, stands still or is replaced: no client waits for it in vain, and no good item fails.

use std::sync::LazyLock;
use std::time::{Duration, Instant};

use crate::continuous::{graph_with, occupy, start, text};
use crate::doubling::{batcher, graph, one_by_one, spawn};
use crate::gate::{Gate, LONG, until};
use selvedge::ExecError;
use selvedge::batching::{BatchError, Batcher, Batching, ContinuousBatcher, SubmitOptions};
use selvedge::prelude::*;

/// Longer than any answer takes that comes at all.
const ANSWERED: Duration = Duration::from_secs(60);

/// The half of a failed batch that waits for its turn, while the other half stands still.
#[test]
fn a_retry_that_finds_no_room_is_answered_when_its_time_is_up() {
    let (runtime, gate) = (Runtime::new(), Gate::closed());
    let options = Batching::new().max_inflight(1).max_size(2);
    let batcher = batcher(
        &runtime,
        &gate,
        options
            .max_delay(LONG)
            .max_wait(LONG * 2)
            .timeout(Duration::from_millis(500)),
    );
    let mut tickets = [-1, 5].map(|item| batcher.submit(item));
    gate.pass();
    for ticket in &mut tickets {
        let answer = ticket.wait_timeout(ANSWERED).map_err(|error| error.to_string());
        assert!(
            !matches!(&answer, Err(error) if error.contains("no answer")),
            "{answer:?}"
        );
        assert!(answer.is_err(), "{answer:?}");
    }
    gate.open();
}

/// One stage of two that answer one item each: it fails for a negative item, or waits at its gate.
struct Stage {
    gate: Option<Gate>,
}

#[actor]
impl Stage {
    pub fn new(gate: Option<Gate>) -> Self {
        Stage { gate }
    }

    pub fn answer(&mut self, items: &[i64], index: &usize) -> Result<i64> {
        if let Some(gate) = &self.gate {
            gate.enter(items);
        }
        match items.get(*index) {
            Some(item) if *item >= 0 => Ok(item * 2),
            _ => Err("negative".into()),
        }
    }
}

/// An execution that fails is over before the other stage has read its input, so that stage falls behind, and its inputs fill
/// the channel.
#[test]
fn inputs_that_failed_executions_leave_do_not_fail_good_items() {
    let (runtime, gate) = (Runtime::new(), Gate::closed());
    let spawn = |name, gate| runtime.spawn::<Stage>(name, (gate,)).in_thread().unwrap();
    let (fast, slow) = (spawn("fast", None), spawn("slow", Some(gate.clone())));
    let graph = runtime
        .compile_with(Options::new().slots(2), |items: Edge<Vec<i64>>| {
            vec![
                fast.answer(&items, &constant(0_usize)),
                slow.answer(&items, &constant(1_usize)),
            ]
        })
        .unwrap();
    let options = one_by_one().max_size(2).max_delay(LONG).retries(0);
    let batcher = Batcher::new(graph, options).unwrap();
    let submit = |items: [i64; 2]| items.map(|item| batcher.submit(item));
    let bad: Vec<_> = [[-1, 1], [-2, 2], [-3, 3]].into_iter().flat_map(submit).collect();
    let good = submit([4, 5]);
    gate.wait_entered(1);
    until(|| batcher.stats().executions >= 3);
    gate.open();
    for ticket in bad {
        let error = ticket.wait().unwrap_err().to_string();
        assert!(error.contains("negative"), "{error}");
    }
    assert_eq!(good.map(|ticket| ticket.wait().unwrap()), [8, 10]);
}

/// A batcher of single items, whose graph has room for one execution where the batcher would begin two.
fn of_one_slot(runtime: &Runtime, gate: &Gate, timeout: Duration) -> Batcher<i64, i64> {
    let model = spawn(runtime, gate, Placement::Thread);
    let graph = runtime
        .compile_with(Options::new().slots(1), |items: Edge<Vec<i64>>| {
            model.double(&items)
        })
        .unwrap();
    let options = Batching::new().max_inflight(2).max_size(1).max_wait(LONG);
    Batcher::new(graph, options.timeout(timeout)).unwrap()
}

#[test]
fn a_graph_of_one_slot_delays_what_it_has_no_room_for() {
    let (runtime, gate) = (Runtime::new(), Gate::closed());
    let batcher = of_one_slot(&runtime, &gate, LONG);
    let tickets = [1, 2, 3].map(|item| batcher.submit(item));
    gate.wait_entered(1);
    until(|| batcher.stats().executions == 2 && batcher.stats().in_flight == 2);
    gate.open();
    assert_eq!(tickets.map(|ticket| ticket.wait().unwrap()), [2, 4, 6]);
}

#[test]
fn an_item_that_found_no_room_is_answered_with_the_reason() {
    let (runtime, gate) = (Runtime::new(), Gate::closed());
    let batcher = of_one_slot(&runtime, &gate, Duration::from_millis(200));
    let first = batcher.submit(1);
    gate.wait_entered(1);
    let mut second = batcher.submit(2);
    let refused = second.wait_timeout(ANSWERED).unwrap_err();
    assert!(
        matches!(refused, BatchError::Failed(ExecError::InputsUnread { .. })),
        "{refused}"
    );
    assert!(first.wait().is_err());
    gate.open();
}

static CLONES: LazyLock<Gate> = LazyLock::new(Gate::closed);

/// An item whose clone waits at a gate, on the batcher's thread.
struct Held(i64);

impl Clone for Held {
    fn clone(&self) -> Self {
        CLONES.enter(&[self.0]);
        Held(self.0)
    }
}

struct Taker;

#[actor]
impl Taker {
    pub fn new() -> Self {
        Taker
    }

    pub fn take(&mut self, items: Vec<Held>) -> Vec<i64> {
        items.into_iter().map(|item| item.0).collect()
    }
}

#[test]
fn the_old_graph_is_torn_down_in_the_call_that_replaces_it() {
    let runtime = Runtime::new();
    let spawn = || runtime.spawn::<Taker>("taker", ()).in_thread().unwrap();
    let (old, new) = (spawn(), spawn());
    let compile = |taker: &TakerHandle| runtime.compile(|items: Edge<Vec<Held>>| taker.take(&items));
    let batcher = Batcher::new(compile(&old).unwrap(), one_by_one().max_size(2).max_delay(LONG)).unwrap();
    let tickets = [1, 2].map(|item| batcher.submit(Held(item)));
    CLONES.wait_entered(1);
    batcher.replace(compile(&new).unwrap());
    // The batcher's thread still holds the old graph, whose actor is free.
    assert_eq!(compile(&old).unwrap().run(vec![Held(3)]).unwrap(), [3]);
    CLONES.open();
    for ticket in tickets {
        let error = ticket.wait().unwrap_err();
        assert!(
            matches!(error, BatchError::Failed(ExecError::TornDown { .. })),
            "{error}"
        );
    }
    assert_eq!(
        [4, 5]
            .map(|item| batcher.submit(Held(item)))
            .map(|it| it.wait().unwrap()),
        [4, 5]
    );
}

#[test]
fn limits_under_which_every_batch_expires_and_impossible_names_are_refused() {
    let runtime = Runtime::new();
    let refused = |options| {
        let (_, graph) = graph(&runtime, &Gate::opened(), Placement::Thread);
        Batcher::new(graph, options).map(drop).unwrap_err().to_string()
    };
    let delay = refused(Batching::new().max_delay(LONG));
    assert!(
        delay.contains("max_delay") && delay.contains("max_wait"),
        "{delay}"
    );
    let name = refused(Batching::new().named("a\0b"));
    assert!(name.contains(r#""a\0b""#), "{name}");
}

#[test]
fn options_of_the_other_kind_of_batcher_are_refused_by_name() {
    let runtime = Runtime::new();
    for (name, options) in [
        ("step_goal", Batching::new().step_goal(LONG)),
        ("max_stay", Batching::new().max_stay(LONG)),
    ] {
        let (_, graph) = graph(&runtime, &Gate::opened(), Placement::Thread);
        let error = Batcher::new(graph, options).map(drop).unwrap_err().to_string();
        assert!(
            error.contains(name) && error.contains("Batcher::continuous"),
            "{error}"
        );
    }
    for (name, options) in [
        ("max_delay", Batching::new().max_delay(Duration::ZERO)),
        ("retries", Batching::new().retries(1)),
    ] {
        let steps = crate::continuous::graph(&runtime, &Gate::opened());
        let error = ContinuousBatcher::<crate::continuous::Text>::continuous(steps, options).map(drop);
        let error = error.unwrap_err().to_string();
        assert!(error.contains(name), "{error}");
    }
}

#[test]
fn a_deadline_counts_while_a_step_stands_still() {
    let (runtime, gate) = (Runtime::new(), Gate::closed());
    let batcher = start(&runtime, &gate, Batching::new().max_size(4).max_cost(8));
    let first = occupy(&batcher, &gate, 5);
    let long = batcher.submit(text(1, 100, 0));
    let deadline = SubmitOptions::new().deadline(Instant::now() + Duration::from_millis(500));
    let mut rests = batcher.submit_with(text(2, 100, 0), deadline);
    gate.pass();
    gate.wait_entered(2);
    let error = rests.wait_timeout(ANSWERED).unwrap_err();
    assert!(matches!(error, BatchError::Expired { .. }), "{error}");
    drop((first, long));
    gate.open();
}

#[test]
fn a_step_for_which_a_graph_of_one_slot_has_no_room_is_delayed() {
    let (runtime, gate) = (Runtime::new(), Gate::closed());
    let graph = graph_with(&runtime, &gate, Options::new().slots(1));
    let options = Batching::new().max_size(4).max_inflight(2);
    let batcher = Batcher::continuous(graph, options.max_wait(LONG).timeout(LONG)).unwrap();
    let first = occupy(&batcher, &gate, 1);
    let second = batcher.submit(text(1, 0, 2));
    until(|| batcher.stats().executions == 2 && batcher.stats().in_flight == 2);
    gate.open();
    assert_eq!((first.wait().unwrap(), second.wait().unwrap()), (1, 2));
}
