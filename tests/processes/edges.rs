//! Executions of a graph with references in its edges, at random: what is counted goes back to nothing, and memory stays.
//! `EXECUTIONS=1000000 cargo test --test processes edges -- --nocapture` runs as many; `SEED` repeats a run.

use std::collections::VecDeque;
use std::time::{Duration, Instant};

use selvedge::prelude::*;
use selvedge::{RefStats, Worker};

use crate::alone::alone;
use crate::census::{Census, settled, wait_until};

fn setting(name: &str, default: u64) -> u64 {
    let set = std::env::var(name).ok();
    set.and_then(|set| set.parse().ok()).unwrap_or(default)
}

/// Data, and references to more.
#[derive(Clone, serde::Serialize, serde::Deserialize)]
struct Batch {
    number: u64,
    weights: Ref<Vec<u64>>,
    more: Vec<Ref<Vec<u64>>>,
}

struct Stage;

#[actor]
impl Stage {
    pub fn new() -> Self {
        Stage
    }

    /// Turns the references of a batch around, or fails.
    pub fn turned(&mut self, mut batch: Batch, fails: bool) -> Result<Batch> {
        if fails {
            return Err("as was asked".into());
        }
        batch.more.push(batch.weights.clone());
        batch.more.reverse();
        Ok(batch)
    }

    pub fn sum(&mut self, batch: &Batch) -> Result<u64> {
        let mut sum = batch.number;
        for part in &batch.more {
            sum += part.fetch()?.iter().sum::<u64>();
        }
        Ok(sum)
    }

    pub fn first(&mut self, batch: Batch) -> Option<Ref<Vec<u64>>> {
        batch.more.into_iter().next()
    }
}

#[remote]
fn references_here() -> Option<RefStats> {
    Runtime::current().ok().map(|runtime| runtime.references())
}

#[remote]
fn part(number: u64) -> Vec<u64> {
    vec![number; 3]
}

/// The counts of all processes.
fn counts(runtime: &Runtime, workers: &[Worker]) -> Vec<RefStats> {
    let there = workers.iter().map(|worker| {
        let asked = runtime.call(references_here::remote().on(worker)).wait();
        asked.expect("a living worker").expect("a runtime")
    });
    there.chain([runtime.references()]).collect()
}

/// The resident memory of a process, in KiB.
fn resident_kib(pid: u32) -> u64 {
    let status = std::fs::read_to_string(format!("/proc/{pid}/status")).expect("status");
    let line = status.lines().find(|line| line.starts_with("VmRSS:"));
    let number = line.and_then(|line| line.split_whitespace().nth(1));
    number.and_then(|number| number.parse().ok()).expect("a number")
}

fn resident(workers: &[Worker]) -> Vec<u64> {
    let pids = workers.iter().filter_map(Worker::pid);
    pids.chain([std::process::id()]).map(resident_kib).collect()
}

#[test]
fn executions_with_references_of_which_a_third_ends_early_leave_nothing() -> Result<()> {
    alone(|| {
        drop(Runtime::new());
        let before = settled(Census::take);
        let (executions, mut seed) = (
            setting("EXECUTIONS", 10_000),
            setting("SEED", u64::from(std::process::id())),
        );
        println!("SEED={seed} EXECUTIONS={executions}");
        let mut below = |many: u64| {
            seed = seed
                .wrapping_mul(6_364_136_223_846_793_005)
                .wrapping_add(1_442_695_040_888_963_407);
            (seed >> 33) % many
        };
        let runtime = Runtime::new();
        let workers = [runtime.worker("a")?, runtime.worker("b")?];
        let a = runtime.spawn::<Stage>("a", ()).in_worker(&workers[0])?;
        let b = runtime.spawn::<Stage>("b", ()).in_worker(&workers[1])?;
        let graph = runtime.compile_with(
            Options::new().max_inflight(8).on_full(OnFull::Block),
            |(batch, fails): (Edge<Batch>, Edge<bool>)| {
                let turned = a.turned(&batch, &fails);
                (b.sum(&turned), b.first(&turned), a.sum(&turned))
            },
        )?;
        let own: Ref<Vec<u64>> = runtime.unset();
        own.set(part(0))?;
        let mut parts = vec![own];
        for number in 1..5 {
            let owner = &workers[usize::try_from(number % 2)?];
            parts.push(owner.keep(part::remote(number)));
        }
        let (mut waiting, mut early) = (VecDeque::new(), None);
        let (mut done, mut ended_early) = (0, 0);
        let started = Instant::now();
        for number in 0..executions {
            let chosen: Vec<u64> = (0..=below(3)).map(|_| below(5)).collect();
            let of = |index: &u64| parts[usize::try_from(*index).unwrap_or_default()].clone();
            let batch = Batch {
                number,
                weights: of(&chosen[0]),
                more: chosen[1..].iter().map(of).collect(),
            };
            let sum = number + chosen.iter().sum::<u64>() * 3;
            let (fails, is_dropped) = (below(6) == 0, below(6) == 0);
            let execution = graph.execute((batch, fails));
            if is_dropped {
                ended_early += 1;
                drop(execution);
            } else {
                waiting.push_back((execution, fails, sum, chosen));
            }
            while waiting.len() > usize::try_from(below(8))? {
                let Some((execution, fails, sum, chosen)) = waiting.pop_front() else {
                    break;
                };
                match execution.wait() {
                    Ok((at_b, first, at_a)) if !fails => {
                        assert_eq!((at_b, at_a), (sum, sum));
                        assert_eq!(first.map(|first| first.id()), Some(of(&chosen[0]).id()));
                        done += 1;
                    }
                    Err(ExecError::Task(_)) if fails => ended_early += 1,
                    other => panic!("{number}: {:?}", other.map(|_| ())),
                }
            }
            if number == executions / 4 {
                early = Some(resident(&workers));
            }
        }
        println!(
            "{done} executions were done, {ended_early} failed or were dropped, in {:?}",
            started.elapsed()
        );
        let (early, late) = (early.unwrap_or_default(), resident(&workers));
        for (early, late) in early.iter().zip(&late) {
            assert!(*late < early + 16 * 1024, "{early} KiB grew to {late} KiB");
        }
        drop((waiting, graph, parts));
        let limit = Instant::now() + Duration::from_secs(60);
        while counts(&runtime, &workers)
            .iter()
            .any(|it| *it != RefStats::default())
        {
            let left = counts(&runtime, &workers);
            assert!(Instant::now() < limit, "{left:?}");
            std::thread::sleep(Duration::from_millis(10));
        }
        drop((a, b, workers, runtime));
        assert_eq!(wait_until(&before, || settled(Census::take)), before);
        Ok(())
    })
}
