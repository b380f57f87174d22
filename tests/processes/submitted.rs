//! A random graph of pure calls while workers are killed: the answer is right, a death has no more calls run again than the worker had
//! threads, calls that are not pure have run once at most, and whatever is lost says why. `KILLS=200 cargo test --test processes submitted`
//! kills as many.

use std::collections::BTreeMap;
use std::fs::OpenOptions;
use std::io::Write;
use std::time::Duration;

use selvedge::prelude::*;
use selvedge::{Lost, Worker};

use crate::alone::alone;
use crate::census::{Census, settled, wait_until};
use crate::killing::{Random, kill};

const CALLS: u64 = 300;

fn kills() -> usize {
    let kills = std::env::var("KILLS").ok();
    kills.and_then(|kills| kills.parse().ok()).unwrap_or(20)
}

fn mixed(x: u64, y: u64, seed: u64) -> u64 {
    let mut state = x.rotate_left(17) ^ y.wrapping_mul(0x9e37_79b9_7f4a_7c15) ^ seed;
    state ^= state >> 29;
    state.wrapping_mul(0xbf58_476d_1ce4_e5b9)
}

fn note(path: &str, call: u64) {
    let mut file = OpenOptions::new().append(true).open(path).unwrap();
    // One write, so that lines of several processes do not mix.
    file.write_all(format!("{call}\n").as_bytes()).unwrap();
}

#[remote(pure, retries = 1000)]
fn mix(path: &str, ms: u64, call: u64, x: u64, y: u64) -> u64 {
    note(path, call);
    std::thread::sleep(Duration::from_millis(ms));
    mixed(x, y, call)
}

#[remote]
fn mix_once(path: &str, ms: u64, call: u64, x: u64, y: u64) -> u64 {
    note(path, call);
    std::thread::sleep(Duration::from_millis(ms));
    mixed(x, y, call)
}

/// The number of runs of each call.
fn runs(path: &str) -> BTreeMap<u64, usize> {
    let mut runs = BTreeMap::new();
    for line in std::fs::read_to_string(path).unwrap().lines() {
        *runs.entry(line.parse().unwrap()).or_default() += 1;
    }
    runs
}

#[test]
fn rft_02_rft_04_a_graph_of_pure_calls_has_the_right_answer_although_workers_are_killed() -> Result<()> {
    alone(|| {
        drop(Runtime::new());
        let before = settled(Census::take);
        let path = std::env::temp_dir().join(format!("selvedge-submitted-{}", std::process::id()));
        std::fs::write(&path, "").unwrap();
        let path = path.to_str().unwrap();
        let runtime = Runtime::new();
        // Long enough for that many kills.
        let ms = 3 + kills() as u64 / 6;
        let mut random = Random(0x5eed);
        let mut workers: Vec<Worker> = Vec::new();
        for name in 0..3 {
            workers.push(runtime.worker(format!("w{name}"))?);
        }
        let (mut values, mut calls): (Vec<u64>, Vec<Ref<u64>>) =
            (vec![1], vec![runtime.submit(mix::remote(path, ms, 0, 0, 0))]);
        values[0] = mixed(0, 0, 0);
        let mut once: Vec<(u64, u64, Ref<u64>)> = Vec::new();
        for call in 1..CALLS {
            // Mostly recent ones, so that the graph is deep as well as wide.
            let [x, y] = [0; 2].map(|_: u8| (call - 1 - random.below(call.min(12))) as usize);
            if call % 10 == 0 {
                let value = mixed(values[x], values[y], CALLS + call);
                let lossy = runtime.submit(mix_once::remote(path, ms, CALLS + call, &calls[x], &calls[y]));
                once.push((CALLS + call, value, lossy));
            }
            values.push(mixed(values[x], values[y], call));
            calls.push(runtime.submit(mix::remote(path, ms, call, &calls[x], &calls[y])));
        }
        let mut killed = 0;
        while killed < kills() {
            let done = calls.iter().filter(|call| call.is_ready().unwrap()).count();
            if done == calls.len() {
                break;
            }
            std::thread::sleep(Duration::from_millis(1 + random.below(10)));
            let next = runtime.worker(format!("k{killed}"))?;
            let victim = random.below(workers.len() as u64) as usize;
            kill(std::mem::replace(&mut workers[victim], next).pid().unwrap());
            killed += 1;
        }
        for (call, value) in calls.iter().zip(&values) {
            assert_eq!(*call.fetch()?, *value);
        }
        let runs = runs(path);
        let again: usize = (0..CALLS).map(|call| runs[&call] - 1).sum();
        // A worker has as many calls as threads when it is killed.
        let threads = std::thread::available_parallelism().unwrap().get();
        assert!(
            again <= killed * threads,
            "{again} runs too many after {killed} kills"
        );
        let mut lost = 0;
        for (call, value, lossy) in &once {
            assert!(runs.get(call).copied().unwrap_or(0) <= 1, "{call} ran twice");
            match lossy.fetch() {
                Ok(made) => assert_eq!(*made, *value),
                Err(error) => {
                    let why: Option<&Lost> = error.downcast_ref();
                    assert!(matches!(why, Some(Lost::NotPure { .. })), "{error}");
                    lost += 1;
                }
            }
        }
        println!(
            "{killed} kills, {again} runs again, {lost} of {} calls that are not pure lost",
            once.len()
        );
        drop((calls, once));
        while runtime.references().owned > 0 {
            std::thread::yield_now();
        }
        let left = wait_until(&Vec::new(), || runtime.calls());
        assert_eq!(left, []);
        drop((workers, runtime));
        std::fs::remove_file(path).unwrap();
        assert_eq!(wait_until(&before, || settled(Census::take)), before);
        Ok(())
    })
}
