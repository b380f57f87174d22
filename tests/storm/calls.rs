//! The calls of the storm, and their values: a value is a hash of its inputs, and what follows from it.

use std::fs::OpenOptions;
use std::io::Write;
use std::time::Duration;

use selvedge::prelude::*;

/// Adds a line to a file, by one write, so that lines of several processes do not mix.
pub fn note(path: &str, line: &str) {
    let mut file = OpenOptions::new().append(true).open(path).unwrap();
    file.write_all(format!("{line}\n").as_bytes()).unwrap();
}

pub fn mixed(x: u64, y: u64, seed: u64) -> u64 {
    let mut state = x.rotate_left(17) ^ y.wrapping_mul(0x9e37_79b9_7f4a_7c15) ^ seed;
    state ^= state >> 29;
    state.wrapping_mul(0xbf58_476d_1ce4_e5b9)
}

/// The length of the value of a call, which no other value that lies in a store has: from 64 bytes to more than 1 MiB.
pub fn length(call: u64) -> u64 {
    match mixed(call, 1, 0) >> 60 {
        0..8 => 8,
        8..12 => FIRST[0] + STEP * call,
        12..15 => FIRST[1] + STEP * call,
        _ => FIRST[2] + STEP * call,
    }
}

/// The lengths of the shortest values that lie in a store, and the numbers between two lengths: a store rounds bytes up to 64.
const FIRST: [u64; 3] = [3 << 10, 60 << 10, 138 << 10];
const STEP: u64 = 8;
/// The bytes in front of the numbers of a stored value.
const FRONT: u64 = 64;

/// Whether the value of a call lies in a store, and not beside its reference.
pub fn is_stored(call: u64) -> bool {
    length(call) >= FIRST[0]
}

/// The call whose value has these bytes in a store.
pub fn call_of(bytes: u64) -> Option<u64> {
    let numbers = (bytes - FRONT) / 8;
    let mut calls = FIRST
        .iter()
        .rev()
        .filter_map(|first| Some(numbers.checked_sub(*first)? / STEP));
    calls.find(|call| length(*call) == numbers)
}

pub fn value(call: u64, hash: u64) -> Vec<u64> {
    (0..length(call)).map(|at| mixed(hash, at, 0)).collect()
}

fn run(path: &str, call: u64, x: &[u64], y: &[u64]) -> Result<Vec<u64>> {
    let process = Runtime::current()?.process().number();
    note(path, &format!("begins {call} {process}"));
    std::thread::sleep(Duration::from_millis(mixed(call, 2, 0) % 200));
    Ok(value(call, mixed(x[0], y[0], call)))
}

#[remote(pure, retries = 1000)]
pub fn mix(path: &str, call: u64, x: &[u64], y: &[u64]) -> Result<Vec<u64>> {
    run(path, call, x, y)
}

#[remote]
pub fn mix_once(path: &str, call: u64, x: &[u64], y: &[u64]) -> Result<Vec<u64>> {
    run(path, call, x, y)
}
