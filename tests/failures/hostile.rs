//! A worker that writes over the memory it shares: the others get errors, never a crash, a hang or a wrong value.

use std::time::{Duration, Instant};

use crate::actors::{Gate, counter};
use selvedge::prelude::*;

struct Vandal {
    seed: u64,
}

impl Vandal {
    /// Writes over all memory that this process shares with others; with `sparse`, over random words of it.
    #[allow(unsafe_code)]
    fn scribble(&mut self, sparse: bool) {
        let maps = std::fs::read_to_string("/proc/self/maps").unwrap();
        for line in maps.lines().filter(|line| line.contains("memfd:selvedge")) {
            let (start, end) = line.split_once(' ').unwrap().0.split_once('-').unwrap();
            let start = usize::from_str_radix(start, 16).unwrap();
            let end = usize::from_str_radix(end, 16).unwrap();
            for address in (start..end).step_by(8) {
                self.seed = self.seed.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1);
                if sparse && !(self.seed >> 33).is_multiple_of(50) {
                    continue;
                }
                let word = std::ptr::with_exposed_provenance_mut::<u64>(address);
                // SAFETY: the word is mapped, writable and aligned, as the kernel says; conflicts with its other users
                // are the purpose of the test.
                unsafe { word.write_volatile(self.seed) };
            }
        }
    }
}

/// A pointer to a word of the memory that this process shares.
fn word(address: usize) -> *mut u64 {
    std::ptr::with_exposed_provenance_mut(address)
}

/// Addresses of slots that hold `value`: cache lines that begin with a message's number, its kind and its length.
#[allow(unsafe_code)]
fn slots_of(value: f64) -> Vec<usize> {
    let maps = std::fs::read_to_string("/proc/self/maps").unwrap();
    let maps = maps.lines().filter(|line| line.contains("memfd:selvedge"));
    let lines = maps.flat_map(|line| {
        let (start, end) = line.split_once(' ').unwrap().0.split_once('-').unwrap();
        let [start, end] = [start, end].map(|address| usize::from_str_radix(address, 16).unwrap());
        (start..end).step_by(64)
    });
    let holds = |line: &usize| {
        // SAFETY: the word is mapped and aligned, as the kernel says.
        (3..8).any(|at| unsafe { word(line + 8 * at).read_volatile() } == value.to_bits())
    };
    lines.filter(holds).collect()
}

#[actor]
impl Vandal {
    pub fn new(seed: u64) -> Self {
        Vandal { seed }
    }

    pub fn negate(&mut self, x: f64) -> f64 {
        -x
    }

    pub fn pass(&mut self, x: f64, #[constant] gate: &str) -> f64 {
        let gate = std::fs::File::open(gate).unwrap();
        gate.lock_shared().unwrap();
        x
    }

    pub fn add(&mut self, a: f64, b: f64) -> f64 {
        a + b
    }

    /// Overwrites the lengths in slots that hold `-x` with more than there is. Returns the number of those slots.
    #[allow(unsafe_code)]
    pub fn lengthen(&mut self, x: f64) -> usize {
        let slots = slots_of(-x);
        for slot in &slots {
            // SAFETY: as in `slots_of`; conflicts with other readers of the word are the purpose of the test.
            unsafe { word(slot + 8 * 2).write_volatile(u64::MAX) };
        }
        slots.len()
    }

    pub fn echo(&mut self, x: Vec<u64>) -> Vec<u64> {
        x
    }

    pub fn smash(&mut self, x: Vec<u64>, #[constant] sparse: bool) -> Vec<u64> {
        self.scribble(sparse);
        x
    }
}

#[test]
fn task_11_whatever_a_worker_writes_the_driver_gets_an_error_in_time() -> Result<()> {
    for round in 0..16_u64 {
        let runtime = Runtime::new();
        let vandal = runtime.spawn::<Vandal>("vandal", (round,)).in_process()?;
        let bystander = counter(&runtime, "bystander", Placement::Process);
        let options = Options::new()
            .timeout(Duration::from_millis(300))
            .submit_timeout(Duration::from_millis(300))
            .teardown_timeout(Duration::from_millis(300));
        let graph = runtime.compile_with(options, |x: Edge<Vec<u64>>| {
            vandal.echo(&vandal.smash(&vandal.echo(&x), round % 2 == 1))
        })?;
        let started = Instant::now();
        for execution in 0..4 {
            let sent = vec![execution; 200];
            // The vandal may change its own results; every other difference must be an error.
            match graph.execute(sent.clone()).wait() {
                Ok(result) => assert!(result.len() <= 1 << 20, "round {round}: {}", result.len()),
                Err(error) => assert!(!matches!(error, ExecError::Internal { .. }), "{error}"),
            }
        }
        let _ = graph.teardown();
        drop(graph);
        assert!(
            started.elapsed() < Duration::from_secs(120),
            "round {round}: every wait has its end"
        );
        let graph = runtime.compile(|x: Edge<i64>| bystander.inc(&x))?;
        assert_eq!(graph.execute(1).wait()?, 1, "round {round}: others go on");
    }
    Ok(())
}

#[test]
fn task_11_a_broken_channel_ends_the_loop_and_is_told_with_task_and_reason() -> Result<()> {
    let runtime = Runtime::new();
    let worker = runtime.worker("w")?;
    let vandal = |name: &str| runtime.spawn::<Vandal>(name, (0,)).in_worker(&worker);
    let (writer, vandal) = (vandal("writer")?, vandal("vandal")?);
    let reader = runtime.spawn::<Vandal>("reader", (0,)).in_process()?;
    let gate = Gate::closed();
    let graph = runtime.compile(|x: Edge<f64>| {
        let later = reader.pass(&x, gate.path());
        let value = writer.negate(&x);
        // When the writer computes again, its previous value has been published to all of its readers.
        let written = writer.negate(&value);
        (vandal.lengthen(&written), reader.add(&later, &value))
    })?;
    let (slots, sum) = graph.execute(1.618_033_988).split();
    assert_eq!(
        slots.wait()?,
        1,
        "the value on its way to the reader, which is at the gate"
    );
    gate.open();
    let told = |error: ExecError| {
        assert!(!error.graph_goes_on(), "{error}");
        let ExecError::Broken { graph: name, reason } = error else {
            panic!("{error:?}")
        };
        assert_eq!(*name, *graph.name());
        assert!(reason.starts_with("`reader.add`: "), "{reason}");
        assert!(reason.contains("a length above the slot's"), "{reason}");
    };
    told(sum.wait().expect_err("its slot says what cannot be"));
    told(graph.execute(1.0).wait().expect_err("the graph has ended"));
    told(graph.ended().expect("an end"));
    drop(graph);
    let graph = runtime.compile(|x: Edge<f64>| reader.add(&x, &writer.negate(&x)))?;
    let sum = graph.execute(2.0).wait()?;
    assert!(sum.abs() < 0.1, "{sum}: both loops have ended, both actors live");
    Ok(())
}
