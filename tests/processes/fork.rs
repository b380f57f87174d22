//! A forked child drops its copies without any effect on its parent.

use crate::actors::{self, Gate, REMOTE, counter};
use crate::alone::alone;
use selvedge::prelude::*;

#[test]
#[allow(unsafe_code)]
fn a_forked_child_that_drops_its_copies_ends_nothing_of_its_parents() -> Result<()> {
    alone(|| {
        for placement in REMOTE {
            let runtime = Runtime::new();
            let a = counter(&runtime, "a", placement);
            let worker = runtime.worker("w")?;
            let lane = worker.lane("l");
            let b = runtime.spawn::<actors::Counter>("b", (0,)).in_lane(&lane)?;
            let gate = Gate::closed();
            let graph = runtime.compile(|x: Edge<i64>| a.pass(&b.echo(&x), gate.path()))?;
            let under_way = graph.execute(1);
            // SAFETY: the child only drops its copies of the parent's values, and exits.
            let child = unsafe { libc::fork() };
            if child == 0 {
                // SAFETY: sets a timer, whose signal ends a child that would wait for ever.
                unsafe { libc::alarm(30) };
                drop((under_way, graph, b, lane, worker, a, runtime));
                // SAFETY: ends the child, which has no other thread.
                unsafe { libc::_exit(0) }
            }
            let mut status = 0;
            // SAFETY: waits for the child made above, and writes to a local number.
            let waited = unsafe { libc::waitpid(child, &raw mut status, 0) };
            assert_eq!(
                (waited, status),
                (child, 0),
                "{placement}: the child did not leave"
            );
            gate.open();
            assert_eq!(under_way.wait()?, 1, "{placement}");
            assert_eq!(graph.run(2)?, 2, "{placement}");
            drop(graph);
            assert_eq!(b.call().echo(3).wait()?, 3);
            assert_eq!(
                runtime
                    .spawn::<actors::Counter>("c", (0,))
                    .in_lane(&lane)?
                    .call()
                    .echo(4)
                    .wait()?,
                4
            );
        }
        Ok(())
    })
}
