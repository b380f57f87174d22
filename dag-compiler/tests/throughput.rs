//! The compiler's throughput bounds, compared with a count: lanes, slots and unfinished executions advance by a
//! simulated clock, so the speed of the machine does not matter.

#![allow(
    clippy::indexing_slicing,
    clippy::unwrap_used,
    clippy::panic,
    reason = "a test may panic"
)]

mod machine;
mod text;

use std::collections::VecDeque;

use machine::Random;
use selvedge_compiler::bound;
use selvedge_compiler::ir::{ChannelKind, GraphIr, OpKind, Origin, Plan, Settings};
use selvedge_compiler::plan::compile::plan;
use selvedge_core::LaneId;
use text::{Sketch, settings};

/// The length of a tick. Tasks last whole ticks, beside which the compiler's assumed cost of a hop is negligible.
const TICK_NS: u64 = 1_000_000_000;

/// The number of counted executions, after equally many uncounted ones: a multiple of every small period of repetition.
const EXECUTIONS: usize = 420;

/// A lane's end of a value. The times are those of arrivals of messages and of releases of slots.
struct Inlet {
    lane: LaneId,
    value: usize,
    reads: u32,
    unread: u32,
    came: VecDeque<u64>,
    free: VecDeque<u64>,
}

/// A plan that runs by the clock, with a given number of slots per value.
struct Clocked<'a> {
    plan: &'a Plan,
    inlets: Vec<Inlet>,
    /// By lane: the next step, and the time of the last one.
    lanes: Vec<(usize, u64)>,
    submitted: VecDeque<u64>,
    /// The times at which the executions ended.
    ended: Vec<u64>,
}

impl<'a> Clocked<'a> {
    fn new(plan: &'a Plan, slots: u32) -> Self {
        let inlets = plan.lanes.iter().flat_map(|lane| {
            lane.values.iter().map(move |value| {
                let local = plan.channels[value.channel.0 as usize].kind == ChannelKind::Local;
                Inlet {
                    lane: lane.address.lane,
                    value: value.value.0 as usize,
                    reads: value.reads,
                    unread: value.reads,
                    came: VecDeque::new(),
                    free: (0..if local { 1 } else { slots }).map(|_| 0).collect(),
                }
            })
        });
        Clocked {
            plan,
            inlets: inlets.collect(),
            lanes: vec![(0, 0); plan.lanes.len()],
            submitted: (0..plan.settings.max_inflight).map(|_| 0).collect(),
            ended: Vec::new(),
        }
    }

    /// The number of ticks from one execution to the next, once the pattern repeats.
    fn period(mut self) -> f64 {
        let (mut moves, mut submission) = (true, 0);
        while moves && self.ended.len() < 2 * EXECUTIONS {
            moves = self.submit(&mut submission);
            for lane in 0..self.lanes.len() {
                while self.step(lane) {
                    moves = true;
                }
            }
        }
        assert!(moves, "it stands still");
        let ticks = self.ended[2 * EXECUTIONS - 1] - self.ended[EXECUTIONS - 1];
        ticks as f64 / EXECUTIONS as f64
    }

    fn submit(&mut self, at: &mut u64) -> bool {
        let Some(allowed) = self.submitted.front().copied() else {
            return false;
        };
        let is_input = |origin| matches!(origin, Origin::Input(_));
        let Some(room) = self.put(is_input, allowed.max(*at)) else {
            return false;
        };
        self.submitted.pop_front();
        *at = room;
        true
    }

    /// Writes the values of an origin when all of their readers have a slot. Returns the time of the write.
    fn put(&mut self, from: impl Fn(Origin) -> bool, at: u64) -> Option<u64> {
        let values = &self.plan.ir.values;
        let mine: Vec<usize> = (0..self.inlets.len())
            .filter(|inlet| from(values[self.inlets[*inlet].value].origin))
            .collect();
        let room = mine.iter().map(|inlet| self.inlets[*inlet].free.front().copied());
        let at = room.collect::<Option<Vec<_>>>()?.into_iter().fold(at, u64::max);
        for inlet in mine {
            self.inlets[inlet].free.pop_front();
            self.inlets[inlet].came.push_back(at);
        }
        Some(at)
    }

    fn inlet(&mut self, lane: usize, value: usize) -> &mut Inlet {
        let lane = self.plan.lanes[lane].address.lane;
        let inlet = self
            .inlets
            .iter_mut()
            .find(|it| it.lane == lane && it.value == value);
        inlet.unwrap()
    }

    /// Ends a read: after the last read of a value, its slot is free.
    fn done(&mut self, lane: usize, value: usize, at: u64) {
        let inlet = self.inlet(lane, value);
        inlet.unread -= 1;
        if inlet.unread == 0 {
            inlet.unread = inlet.reads;
            inlet.came.pop_front();
            inlet.free.push_back(at);
        }
    }

    fn step(&mut self, lane: usize) -> bool {
        let plan = self.plan;
        let (next, at) = self.lanes[lane];
        let steps = &plan.lanes[lane].steps;
        let Some(step) = steps.get(next) else {
            return self.end(lane, at);
        };
        let task = &plan.ir.tasks[step.task.0 as usize];
        let now = match step.kind {
            OpKind::Read { .. } => {
                let value = plan.ir.read_by(*step).unwrap().0 as usize;
                let came = self.inlet(lane, value).came.front().copied();
                came.map(|came| came.max(at))
            }
            OpKind::Compute => {
                let over = at + task.duration_ns.unwrap() / TICK_NS;
                for (_, value) in GraphIr::reads(task) {
                    self.done(lane, value.0 as usize, over);
                }
                Some(over)
            }
            OpKind::Write => self.put(|origin| origin == Origin::Task(step.task), at),
            OpKind::Collective => panic!("no collectives here"),
        };
        let Some(now) = now else { return false };
        self.lanes[lane] = (next + 1, now);
        // The driver's lane does not wrap around here: it collects the outputs first.
        if next + 1 == steps.len() && lane != 0 {
            self.lanes[lane].0 = 0;
        }
        true
    }

    /// Takes the outputs on the driver's lane.
    fn end(&mut self, lane: usize, at: u64) -> bool {
        if lane != 0 {
            return false;
        }
        let outputs: Vec<usize> = self.plan.ir.outputs.iter().map(|it| it.0 as usize).collect();
        let came = outputs
            .iter()
            .map(|output| self.inlet(0, *output).came.front().copied());
        let Some(came) = came.collect::<Option<Vec<_>>>() else {
            return false;
        };
        let now = came.into_iter().fold(at, u64::max);
        outputs.into_iter().for_each(|output| self.done(0, output, now));
        self.lanes[0] = (0, now);
        self.submitted.push_back(now);
        self.ended.push(now);
        true
    }
}

fn ticks(mut graph: GraphIr, ticks: &[u64]) -> GraphIr {
    for (task, ticks) in graph.tasks.iter_mut().zip(ticks.iter().cycle()) {
        task.duration_ns = Some(ticks * TICK_NS);
    }
    graph
}

fn with(slots: u32, inflight: u32, auto_slots: bool) -> Settings {
    Settings {
        max_inflight: inflight,
        auto_slots,
        ..settings(slots)
    }
}

fn random(random: &mut Random) -> GraphIr {
    let mut sketch = Sketch::new();
    let tasks = 1 + random.below(10);
    // Half of the graphs have a lane for every task; the others share a few lanes, including the driver's.
    let own = random.below(2) == 0;
    let lanes = 1 + random.below(4);
    let actors: Vec<_> = (0..tasks)
        .map(|index| {
            let lane = if own { index + 1 } else { random.below(lanes + 1) } as u32;
            sketch.actor(&format!("a{index}"), lane, u32::from(lane > 2))
        })
        .collect();
    let mut values = vec![sketch.input()];
    for task in 0..tasks {
        // The first argument is the newest value: long paths beside short ones.
        let mut args = vec![values.last().copied()];
        args.extend((0..random.below(3)).map(|_| Some(values[random.below(values.len())])));
        let actor = actors[if own { task } else { random.below(tasks) }];
        values.push(sketch.task(actor, "f", &args, values.len()));
    }
    let lasts: Vec<u64> = (0..values.len()).map(|_| 1 + random.below(9) as u64).collect();
    ticks(sketch.finish(), &lasts)
}

fn is_about(said: f64, counted: f64) -> bool {
    (said - counted).abs() <= counted * 5e-4
}

#[test]
fn the_throughput_bound_is_what_is_counted() {
    for seed in 0..200 {
        let mut numbers = Random(seed);
        let graph = random(&mut numbers);
        let settings = with(1 + numbers.below(4) as u32, 1 + numbers.below(6) as u32, false);
        let plan = plan(graph, settings).unwrap();
        let bound = bound(&plan).unwrap();
        let counted = Clocked::new(&plan, plan.settings.slots).period();
        let said = bound.period_ns / TICK_NS as f64;
        assert!(
            is_about(said, counted),
            "seed {seed}: said {said}, counted {counted}\n{}",
            plan.describe()
        );
        // The named circuit takes the same time.
        let works = bound.bottleneck.iter().map(|(_, step)| step.task.0 as usize);
        let sum: u64 = works.map(|task| plan.ir.tasks[task].duration_ns.unwrap()).sum();
        let around = sum as f64 / TICK_NS as f64 / f64::from(bound.tokens);
        assert!(
            is_about(around, counted),
            "seed {seed}: {around} around {bound:?}"
        );
    }
}

#[test]
fn automatic_slots_are_the_fewest_that_keep_the_throughput() {
    let mut chosen = [0; 7];
    for seed in 0..200 {
        let mut numbers = Random(seed);
        let graph = random(&mut numbers);
        let inflight = 1 + numbers.below(6) as u32;
        let plan = plan(graph, with(inflight, inflight, true)).unwrap();
        let slots = plan.settings.slots;
        let buffered = |kind| kind != ChannelKind::Local;
        assert!(
            plan.channels
                .iter()
                .all(|it| !buffered(it.kind) || it.slots == slots)
        );
        let period = |slots| Clocked::new(&plan, slots).period();
        let best = period(inflight);
        assert!(is_about(period(slots), best), "seed {seed}: {slots} are too few");
        if slots > 1 {
            let fewer = period(slots - 1);
            assert!(
                fewer > best * 1.0005,
                "seed {seed}: {slots} are too many: {fewer}, {best}"
            );
        }
        chosen[slots as usize] += 1;
    }
    assert!(chosen[1] > 0 && chosen[2] > 0 && chosen[3] > 0, "{chosen:?}");
}

#[test]
fn a_value_that_passes_by_two_slow_stages_needs_three_slots() {
    let text = "actor a on 1\nactor b on 2\nactor c on 3\nactor d on 4\ninput x\nu = a.f(x)\nv = b.g(u)\nw = c.h(v)\ny = d.i(u, w)\nreturn y";
    let graph = ticks(text::graph(text), &[1, 4, 4, 1]);
    let plan = plan(graph, with(8, 8, true)).unwrap();
    assert_eq!(plan.settings.slots, 3);
    let period = |slots| Clocked::new(&plan, slots).period();
    // Around `u`: the time of `b`, `c` and `d`, divided by the number of slots of `u`.
    assert_eq!([3, 2, 1].map(period), [4.0, 9.0 / 2.0, 9.0]);
}
