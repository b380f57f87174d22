//! Workers of Slurm, whose `srun` a script plays: it writes down its arguments, and runs the program behind the flags on this host.

use std::time::Duration;

use selvedge::hosts::{SlurmManager, WorkerCommand};
use selvedge::prelude::*;

use crate::ssh::Played;
use crate::{beside_others, pid};

/// Shows where and in which surroundings it runs.
#[remote]
fn surroundings() -> (String, Option<String>) {
    let directory = std::env::current_dir().unwrap().to_string_lossy().into_owned();
    (directory, std::env::var("SELVEDGE_TEST_SET").ok())
}

const SCRIPT: &str = "for word; do case $word in\n\
     --chdir=*) cd \"${word#--chdir=}\"; shift;;\n--*) shift;;\n*) break;;\nesac; done\nexec \"$@\"";

#[test]
fn jmgr_04_workers_are_started_by_steps_of_slurm() {
    let _guard = beside_others();
    let played = Played::new("srun", SCRIPT);
    let program = std::env::current_exe().unwrap();
    let program = program.to_str().unwrap();
    let command = WorkerCommand::new(program)
        .argument("--seed=7")
        .directory("/")
        .variable("SELVEDGE_TEST_SET", "yes")
        .bind("127.0.0.1".parse().unwrap());
    let manager = SlurmManager::workers(2.try_into().unwrap())
        .program(played.file("ssh").to_str().unwrap())
        .flag("--gpus-per-task=1")
        .command(command);
    let runtime = Runtime::new().hello_timeout(Duration::from_secs(60));
    let workers = runtime.add(manager).unwrap();
    assert_eq!([workers[0].name(), workers[1].name()], ["slurm 1", "slurm 2"]);
    for worker in &workers {
        let found = runtime.call(pid::remote().on(worker)).wait().unwrap();
        assert_eq!(Some(found), worker.pid());
        let there = runtime.call(surroundings::remote().on(worker)).wait().unwrap();
        assert_eq!(there, ("/".to_owned(), Some("yes".to_owned())));
    }
    let told = played.read("told");
    let step = format!(
        "--nodes=1 --ntasks=1 --exact --unbuffered --quiet --chdir=/ --gpus-per-task=1 {program} --seed=7 \
         --selvedge-worker --bind-to 127.0.0.1"
    );
    assert_eq!(told.lines().collect::<Vec<_>>(), [step.as_str(); 2]);
    for worker in workers {
        worker.end(Duration::from_secs(60)).unwrap();
    }
}

#[test]
fn what_srun_says_when_it_starts_nothing_is_the_error() {
    let _guard = beside_others();
    let played = Played::new(
        "srun-refuses",
        "echo 'srun: error: Unable to allocate resources' >&2; exit 1",
    );
    let manager = SlurmManager::workers(1.try_into().unwrap()).program(played.file("ssh").to_str().unwrap());
    let runtime = Runtime::new().hello_timeout(Duration::from_secs(60));
    let error = runtime.add(manager).unwrap_err().to_string();
    assert!(
        error.contains("worker `slurm 1`") && error.contains("Unable to allocate resources"),
        "{error}"
    );
}
