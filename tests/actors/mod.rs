//! Actors that the end-to-end tests share, and the placements they run in.
#![allow(dead_code)] // each test file uses only a part

use std::fs::File;
use std::io::Write;
use std::path::PathBuf;
use std::sync::atomic::{AtomicU32, Ordering};
use std::time::{Duration, Instant};

use selvedge::prelude::*;

pub const PLACEMENTS: [Placement; 3] = [Placement::Inline, Placement::Thread, Placement::Process];
pub const REMOTE: [Placement; 2] = [Placement::Thread, Placement::Process];

#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("{0} is negative")]
pub struct Negative(pub i64);

pub struct Counter {
    total: i64,
}

#[actor]
impl Counter {
    pub fn new(start: i64) -> Self {
        Counter { total: start }
    }

    /// Adds to the total and returns it.
    pub fn inc(&mut self, by: i64) -> i64 {
        self.total += by;
        self.total
    }

    pub fn total(&mut self, _tick: ()) -> i64 {
        self.total
    }

    /// Takes no value: the execution itself starts it, or an ordering after another task.
    pub fn tick(&mut self) -> i64 {
        self.total += 1;
        self.total
    }

    pub fn echo(&mut self, x: i64) -> i64 {
        x
    }

    pub fn add(&mut self, a: i64, b: i64) -> i64 {
        a + b
    }

    pub fn sum3(&mut self, a: &i64, b: i64, c: &i64) -> i64 {
        a + b + c
    }

    pub fn scale(&mut self, x: i64, #[constant] factor: i64) -> i64 {
        x * factor
    }

    pub fn pair(&mut self, x: i64) -> (i64, i64) {
        (x, x + 1)
    }

    pub fn fail_if_negative(&mut self, x: i64) -> Result<i64, Negative> {
        if x < 0 { Err(Negative(x)) } else { Ok(x) }
    }

    pub fn panic_if_negative(&mut self, x: i64) -> i64 {
        assert!(x >= 0, "{x} is negative");
        self.total += 1;
        x
    }

    pub fn pair_or_fail(&mut self, x: i64) -> Result<(i64, i64), Negative> {
        if x < 0 { Err(Negative(x)) } else { Ok((x, x + 1)) }
    }

    /// Waits at a gate until the test opens it.
    pub fn pass(&mut self, x: i64, #[constant] gate: &str) -> i64 {
        let mut gate = File::options().append(true).open(gate).expect("a gate");
        gate.write_all(b".").expect("a file");
        gate.lock_shared().expect("a lock");
        x
    }

    pub fn sleep_ms(&mut self, ms: i64) -> i64 {
        std::thread::sleep(Duration::from_millis(ms.unsigned_abs()));
        ms
    }

    /// Never returns if `x` is negative.
    pub fn hang_if_negative(&mut self, x: i64) -> i64 {
        if x < 0 {
            loop {
                std::thread::park();
            }
        }
        x
    }

    pub fn exit_if_negative(&mut self, x: i64) -> i64 {
        if x < 0 {
            eprintln!("last words of the counter");
            std::process::exit(7);
        }
        x
    }

    /// Runs a shell that sends `signal` to itself, and returns the number of the signal that ended the shell.
    pub fn interrupt_a_child(&mut self, signal: i32) -> Option<i32> {
        use std::os::unix::process::ExitStatusExt;
        let script = format!("kill -{signal} $$; exit 0");
        let status = std::process::Command::new("sh").args(["-c", &script]).status();
        status.expect("a shell").signal()
    }

    pub async fn later(&mut self, x: i64) -> i64 {
        tokio::time::sleep(Duration::from_millis(1)).await;
        x + 1
    }
}

/// A value so large that a ring has no spare slots for it.
#[derive(Clone, Debug, PartialEq, Eq, serde::Serialize, serde::Deserialize)]
pub struct Table(pub [[u64; 32]; 8]);

pub struct Text;

#[actor]
impl Text {
    pub fn new() -> Self {
        Text
    }

    pub fn upper(&mut self, text: &str) -> String {
        text.to_uppercase()
    }

    pub fn zeros(&mut self, count: u64) -> Vec<u8> {
        vec![0; count as usize]
    }

    pub fn first(&mut self, table: &Table) -> u64 {
        table.0[0][0]
    }

    pub fn bytes(&mut self, text: &str) -> Vec<u8> {
        text.bytes().collect()
    }

    pub fn sum(&mut self, bytes: &[u8]) -> u64 {
        bytes.iter().map(|byte| u64::from(*byte)).sum()
    }

    pub fn mean(&mut self, tensor: &Tensor) -> Result<f32> {
        let values = tensor.as_slice::<f32>()?;
        Ok(values.iter().sum::<f32>() / values.len().max(1) as f32)
    }

    pub fn tensor(&mut self, values: Vec<f32>) -> Result<Tensor> {
        let len = values.len();
        Ok(Tensor::from_vec(values, &[len])?)
    }

    pub fn echo_bytes(&mut self, bytes: Vec<u8>) -> Vec<u8> {
        bytes
    }
}

/// Creates the objects that the first runtime of a process creates once and keeps, so that later counts include them.
pub fn warm_up() {
    let runtime = Runtime::new();
    counter(&runtime, "warm", Placement::Process);
}

/// A gate that methods wait at, in any process: a locked file. Dropping it lets the waiting methods pass.
pub struct Gate {
    path: PathBuf,
    lock: File,
}

impl Gate {
    pub fn closed() -> Gate {
        static NEXT: AtomicU32 = AtomicU32::new(0);
        let number = NEXT.fetch_add(1, Ordering::Relaxed);
        let path = std::env::temp_dir().join(format!("selvedge-gate-{}-{number}", std::process::id()));
        let lock = File::create(&path).expect("a file");
        lock.lock().expect("a lock");
        Gate { path, lock }
    }

    pub fn path(&self) -> String {
        self.path.display().to_string()
    }

    /// Waits until `many` methods have arrived since the gate was made.
    pub fn reached(&self, many: u64) {
        until("somebody at the gate", || (self.visits() >= many).then_some(()));
    }

    /// The number of methods that have arrived since the gate was made.
    pub fn visits(&self) -> u64 {
        std::fs::metadata(&self.path).map_or(0, |file| file.len())
    }

    /// Lets all methods pass, now and later.
    pub fn open(&self) {
        self.lock.unlock().expect("a lock");
    }
}

impl Drop for Gate {
    fn drop(&mut self) {
        let _ = std::fs::remove_file(&self.path);
    }
}

/// Spawns a counter at `placement`.
pub fn counter(runtime: &Runtime, name: &str, placement: Placement) -> CounterHandle {
    runtime
        .spawn::<Counter>(name, (0,))
        .place(placement)
        .expect("spawn")
}

/// Calls `found` until it returns a value. Fails after 30 seconds.
pub fn until<T>(what: &str, mut found: impl FnMut() -> Option<T>) -> T {
    let begun = Instant::now();
    loop {
        if let Some(found) = found() {
            return found;
        }
        assert!(begun.elapsed() < Duration::from_secs(30), "{what}");
        std::thread::yield_now();
    }
}
