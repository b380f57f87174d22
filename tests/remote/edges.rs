//! References in the edges of graphs, between threads and between processes.

use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::{Duration, Instant};

use selvedge::prelude::*;
use selvedge::{RefStats, Worker};

use super::channels::kill;

/// The number of weights that live in this process.
static LIVING: AtomicUsize = AtomicUsize::new(0);

/// A value that counts itself.
#[derive(serde::Serialize, serde::Deserialize)]
struct Weights {
    factor: i64,
    is_counted: bool,
}

impl Clone for Weights {
    fn clone(&self) -> Self {
        counted(self.factor)
    }
}

impl Drop for Weights {
    fn drop(&mut self) {
        if self.is_counted {
            LIVING.fetch_sub(1, Ordering::SeqCst);
        }
    }
}

fn counted(factor: i64) -> Weights {
    LIVING.fetch_add(1, Ordering::SeqCst);
    Weights {
        factor,
        is_counted: true,
    }
}

#[remote]
fn weights(factor: i64) -> Weights {
    counted(factor)
}

/// A layer: weights, a bias that may be missing, and plain data.
#[derive(Clone, serde::Serialize, serde::Deserialize)]
struct Layer {
    weights: Ref<Weights>,
    bias: Option<Ref<i64>>,
    data: Tensor,
}

struct Shard(Vec<Ref<Weights>>);

#[actor]
impl Shard {
    pub fn new() -> Self {
        Shard(Vec::new())
    }

    pub fn pass(&mut self, weights: Ref<Weights>) -> Ref<Weights> {
        weights
    }

    pub fn times(&mut self, weights: &Ref<Weights>, x: i64) -> Result<i64> {
        Ok(weights.fetch()?.factor * x)
    }

    pub fn keeps(&mut self, weights: Ref<Weights>) -> bool {
        self.0.push(weights);
        true
    }

    pub fn lets_go(&mut self, count: usize) -> usize {
        self.0.truncate(count);
        count
    }

    pub fn is_here(&mut self, weights: Ref<Weights>) -> bool {
        weights.local().is_some()
    }

    pub fn layers(&mut self, layer: Layer, count: usize) -> Vec<Layer> {
        vec![layer; count]
    }

    pub fn sum(&mut self, layers: Vec<Layer>) -> Result<i64> {
        let mut sum = 0;
        for layer in layers {
            let bias = layer.bias.map(|bias| bias.fetch()).transpose()?;
            sum += layer.weights.fetch()?.factor + bias.map_or(0, |bias| *bias);
            sum += i64::try_from(layer.data.as_slice::<u8>()?.len())?;
        }
        Ok(sum)
    }

    pub fn fails(&mut self, x: i64) -> Result<i64> {
        Err(format!("{x}").into())
    }

    pub fn adds(&mut self, x: i64, y: i64) -> i64 {
        x + y
    }

    pub fn dies(&mut self, weights: Ref<Weights>) -> i64 {
        drop(weights);
        std::process::abort()
    }
}

#[remote]
fn references_here() -> Option<RefStats> {
    Runtime::current().ok().map(|runtime| runtime.references())
}

/// Waits until the counts of references, of this process and of the workers', are as `is_meant` says.
fn until_counts(runtime: &Runtime, workers: &[&Worker], is_meant: impl Fn(&[RefStats]) -> bool) {
    let limit = Instant::now() + Duration::from_secs(60);
    loop {
        let mut counts = vec![runtime.references()];
        for worker in workers {
            let there = runtime.call(references_here::remote().on(worker)).wait();
            counts.extend(there.unwrap());
        }
        if is_meant(&counts) {
            return;
        }
        assert!(Instant::now() < limit, "{counts:?}");
        std::thread::sleep(Duration::from_millis(5));
    }
}

/// Waits until no process holds a reference that is not held by a program.
fn until_empty(runtime: &Runtime, workers: &[&Worker]) {
    until_counts(runtime, workers, |counts| {
        counts.iter().all(|stats| *stats == RefStats::default())
    });
}

#[test]
fn a_reference_goes_along_an_edge_and_lives_no_longer_than_its_handles() -> Result<()> {
    let runtime = Runtime::new();
    let (near, far) = (runtime.worker("near")?, runtime.worker("far")?);
    let a = runtime.spawn::<Shard>("a", ()).in_worker(&near)?;
    let b = runtime.spawn::<Shard>("b", ()).in_worker(&far)?;
    let graph = runtime.compile(|(weights, x): (Edge<Ref<Weights>>, Edge<i64>)| {
        let passed = a.pass(&weights);
        (b.times(&passed, &x), b.is_here(&passed), passed)
    })?;
    let kept: Ref<Weights> = far.keep(weights::remote(3));
    for x in 0..200 {
        let (product, is_here, back) = graph.run((kept.clone(), x))?;
        assert_eq!((product, is_here, back.id()), (3 * x, true, kept.id()));
    }
    assert!(runtime.references().held == 1);
    drop(kept);
    until_empty(&runtime, &[&near, &far]);
    drop(graph);
    Ok(())
}

/// The shards `a` and `b` in workers of their own, and `c` on a thread.
fn shards(runtime: &Runtime) -> Result<([Worker; 2], [ShardHandle; 3])> {
    let workers = [runtime.worker("near")?, runtime.worker("far")?];
    let a = runtime.spawn::<Shard>("a", ()).in_worker(&workers[0])?;
    let b = runtime.spawn::<Shard>("b", ()).in_worker(&workers[1])?;
    let c = runtime.spawn::<Shard>("c", ()).in_thread()?;
    Ok((workers, [a, b, c]))
}

/// A reference to weights that live in this process.
fn own(runtime: &Runtime, factor: i64) -> Result<Ref<Weights>> {
    let own = runtime.unset();
    own.set(counted(factor))?;
    Ok(own)
}

#[test]
fn every_reader_of_an_edge_has_a_reference_of_its_own() -> Result<()> {
    let runtime = Runtime::new();
    let ([near, far], [a, b, c]) = shards(&runtime)?;
    let graph = runtime.compile(|weights: Edge<Ref<Weights>>| {
        let passed = a.pass(&weights);
        [&a, &b, &c].map(|shard| shard.keeps(&passed))
    })?;
    let own = own(&runtime, 5)?;
    for _ in 0..10 {
        assert_eq!(graph.run(own.clone())?, [true; 3]);
    }
    drop((graph, own));
    // No process has ever sent a letter to another one.
    until_counts(&runtime, &[], |counts| {
        counts.iter().all(|stats| stats.forks == 2)
    });
    for shard in [&a, &b, &c] {
        assert_eq!(shard.call().lets_go(0).wait()?, 0);
    }
    until_empty(&runtime, &[&near, &far]);
    Ok(())
}

#[test]
fn references_inside_values_go_along_edges() -> Result<()> {
    let runtime = Runtime::new();
    let ([near, far], [a, b, c]) = shards(&runtime)?;
    for (makes, sums) in [(&a, &b), (&b, &c), (&c, &a), (&c, &c)] {
        let graph = runtime.compile(|(layer, count): (Edge<Layer>, Edge<usize>)| {
            let layers = makes.layers(&layer, &count);
            (sums.sum(&layers), layers)
        })?;
        let bias: Ref<i64> = runtime.unset();
        bias.set(100)?;
        for (count, bias) in [(3, Some(bias.clone())), (2, None), (0, Some(bias))] {
            let data = Tensor::from_vec(vec![7_u8; 10_000], &[10_000])?;
            let layer = Layer {
                weights: far.keep(weights::remote(1)),
                bias,
                data,
            };
            let one = 10_001 + if layer.bias.is_some() { 100 } else { 0 };
            let (sum, layers) = graph.run((layer.clone(), count))?;
            assert_eq!((sum, layers.len()), (one * i64::try_from(count)?, count));
            for back in layers {
                assert_eq!(back.weights.id(), layer.weights.id());
                assert_eq!(back.data.as_slice::<u8>()?, layer.data.as_slice::<u8>()?);
            }
        }
    }
    until_empty(&runtime, &[&near, &far]);
    Ok(())
}

#[test]
fn executions_that_fail_or_are_cancelled_or_torn_down_leave_no_reference() -> Result<()> {
    let runtime = Runtime::new();
    let ([near, far], [a, b, _]) = shards(&runtime)?;
    let own = own(&runtime, 2)?;
    for round in 0..10 {
        let options = Options::new().max_inflight(4);
        let graph = runtime.compile_with(options, |(weights, x): (Edge<Ref<Weights>>, Edge<i64>)| {
            let failed = a.fails(&x);
            let passed = a.pass(&weights);
            (b.adds(&b.times(&passed, &x), &failed), passed)
        })?;
        let mut left = Vec::new();
        for x in 0..20 {
            let execution = graph.execute((own.clone(), x));
            match x % 3 {
                0 => assert!(matches!(execution.wait(), Err(ExecError::Task(_)))),
                1 => drop(execution),
                _ if left.len() < 2 => left.push(execution),
                _ => {}
            }
        }
        if round % 2 == 0 {
            drop((graph, left));
        } else {
            drop((left, graph));
        }
    }
    drop(own);
    until_empty(&runtime, &[&near, &far]);
    Ok(())
}

#[test]
fn rref_42_a_process_that_dies_with_references_of_a_graph_holds_nothing() -> Result<()> {
    let runtime = Runtime::new();
    let stays = runtime.worker("stays")?;
    let b = runtime.spawn::<Shard>("b", ()).in_worker(&stays)?;
    let own = own(&runtime, 2)?;
    for round in 0..6 {
        let dies = runtime.worker(format!("dies {round}"))?;
        let a = runtime.spawn::<Shard>("a", ()).in_worker(&dies)?;
        let options = Options::new().max_inflight(4);
        // The worker that dies reads, or writes, or both.
        let graph = runtime.compile_with(options, |weights: Edge<Ref<Weights>>| match round % 3 {
            0 => (a.keeps(&weights), b.pass(&weights)),
            1 => (b.keeps(&a.pass(&weights)), b.pass(&weights)),
            _ => (b.keeps(&weights), a.pass(&b.pass(&weights))),
        })?;
        let doomed: Ref<Weights> = dies.keep(weights::remote(1));
        let executions: Vec<_> = (0..3).map(|_| graph.execute(own.clone())).collect();
        if round % 2 == 0 {
            doomed.ready()?;
        }
        kill(dies.pid().unwrap());
        for execution in executions {
            match execution.wait() {
                Ok(_) | Err(ExecError::ActorDied(_)) => {}
                Err(error) => panic!("{error}"),
            }
        }
        let limit = Instant::now() + Duration::from_secs(60);
        while doomed.confirmed(Duration::from_secs(60))? {
            assert!(Instant::now() < limit, "its owner is dead");
            std::thread::sleep(Duration::from_millis(1));
        }
        assert!(graph.run(own.clone()).is_err());
        drop(graph);
        let single = runtime.compile(|weights: Edge<Ref<Weights>>| b.pass(&weights))?;
        match single.run(doomed.clone()) {
            Err(ExecError::Task(error)) => assert!(error.to_string().contains("is lost"), "{error}"),
            other => panic!("{other:?}"),
        }
        assert_eq!(single.run(own.clone())?.id(), own.id());
        assert_eq!(b.call().lets_go(0).wait()?, 0);
    }
    drop(own);
    until_empty(&runtime, &[&stays]);
    Ok(())
}

#[test]
fn a_reference_that_cannot_go_along_an_edge_is_an_error_that_says_why() -> Result<()> {
    let (runtime, other) = (Runtime::new(), Runtime::new());
    let ([near, far], [a, _, c]) = shards(&runtime)?;
    let graph = runtime.compile(|weights: Edge<Ref<Weights>>| a.pass(&weights))?;
    let foreign = own(&other, 1)?;
    match graph.run(foreign.clone()) {
        Err(ExecError::Task(error)) => {
            let error = error.to_string();
            assert!(error.contains("belongs to another runtime"), "{error}");
            assert!(
                error.contains("pass it to the workers of the runtime that has made it"),
                "{error}"
            );
        }
        other => panic!("{other:?}"),
    }
    let own = own(&runtime, 1)?;
    assert_eq!(graph.run(own.clone())?.id(), own.id());
    drop(graph);
    // Within a process it is a Rust value, like any other.
    let near_graph = runtime.compile(|weights: Edge<Ref<Weights>>| c.pass(&weights))?;
    assert_eq!(near_graph.run(foreign.clone())?.id(), foreign.id());
    drop((own, foreign, near_graph));
    until_empty(&runtime, &[&near, &far]);
    until_empty(&other, &[]);
    Ok(())
}

#[test]
fn a_graph_that_outlives_its_runtime_leaves_no_reference() -> Result<()> {
    let runtime = Runtime::new();
    let ([near, far], [a, b, _]) = shards(&runtime)?;
    let graph = runtime.compile(|weights: Edge<Ref<Weights>>| b.pass(&a.pass(&weights)))?;
    let own = own(&runtime, 1)?;
    assert_eq!(graph.run(own.clone())?.id(), own.id());
    let _pending = graph.execute(own.clone());
    drop((near, far, a, b));
    let _ = runtime.shutdown(Duration::from_secs(10));
    assert!(graph.run(own.clone()).is_err());
    drop(graph);
    drop(own);
    Ok(())
}
