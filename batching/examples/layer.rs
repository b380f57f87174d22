//! The effect of batching on a layer of a model: the same requests of the same clients, one by one and batched.
//!
//! ```text
//! cargo run --release -p selvedge-batching --example layer -- [clients] [seconds]
//! ```
//!
//! The layer multiplies a vector by a matrix of 16 MiB. For one vector the time goes into reading the matrix; for a
//! batch the matrix is read once. Each client submits, waits for the answer, and submits the next.
#![allow(missing_docs, unreachable_pub)]

use std::error::Error;
use std::sync::Mutex;
use std::thread;
use std::time::{Duration, Instant};

use selvedge::prelude::*;

const WIDTH: usize = 2048;

struct Layer {
    weights: Vec<f32>,
}

#[actor]
impl Layer {
    pub fn new() -> Self {
        let weight = |index: usize| ((index * 7919) % 1009) as f32 / 1009.0 - 0.5;
        Layer {
            weights: (0..WIDTH * WIDTH).map(weight).collect(),
        }
    }

    pub fn forward(&mut self, items: &[Vec<f32>]) -> Vec<Vec<f32>> {
        let mut outputs = vec![Vec::with_capacity(WIDTH); items.len()];
        for row in self.weights.chunks_exact(WIDTH) {
            for (item, output) in items.iter().zip(&mut outputs) {
                output.push(dot(row, item));
            }
        }
        outputs
    }
}

/// The dot product, as eight sums side by side, which the compiler turns into vector instructions.
fn dot(a: &[f32], b: &[f32]) -> f32 {
    let mut sums = [0.0; 8];
    for (a, b) in a.chunks_exact(8).zip(b.chunks_exact(8)) {
        sums.iter_mut()
            .zip(a.iter().zip(b))
            .for_each(|(sum, (a, b))| *sum += a * b);
    }
    sums.iter().sum()
}

type Outcome = Result<Vec<f32>, Box<dyn Error + Send + Sync>>;

/// Runs all clients for the given time. Returns the latencies of all requests, sorted.
fn load(
    clients: usize,
    time: Duration,
    ask: impl Fn(Vec<f32>) -> Outcome + Sync,
) -> Result<Vec<Duration>, Box<dyn Error>> {
    let (all, until) = (Mutex::new(Vec::new()), Instant::now() + time);
    let client = |number: usize| -> Result<(), String> {
        let (item, mut own) = (vec![number as f32; WIDTH], Vec::new());
        while Instant::now() < until {
            let began = Instant::now();
            let answer = ask(item.clone()).map_err(|error| error.to_string())?;
            if answer.len() != WIDTH {
                return Err("the answer has another width".into());
            }
            own.push(began.elapsed());
        }
        all.lock().map_err(|error| error.to_string())?.append(&mut own);
        Ok(())
    };
    thread::scope(|scope| {
        let threads: Vec<_> = (0..clients)
            .map(|number| scope.spawn(move || client(number)))
            .collect();
        threads
            .into_iter()
            .try_for_each(|it| it.join().map_err(|_| "a client panicked".to_owned())?)
    })?;
    let mut all = all.into_inner()?;
    all.sort_unstable();
    Ok(all)
}

fn print(how: &str, time: Duration, latencies: &[Duration], mean_size: f64) {
    let at = |share: f64| {
        latencies.get(((latencies.len() as f64 * share) as usize).min(latencies.len().saturating_sub(1)))
    };
    let ms = |share: f64| at(share).map_or(f64::NAN, |latency| latency.as_secs_f64() * 1e3);
    let rate = latencies.len() as f64 / time.as_secs_f64();
    println!(
        "| {how} | {rate:.0} | {:.2} ms | {:.2} ms | {mean_size:.1} |",
        ms(0.5),
        ms(0.99)
    );
}

fn main() -> Result<(), Box<dyn Error>> {
    let mut arguments = std::env::args().skip(1);
    let mut number = |default: u64| arguments.next().map_or(Ok(default), |text| text.parse());
    let (clients, time) = (number(32)? as usize, Duration::from_secs(number(3)?));
    let runtime = Runtime::new();
    let layer = runtime.spawn::<Layer>("layer", ()).in_thread()?;
    let compile = || runtime.compile(|items: Edge<Vec<Vec<f32>>>| layer.forward(&items));

    println!("| {clients} clients | requests/s | p50 | p99 | items of an execution |\n|---|--:|--:|--:|--:|");
    let graph = compile()?;
    let one = |item| {
        let mut outputs = graph.execute(vec![item]).wait()?;
        outputs.pop().ok_or_else(|| "no output".into())
    };
    print("each by itself", time, &load(clients, time, one)?, 1.0);
    drop(graph);

    for (how, options) in [
        ("batcher, `max_size` 1", Batching::new().max_size(1)),
        ("batcher, `max_size` 32", Batching::new().max_size(32)),
        (
            "the same, 1 in flight",
            Batching::new().max_size(32).max_inflight(1),
        ),
        (
            "the same, `max_delay` 2 ms",
            Batching::new()
                .max_size(32)
                .max_inflight(1)
                .max_delay(Duration::from_millis(2)),
        ),
    ] {
        let batcher = Batcher::new(compile()?, options)?;
        let latencies = load(clients, time, |item| Ok(batcher.submit(item).wait()?))?;
        print(how, time, &latencies, batcher.stats().sizes.mean());
    }
    Ok(())
}
