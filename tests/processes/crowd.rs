//! Two graphs and a runtime at once, each of which waits by spinning if it is alone.

use std::sync::atomic::{AtomicBool, Ordering};

use selvedge::prelude::*;
use selvedge::{CallError, Wait};
use selvedge_channels::spinning_cores;

use crate::actors::counter;
use crate::alone::alone;

const TURNS: i64 = 3000;

#[remote]
fn doubled(x: i64) -> i64 {
    2 * x
}

/// Six threads in four processes wait for each other, two by two. Their permits are those of the cores, whichever process they are of.
#[test]
fn graphs_and_calls_at_once_spin_on_no_more_cores_than_there_are() -> Result<()> {
    alone(|| {
        let runtime = Runtime::new();
        let worker = runtime.worker("calls")?;
        let mut graphs = Vec::new();
        for name in ["one", "other"] {
            let echo = counter(&runtime, name, Placement::Process);
            let options = Options::new().wait(Wait::Auto);
            graphs.push(runtime.compile_with(options, |x: Edge<i64>| echo.echo(&x))?);
        }
        let cores = selvedge::cores().len().max(1);
        let is_over = AtomicBool::new(false);
        let turns = |graph: usize| -> std::result::Result<(), ExecError> {
            for x in 0..TURNS {
                assert_eq!(graphs[graph].execute(x).wait()?, x);
            }
            Ok(())
        };
        let calls = || -> std::result::Result<(), CallError> {
            for x in 0..TURNS {
                let call = doubled::remote(x).on(&worker);
                assert_eq!(runtime.call(call).wait()?, 2 * x);
            }
            Ok(())
        };
        let looks = || {
            let (mut most, mut spun) = (0, 0);
            while !is_over.load(Ordering::Relaxed) {
                let spinning = spinning_cores();
                (most, spun) = (most.max(spinning), spun + usize::from(spinning > 0));
                std::thread::yield_now();
            }
            (most, spun)
        };
        let (most, spun) = std::thread::scope(|scope| {
            let (one, other) = (scope.spawn(|| turns(0)), scope.spawn(|| turns(1)));
            let (calls, looks) = (scope.spawn(calls), scope.spawn(looks));
            let ended = (one.join().unwrap(), other.join().unwrap(), calls.join().unwrap());
            is_over.store(true, Ordering::Relaxed);
            ended.0.and(ended.1).unwrap();
            ended.2.unwrap();
            looks.join().unwrap()
        });
        println!("at most {most} cores of {cores} are spun on, at {spun} looks one or more");
        assert!(most <= cores, "{most} of {cores}");
        assert!(spun > 0, "nobody spins");
        Ok(())
    })
}
