//! Collectives as edges of a graph: what they compute, over threads, processes and a single lane; what a failure of one rank
//! does; what is refused.
#![allow(
    missing_docs,
    unreachable_pub,
    clippy::unwrap_used,
    clippy::indexing_slicing,
    clippy::panic,
    clippy::expect_used
)] // a test may panic

use selvedge::prelude::*;
use selvedge::{ExecError, all_to_all, barrier, broadcast, gather_to, reduce, reduce_scatter, scatter};

struct Rank {
    rank: i64,
}

#[actor]
impl Rank {
    pub fn new(rank: i64) -> Result<Self> {
        Ok(Rank { rank })
    }

    /// `[x + rank; 4]` times the position.
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

    pub fn totals(&mut self, tensors: &Vec<Tensor>) -> Result<f64> {
        let counts: f64 = tensors[1].as_slice::<u8>()?.iter().map(|it| f64::from(*it)).sum();
        Ok(self.total(&tensors[0])? + counts)
    }
}

/// Where the ranks are.
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
                let all = gather_to(0, ranks.each_ref().map(|rank| rank.make(&x)));
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
