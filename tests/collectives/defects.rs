//! Graphs that crash, serialise or deadlock elsewhere (`dag-compiler/tests/defects.rs` has their schedules), run by
//! real actors: with rendezvous transfers, one slot, threads and processes.

use std::collections::BTreeMap;
use std::sync::{Arc, Barrier, LazyLock};
use std::time::Duration;

use crate::actors::{CounterHandle, counter};
use selvedge::prelude::*;
use selvedge::{Outputs, Transport};

const HOMES: [[Placement; 3]; 2] = [
    [Placement::Thread, Placement::Thread, Placement::Thread],
    [Placement::Thread, Placement::Process, Placement::Thread],
];

/// Runs a graph over three actors in all of `HOMES`, with overlap and without, and compares with `expected`.
fn runs<O: Outputs>(
    bind: impl Fn(&[CounterHandle; 3], Edge<i64>) -> O,
    expected: impl Fn(i64) -> O::Value,
) -> Result<()>
where
    O::Value: PartialEq + std::fmt::Debug,
{
    for homes in HOMES {
        for overlap in [false, true] {
            let runtime = Runtime::new();
            let mut names = ["a", "b", "c"].into_iter();
            let crew = homes.map(|home| counter(&runtime, names.next().unwrap(), home));
            let options = Options::new()
                .slots(1)
                .overlap(overlap)
                .timeout(Duration::from_secs(60));
            let graph = runtime.compile_with(options, |x: Edge<i64>| bind(&crew, x))?;
            let pending: Vec<_> = (0..5).map(|x| graph.execute(x)).collect();
            for (x, pending) in (0..).zip(pending) {
                assert_eq!(pending.wait()?, expected(x));
            }
            for x in 0..50 {
                assert_eq!(graph.execute(x).wait()?, expected(x));
            }
        }
    }
    Ok(())
}

fn met(edge: &Edge<i64>) -> Edge<i64> {
    edge.clone().with_transport(Transport::Rendezvous)
}

#[test]
fn d1_fan_in_of_transfers() -> Result<()> {
    runs(
        |[a, b, c], x| c.add(&met(&a.echo(&x)), &met(&b.scale(&x, 10))),
        |x| 11 * x,
    )?;
    runs(
        |[a, b, c], x| c.add(&a.echo(&x), &met(&b.scale(&x, 10))),
        |x| 11 * x,
    )
}

#[test]
fn d2_one_writer_and_two_readers_on_other_actors() -> Result<()> {
    runs(
        |[a, b, c], x| {
            let made = a.scale(&a.echo(&x), 3);
            (b.echo(&met(&made)), c.echo(&met(&made)))
        },
        |x| (3 * x, 3 * x),
    )
}

#[test]
fn d3_and_e02_there_and_back_through_another_actor() -> Result<()> {
    runs(|[a, b, _], x| a.scale(&met(&b.echo(&a.echo(&x))), 2), |x| 2 * x)?;
    runs(
        |[a, b, _], x| a.scale(&met(&b.echo(&met(&a.echo(&x)))), 2),
        |x| 2 * x,
    )
}

#[test]
fn d4_a_local_and_a_transferred_input() -> Result<()> {
    runs(
        |[a, b, _], x| a.add(&a.echo(&x), &met(&b.scale(&x, 10))),
        |x| 11 * x,
    )
}

#[test]
fn e03_two_readers_on_one_actor_of_which_one_needs_the_other() -> Result<()> {
    runs(
        |[a, b, _], x| {
            let made = b.echo(&x);
            a.add(&met(&made), &a.scale(&met(&made), 4))
        },
        |x| 5 * x,
    )
}

#[test]
fn e04_a_diamond() -> Result<()> {
    runs(
        |[a, b, c], x| {
            let made = a.echo(&x);
            a.add(&met(&b.scale(&met(&made), 2)), &c.scale(&made, 3))
        },
        |x| 5 * x,
    )
}

/// A barrier for three threads: a method that runs while the others do not blocks for ever.
static MEETING: LazyLock<Arc<Barrier>> = LazyLock::new(|| Arc::new(Barrier::new(3)));

struct Worker;

#[actor]
impl Worker {
    pub fn new() -> Self {
        Worker
    }

    /// Returns once all three actors are inside.
    pub fn together(&mut self, x: i64) -> i64 {
        MEETING.wait();
        x
    }

    pub fn add(&mut self, a: i64, b: i64) -> i64 {
        a + b
    }
}

/// A ring: each actor works on its own task and then receives the result of its neighbour. A schedule that receives
/// first would run the actors one after the other, and none would return from the barrier.
#[test]
fn d5_all_work_while_transfers_are_on_their_way_and_the_trace_shows_it() -> Result<()> {
    for overlap in [false, true] {
        let runtime = Runtime::new();
        let [a, b, c] = ["a", "b", "c"].map(|name| runtime.spawn::<Worker>(name, ()).in_thread().unwrap());
        let options = Options::new()
            .slots(1)
            .trace(256)
            .overlap(overlap)
            .timeout(Duration::from_secs(60));
        let graph = runtime.compile_with(options, |x: Edge<i64>| {
            let (u, v, w) = (a.together(&x), b.together(&x), c.together(&x));
            (a.add(&met(&w), &x), b.add(&met(&u), &x), c.add(&met(&v), &x))
        })?;
        for x in 0..5 {
            assert_eq!(graph.execute(x).wait()?, (2 * x, 2 * x, 2 * x));
        }
        let events = graph.trace();
        for execution in 0..5 {
            let own: BTreeMap<&str, (u64, u64)> = events
                .iter()
                .filter(|event| {
                    event.operation == "COMPUTE" && event.method == "together" && event.execution == execution
                })
                .map(|event| (event.actor.as_str(), (event.start_ns, event.end_ns)))
                .collect();
            assert_eq!(own.len(), 3);
            let last_begin = own.values().map(|(start, _)| *start).max().unwrap();
            let first_end = own.values().map(|(_, end)| *end).min().unwrap();
            assert!(
                last_begin <= first_end,
                "all three were at work at one moment: {own:?}"
            );
        }
    }
    Ok(())
}

static AHEAD: Barrier = Barrier::new(2);

/// A rank that computes the gradients of two layers, from the last to the first.
struct Learner {
    rank: i64,
}

#[actor]
impl Learner {
    pub fn new(rank: i64) -> Result<Self> {
        Ok(Learner { rank })
    }

    /// On rank 1, blocks until rank 0 has reached its next layer.
    pub fn backward_last(&mut self, x: i64) -> Result<Vec<i64>> {
        if self.rank == 1 {
            AHEAD.wait();
        }
        Ok(vec![x + self.rank; 2000])
    }

    pub fn backward_first(&mut self, x: i64) -> Result<Vec<i64>> {
        if self.rank == 0 {
            AHEAD.wait();
        }
        Ok(vec![10 * x + self.rank])
    }

    pub fn step(&mut self, last: Vec<i64>, first: Vec<i64>) -> Result<i64> {
        Ok(last[1999] + first[0])
    }
}

#[test]
fn d6_a_layers_allreduce_runs_beside_the_next_layers_backward() -> Result<()> {
    let runtime = Runtime::new();
    let learners: [LearnerHandle; 2] = std::array::from_fn(|rank| {
        let spawn = runtime.spawn::<Learner>(format!("learner{rank}"), (rank as i64,));
        spawn.in_thread().unwrap()
    });
    let options = Options::new().trace(1024).timeout(Duration::from_secs(60));
    let graph = runtime.compile_with(options, |x: Edge<i64>| {
        let last = allreduce(ReduceOp::Sum, learners.each_ref().map(|it| it.backward_last(&x)));
        let first = allreduce(ReduceOp::Sum, learners.each_ref().map(|it| it.backward_first(&x)));
        let mut ranks = learners.iter().zip(last.iter().zip(&first));
        std::array::from_fn::<_, 2, _>(|_| {
            let (learner, (last, first)) = ranks.next().unwrap();
            learner.step(last, first)
        })
    })?;
    for x in 0..20 {
        // Rank 0 is at its first layer while rank 1 is at its last; rank 0 has already posted its part of the last
        // layer's sum.
        assert_eq!(graph.execute(x).wait()?, [22 * x + 2; 2]);
    }
    for execution in 0..20 {
        let own: Vec<_> = graph
            .trace()
            .into_iter()
            .filter(|event| event.execution == execution && event.actor == "learner0")
            .collect();
        let at = |operation: &str, method: &str| {
            let found = own
                .iter()
                .find(|event| event.operation == operation && event.method == method);
            found.map(|event| (event.start_ns, event.end_ns)).unwrap()
        };
        let (posted, computed) = (
            at("COLLECTIVE", "allreduce(sum)"),
            at("COMPUTE", "backward_first"),
        );
        let result = at("WRITE", "allreduce(sum)");
        assert!(
            posted.1 <= computed.1 && computed.0 < result.0,
            "{posted:?} {computed:?} {result:?}"
        );
    }
    Ok(())
}
