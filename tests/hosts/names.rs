//! Errors about workers: they name the process, its worker, and its host if that is not the driver's.

use std::time::Duration;

use selvedge::Worker;
use selvedge::hosts::{ClusterManager, MachineSpec, SshOptions, Topology, WorkerCommand, WorkerConfig};
use selvedge::prelude::*;

use crate::census::wait_until;
use crate::deaths::{Quiet, kill_9};
use crate::{Elsewhere, beside_others, forever, local, pid};

/// The error of a call that this worker makes to another one.
#[remote]
fn error_of(process: u32) -> Result<String> {
    let process = selvedge::hosts::ProcessId::new(process).unwrap();
    let call = Runtime::current()?.call(forever::remote().on_process(process));
    Ok(call.wait().unwrap_err().to_string())
}

/// Whether this worker reaches another one.
#[remote]
fn reaches(process: u32) -> Result<bool> {
    let process = selvedge::hosts::ProcessId::new(process).unwrap();
    Ok(Runtime::current()?
        .call(pid::remote().on_process(process))
        .wait()
        .is_ok())
}

/// Kills a worker while everybody waits for it. Returns what they are told.
fn told_of_death(runtime: &Runtime, victim: &Worker, asker: &Worker) -> Vec<String> {
    let reaches = || {
        let call = reaches::remote(victim.process().number()).on(asker);
        runtime.call(call).wait().unwrap()
    };
    // The call may be there before the news that the other one has joined.
    assert!(wait_until(&true, reaches));
    let waiting = runtime.call(forever::remote().on(victim));
    let there = runtime.call(error_of::remote(victim.process().number()).on(asker));
    let actor = runtime.spawn::<Quiet>("quiet", ()).in_worker(victim).unwrap();
    let kept = runtime.keep(pid::remote().on(victim));
    let channel = victim.channel::<u32>(1).unwrap();
    channel.put(1).unwrap();
    kill_9(actor.call().pid().wait().unwrap());
    vec![
        waiting.wait().unwrap_err().to_string(),
        there.wait().unwrap(),
        actor.call().pid().wait().unwrap_err().to_string(),
        kept.fetch().unwrap_err().to_string(),
        channel.take().unwrap_err().to_string(),
        runtime
            .call(pid::remote().on(victim))
            .wait()
            .unwrap_err()
            .to_string(),
        victim.channel::<u32>(1).unwrap_err().to_string(),
        runtime
            .spawn::<Quiet>("late", ())
            .in_worker(victim)
            .unwrap_err()
            .to_string(),
    ]
}

#[test]
fn whoever_waits_for_a_worker_that_dies_is_told_its_name_its_process_and_its_host() {
    let _guard = beside_others();
    let runtime = Runtime::new();
    let asker = runtime.worker("asker").unwrap();
    for (victim, host) in [
        (runtime.worker("local 1").unwrap(), ""),
        (runtime.add(local(1)).unwrap().remove(0), ""),
        (runtime.add(Elsewhere(&["b"])).unwrap().remove(0), " on host `b`"),
    ] {
        let name = format!("worker `local 1` ({}{host})", victim.process());
        for text in told_of_death(&runtime, &victim, &asker) {
            assert!(text.contains(&name), "{text}");
        }
    }
}

#[test]
fn a_worker_that_another_one_cannot_reach_is_named_to_it() {
    let _guard = beside_others();
    let runtime = Runtime::new();
    let workers = runtime.add(local(1).topology(Topology::MasterWorker)).unwrap();
    struct Alone;
    impl ClusterManager for Alone {
        fn launch(&self, out: &mut dyn FnMut(WorkerConfig)) -> Result<()> {
            Elsewhere(&["b"]).launch(out)
        }

        fn topology(&self) -> Topology {
            Topology::MasterWorker
        }
    }
    let far = runtime.add(Alone).unwrap().remove(0);
    let ask = || {
        let call = error_of::remote(far.process().number()).on(&workers[0]);
        runtime.call(call).wait().unwrap()
    };
    // The call may be there before the news that the other one has joined.
    assert!(wait_until(&true, || !ask().contains("no process with this number")));
    let (text, name) = (
        ask(),
        format!("on worker `local 1` ({} on host `b`): no link", far.process()),
    );
    assert!(text.contains(&name), "{text}");
}

/// A worker on a machine that a recorded `ssh` does not reach.
struct Unreachable;

impl ClusterManager for Unreachable {
    fn launch(&self, out: &mut dyn FnMut(WorkerConfig)) -> Result<()> {
        let machine: MachineSpec = "gpu7".parse()?;
        out(WorkerConfig::default()
            .ident("shard")
            .command(WorkerCommand::new("true"))
            .ssh(SshOptions::default().program("false"))
            .machine(machine));
        Ok(())
    }
}

#[test]
fn a_worker_that_does_not_start_is_named_with_its_machine() {
    let _guard = beside_others();
    let runtime = Runtime::new().hello_timeout(Duration::from_secs(30));
    let text = runtime.add(Unreachable).unwrap_err().to_string();
    assert!(text.contains("worker `shard` (process "), "{text}");
    assert!(text.contains(" on host `gpu7`) did not say hello"), "{text}");
}
