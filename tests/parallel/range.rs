//! Loops over ranges.

use std::ops::Range;

use selvedge::parallel::MapError;
use selvedge::prelude::*;

use crate::{add_line, fresh_file, lines, pool_of};

#[test]
fn jpar_01_independent_trials_are_added_by_the_caller() {
    let (runtime, workers, _pool) = pool_of(2);
    // A linear congruential generator, so that the sum is known.
    let count = 1000;
    let heads = remote_fn!([count: u64] |seed: u64| -> u64 { heads_of(seed, count) });
    let trials: Vec<_> = workers
        .iter()
        .zip([7, 8])
        .map(|(worker, seed)| runtime.call(heads.remote(seed).on(worker)))
        .collect();
    let sum: u64 = trials.into_iter().map(|trial| trial.wait().unwrap()).sum();
    assert_eq!(sum, heads_of(7, 1000) + heads_of(8, 1000));
    assert!((900..1100).contains(&sum), "{sum}");
}

fn heads_of(seed: u64, count: u64) -> u64 {
    let mut state = seed;
    let toss = |_: &u64| {
        state = state.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1);
        state >> 63 == 1
    };
    (0..count).filter(toss).count() as u64
}

#[test]
fn jpar_02_jpar_04_partial_values_are_combined_in_the_order_of_the_range() {
    let (_runtime, _workers, pool) = pool_of(3);
    let words = remote_fn!(|chunk: Range<u64>| -> String {
        chunk.map(|number| format!("{number},")).collect::<String>()
    });
    let all = pool
        .range(5..30)
        .reduce(words, |one, other| one + &other)
        .unwrap()
        .unwrap();
    let expected: String = (5..30).map(|number| format!("{number},")).collect();
    assert_eq!(all, expected);
    let none = pool
        .range(4..4)
        .reduce(remote_fn!(counts), |one, other| one + other)
        .unwrap();
    assert_eq!(none, None);
    let one = pool
        .range(4..5)
        .reduce(remote_fn!(counts), |one, other| one + other)
        .unwrap();
    assert_eq!(one, Some(1));
}

#[remote]
fn counts(chunk: Range<u64>) -> u64 {
    chunk.end - chunk.start
}

#[test]
fn jpar_05_jpar_06_what_is_captured_is_a_copy_sent_once_to_each_worker() {
    let (runtime, workers, pool) = pool_of(2);
    let captured = vec![1_u8; 100_000];
    let sum = remote_fn!([captured: Vec<u8>] |chunk: Range<u64>| -> u64 {
        let mut mine = captured;
        chunk.map(|number| { mine[number as usize] += 1; u64::from(mine[number as usize]) }).sum()
    });
    let sent = || -> u64 { runtime.traffic().iter().map(|link| link.counts.bytes_sent).sum() };
    let before = sent();
    let total = pool
        .range(0..1000)
        .reduce(sum.clone(), |one, other| one + other)
        .unwrap();
    assert_eq!(total, Some(2000));
    let bytes = sent() - before;
    assert!((200_000..220_000).contains(&bytes), "{bytes}");
    assert_eq!(
        pool.range(0..1000).reduce(sum, |one, other| one + other).unwrap(),
        Some(2000)
    );
    drop(workers);
}

#[remote]
fn notes(path: &str, chunk: Range<u64>) {
    chunk.for_each(|number| add_line(path, &number.to_string()));
}

#[test]
fn jpar_09_a_loop_without_a_value_returns_at_once_and_is_waited_for() {
    let (_runtime, _workers, pool) = pool_of(2);
    let file = fresh_file("loop");
    let path = &file;
    let work = remote_fn!([path: String] |chunk: Range<u64>| { notes(&path, chunk) });
    pool.range(0..100).start(work).unwrap().wait().unwrap();
    let mut seen: Vec<u64> = lines(path).iter().map(|line| line.parse().unwrap()).collect();
    seen.sort_unstable();
    assert_eq!(seen, (0..100).collect::<Vec<_>>());
    std::fs::remove_file(path).unwrap();
}

#[test]
fn the_error_of_a_chunk_names_the_chunk() {
    let (_runtime, _workers, pool) = pool_of(2);
    let fails = remote_fn!(|chunk: Range<u64>| -> Result<u64> {
        match chunk.start {
            0 => Ok(1),
            _ => Err("the second half".into()),
        }
    });
    let error = pool
        .range(0..10)
        .reduce(fails, |one, other| one + other)
        .unwrap_err();
    assert!(
        matches!(&error, MapError::Chunk { chunk, .. } if *chunk == (5..10)),
        "{error}"
    );
    assert!(error.to_string().contains("the second half"), "{error}");
    let panics = remote_fn!(|chunk: Range<u64>| { assert!(chunk.start == 0, "the second half") });
    let error = pool.range(0..10).start(panics).unwrap().wait().unwrap_err();
    assert!(error.to_string().starts_with("the chunk 5..10: "), "{error}");
}
