//! Memory stays bounded when payload sizes alternate.

use crate::actors::{REMOTE, Text};
use crate::alone::alone;
use crate::census;
use selvedge::prelude::*;

const SLOT: usize = 4096;

fn pattern(len: usize, seed: usize) -> Vec<u8> {
    (0..len)
        .map(|i| (i.wrapping_mul(31) ^ (i >> 8) ^ seed) as u8)
        .collect()
}

/// The resident memory of a process, in KiB.
fn resident_kib(pid: u32) -> usize {
    let status = std::fs::read_to_string(format!("/proc/{pid}/status")).expect("status");
    let line = status
        .lines()
        .find(|line| line.starts_with("VmRSS:"))
        .expect("VmRSS");
    line.split_whitespace()
        .nth(1)
        .and_then(|n| n.parse().ok())
        .expect("a number")
}

#[test]
fn chan_17_alternating_sizes_for_ten_thousand_executions_keep_memory_bounded() -> Result<()> {
    alone(|| {
        const LARGE: usize = 1 << 20;
        for placement in REMOTE {
            let runtime = Runtime::new();
            let t = runtime.spawn::<Text>("t", ()).place(placement)?;
            let options = Options::new().buffer_bytes(SLOT).max_inflight(2);
            let graph = runtime.compile_with(options, |x: Edge<Vec<u8>>| t.echo_bytes(&x))?;
            let (small, large) = (pattern(100, 1), pattern(LARGE, 2));
            let pid = t.actor().pid().unwrap_or_else(std::process::id);
            let (mut early, mut segments) = (0, 0);
            for round in 0..5_000 {
                // Small payloads in between; every fiftieth payload is large.
                let sent = if round % 25 == 0 { &large } else { &small };
                assert!(graph.execute(sent.clone()).wait()? == *sent, "{placement}");
                assert!(graph.execute(small.clone()).wait()? == small, "{placement}");
                if round == 100 {
                    early = resident_kib(pid);
                    segments = census::Census::take().segments;
                }
            }
            let late = resident_kib(pid);
            assert!(
                late < early + 16 * 1024,
                "{placement}: {early} KiB grew to {late} KiB"
            );
            assert!(census::Census::take().segments <= segments + 2, "{placement}");
        }
        Ok(())
    })
}
