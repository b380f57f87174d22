//! Ends of workers that do not want to end, and of programs that lead to workers.

use std::fs;
use std::time::{Duration, Instant};

use rustix::process::Signal;
use selvedge::EndError;
use selvedge::hosts::{ClusterManager, WorkerCommand, WorkerConfig};
use selvedge::prelude::*;

use crate::census::{is_alive, wait_until};
use crate::deaths::{kill_9, signal};
use crate::{beside_others, forever, pid};

/// A worker behind a shell script, which is the child of this process as `ssh` would be.
struct Behind(String);

impl ClusterManager for Behind {
    fn launch(&self, out: &mut dyn FnMut(WorkerConfig)) -> Result<()> {
        let program = std::env::current_exe()?;
        // A shell cannot catch what it was started to ignore, as commands in the background of a script are.
        let command = WorkerCommand::new("env").argument("--default-signal=QUIT");
        let command = command.argument("sh").argument("-c").argument(&self.0);
        let command = command.argument(program.to_str().unwrap());
        out(WorkerConfig::default()
            .ident("behind")
            .command(command.bind("127.0.0.1".parse()?)));
        Ok(())
    }
}

#[test]
fn jmgr_19_a_process_that_does_not_end_is_asked_then_quit_then_killed() {
    let _guard = beside_others();
    let runtime = Runtime::new();
    let file = std::env::temp_dir().join(format!("selvedge-quit-{}", std::process::id()));
    let script = format!(
        "exec 3<&0; trap 'echo quit >> {}' QUIT; \"$0\" \"$@\" <&3 & while :; do wait; sleep 0.01; done",
        file.display()
    );
    // A busy machine may not let a shell run within the second that it has to say where it was: one of several has to.
    for _ in 0..20 {
        let worker = runtime.add(Behind(script.clone())).unwrap().remove(0);
        let of_worker = worker.pid().unwrap();
        // A stopped worker does not do what it is asked.
        signal(of_worker, Signal::STOP);
        let begun = Instant::now();
        let error = worker.end(Duration::from_millis(200)).unwrap_err();
        assert!(matches!(error, EndError::Killed { .. }), "{error}");
        assert!(
            begun.elapsed() >= Duration::from_millis(1200),
            "it had the time to say where it was"
        );
        kill_9(of_worker);
        if let Ok(said) = fs::read_to_string(&file) {
            assert_eq!(said, "quit\n");
            return fs::remove_file(file).unwrap();
        }
    }
    panic!("no process was told to quit before it was killed");
}

#[test]
fn a_shutdown_kills_a_stopped_worker_says_so_and_leaves_no_process() {
    let _guard = beside_others();
    let runtime = Runtime::new();
    let workers = runtime.add(crate::local(2)).unwrap();
    let pids = [0, 1].map(|number| workers[number].pid().unwrap());
    let stopped = workers[1].name().to_owned();
    signal(pids[1], Signal::STOP);
    let report = runtime.shutdown(Duration::from_millis(200));
    assert_eq!(report.killed_workers, [stopped]);
    let is_there = |pid: &u32| fs::exists(format!("/proc/{pid}")).unwrap();
    assert!(!pids.iter().any(is_there), "a zombie is there too");
}

#[test]
fn a_worker_that_has_ended_was_not_killed_although_the_program_that_led_to_it_was() {
    let _guard = beside_others();
    let runtime = Runtime::new();
    let script = "\"$0\" \"$@\" </dev/stdin; exec sleep 600".to_owned();
    let worker = runtime.add(Behind(script)).unwrap().remove(0);
    let of_worker = runtime.call(pid::remote().on(&worker)).wait().unwrap();
    assert_eq!(worker.end(Duration::from_secs(60)), Ok(()));
    assert!(wait_until(&true, || !is_alive(of_worker)));
}

#[test]
fn jtran_02_a_function_that_blocks_holds_up_no_other_message() {
    let _guard = beside_others();
    let runtime = Runtime::new();
    let workers = runtime.add(crate::local(2)).unwrap();
    let blocked: Vec<_> = (0..20)
        .map(|_| runtime.call(forever::remote().on(&workers[0])))
        .collect();
    let channel = workers[0].channel::<u32>(1).unwrap();
    for number in 0..20 {
        channel.put(number).unwrap();
        assert_eq!(channel.take().unwrap(), number);
    }
    drop(blocked);
}

#[remote]
fn reversed(mut values: Vec<u64>) -> Vec<u64> {
    values.reverse();
    values
}

#[test]
fn jtran_03_messages_of_many_threads_do_not_mix() {
    let _guard = beside_others();
    let runtime = Runtime::new();
    let workers = runtime.add(crate::local(1)).unwrap();
    std::thread::scope(|scope| {
        for thread in 0..4_u64 {
            let (runtime, worker) = (&runtime, &workers[0]);
            scope.spawn(move || {
                for round in 0..30 {
                    // From some bytes to more than a chunk of a long message.
                    let length = [1, 100, 10_000, 300_000][(thread + round) as usize % 4];
                    let values: Vec<u64> = (0..length).map(|at| at ^ (thread << 32 | round)).collect();
                    let found = runtime.call(reversed::remote(&values).on(worker)).wait().unwrap();
                    assert!(found.iter().rev().eq(&values));
                }
            });
        }
    });
}

/// The error of a call that this worker makes to another one.
#[remote]
fn error_of(process: u32) -> Result<String> {
    let process = selvedge::hosts::ProcessId::new(process).unwrap();
    let call = Runtime::current()?.call(pid::remote().on_process(process));
    Ok(call.wait().unwrap_err().to_string())
}

#[test]
fn jtopo_08_a_link_that_is_not_made_in_time_is_an_error_that_names_the_worker() {
    let _guard = beside_others();
    let runtime = Runtime::new().silence_timeout(Duration::from_secs(120));
    let workers = runtime.add(crate::local(2)).unwrap();
    let unknown = || error_of::remote(u32::MAX).on(&workers[0]);
    let living = || runtime.call(unknown()).wait().unwrap();
    let number = format!(", {}", workers[1].process().number());
    assert!(
        wait_until(&true, || living().contains(&number)),
        "it has heard of the other one"
    );
    let stopped = workers[1].pid().unwrap();
    signal(stopped, Signal::STOP);
    let call = error_of::remote(workers[1].process().number()).on(&workers[0]);
    let error = runtime.call(call).wait().unwrap();
    let name = format!("on worker `local 2` ({}): no link", workers[1].process());
    assert!(error.contains(&name), "{error}");
    signal(stopped, Signal::CONT);
    let found = runtime.call(pid::remote().on(&workers[1])).wait().unwrap();
    assert_eq!(found, stopped, "it is dead for the other worker alone");
}
