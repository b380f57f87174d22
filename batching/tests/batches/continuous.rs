//! Continuous batching: the members of each step, and the outcome of members that leave, fail or are cancelled.

use std::ops::ControlFlow;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::mpsc;
use std::time::{Duration, Instant};

use crate::gate::{Gate, LONG};
use selvedge::ExecError;
use selvedge::batching::{
    BatchError, Batcher, Batching, ContinuousBatcher, Grant, OnBroken, Sequence, SubmitOptions, Ticket,
};
use selvedge::prelude::*;

/// A model that sums the costs in each slot since the slot's member came, and records name and cost of every part.
struct Model {
    gate: Gate,
    counts: Vec<i64>,
}

/// A slot, a name, a cost, and whether the part is its member's first.
pub type Part = (u32, i64, i64, bool);

const FAILS: i64 = -1;

#[actor]
impl Model {
    pub fn new(gate: Gate) -> Self {
        Model {
            gate,
            counts: vec![0; 64],
        }
    }

    pub fn step(&mut self, parts: &[Part]) -> Result<Vec<(u32, i64)>> {
        self.gate.enter(
            &parts
                .iter()
                .map(|(_, name, cost, _)| name * 100 + cost)
                .collect::<Vec<_>>(),
        );
        let mut answers = Vec::new();
        for (slot, name, cost, first) in parts {
            if *name == FAILS {
                return Err("a bad member".into());
            }
            let count = &mut self.counts[*slot as usize];
            *count = if *first { 0 } else { *count } + cost;
            answers.push((*slot, *count));
        }
        Ok(answers)
    }
}

#[derive(Clone, Copy, PartialEq)]
enum Panics {
    Never,
    Cost,
    Join,
    Advance,
}

/// A sequence that takes a prompt, then `steps` steps. Its output is the model's count.
pub struct Text {
    name: i64,
    prompt: usize,
    steps: usize,
    begun: bool,
    panics: Panics,
    cancelled: Arc<AtomicBool>,
    stream: Option<mpsc::Sender<i64>>,
}

pub fn text(name: i64, prompt: usize, steps: usize) -> Text {
    Text {
        name,
        prompt,
        steps,
        begun: false,
        panics: Panics::Never,
        cancelled: Arc::default(),
        stream: None,
    }
}

impl Sequence for Text {
    type Step = Vec<Part>;
    type Answers = Vec<(u32, i64)>;
    type Output = i64;

    fn cost(&self) -> usize {
        assert!(self.panics != Panics::Cost, "cost");
        self.prompt.max(1)
    }

    fn join(&mut self, step: &mut Vec<Part>, grant: Grant) {
        assert!(self.panics != Panics::Join, "join");
        let cost = self.prompt.max(1).min(grant.budget);
        step.push((grant.slot, self.name, cost as i64, !self.begun));
        self.begun = true;
        if self.prompt == 0 {
            self.steps -= 1;
        }
        self.prompt = self.prompt.saturating_sub(cost);
    }

    fn advance(&mut self, answers: &mut Self::Answers, grant: Grant) -> ControlFlow<i64> {
        assert!(self.panics != Panics::Advance, "advance");
        let (_, count) = *answers.iter().find(|(slot, _)| *slot == grant.slot).unwrap();
        if let Some(stream) = &self.stream {
            stream.send(count).ok();
        }
        if self.prompt == 0 && self.steps == 0 {
            ControlFlow::Break(count)
        } else {
            ControlFlow::Continue(())
        }
    }

    fn is_cancelled(&self) -> bool {
        self.cancelled.load(Ordering::Relaxed)
    }
}

pub fn graph(runtime: &Runtime, gate: &Gate) -> Graph<Vec<Part>, Vec<(u32, i64)>> {
    graph_with(runtime, gate, Options::new())
}

pub fn graph_with(runtime: &Runtime, gate: &Gate, options: Options) -> Graph<Vec<Part>, Vec<(u32, i64)>> {
    let model = runtime
        .spawn::<Model>("model", (gate.clone(),))
        .in_thread()
        .unwrap();
    runtime
        .compile_with(options, |parts: Edge<Vec<Part>>| model.step(&parts))
        .unwrap()
}

pub fn start(runtime: &Runtime, gate: &Gate, options: Batching) -> ContinuousBatcher<Text> {
    Batcher::continuous(graph(runtime, gate), options.max_wait(LONG).timeout(LONG)).unwrap()
}

/// Occupies the first step with a member named 9, while others are submitted.
pub fn occupy(batcher: &ContinuousBatcher<Text>, gate: &Gate, steps: usize) -> Ticket<i64> {
    let ticket = batcher.submit(text(9, 0, steps));
    gate.wait_entered(1);
    ticket
}

#[test]
fn members_come_and_go_between_steps() {
    let (runtime, gate) = (Runtime::new(), Gate::closed());
    let batcher = start(&runtime, &gate, Batching::new().max_size(2));
    let first = occupy(&batcher, &gate, 1);
    let tickets = [(1, 3), (2, 1), (3, 2), (4, 1)].map(|(name, steps)| batcher.submit(text(name, 0, steps)));
    gate.open();
    assert_eq!(first.wait().unwrap(), 1);
    assert_eq!(tickets.map(|ticket| ticket.wait().unwrap()), [3, 1, 2, 1]);
    assert_eq!(
        gate.seen(),
        [
            vec![901],
            vec![101, 201],
            vec![101, 301],
            vec![101, 301],
            vec![401]
        ]
    );
    assert_eq!(batcher.stats().executions, 5);
}

#[test]
fn long_prompts_are_cut_and_hold_up_nobody() {
    let (runtime, gate) = (Runtime::new(), Gate::closed());
    let batcher = start(&runtime, &gate, Batching::new().max_size(4).max_cost(8));
    let first = occupy(&batcher, &gate, 5);
    let tickets = [text(1, 20, 0), text(2, 9, 0), text(3, 2, 1)].map(|text| batcher.submit(text));
    gate.open();
    assert_eq!(first.wait().unwrap(), 5);
    assert_eq!(tickets.map(|ticket| ticket.wait().unwrap()), [20, 9, 3]);
    let steps = gate.seen();
    let sorted = |mut step: Vec<i64>| {
        step.sort_unstable();
        step
    };
    let steps: Vec<_> = steps.into_iter().map(sorted).collect();
    // Each number is a name times 100 plus the granted cost: 9 and 3 are small, and 1 came before 2.
    let expected = [
        vec![901],
        vec![105, 302, 901],
        vec![106, 301, 901],
        vec![107, 901],
        vec![102, 205, 901],
        vec![204],
    ];
    assert_eq!(steps, expected);
}

/// No step reaches this goal, so the pieces shrink to their minimum.
#[test]
fn a_step_that_takes_longer_than_its_goal_makes_the_next_pieces_smaller() {
    let (runtime, gate) = (Runtime::new(), Gate::closed());
    let options = Batching::new().max_size(2).max_cost(1000);
    let batcher = start(&runtime, &gate, options.step_goal(Duration::ZERO));
    let first = occupy(&batcher, &gate, 5);
    let ticket = batcher.submit(text(1, 60, 0));
    gate.open();
    assert_eq!((first.wait().unwrap(), ticket.wait().unwrap()), (5, 60));
    let pieces = gate.seen().into_iter().flatten().filter(|part| part / 100 == 1);
    // The last piece is all that is left, because it is alone in its step.
    assert_eq!(pieces.collect::<Vec<_>>(), [109, 109, 109, 109, 124]);
}

#[test]
fn who_is_not_wanted_leaves_before_the_next_step() {
    let (runtime, gate) = (Runtime::new(), Gate::closed());
    let batcher = start(&runtime, &gate, Batching::new().max_size(3));
    let first = occupy(&batcher, &gate, 3);
    let (dropped, cancelled) = (batcher.submit(text(1, 0, 1000)), Arc::new(AtomicBool::new(false)));
    let gone = batcher.submit(Text {
        cancelled: Arc::clone(&cancelled),
        ..text(2, 0, 1000)
    });
    gate.pass();
    gate.wait_entered(2);
    // Both members are in the second step, their first one.
    let next = batcher.submit(text(3, 0, 1));
    drop(dropped);
    cancelled.store(true, Ordering::Relaxed);
    gate.open();
    assert_eq!((first.wait().unwrap(), next.wait().unwrap()), (3, 1));
    assert!(matches!(gone.wait(), Err(BatchError::Cancelled)));
    assert_eq!(gate.seen(), [vec![901], vec![901, 101, 201], vec![901, 301]]);
    assert_eq!(batcher.stats().withdrawn, 1);
}

#[test]
fn two_groups_take_turns_in_a_pipeline() {
    let (runtime, gate) = (Runtime::new(), Gate::closed());
    let batcher = start(&runtime, &gate, Batching::new().max_size(4).max_inflight(2));
    let first = occupy(&batcher, &gate, 1);
    let tickets = [1, 2, 3].map(|name| batcher.submit(text(name, 0, 2)));
    gate.open();
    assert_eq!(first.wait().unwrap(), 1);
    assert_eq!(tickets.map(|ticket| ticket.wait().unwrap()), [2, 2, 2]);
    let most = gate.sizes().into_iter().max();
    assert_eq!(most, Some(2));
}

#[test]
fn a_step_that_fails_fails_its_members_only() {
    let (runtime, gate) = (Runtime::new(), Gate::closed());
    let batcher = start(&runtime, &gate, Batching::new().max_size(2));
    let first = occupy(&batcher, &gate, 2);
    let (bad, good) = (batcher.submit(text(FAILS, 0, 1)), batcher.submit(text(1, 0, 2)));
    gate.open();
    for ticket in [first, bad] {
        assert!(matches!(
            ticket.wait(),
            Err(BatchError::Failed(ExecError::Task(_)))
        ));
    }
    assert_eq!(good.wait().unwrap(), 2);
}

#[test]
fn a_member_that_panics_fails_alone() {
    let (runtime, gate) = (Runtime::new(), Gate::closed());
    let batcher = start(&runtime, &gate, Batching::new().max_size(4));
    let first = occupy(&batcher, &gate, 4);
    let panics = [
        ("cost", Panics::Cost),
        ("join", Panics::Join),
        ("advance", Panics::Advance),
    ];
    let tickets = panics.map(|(said, panics)| {
        (
            said,
            batcher.submit(Text {
                panics,
                ..text(1, 0, 2)
            }),
        )
    });
    gate.open();
    for (said, ticket) in tickets {
        let Err(BatchError::Panicked { message, .. }) = ticket.wait() else {
            panic!("{said}")
        };
        assert_eq!(message, said);
    }
    assert_eq!(first.wait().unwrap(), 4);
    assert_eq!(batcher.submit(text(1, 0, 2)).wait().unwrap(), 2);
}

#[test]
fn one_that_panics_while_it_joins_leaves_its_place_to_the_next() {
    let (runtime, gate) = (Runtime::new(), Gate::opened());
    let batcher = start(&runtime, &gate, Batching::new().max_size(1));
    let bad = batcher.submit(Text {
        panics: Panics::Join,
        ..text(1, 0, 1)
    });
    let good = batcher.submit(text(2, 0, 1));
    assert!(matches!(bad.wait(), Err(BatchError::Panicked { .. })));
    assert_eq!(good.wait().unwrap(), 1);
}

#[test]
fn parts_are_streamed_meanwhile() {
    let (runtime, gate) = (Runtime::new(), Gate::closed());
    let batcher = start(&runtime, &gate, Batching::new());
    let (sender, parts) = mpsc::channel();
    let ticket = batcher.submit(Text {
        stream: Some(sender),
        ..text(1, 0, 3)
    });
    for part in 1..=3 {
        gate.pass();
        assert_eq!(parts.recv(), Ok(part));
    }
    assert_eq!(ticket.wait().unwrap(), 3);
}

#[test]
fn who_stays_too_long_has_to_go() {
    let (runtime, gate) = (Runtime::new(), Gate::closed());
    let batcher = start(&runtime, &gate, Batching::new().max_stay(Duration::ZERO));
    let answer = batcher.submit(text(1, 0, 1)).wait();
    assert!(matches!(answer, Err(BatchError::Expired { .. })), "{answer:?}");
    let late = SubmitOptions::new().deadline(Instant::now());
    let answer = batcher.submit_with(text(1, 0, 1), late).wait();
    assert!(matches!(answer, Err(BatchError::Expired { .. })), "{answer:?}");
    assert_eq!(gate.sizes(), [0; 0]);
}

#[test]
fn a_broken_graph_fails_its_members_and_the_queue_goes_on() {
    let (runtime, gate) = (Runtime::new(), Gate::closed());
    let options = Batching::new().max_size(1).on_broken(OnBroken::Keep);
    let batcher = start(&runtime, &gate, options);
    let (first, breakage) = (occupy(&batcher, &gate, 2), batcher.breakage());
    let waiting = batcher.submit(text(1, 0, 3));
    let ended = std::thread::scope(|scope| {
        let held = batcher.graph().unwrap();
        // The tear-down waits for the method, and the method for the gate.
        let ended = scope.spawn(move || held.teardown());
        let answer = first.wait();
        assert!(
            matches!(answer, Err(BatchError::Failed(ExecError::TornDown { .. }))),
            "{answer:?}"
        );
        gate.open();
        ended.join().unwrap()
    });
    assert!(ended.stuck.is_empty());
    assert!(matches!(breakage.wait(), Ok(ExecError::TornDown { .. })));
    batcher.replace(graph(&runtime, &Gate::opened()));
    assert_eq!(waiting.wait().unwrap(), 3);
}

#[test]
fn members_do_not_survive_the_graph_that_knew_them() {
    let (runtime, gate) = (Runtime::new(), Gate::closed());
    let batcher = start(&runtime, &gate, Batching::new());
    let first = occupy(&batcher, &gate, 1000);
    std::thread::scope(|scope| {
        scope.spawn(|| batcher.replace(graph(&runtime, &Gate::opened())));
        let answer = first.wait();
        assert!(
            matches!(answer, Err(BatchError::Failed(ExecError::TornDown { .. }))),
            "{answer:?}"
        );
        gate.open();
    });
    assert_eq!(batcher.submit(text(1, 0, 3)).wait().unwrap(), 3);
}

#[test]
fn close_lets_members_end_and_the_queue_in() {
    let (runtime, gate) = (Runtime::new(), Gate::opened());
    let batcher = start(&runtime, &gate, Batching::new().max_size(2).max_inflight(2));
    let tickets: Vec<_> = (0..20).map(|name| batcher.submit(text(name, 5, 3))).collect();
    assert_eq!(batcher.close(LONG), 0);
    assert!(
        tickets
            .into_iter()
            .all(|ticket| ticket.wait().is_ok_and(|count| count == 8))
    );
}
