//! Payloads of every size arrive whole, in every placement.
#![allow(
    missing_docs,
    unreachable_pub,
    clippy::unwrap_used,
    clippy::expect_used,
    clippy::panic,
    clippy::indexing_slicing
)]

mod actors;

use actors::{PLACEMENTS, Text};
use selvedge::prelude::*;

const SLOT: usize = 4096;

fn pattern(len: usize, seed: usize) -> Vec<u8> {
    (0..len)
        .map(|i| (i.wrapping_mul(31) ^ (i >> 8) ^ seed) as u8)
        .collect()
}

#[test]
fn chan_16_sizes_around_the_slot_and_far_above_it() -> Result<()> {
    for placement in PLACEMENTS {
        let runtime = Runtime::new();
        let t = runtime.spawn::<Text>("t", ()).place(placement)?;
        let options = Options::new().buffer_bytes(SLOT).max_inflight(2);
        let graph = runtime.compile_with(options, |x: Edge<Vec<u8>>| t.echo_bytes(&x))?;
        for len in [0, 1, SLOT - 1, SLOT, SLOT + 1, 64 << 20, 0, SLOT + 1, 1] {
            let sent = pattern(len, len);
            assert!(
                graph.execute(sent.clone()).wait()? == sent,
                "{len} bytes, {placement}"
            );
        }
    }
    Ok(())
}

#[test]
fn chan_14_a_payload_above_the_cap_is_the_tasks_error_and_the_graph_goes_on() -> Result<()> {
    let runtime = Runtime::new();
    let t = runtime.spawn::<Text>("t", ()).place(Placement::Process)?;
    let options = Options::new().buffer_bytes(SLOT).max_payload_bytes(1 << 20);
    let graph = runtime.compile_with(options, |x: Edge<String>| t.bytes(&x))?;
    for _ in 0..3 {
        let error = graph.execute("x".repeat(2 << 20)).wait().expect_err("too large");
        assert!(matches!(&error, ExecError::Task(_)), "{error:?}");
        assert!(
            error.to_string().contains("max_payload_bytes") || error.to_string().contains("1048576"),
            "{error}"
        );
        assert_eq!(graph.execute("ab".into()).wait()?, b"ab");
    }
    Ok(())
}

#[test]
fn chan_14_a_result_above_the_cap_is_the_tasks_error_too() -> Result<()> {
    for trace in [0, 100] {
        let runtime = Runtime::new();
        let t = runtime.spawn::<Text>("t", ()).place(Placement::Process)?;
        let options = Options::new()
            .buffer_bytes(SLOT)
            .max_payload_bytes(1 << 20)
            .trace(trace);
        let graph = runtime.compile_with(options, |count: Edge<u64>| t.zeros(&count))?;
        for _ in 0..3 {
            for result in [graph.run(2 << 20), graph.execute(2 << 20).wait()] {
                let error = result.expect_err("too large");
                assert!(matches!(&error, ExecError::Task(_)), "{error:?}");
                assert!(error.to_string().contains("t.zeros"), "{error}");
            }
            assert_eq!(graph.run(3)?, [0; 3]);
            assert_eq!(
                graph.execute(1 << 19).wait()?.len(),
                1 << 19,
                "in a larger segment"
            );
        }
    }
    Ok(())
}
