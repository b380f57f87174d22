//! Death: `kill -9` on a worker at random moments, on the driver, and what is left afterwards.

mod actors;
mod census;

use std::process::{Command, Stdio};
use std::time::{Duration, Instant};

use actors::{Counter, counter};
use census::{Census, children_of, is_alive, wait_until};
use selvedge::prelude::*;
use selvedge::{Exit, Restart};

fn kill(pid: u32) {
    let pid = rustix::process::Pid::from_raw(pid as i32).expect("pid");
    rustix::process::kill_process(pid, rustix::process::Signal::KILL).expect("kill");
}

/// xorshift: the seed is printed, so a failure can be repeated.
struct Random(u64);

impl Random {
    fn below(&mut self, limit: u64) -> u64 {
        self.0 ^= self.0 << 13;
        self.0 ^= self.0 >> 7;
        self.0 ^= self.0 << 17;
        self.0 % limit
    }
}

/// DAG-37, CHAN-25: 200 kills at random moments of a loop of executions. Every time the error names the actor
/// and the signal, the survivor is bound into a new graph, and nothing is left.
#[test]
fn dag_37_kill_9_two_hundred_times() -> Result<()> {
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
    let before = Census::take();
    let (mut noticed, mut reused) = (Vec::new(), Vec::new());
    for round in 0..kills {
        let victim = counter(&runtime, &format!("victim{round}"), Placement::Process);
        let pid = victim.actor().pid().expect("a process");
        let graph = runtime.compile(|x: Edge<i64>| survivor.echo(&victim.inc(&survivor.echo(&x))))?;
        let moment = Duration::from_micros(random.below(3000));
        let (error, killed_at) = std::thread::scope(|scope| {
            let killer = scope.spawn(move || {
                std::thread::sleep(moment);
                let at = Instant::now();
                kill(pid);
                at
            });
            let mut window = std::collections::VecDeque::new();
            let error = loop {
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
            (error, killed_at)
        });
        let _ = killed_at;
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
        wait_until(&before, || Census::take()),
        before,
        "left behind after {kills} kills"
    );
    drop(runtime);
    Ok(())
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

#[test]
fn rft_06_a_restarted_actor_can_be_bound_again() -> Result<()> {
    let runtime = Runtime::new();
    let a = runtime
        .spawn::<Counter>("a", (5,))
        .restart(Restart::OnFailure { max: 2 })
        .in_process()?;
    for _ in 0..2 {
        let pid = a.actor().pid().expect("a process");
        let graph = runtime.compile(|x: Edge<i64>| a.inc(&x))?;
        assert_eq!(graph.execute(1).wait()?, 6);
        kill(pid);
        let error = loop {
            if let Err(error) = graph.execute(1).wait() {
                break error;
            }
        };
        assert!(matches!(error, ExecError::ActorDied(_)), "{error}");
        drop(graph);
        // The constructor ran again: the state is new, the handle the same.
        assert_eq!(a.call().total(()).wait()?, 5);
        assert_ne!(a.actor().pid(), Some(pid));
    }
    kill(a.actor().pid().expect("a process"));
    let error = loop {
        if let Err(error) = a.call().total(()).wait() {
            break error;
        }
    };
    assert!(error.to_string().contains("`a`"), "{error}");
    Ok(())
}

#[test]
fn dag_37_an_exit_gives_its_code_and_last_words() -> Result<()> {
    let runtime = Runtime::new();
    let a = counter(&runtime, "a", Placement::Process);
    let graph = runtime.compile(|x: Edge<i64>| a.exit_if_negative(&x))?;
    assert_eq!(graph.execute(1).wait()?, 1);
    let error = graph.execute(-1).wait().expect_err("it exited");
    let ExecError::ActorDied(died) = &error else {
        panic!("{error:?}")
    };
    assert_eq!(died.death.exit, Exit::Code(7));
    assert!(
        died.death
            .stderr_tail
            .iter()
            .any(|line| line.contains("last words of the counter")),
        "{error}"
    );
    let (task, bound_at) = died.task.as_ref().expect("a task");
    assert_eq!(task, "a.exit_if_negative");
    assert!(bound_at.file.ends_with("kill.rs"));
    Ok(())
}

#[test]
fn dag_37_actors_that_share_a_worker_die_together() -> Result<()> {
    let runtime = Runtime::new();
    let worker = runtime.worker("w")?;
    let a = runtime.spawn::<Counter>("a", (0,)).in_worker(&worker)?;
    let b = runtime.spawn::<Counter>("b", (0,)).in_worker(&worker)?;
    let c = counter(&runtime, "c", Placement::Process);
    assert_eq!(a.actor().pid(), b.actor().pid());
    let graph = runtime.compile(|x: Edge<i64>| c.echo(&b.echo(&a.echo(&x))))?;
    assert_eq!(graph.execute(1).wait()?, 1);
    kill(worker.pid().expect("a process"));
    let error = loop {
        if let Err(error) = graph.execute(1).wait() {
            break error;
        }
    };
    assert!(matches!(error, ExecError::ActorDied(_)), "{error}");
    assert!(!a.actor().is_alive() && !b.actor().is_alive() && c.actor().is_alive());
    Ok(())
}

/// Not a test of its own: the driver that the next test kills.
#[test]
fn helper_driver_to_be_killed() -> Result<()> {
    if std::env::var_os("SELVEDGE_TEST_DRIVER").is_none() {
        return Ok(());
    }
    let runtime = Runtime::new();
    let (a, b) = (
        counter(&runtime, "a", Placement::Process),
        counter(&runtime, "b", Placement::Process),
    );
    let graph = runtime.compile(|x: Edge<i64>| b.echo(&a.echo(&x)))?;
    graph.execute(1).wait()?;
    println!("ready");
    loop {
        graph.execute(1).wait()?;
    }
}

#[test]
fn rinit_02_no_worker_outlives_a_killed_driver() {
    use std::io::{BufRead, BufReader};
    let mut driver = Command::new(std::env::current_exe().expect("exe"))
        .args([
            "helper_driver_to_be_killed",
            "--exact",
            "--nocapture",
            "--test-threads=1",
        ])
        .env("SELVEDGE_TEST_DRIVER", "1")
        .stdout(Stdio::piped())
        .spawn()
        .expect("spawn");
    let lines = BufReader::new(driver.stdout.take().expect("stdout")).lines();
    assert!(
        lines
            .map_while(std::result::Result::ok)
            .any(|line| line.contains("ready"))
    );
    let workers = children_of(driver.id());
    assert_eq!(workers.len(), 2, "{workers:?}");
    kill(driver.id());
    driver.wait().expect("wait");
    let gone = wait_until(&0, || workers.iter().filter(|pid| is_alive(**pid)).count());
    assert_eq!(gone, 0, "{workers:?} outlived their driver");
}
