//! A random graph of pure calls while workers are killed and spilled values damaged: the answer is right, a call is begun once more for each death
//! and each loss and for nothing else, calls that are not pure have run once at most, and whatever is lost says why.
//! `KILLS=200 cargo test --test processes submitted` kills as many in a graph of 5 100 calls.

use std::collections::BTreeMap;
use std::fs::OpenOptions;
use std::io::Write;
use std::path::Path;
use std::time::Duration;

use selvedge::prelude::*;
use selvedge::{Lost, ObjectPlace, StoreOptions, Worker};

use crate::alone::alone;
use crate::census::{Census, settled, wait_until};
use crate::killing::{Random, kill};
use crate::spilled::damage;

/// The length of a value.
const LENGTH: u64 = 2500;
/// The bytes that a value has in the store: whole leaves of 16 KiB.
const OBJECT_BYTES: u64 = 32 << 10;
/// The bytes of the store: too few for the values that are read soon.
const STORE_BYTES: u64 = 20 * OBJECT_BYTES;

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

/// A value that is too large to be kept beside its reference: a hash, and what follows from it.
fn value(hash: u64) -> Vec<u64> {
    (0..LENGTH).map(|at| mixed(hash, at, 0)).collect()
}

#[remote(pure, retries = 1000)]
fn mix(path: &str, ms: u64, call: u64, x: &[u64], y: &[u64]) -> Vec<u64> {
    note(path, call);
    std::thread::sleep(Duration::from_millis(ms));
    value(mixed(x[0], y[0], call))
}

#[remote]
fn mix_once(path: &str, ms: u64, call: u64, x: &[u64], y: &[u64]) -> Vec<u64> {
    note(path, call);
    std::thread::sleep(Duration::from_millis(ms));
    value(mixed(x[0], y[0], call))
}

/// The number of runs of each call.
fn runs(path: &str) -> BTreeMap<u64, usize> {
    let mut runs = BTreeMap::new();
    for line in std::fs::read_to_string(path).unwrap().lines() {
        *runs.entry(line.parse().unwrap()).or_default() += 1;
    }
    runs
}

/// Damages all copies in the file when nothing runs. Each call whose value is lost runs once more, and none whose value has a copy in
/// memory, where the last ones are read. Returns how many have run.
fn lost_once_more(runtime: &Runtime, folder: &Path, calls: &[Ref<Vec<u64>>], values: &[Vec<u64>]) -> usize {
    const READ: usize = 5;
    let path = folder.join("runs").into_os_string().into_string().unwrap();
    let read: Vec<_> = calls
        .iter()
        .rev()
        .take(READ)
        .map(|call| call.fetch().unwrap())
        .collect();
    let in_file = || {
        let objects = runtime.objects().objects;
        objects
            .iter()
            .filter(|it| it.place == ObjectPlace::File && !it.is_freed)
            .count()
    };
    let (before, least) = (runs(&path), in_file());
    damage(folder);
    std::thread::scope(|scope| {
        for part in 0..8 {
            scope.spawn(move || {
                for (call, value) in calls.iter().zip(values).skip(part).step_by(8) {
                    assert!(*call.fetch().unwrap() == *value, "a wrong value");
                }
            });
        }
    });
    let after = runs(&path);
    let again: Vec<usize> = (0..calls.len() as u64)
        .map(|call| after[&call] - before[&call])
        .collect();
    assert!(again.iter().all(|again| *again <= 1), "one loss has one run");
    let (lost, kept) = again.split_at(calls.len() - READ);
    assert_eq!(kept, [0; READ], "what has a copy is not made again");
    let remade = lost.iter().sum();
    assert!(
        least <= remade,
        "{least} were in the file, and {remade} made again"
    );
    drop(read);
    remade
}

#[test]
fn rft_02_rft_03_rft_04_a_graph_of_pure_calls_has_the_right_answer_although_workers_are_killed_and_values_lost()
-> Result<()> {
    alone(|| {
        drop(Runtime::new());
        let before = settled(Census::take);
        let folder = std::env::temp_dir().join(format!("selvedge-submitted-{}", std::process::id()));
        std::fs::create_dir_all(&folder).unwrap();
        let path = folder.join("runs").into_os_string().into_string().unwrap();
        std::fs::write(&path, "").unwrap();
        let path = path.as_str();
        let runtime = Runtime::new().store(StoreOptions::new().bytes(STORE_BYTES).spill(&folder));
        // Long enough for that many kills.
        let ms = 3 + kills() as u64 / 20;
        let calls_of_all = 100 + 25 * kills() as u64;
        let mut random = Random(0x5eed);
        let mut workers: Vec<Worker> = Vec::new();
        for name in 0..3 {
            workers.push(runtime.worker(format!("w{name}"))?);
        }
        let (mut values, mut calls) = (
            vec![value(mixed(0, 0, 0))],
            vec![runtime.submit(mix::remote(path, ms, 0, [0], [0]))],
        );
        let mut once: Vec<(u64, Vec<u64>, Ref<Vec<u64>>)> = Vec::new();
        for call in 1..calls_of_all {
            // Mostly recent ones, so that the graph is deep as well as wide.
            let [x, y] = [0; 2].map(|_: u8| (call - 1 - random.below(call.min(12))) as usize);
            let made = |call| value(mixed(values[x][0], values[y][0], call));
            if call % 10 == 0 {
                let number = calls_of_all + call;
                let lossy = runtime.submit(mix_once::remote(path, ms, number, &calls[x], &calls[y]));
                once.push((number, made(number), lossy));
            }
            values.push(made(call));
            calls.push(runtime.submit(mix::remote(path, ms, call, &calls[x], &calls[y])));
        }
        let mut killed = 0;
        while killed < kills() {
            let done = calls.iter().filter(|call| call.is_ready().unwrap()).count();
            if done == calls.len() {
                break;
            }
            std::thread::sleep(Duration::from_millis(1 + random.below(10)));
            if killed % 2 == 1 {
                damage(&folder);
            }
            let next = runtime.worker(format!("k{killed}"))?;
            let victim = random.below(workers.len() as u64) as usize;
            kill(std::mem::replace(&mut workers[victim], next).pid().unwrap());
            killed += 1;
        }
        for (call, value) in calls.iter().zip(&values) {
            assert!(*call.fetch()? == *value, "a wrong value");
        }
        let of_all = runs(path);
        let again: usize = (0..calls_of_all).map(|call| of_all[&call] - 1).sum();
        // A call is begun once more for each death and each loss, and for nothing else.
        let listed: BTreeMap<_, u32> = runtime
            .calls()
            .iter()
            .map(|call| (call.value, call.attempts))
            .collect();
        for (number, call) in (0..).zip(&calls) {
            let attempts = listed[&call.id()] as usize;
            assert!(of_all[&number] <= attempts, "{number}: {attempts} attempts");
        }
        let mut lost = 0;
        for (call, value, lossy) in &once {
            assert!(of_all.get(call).copied().unwrap_or(0) <= 1, "{call} ran twice");
            match lossy.fetch() {
                Ok(made) => assert!(*made == *value, "a wrong value"),
                Err(error) => {
                    let why: Option<&Lost> = error.downcast_ref();
                    assert!(matches!(why, Some(Lost::NotPure { .. })), "{error}");
                    lost += 1;
                }
            }
        }
        let of_once = once.len();
        drop(once);
        let remade = lost_once_more(&runtime, &folder, &calls, &values);
        println!(
            "{calls_of_all} calls, {killed} kills, {again} runs again, then {remade} for as many damaged copies; {lost} of {} calls that \
             are not pure lost",
            of_once
        );
        drop(calls);
        while runtime.references().owned > 0 || !runtime.objects().objects.is_empty() {
            std::thread::yield_now();
        }
        let left = wait_until(&Vec::new(), || runtime.calls());
        assert_eq!(left, []);
        drop((workers, runtime));
        std::fs::remove_dir_all(folder).unwrap();
        assert_eq!(wait_until(&before, || settled(Census::take)), before);
        Ok(())
    })
}
