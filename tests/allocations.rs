//! No heap allocation per execution in steady state (echo, 8 bytes, inline and thread placement).
//!
//! The test has no harness, because a harness's own thread allocates at any time.
#![allow(
    missing_docs,
    unreachable_pub,
    clippy::unwrap_used,
    clippy::expect_used,
    clippy::panic,
    clippy::indexing_slicing
)]

mod actors;

use std::alloc::{GlobalAlloc, Layout, System};
use std::sync::atomic::{AtomicUsize, Ordering};

use actors::counter;
use selvedge::prelude::*;

struct Counting;

static ALLOCATIONS: AtomicUsize = AtomicUsize::new(0);

#[allow(unsafe_code)] // an allocator is unsafe to implement
// SAFETY: every call is passed on unchanged to the system's allocator, which has the same contract.
unsafe impl GlobalAlloc for Counting {
    unsafe fn alloc(&self, layout: Layout) -> *mut u8 {
        ALLOCATIONS.fetch_add(1, Ordering::Relaxed);
        // SAFETY: the caller's promise about `layout` is passed on.
        unsafe { System.alloc(layout) }
    }

    unsafe fn dealloc(&self, pointer: *mut u8, layout: Layout) {
        // SAFETY: `pointer` came from `alloc` above with the same layout.
        unsafe { System.dealloc(pointer, layout) }
    }
}

#[global_allocator]
static ALLOCATOR: Counting = Counting;

fn task_13_an_execution_allocates_nothing() -> Result<()> {
    for placement in [Placement::Inline, Placement::Thread] {
        let runtime = Runtime::new();
        let a = counter(&runtime, "a", placement);
        let graph = runtime.compile(|x: Edge<i64>| a.echo(&x))?;
        for x in 0..1_000 {
            assert_eq!(graph.execute(x).wait()?, x);
        }
        let before = ALLOCATIONS.load(Ordering::Relaxed);
        for x in 0..10_000 {
            assert_eq!(graph.execute(x).wait()?, x);
        }
        let allocations = ALLOCATIONS.load(Ordering::Relaxed) - before;
        assert_eq!(
            allocations, 0,
            "{placement}: {allocations} allocations in 10 000 executions"
        );
    }
    Ok(())
}

fn main() -> Result<()> {
    task_13_an_execution_allocates_nothing()?;
    println!("test task_13_an_execution_allocates_nothing ... ok");
    Ok(())
}
