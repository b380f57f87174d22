//! Which workers have links with each other.

use selvedge::Worker;
use selvedge::hosts::{AddError, ClusterManager, Topology, WorkerConfig};
use selvedge::prelude::*;

use crate::census::wait_until;
use crate::ports::{has_dialled, links};
use crate::{alone, beside_others, local, pid};

#[remote]
pub fn pid_of(process: u32) -> Result<u32> {
    let runtime = Runtime::current()?;
    let process = selvedge::hosts::ProcessId::new(process).unwrap();
    Ok(runtime.call(pid::remote().on_process(process)).wait()?)
}

/// The pid of a worker, as another one gets it.
pub fn asked(runtime: &Runtime, from: &Worker, of: &Worker) -> Result<u32, String> {
    let ask = || {
        let call = pid_of::remote(of.process().number()).on(from);
        runtime.call(call).wait().map_err(|error| error.to_string())
    };
    // The call may be there before the news that the other one has joined.
    let is_known = || !ask().is_err_and(|error| error.contains("no process with this number lives"));
    assert!(wait_until(&true, is_known));
    ask()
}

#[test]
fn jtopo_02_workers_of_a_master_reach_no_other_worker() {
    let _guard = beside_others();
    let runtime = Runtime::new();
    let workers = runtime.add(local(2).topology(Topology::MasterWorker)).unwrap();
    for (from, of) in [(0, 1), (1, 0)] {
        let error = asked(&runtime, &workers[from], &workers[of]).unwrap_err();
        assert!(
            error.contains("the topology of the workers (master and workers)"),
            "{error}"
        );
        // Again, when the answer of the driver is known.
        let error = asked(&runtime, &workers[from], &workers[of]).unwrap_err();
        assert!(
            error.contains("the topology of the workers (master and workers)"),
            "{error}"
        );
        let found = runtime.call(pid::remote().on(&workers[of])).wait().unwrap();
        assert_eq!(Some(found), workers[of].pid());
    }
}

/// Workers that name those of their parity.
struct Parity;

impl ClusterManager for Parity {
    fn launch(&self, out: &mut dyn FnMut(WorkerConfig)) -> Result<()> {
        let mut number = 0;
        local(4).launch(&mut |config| {
            number += 1;
            let ident = if number % 2 == 0 { "even" } else { "odd" };
            out(config.ident(ident).connect_ident(ident));
        })
    }

    fn topology(&self) -> Topology {
        Topology::Custom
    }
}

#[test]
fn jtopo_03_workers_of_a_custom_topology_reach_those_that_they_name() {
    let _guard = alone();
    let runtime = Runtime::new();
    let workers = runtime.add(Parity).unwrap();
    let pids: Vec<u32> = workers.iter().map(|worker| worker.pid().unwrap()).collect();
    // The driver, and the other one of the group.
    let counts = || pids.iter().map(|pid| links(*pid)).collect::<Vec<_>>();
    assert_eq!(wait_until(&vec![2; 4], counts), [2; 4]);
    for from in 0..4 {
        for of in (0..4).filter(|of| *of != from) {
            let answer = asked(&runtime, &workers[from], &workers[of]);
            if from % 2 == of % 2 {
                assert_eq!(answer, Ok(pids[of]));
            } else {
                let error = answer.unwrap_err();
                assert!(error.contains("the topology of the workers (custom)"), "{error}");
            }
        }
    }
    assert_eq!(counts(), [2; 4]);
}

/// Two workers of which one names the other.
struct OneNames {
    idents: [&'static str; 2],
}

impl ClusterManager for OneNames {
    fn launch(&self, out: &mut dyn FnMut(WorkerConfig)) -> Result<()> {
        let mut idents = self.idents.iter();
        local(2).launch(&mut |config| {
            let ident = idents.next().unwrap();
            let config = config.ident(*ident);
            out(match *ident {
                "dials" => config.connect_ident("listens"),
                _ => config,
            });
        })
    }

    fn topology(&self) -> Topology {
        Topology::Custom
    }
}

#[test]
fn jtopo_03_whoever_names_the_other_dials_whoever_has_joined_first() {
    let _guard = alone();
    for idents in [["dials", "listens"], ["listens", "dials"]] {
        let runtime = Runtime::new();
        let workers = runtime.add(OneNames { idents }).unwrap();
        let pids = [0, 1].map(|at| workers[at].pid().unwrap());
        let (dials, listens) = match idents[0] {
            "dials" => (pids[0], pids[1]),
            _ => (pids[1], pids[0]),
        };
        assert!(wait_until(&true, || has_dialled(dials, listens)), "{idents:?}");
        assert!(!has_dialled(listens, dials));
    }
}

#[test]
fn jtopo_05_all_links_are_made_before_they_are_used_if_that_is_wanted() {
    let _guard = alone();
    let runtime = Runtime::new();
    let workers = runtime
        .add(local(4).topology(Topology::AllToAll { lazy: false }))
        .unwrap();
    let pids: Vec<u32> = workers.iter().map(|worker| worker.pid().unwrap()).collect();
    let counts = || pids.iter().map(|pid| links(*pid)).collect::<Vec<_>>();
    assert_eq!(wait_until(&vec![4; 4], counts), [4; 4]);
    assert_eq!(asked(&runtime, &workers[0], &workers[3]), Ok(pids[3]));
    assert_eq!(counts(), [4; 4]);
}

#[test]
fn jtopo_06_workers_of_another_topology_are_refused() {
    let _guard = beside_others();
    let runtime = Runtime::new();
    let workers = runtime.add(local(1)).unwrap();
    for other in [Topology::MasterWorker, Topology::AllToAll { lazy: false }] {
        let error = runtime.add(local(1).topology(other)).unwrap_err();
        assert!(matches!(error, AddError::TopologyFixed { .. }), "{error}");
    }
    let lazy = Topology::AllToAll { lazy: true };
    runtime.add(local(1).topology(lazy)).unwrap();
    let found = runtime.call(pid::remote().on(&workers[0])).wait().unwrap();
    assert_eq!(Some(found), workers[0].pid());
}
