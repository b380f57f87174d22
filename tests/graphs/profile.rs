//! Orders made for durations: declared or measured durations decide the order, and the results stay the same.

use std::time::Duration;

use crate::actors::{Counter, PLACEMENTS, counter};
use selvedge::pipeline::PipelineSchedule;
use selvedge::prelude::*;
use selvedge::{Plan, Slots};

/// The labels of the COMPUTEs of the first lane that has any, in order.
fn first_lane(plan: &Plan) -> Vec<String> {
    let mut lanes = plan.lanes.iter().map(|lane| -> Vec<String> {
        let steps = lane.steps.iter().filter(|step| step.kind.is_work());
        steps
            .map(|step| plan.ir.task(step.task).unwrap().label.clone())
            .collect()
    });
    lanes.find(|labels| !labels.is_empty()).unwrap()
}

/// Builds a graph whose actors `a` and `b` share a lane. Two short tasks follow `a`, one long task follows `b`. Without
/// durations, `a` has the longer path to the end and goes first.
fn two_ways(runtime: &Runtime, options: Options) -> Result<Graph<i64, (i64, i64)>> {
    let lane = runtime.lane("shared");
    let a = runtime.spawn::<Counter>("a", (0,)).in_lane(&lane)?;
    let b = runtime.spawn::<Counter>("b", (0,)).in_lane(&lane)?;
    let (c, d) = (
        counter(runtime, "c", Placement::Thread),
        counter(runtime, "d", Placement::Thread),
    );
    Ok(runtime.compile_with(options, |x: Edge<i64>| {
        let short = c.echo(&c.echo(&a.echo(&x)));
        let long = d.sleep_ms(&b.echo(&x)).named("long");
        (short, long)
    })?)
}

#[test]
fn graph_12_a_profile_puts_the_longest_way_first() -> Result<()> {
    let runtime = Runtime::new();
    let graph = two_ways(&runtime, Options::new().trace(256))?;
    assert_eq!(first_lane(graph.plan()), ["a.echo", "b.echo"]);
    assert_eq!(graph.execute(1).wait()?, (1, 1));
    let profile = graph.profile(5, |_| 20)?;
    let long = profile.task("long").unwrap();
    assert!(long.samples >= 5 && long.p50_ns >= 19_000_000, "{profile}");
    assert!(profile.task("a.echo").unwrap().samples >= 5, "{profile}");
    let graph = graph.recompile(&profile)?;
    assert_eq!(first_lane(graph.plan()), ["b.echo", "a.echo"]);
    assert_eq!(graph.execute(1).wait()?, (1, 1));
    // Back again: the order follows the new measurements, not the old ones.
    let profile = graph.profile(40, |_| 0)?;
    assert!(profile.task("long").unwrap().samples > 20);
    drop(graph);
    Ok(())
}

#[test]
fn graph_12_tasks_that_are_given_one_name_are_measured_each_by_itself() -> Result<()> {
    let runtime = Runtime::new();
    let [a, b] = ["a", "b"].map(|name| counter(&runtime, name, Placement::Thread));
    let options = Options::new().trace(256);
    let graph = runtime.compile_with(options, |x: Edge<i64>| {
        let short = a.echo(&x).named("same").named("same");
        (short, b.sleep_ms(&x).named("same"))
    })?;
    let profile = graph.profile(5, |_| 20)?;
    let names: Vec<&str> = profile.tasks().map(|(name, _)| name).collect();
    assert_eq!(names, ["same", "same#2"], "{profile}");
    let (short, long) = (profile.task("same").unwrap(), profile.task("same#2").unwrap());
    assert!(short.samples == 5 && long.samples == 5, "{profile}");
    // A sleep is never shorter than the requested time.
    assert!(long.p50_ns >= 19_000_000, "{profile}");
    Ok(())
}

#[test]
fn graph_12_what_is_declared_counts_as_measured() -> Result<()> {
    let runtime = Runtime::new();
    let lane = runtime.lane("shared");
    let a = runtime.spawn::<Counter>("a", (0,)).in_lane(&lane)?;
    let b = runtime.spawn::<Counter>("b", (0,)).in_lane(&lane)?;
    let (c, d) = (
        counter(&runtime, "c", Placement::Thread),
        counter(&runtime, "d", Placement::Thread),
    );
    for (slow, order) in [(false, ["a.echo", "b.echo"]), (true, ["b.echo", "a.echo"])] {
        let graph = runtime.compile(|x: Edge<i64>| {
            let long = d.echo(&b.echo(&x));
            let long = if slow {
                long.takes(Duration::from_millis(5))
            } else {
                long
            };
            (c.echo(&c.echo(&a.echo(&x))), long)
        })?;
        assert_eq!(first_lane(graph.plan()), order);
    }
    Ok(())
}

#[test]
fn task_15_a_profile_needs_a_trace() -> Result<()> {
    let runtime = Runtime::new();
    let a = counter(&runtime, "a", Placement::Inline);
    let graph = runtime.compile(|x: Edge<i64>| a.echo(&x))?;
    assert!(matches!(graph.profile(1, |_| 1), Err(ExecError::TraceOff { .. })));
    Ok(())
}

#[test]
fn graph_10_a_recompiled_graph_gives_the_same_results_everywhere() -> Result<()> {
    for placement in PLACEMENTS {
        for lanes in [Lanes::Spawned, Lanes::Auto] {
            let runtime = Runtime::new();
            let crew: Vec<_> = (0..5)
                .map(|index| counter(&runtime, &format!("c{index}"), placement))
                .collect();
            let options = Options::new().trace(1000).lanes(lanes).slots(Slots::Auto);
            let mut graph = runtime.compile_with(options, |x: Edge<i64>| {
                let (low, high) = (crew[0].echo(&x), crew[1].scale(&x, 3));
                (
                    crew[2].add(&low, &high),
                    crew[3].inc(&low),
                    crew[4].pair(&high).split(),
                )
            })?;
            for round in 0..3 {
                for x in 1..=10 {
                    // Each round adds 55 to the total, and its profile adds four times 5.
                    let total = round * 75 + (1..=x).sum::<i64>();
                    let found = graph.execute(x).wait()?;
                    assert_eq!(
                        (found.0, found.2),
                        (4 * x, (3 * x, 3 * x + 1)),
                        "{placement} {lanes:?}"
                    );
                    assert_eq!(found.1, total, "{placement} {lanes:?}");
                }
                let profile = graph.profile(4, |_| 5)?;
                graph = graph.recompile(&profile)?;
            }
        }
    }
    Ok(())
}

/// Every schedule of a pipeline computes the results of plain calls, and no stage ever holds more activations than the
/// schedule allows.
#[test]
fn graph_18_pipelines_run_and_give_the_same_gradients() -> Result<()> {
    let (stages, batches) = (3, 6);
    for placement in [Placement::Thread, Placement::Inline] {
        for schedule in [
            PipelineSchedule::GPipe,
            PipelineSchedule::OneForwardOneBackward,
            PipelineSchedule::Interleaved { chunks: 2 },
        ] {
            let runtime = Runtime::new();
            let crew: Vec<_> = (0..stages)
                .map(|index| {
                    runtime
                        .spawn::<Stage>(format!("s{index}"), (index as i64 + 1,))
                        .place(placement)
                })
                .collect::<Result<_, _>>()?;
            let options = Options::new().inputs(batches);
            let graph = runtime.compile_with(options, |inputs: Vec<Edge<i64>>| {
                schedule.bind(
                    stages,
                    &inputs,
                    |step, x| crew[step.stage].forward(x, step.chunk as u32),
                    |step, y| crew[step.stage].loss(y),
                    |step, gradient| crew[step.stage].backward(gradient, step.chunk as u32),
                )
            })?;
            let inputs: Vec<i64> = (1..=batches as i64).collect();
            // Every stage multiplies by its number, and on the way back adds the value that it has kept.
            let plain = |x: i64| {
                let mut kept = Vec::new();
                let mut at = x;
                for _ in 0..schedule.chunks() {
                    for stage in 1..=stages as i64 {
                        kept.push(at);
                        at *= stage;
                    }
                }
                kept.into_iter().rev().fold(-at, |gradient, kept| gradient + kept)
            };
            let expected: Vec<i64> = inputs.iter().map(|x| plain(*x)).collect();
            for _ in 0..3 {
                assert_eq!(
                    graph.execute(inputs.clone()).wait()?,
                    expected,
                    "{schedule:?} {placement}"
                );
            }
            let most = crew[0].call().most(()).wait()?;
            let allowed = match schedule {
                PipelineSchedule::GPipe => batches,
                PipelineSchedule::OneForwardOneBackward => stages,
                PipelineSchedule::Interleaved { .. } => 2 * batches,
            };
            assert!(most as usize <= allowed, "{schedule:?} holds {most} activations");
            if schedule == PipelineSchedule::OneForwardOneBackward {
                assert_eq!(most as usize, stages);
            }
        }
    }
    Ok(())
}

struct Stage {
    factor: i64,
    kept: Vec<std::collections::VecDeque<i64>>,
    most: u64,
}

#[actor]
impl Stage {
    pub fn new(factor: i64) -> Self {
        Stage {
            factor,
            kept: Vec::new(),
            most: 0,
        }
    }

    pub fn forward(&mut self, x: i64, #[constant] chunk: u32) -> i64 {
        self.kept
            .resize_with(self.kept.len().max(chunk as usize + 1), Default::default);
        self.kept[chunk as usize].push_back(x);
        self.most = self
            .most
            .max(self.kept.iter().map(|kept| kept.len() as u64).sum());
        x * self.factor
    }

    pub fn loss(&mut self, y: i64) -> i64 {
        -y
    }

    pub fn backward(&mut self, gradient: i64, #[constant] chunk: u32) -> i64 {
        gradient + self.kept[chunk as usize].pop_front().unwrap()
    }

    pub fn most(&mut self, _tick: ()) -> u64 {
        self.most
    }
}
