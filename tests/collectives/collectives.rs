//! Collectives as edges of a graph: their results over threads, processes and a single lane; the effects of a failure
//! of one rank; refused graphs.

use std::collections::HashMap;
use std::sync::Mutex;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::Duration;

use selvedge::collectives::{
    AbortHandle, Backend, Capabilities, Collective, CommError, Communicator, Contribution as Brought,
    Joining, Part, PlanId,
};
use selvedge::prelude::*;
use selvedge::{
    Contribute, ExecError, TensorError, all_to_all, barrier, broadcast, gather, reduce, reduce_scatter,
    scatter,
};

struct Rank {
    rank: i64,
}

#[actor]
impl Rank {
    pub fn new(rank: i64) -> Result<Self> {
        Ok(Rank { rank })
    }

    /// Returns `x + rank` times 1, 2, 3 and 4; an error on rank 1 for a negative `x`.
    pub fn make(&mut self, x: i64) -> Result<Vec<i64>> {
        if x < 0 && self.rank == 1 {
            return Err("rank 1 has no negative numbers".into());
        }
        Ok((0..4).map(|at| (x + self.rank) * (at + 1)).collect())
    }

    pub fn tensor(&mut self, x: i64) -> Result<Tensor> {
        let values: Vec<f32> = (0..50_000).map(|at| (x + self.rank * at) as f32).collect();
        Ok(Tensor::from_slice(&values, &[100, 500])?)
    }

    pub fn parts(&mut self, x: i64) -> Result<Vec<Tensor>> {
        let counts = Tensor::from_slice(&[x as u8, self.rank as u8], &[2])?;
        Ok(vec![self.tensor(x)?, counts])
    }

    pub fn loss(&mut self, x: i64) -> Result<f64> {
        Ok((x + self.rank) as f64)
    }

    pub fn sum(&mut self, values: &[i64]) -> Result<i64> {
        Ok(values.iter().sum())
    }

    pub fn total(&mut self, tensor: &Tensor) -> Result<f64> {
        Ok(tensor.as_slice::<f32>()?.iter().map(|it| f64::from(*it)).sum())
    }

    pub fn totals(&mut self, tensors: &[Tensor]) -> Result<f64> {
        let counts: f64 = tensors[1].as_slice::<u8>()?.iter().map(|it| f64::from(*it)).sum();
        Ok(self.total(&tensors[0])? + counts)
    }
}

/// The placement of the ranks.
#[derive(Clone, Copy, Debug)]
enum Where {
    Threads,
    Processes,
    Mixed,
    OneLane,
    Inline,
}

const PLACES: [Where; 5] = [
    Where::Threads,
    Where::Processes,
    Where::Mixed,
    Where::OneLane,
    Where::Inline,
];

fn ranks<const N: usize>(runtime: &Runtime, place: Where) -> [RankHandle; N] {
    let lane = runtime.lane("ranks");
    std::array::from_fn(|rank| {
        let spawn = runtime.spawn::<Rank>(format!("rank{rank}"), (rank as i64,));
        match place {
            Where::Threads => spawn.in_thread(),
            Where::Processes => spawn.in_process(),
            Where::Mixed if rank % 2 == 0 => spawn.in_thread(),
            Where::Mixed => spawn.in_process(),
            Where::OneLane => spawn.in_lane(&lane),
            Where::Inline => spawn.inline(),
        }
        .unwrap()
    })
}

fn made(rank: i64, x: i64) -> Vec<i64> {
    (0..4).map(|at| (x + rank) * (at + 1)).collect()
}

#[test]
fn every_collective_is_an_edge_wherever_its_ranks_are() {
    for place in PLACES {
        let runtime = Runtime::new();
        let ranks: [RankHandle; 2] = ranks(&runtime, place);
        let graph = runtime
            .compile(|x: Edge<i64>| {
                let [a, b] = allreduce(ReduceOp::Sum, ranks.each_ref().map(|rank| rank.make(&x)));
                let scattered = reduce_scatter(ReduceOp::Max, ranks.each_ref().map(|rank| rank.make(&x)));
                let gathered = allgather(ranks.iter().map(|rank| rank.make(&x)).collect::<Vec<_>>());
                let exchanged = all_to_all(ranks.each_ref().map(|rank| rank.make(&x)));
                let [_, sent] = broadcast(0, ranks.each_ref().map(|rank| rank.make(&x)));
                let cut = scatter(1, ranks.each_ref().map(|rank| rank.make(&x)));
                let least = reduce(ReduceOp::Min, 1, ranks.each_ref().map(|rank| rank.make(&x)));
                let all = gather(0, ranks.each_ref().map(|rank| rank.make(&x)));
                let [loss, _] = allreduce(ReduceOp::Average, ranks.each_ref().map(|rank| rank.loss(&x)));
                let passed = barrier(ranks.each_ref().map(|rank| rank.make(&x)));
                let sums = [ranks[0].sum(&a), ranks[1].sum(&b)];
                (
                    (sums, scattered, gathered),
                    (exchanged, sent, cut),
                    (least, all, loss, passed),
                )
            })
            .unwrap();
        for x in [0, 5, 1000] {
            let (zero, one) = (made(0, x), made(1, x));
            let added: i64 = zero.iter().chain(&one).sum();
            let ((sums, scattered, gathered), (exchanged, sent, cut), (least, all, loss, passed)) =
                graph.execute(x).wait().unwrap();
            assert_eq!(sums, [added, added], "{place:?}");
            assert_eq!(scattered, [one[..2].to_vec(), one[2..].to_vec()]);
            let both = [zero.clone(), one.clone()].concat();
            assert_eq!(gathered, vec![both.clone(), both.clone()]);
            assert_eq!(exchanged[1], [&zero[2..], &one[2..]].concat());
            assert_eq!(sent, zero);
            assert_eq!(cut, [one[..2].to_vec(), one[2..].to_vec()]);
            assert_eq!((least, all), (zero.clone(), both));
            assert_eq!(loss, x as f64 + 0.5);
            assert_eq!(passed, [zero, one]);
        }
    }
}

#[test]
fn tensors_large_and_several_at_once_cross_processes_without_being_held_up() {
    for place in [Where::Threads, Where::Processes, Where::Mixed] {
        let runtime = Runtime::new();
        let ranks: [RankHandle; 3] = ranks(&runtime, place);
        let options = Options::new().max_inflight(4);
        let graph = runtime
            .compile_with(options, |x: Edge<i64>| {
                let sums = allreduce(ReduceOp::Sum, ranks.each_ref().map(|rank| rank.tensor(&x)));
                let [a, b, c] = sums;
                let [_, fused, _] = allreduce(ReduceOp::Max, ranks.each_ref().map(|rank| rank.parts(&x)));
                [
                    ranks[0].total(&a),
                    ranks[1].total(&b),
                    ranks[2].total(&c),
                    ranks[1].totals(&fused),
                ]
            })
            .unwrap();
        let executions: Vec<_> = (0..30).map(|x| (x, graph.execute(x))).collect();
        for (x, execution) in executions {
            let totals = execution.wait().unwrap();
            let values = |x: i64, rank: i64| (0..50_000).map(move |at| (x + rank * at) as f32);
            let sum: f64 = (0..50_000)
                .map(|at| f64::from((x + x + at + x + 2 * at) as f32))
                .sum();
            assert_eq!(totals[..3], [sum; 3], "{place:?}");
            let most: f64 = values(x, 2).map(f64::from).sum();
            assert_eq!(totals[3], most + x as f64 + 2.0);
        }
    }
}

#[test]
fn comm_07_a_failure_of_one_rank_is_everybodys_and_the_graph_goes_on() {
    for place in PLACES {
        let runtime = Runtime::new();
        let ranks: [RankHandle; 3] = ranks(&runtime, place);
        let graph = runtime
            .compile(|x: Edge<i64>| {
                let [a, b, c] = allreduce(ReduceOp::Sum, ranks.each_ref().map(|rank| rank.make(&x)));
                (a, b, c)
            })
            .unwrap();
        for round in 0..3 {
            let (first, second, third) = graph.execute(-1 - round).split();
            for result in [first.wait(), second.wait(), third.wait()] {
                let Err(ExecError::Task(error)) = result else {
                    panic!("{place:?}: {result:?}")
                };
                assert_eq!(error.info().task, "rank1.make");
                assert!(
                    error.to_string().contains("rank 1 has no negative numbers"),
                    "{error}"
                );
            }
            let sums = graph.execute(round).wait().unwrap();
            assert_eq!(sums.0[0], 3 * round + 3);
        }
    }
}

/// A user-defined type that ranks contribute.
#[derive(Clone, serde::Serialize, serde::Deserialize)]
struct Gradients {
    weights: Tensor,
    bias: f32,
}

impl Contribute for Gradients {
    fn parts(&self, read: &mut dyn FnMut(&[Part<'_>])) {
        let bias = self.bias.to_ne_bytes();
        let bias = Part {
            dtype: selvedge::DType::F32,
            shape: &[],
            bytes: &bias,
        };
        read(&[Part::from(&self.weights), bias]);
    }

    fn from_parts(mut parts: Vec<Tensor>) -> Result<Self, TensorError> {
        let bias = f32::from_parts(parts.split_off(1))?;
        Ok(Gradients {
            weights: parts.remove(0),
            bias,
        })
    }
}

selvedge::contributes!(Gradients);

struct Learner;

#[actor]
impl Learner {
    pub fn new() -> Result<Self> {
        Ok(Learner)
    }

    pub fn learn(&mut self, x: f32) -> Result<Gradients> {
        Ok(Gradients {
            weights: Tensor::from_slice(&[x, 2.0 * x], &[2])?,
            bias: x,
        })
    }

    pub fn norm(&mut self, gradients: &Gradients) -> Result<f32> {
        Ok(gradients.weights.as_slice::<f32>()?.iter().sum::<f32>() + gradients.bias)
    }
}

#[test]
fn a_type_of_ones_own_is_contributed() {
    for place in [Where::Threads, Where::Processes] {
        let runtime = Runtime::new();
        let learners: [LearnerHandle; 2] = std::array::from_fn(|rank| {
            let spawn = runtime.spawn::<Learner>(format!("learner{rank}"), ());
            match place {
                Where::Threads => spawn.in_thread(),
                _ => spawn.in_process(),
            }
            .unwrap()
        });
        let graph = runtime
            .compile(|x: Edge<f32>| {
                let [mean, _] = allreduce(
                    ReduceOp::Average,
                    learners.each_ref().map(|learner| learner.learn(&x)),
                );
                learners[1].norm(&mean)
            })
            .unwrap();
        assert_eq!(graph.execute(3.0).wait().unwrap(), 12.0);
    }
}

/// The toy communicator from the examples of `collectives`.
#[allow(dead_code, unreachable_pub)]
#[path = "../../collectives/examples/toy.rs"]
mod toy;

/// The toy as a backend of graphs: its ranks find each other by the group's number, and ring when they contribute.
struct Ringing {
    toy: toy::Toy,
    bells: Vec<selvedge_channels::Doorbell>,
}

impl Communicator for Ringing {
    fn rank(&self) -> usize {
        self.toy.rank()
    }
    fn world_size(&self) -> usize {
        self.toy.world_size()
    }
    fn capabilities(&self) -> Capabilities {
        self.toy.capabilities()
    }
    fn plan(&mut self, operation: Collective) -> Result<PlanId, CommError> {
        self.toy.plan(operation)
    }
    fn launch(&mut self, plan: PlanId, contribution: Brought<'_>) -> Result<(), CommError> {
        let launched = self.toy.launch(plan, contribution);
        self.bells.iter().for_each(selvedge_channels::Doorbell::ring);
        launched
    }
    fn poll(&mut self) -> Result<Option<Vec<Tensor>>, CommError> {
        let result = self.toy.poll();
        if matches!(result, Ok(Some(_))) {
            TOYED.fetch_add(1, Ordering::Relaxed);
        }
        result
    }
    fn wait(&mut self, timeout: Option<Duration>) -> Result<Vec<Tensor>, CommError> {
        self.toy.wait(timeout)
    }
    fn abort_handle(&self) -> AbortHandle {
        self.toy.abort_handle()
    }
    fn close(self: Box<Self>, timeout: Duration) -> Result<(), CommError> {
        Box::new(self.toy).close(timeout)
    }
}

/// The number of results that came through the toy.
static TOYED: AtomicUsize = AtomicUsize::new(0);

fn join(joining: &Joining<'_>) -> Result<Box<dyn Communicator>, CommError> {
    static GROUPS: Mutex<Option<HashMap<u64, Vec<Option<toy::Toy>>>>> = Mutex::new(None);
    let mut groups = GROUPS.lock().unwrap();
    let fresh = || toy::group(joining.bells.len()).into_iter().map(Some).collect();
    let group = groups
        .get_or_insert_default()
        .entry(joining.group)
        .or_insert_with(fresh);
    let toy = group[joining.rank].take().ok_or(CommError::Idle)?;
    let bells = joining.bells.to_vec();
    Ok(Box::new(Ringing { toy, bells }))
}

fn no_scatter() -> Capabilities {
    let mut capabilities = Capabilities::everything("toy");
    capabilities.lacks = vec![Collective::Scatter { root: 0 }];
    capabilities
}

selvedge::communicator_backend!(Backend::new("toy", no_scatter, join));

fn blocking() -> Capabilities {
    let mut capabilities = Capabilities::everything("blocking");
    capabilities.launch_blocks = true;
    capabilities
}

selvedge::communicator_backend!(Backend::new("blocking", blocking, join));

#[test]
fn comm_17_a_communicator_that_blocks_is_refused_where_ranks_share_a_lane() {
    let sums = |ranks: &[RankHandle; 2], x: &Edge<i64>| {
        allreduce(ReduceOp::Sum, ranks.each_ref().map(|rank| rank.make(x)))
    };
    let options = Options::new().communicator("blocking");
    let runtime = Runtime::new();
    let apart: [RankHandle; 2] = ranks(&runtime, Where::Threads);
    let graph = runtime
        .compile_with(options.clone(), |x: Edge<i64>| sums(&apart, &x))
        .unwrap();
    assert_eq!(graph.execute(1).wait().unwrap()[0][0], 3);
    let runtime = Runtime::new();
    let together: [RankHandle; 2] = ranks(&runtime, Where::OneLane);
    let error = runtime
        .compile_with(options, |x: Edge<i64>| sums(&together, &x))
        .unwrap_err()
        .to_string();
    let wanted =
        "communicator `blocking` blocks a lane until all ranks have come, and `rank0` and `rank1` share one";
    assert!(error.contains("D0118") && error.contains(wanted), "{error}");
}

#[test]
fn comm_01_the_order_of_contributions_says_which_actor_is_which_rank() {
    for place in PLACES {
        let runtime = Runtime::new();
        let [a, b, c]: [RankHandle; 3] = ranks(&runtime, place);
        let order = [&c, &a, &b];
        let graph = runtime
            .compile(|x: Edge<i64>| {
                let all = gather(1, order.map(|rank| rank.make(&x)));
                let [sent, _, _] = broadcast(2, order.map(|rank| rank.make(&x)));
                (all, c.sum(&sent))
            })
            .unwrap();
        let planned = graph.plan().communicators[0].ranks.iter().map(|rank| rank.actor);
        let expected = order.map(|rank| rank.actor().id());
        assert_eq!(planned.collect::<Vec<_>>(), expected, "{place:?}");
        // The contributions differ by actor, so the results show which actors are the plan's ranks.
        let (all, sent) = graph.execute(7).wait().unwrap();
        assert_eq!(all, [made(2, 7), made(0, 7), made(1, 7)].concat(), "{place:?}");
        assert_eq!(sent, made(1, 7).iter().sum::<i64>(), "{place:?}");
    }
}

/// Two groups of the same actors, in different orders, take turns while several executions are in flight.
#[test]
fn comm_09_groups_of_the_same_ranks_do_not_mix() {
    let usual = PLACES.map(|place| (place, Options::new()));
    // The toy's ranks find each other by their group's number. It runs twice: no other graph's group may have that
    // number.
    let by_number = [0; 2].map(|_| (Where::Threads, Options::new().communicator("toy")));
    for (place, options) in usual.into_iter().chain(by_number) {
        let runtime = Runtime::new();
        let [a, b]: [RankHandle; 2] = ranks(&runtime, place);
        let options = options.max_inflight(4);
        let graph = runtime
            .compile_with(options, |x: Edge<i64>| {
                let [one, _] = allgather([a.make(&x), b.make(&x)]);
                let [_, two] = allgather([b.make(&x), a.make(&x)]);
                let [three, _] = allgather([a.make(&x), b.make(&x)]);
                (one, two, three)
            })
            .unwrap();
        assert_eq!(graph.plan().communicators.len(), 2, "{place:?}");
        let executions: Vec<_> = (0..50).map(|x| (x, graph.execute(x))).collect();
        for (x, execution) in executions {
            let there = [made(0, x), made(1, x)].concat();
            let back = [made(1, x), made(0, x)].concat();
            let all = execution.wait().unwrap();
            assert_eq!(all, (there.clone(), back, there), "{place:?}, {x}");
        }
    }
}

#[test]
fn comm_17_a_graph_uses_the_communicator_it_is_told_to() {
    let runtime = Runtime::new();
    let ranks: [RankHandle; 3] = ranks(&runtime, Where::Threads);
    let sums = |x: Edge<i64>| {
        let [a, _, c] = allreduce(ReduceOp::Sum, ranks.each_ref().map(|rank| rank.make(&x)));
        (a, c)
    };
    let toys = Options::new().communicator("toy");
    let before = TOYED.load(Ordering::Relaxed);
    let graph = runtime.compile_with(toys.clone(), sums).unwrap();
    for x in 0..20 {
        let (a, c) = graph.execute(x).wait().unwrap();
        assert_eq!((a[0], c[0]), (3 * x + 3, 3 * x + 3));
    }
    assert!(TOYED.load(Ordering::Relaxed) >= before + 40);
    drop(graph);
    let unknown = runtime
        .compile_with(Options::new().communicator("tyo"), sums)
        .unwrap_err();
    let known = if cfg!(feature = "cuda") {
        "`blocking`, `nccl`, `shm`, `toy`"
    } else {
        "`blocking`, `shm`, `toy`"
    };
    assert!(
        unknown
            .to_string()
            .contains(&format!("there is no communicator `tyo`; known are {known}")),
        "{unknown}"
    );
    let cut = |x: Edge<i64>| scatter(1, ranks.each_ref().map(|rank| rank.make(&x)));
    let lacking = runtime.compile_with(toys, cut).unwrap_err();
    assert!(
        lacking
            .to_string()
            .contains("communicator `toy` does not do scatter of root 1"),
        "{lacking}"
    );
}

#[test]
fn dag_47_ranks_that_cannot_be_are_refused_where_they_are_bound() {
    let runtime = Runtime::new();
    let [a, b]: [RankHandle; 2] = ranks(&runtime, Where::Inline);
    let other = Runtime::new();
    let sum = ReduceOp::Sum;
    let refused = |expected: &str, error: selvedge::CompileError| {
        let text = error.to_string();
        assert!(text.contains("D0117") && text.contains(expected), "{text}");
    };
    refused(
        "ranks 0 and 1 of allreduce(sum) are both of actor `rank0`",
        runtime
            .compile(|x: Edge<i64>| allreduce(sum, [a.make(&x), a.make(&x)]))
            .unwrap_err(),
    );
    refused(
        "rank 1 of allgather is an input of the graph",
        runtime
            .compile(|(x, y): (Edge<i64>, Edge<Vec<i64>>)| allgather([a.make(&x), y]))
            .unwrap_err(),
    );
    refused(
        "rank 0 of barrier is no result of an actor",
        runtime
            .compile(|x: Edge<i64>| barrier([constant(vec![1]), a.make(&x)]))
            .unwrap_err(),
    );
    refused(
        "broadcast of root 2 names rank 2 of 2",
        runtime
            .compile(|x: Edge<i64>| broadcast(2, [a.make(&x), b.make(&x)]))
            .unwrap_err(),
    );
    refused(
        "all_to_all has no ranks",
        runtime
            .compile(|x: Edge<i64>| {
                let none: Vec<Edge<Vec<i64>>> = all_to_all(Vec::new());
                (a.make(&x), none)
            })
            .unwrap_err(),
    );
    let [_, foreign]: [RankHandle; 2] = ranks(&other, Where::Inline);
    let text = runtime
        .compile(|x: Edge<i64>| allreduce(sum, [a.make(&x), foreign.make(&x)]))
        .unwrap_err()
        .to_string();
    assert!(
        text.contains("D0107") && text.contains("actor `rank1` belongs to another runtime"),
        "{text}"
    );
    let dangling = runtime.compile(|x: Edge<i64>| {
        let _: [Edge<Vec<i64>>; 2] = allreduce(sum, [a.make(&x), b.make(&x)]);
        a.loss(&x)
    });
    let text = dangling.unwrap_err().to_string();
    assert!(
        text.contains("D0103") && text.contains("the result of `rank0.allreduce(sum)` is never used"),
        "{text}"
    );
    assert!(!text.contains("rank1.allreduce"), "{text}");
}

#[test]
fn comm_18_one_group_for_each_list_of_actors() {
    let runtime = Runtime::new();
    let [a, b, c]: [RankHandle; 3] = ranks(&runtime, Where::Inline);
    let sum = ReduceOp::Sum;
    let graph = runtime
        .compile(|x: Edge<i64>| {
            let [first, second] = allreduce(sum, [a.make(&x), b.make(&x)]);
            let again = allgather([first, second]);
            let others = allreduce(sum, [b.make(&x), c.make(&x)]);
            let all = allreduce(sum, [a.make(&x), b.make(&x), c.make(&x)]);
            (again, others, all)
        })
        .unwrap();
    let ranks: Vec<usize> = graph
        .plan()
        .communicators
        .iter()
        .map(|group| group.ranks.len())
        .collect();
    assert_eq!(ranks, [2, 2, 3]);
    let (again, others, all) = graph.execute(1).wait().unwrap();
    let made = |ranks: &[i64]| -> Vec<i64> {
        (0..4)
            .map(|at| ranks.iter().map(|rank| (1 + rank) * (at + 1)).sum())
            .collect()
    };
    assert_eq!(again[0], [made(&[0, 1]), made(&[0, 1])].concat());
    assert_eq!(others, [made(&[1, 2]), made(&[1, 2])]);
    assert_eq!(all[2], made(&[0, 1, 2]));
}

#[test]
fn graph_19_an_allreduce_beside_messages_between_the_same_actors() {
    for place in PLACES {
        for overlap in [false, true] {
            let runtime = Runtime::new();
            let [a, b]: [RankHandle; 2] = ranks(&runtime, place);
            let met = |edge: &Edge<Vec<i64>>| edge.clone().with_transport(selvedge::Transport::Rendezvous);
            let options = Options::new().overlap(overlap).slots(1).max_inflight(4);
            let graph = runtime
                .compile_with(options, |x: Edge<i64>| {
                    let (u, v) = (a.make(&x), b.make(&x));
                    let [s, t] = allreduce(ReduceOp::Sum, [u.clone(), v.clone()]);
                    let (there, back) = (b.sum(&met(&u)), a.sum(&met(&v)));
                    (a.sum(&s), b.sum(&t), there, back)
                })
                .unwrap();
            let executions: Vec<_> = (0..20).map(|x| (x, graph.execute(x))).collect();
            for (x, execution) in executions {
                assert_eq!(
                    execution.wait().unwrap(),
                    (20 * x + 10, 20 * x + 10, 10 * x, 10 * x + 10),
                    "{place:?}"
                );
            }
        }
    }
}

#[test]
fn a_graph_that_ends_in_the_middle_of_a_collective_leaves_nothing_waiting() {
    for place in [Where::Threads, Where::Processes, Where::Mixed] {
        let runtime = Runtime::new();
        let ranks: [RankHandle; 3] = ranks(&runtime, place);
        for _ in 0..10 {
            let graph = runtime
                .compile_with(Options::new().max_inflight(8), |x: Edge<i64>| {
                    let [a, ..] = allreduce(ReduceOp::Sum, ranks.each_ref().map(|rank| rank.tensor(&x)));
                    ranks[1].total(&a)
                })
                .unwrap();
            let executions: Vec<_> = (0..8).map(|x| graph.execute(x)).collect();
            // One execution is awaited, some are cancelled, and the others are fetched after the tear-down.
            let mut executions = executions.into_iter();
            assert!(executions.next().unwrap().wait().is_ok());
            drop(executions.nth(2));
            assert!(graph.teardown().stuck.is_empty());
            for left in executions {
                match left.wait() {
                    Ok(total) => assert!(total > 0.0),
                    Err(ExecError::TornDown { .. }) => {}
                    Err(error) => panic!("{error}"),
                }
            }
        }
    }
}

#[test]
fn a_rank_that_is_ordered_after_another_one_of_its_collective_is_refused() {
    let runtime = Runtime::new();
    let ranks: [RankHandle; 2] = ranks(&runtime, Where::Threads);
    let error = runtime
        .compile(|x: Edge<i64>| {
            let [a, b] = allreduce(ReduceOp::Sum, ranks.each_ref().map(|rank| rank.make(&x)));
            let b = b.after(&a);
            (a, b)
        })
        .unwrap_err();
    assert_eq!(error.diagnostics[0].code.as_str(), "D0115", "{error}");
}

#[test]
fn what_a_user_does_to_edges_is_done_to_those_of_collectives() {
    for place in PLACES {
        let runtime = Runtime::new();
        let ranks: [RankHandle; 2] = ranks(&runtime, place);
        let options = Options::new().lanes(Lanes::Auto).trace(512).max_inflight(3);
        let graph = runtime
            .compile_with(options, |x: Edge<i64>| {
                let [a, b] = allreduce(ReduceOp::Sum, ranks.each_ref().map(|rank| rank.make(&x)));
                // The sum is named, ordered after, put in a list, passed to another collective, and returned from the
                // graph.
                let a = a.named("total");
                let later = ranks[1].loss(&x).after(&a);
                let [both, _] = allgather([a.clone(), b]);
                (ranks[0].sum(&both), later, a)
            })
            .unwrap();
        for x in 0..20 {
            let (sum, later, a) = graph.execute(x).wait().unwrap();
            assert_eq!(
                (sum, later, a[1]),
                (40 * x + 20, x as f64 + 1.0, 4 * x + 2),
                "{place:?}"
            );
        }
        let text = graph.describe();
        assert!(
            text.contains("groups of ranks (") && text.contains("total("),
            "{text}"
        );
        let profile = graph.profile(10, |x| x as i64).unwrap();
        let graph = graph.recompile(&profile).unwrap();
        assert_eq!(graph.execute(1).wait().unwrap().0, 60);
    }
}

/// A type whose contributions cannot be read, and whose results are refused, for certain numbers.
#[derive(Clone, serde::Serialize, serde::Deserialize)]
struct Moody(u32);

impl Contribute for Moody {
    fn parts(&self, read: &mut dyn FnMut(&[Part<'_>])) {
        assert!(self.0 != 13, "not today");
        if self.0 != 14 {
            self.0.parts(read);
        }
    }

    fn from_parts(parts: Vec<Tensor>) -> Result<Self, TensorError> {
        let sum = u32::from_parts(parts)?;
        if sum == 100 {
            Err(TensorError::Memory { len_bytes: None })
        } else {
            Ok(Moody(sum))
        }
    }
}

selvedge::contributes!(Moody);

struct Mood(u32);

#[actor]
impl Mood {
    pub fn new(rank: u32) -> Result<Self> {
        Ok(Mood(rank))
    }

    pub fn mood(&mut self, x: u32) -> Moody {
        Moody(if self.0 == 1 { x } else { 0 })
    }

    pub fn told(&mut self, mood: Moody) -> u32 {
        mood.0
    }
}

#[test]
fn a_contribution_that_panics_or_shows_nothing_is_a_failure_of_its_rank() {
    for place in [Where::Threads, Where::Processes, Where::Inline] {
        let runtime = Runtime::new();
        let moods: [MoodHandle; 2] = std::array::from_fn(|rank| {
            let spawn = runtime.spawn::<Mood>(format!("mood{rank}"), (rank as u32,));
            match place {
                Where::Threads => spawn.in_thread(),
                Where::Processes => spawn.in_process(),
                _ => spawn.inline(),
            }
            .unwrap()
        });
        let graph = runtime
            .compile(|x: Edge<u32>| {
                let [a, b] = allreduce(ReduceOp::Sum, moods.each_ref().map(|mood| mood.mood(&x)));
                (moods[0].told(&a), moods[1].told(&b))
            })
            .unwrap();
        for (x, text) in [
            (13, "panicked: not today"),
            (14, "a contribution that shows nothing"),
            (100, "there is no memory for a tensor"),
        ] {
            let (first, second) = graph.execute(x).split();
            for error in [first.wait().unwrap_err(), second.wait().unwrap_err()] {
                assert!(error.to_string().contains(text), "{place:?}: {error}");
            }
            assert_eq!(graph.execute(7).wait().unwrap(), (7, 7));
        }
    }
}

#[test]
fn a_rank_that_dies_is_named_and_the_survivors_form_a_new_group() {
    let runtime = Runtime::new();
    for round in 0..20 {
        let [a, b, victim]: [RankHandle; 3] = std::array::from_fn(|rank| {
            let spawn = runtime.spawn::<Rank>(format!("rank{rank}-{round}"), (rank as i64,));
            if rank == 0 {
                spawn.in_thread()
            } else {
                spawn.in_process()
            }
            .unwrap()
        });
        let all = [&a, &b, &victim];
        let graph = runtime
            .compile_with(Options::new().max_inflight(4), |x: Edge<i64>| {
                let [first, _, _] = allreduce(ReduceOp::Sum, all.map(|rank| rank.tensor(&x)));
                a.total(&first)
            })
            .unwrap();
        graph.execute(0).wait().unwrap();
        let executions: Vec<_> = (0..4).map(|x| graph.execute(x)).collect();
        let pid = victim.actor().pid().unwrap();
        std::thread::sleep(Duration::from_micros(round * 150));
        rustix::process::kill_process(
            rustix::process::Pid::from_raw(pid as i32).unwrap(),
            rustix::process::Signal::KILL,
        )
        .unwrap();
        let mut died = false;
        for execution in executions.into_iter().chain([graph.execute(9)]) {
            match execution.wait() {
                Ok(_) => {}
                Err(ExecError::ActorDied(death)) => {
                    assert_eq!(death.actor, format!("rank2-{round}"));
                    died = true;
                }
                Err(error) => panic!("{error}"),
            }
        }
        assert!(died);
        drop(graph);
        let graph = runtime
            .compile(|x: Edge<i64>| {
                let [first, _] = allreduce(ReduceOp::Sum, [a.make(&x), b.make(&x)]);
                a.sum(&first)
            })
            .unwrap();
        assert_eq!(graph.execute(0).wait().unwrap(), 10);
    }
}
