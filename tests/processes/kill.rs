//! `kill -9` on a worker at random moments, and the resources that remain afterwards.

use std::time::{Duration, Instant};

use crate::actors::counter;
use crate::alone::alone;
use crate::census::{Census, settled, wait_until};
use crate::killing::{Random, kill};
use selvedge::Exit;
use selvedge::prelude::*;

/// DAG-37, CHAN-25: 200 kills at random moments of a loop of executions. Every time the error names the actor
/// and the signal, the survivor is bound into a new graph, and no resource remains.
#[test]
fn dag_37_kill_9_two_hundred_times() -> Result<()> {
    alone(|| {
        let kills: usize = std::env::var("SELVEDGE_TEST_KILLS")
            .ok()
            .and_then(|n| n.parse().ok())
            .unwrap_or(200);
        let seed = 0x5e1_7ed6e;
        let mut random = Random(seed);
        let runtime = Runtime::new();
        let survivor = counter(&runtime, "survivor", Placement::Process);
        let warm = counter(&runtime, "warm", Placement::Process);
        runtime
            .compile(|x: Edge<i64>| warm.echo(&survivor.echo(&x)))?
            .execute(1)
            .wait()?;
        warm.actor().kill();
        // The control node of `warm` closes its descriptors a moment after the death is known.
        let before = settled(Census::take);
        let (mut noticed, mut reused) = (Vec::new(), Vec::new());
        for round in 0..kills {
            let victim = counter(&runtime, &format!("victim{round}"), Placement::Process);
            let pid = victim.actor().pid().expect("a process");
            let graph = runtime.compile(|x: Edge<i64>| survivor.echo(&victim.inc(&survivor.echo(&x))))?;
            let moment = Duration::from_micros(random.below(3000));
            let error = std::thread::scope(|scope| {
                let killer = scope.spawn(move || {
                    std::thread::sleep(moment);
                    let at = Instant::now();
                    kill(pid);
                    at
                });
                let mut window = std::collections::VecDeque::new();
                let begun = Instant::now();
                let error = loop {
                    assert!(
                        begun.elapsed() < Duration::from_secs(60),
                        "round {round}, seed {seed}: no execution has failed"
                    );
                    window.push_back(graph.execute(1));
                    if window.len() >= 4
                        && let Some(oldest) = window.pop_front()
                        && let Err(error) = oldest.wait()
                    {
                        break error;
                    }
                };
                let noticed_at = Instant::now();
                let killed_at = killer.join().expect("killer");
                noticed.push(noticed_at.saturating_duration_since(killed_at));
                error
            });
            let ExecError::ActorDied(died) = &error else {
                panic!("round {round}, seed {seed}: {error:?}")
            };
            assert_eq!(died.actor, format!("victim{round}"));
            assert_eq!(died.death.exit, Exit::Signal(9), "round {round}, seed {seed}");
            assert!(error.to_string().contains("SIGKILL"), "{error}");
            let started = Instant::now();
            let again = runtime.compile(|x: Edge<i64>| survivor.echo(&x))?;
            assert_eq!(again.execute(7).wait()?, 7);
            reused.push(started.elapsed());
            assert!(
                runtime.compile(|x: Edge<i64>| victim.echo(&x)).is_err(),
                "a dead actor cannot be bound"
            );
            assert!(graph.execute(1).wait().is_err());
        }
        report("error after kill", &mut noticed);
        report("survivor reused", &mut reused);
        assert_eq!(
            wait_until(&before, Census::take),
            before,
            "left behind after {kills} kills"
        );
        drop(runtime);
        Ok(())
    })
}

fn report(what: &str, times: &mut [Duration]) {
    times.sort();
    let at = |part: usize| times[(times.len() - 1) * part / 100];
    println!(
        "{what}: median {:?}, p99 {:?}, worst {:?} of {}",
        at(50),
        at(99),
        at(100),
        times.len()
    );
}
