//! A worker that writes over the memory it shares: errors, never a crash, a hang or a wrong value.
#![allow(
    missing_docs,
    unreachable_pub,
    clippy::unwrap_used,
    clippy::expect_used,
    clippy::panic,
    clippy::indexing_slicing
)]

mod actors;

use std::time::{Duration, Instant};

use actors::counter;
use selvedge::prelude::*;

struct Vandal {
    seed: u64,
}

impl Vandal {
    /// Writes over all that this process shares with others, words at random where `sparse` says so.
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
                // SAFETY: mapped, writable and aligned, as the kernel says; that others use it is the point.
                unsafe { word.write_volatile(self.seed) };
            }
        }
    }
}

#[actor]
impl Vandal {
    pub fn new(seed: u64) -> Self {
        Vandal { seed }
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
            // Its own results are the vandal's to write; anything else is an error.
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
