//! A random graph of calls on three hosts while processes are killed, frozen and buried: `KILLS=200 cargo test -p selvedge --features tls
//! --test hosts random_graph -- --nocapture` kills as many in a graph of 5 000 calls; `SEED` chooses another one.

use std::collections::BTreeMap;
use std::path::PathBuf;
use std::time::Duration;

use rustix::process::Signal;
use selvedge::prelude::*;
use selvedge::{StoreOptions, Worker};

use crate::census::{Census, settled, wait_until};
use crate::deaths::signal;
use crate::guests::{ByHand, door, guests};
use crate::spilled::damage_of;
use crate::storm::{Audit, Blow, STORE_BYTES, Site, Storm};
use crate::{alone, beside_others};

/// Hosts that are played on this one: their workers dial in, so a frozen one lives on when it counts as dead.
struct Played {
    folder: PathBuf,
    processes: BTreeMap<u32, ByHand>,
}

impl Site for Played {
    fn start(&mut self, runtime: &Runtime, host: &'static str, count: usize) -> Vec<Worker> {
        let (workers, started) = guests(runtime, &door(), &vec![host; count], &[]);
        let started = started.into_iter().map(|it| (it.0.id(), it));
        self.processes.extend(started);
        workers
    }

    fn strike(&mut self, _: &str, pid: u32, blow: Blow) {
        let blow = match blow {
            Blow::Kill => Signal::KILL,
            Blow::Freeze => Signal::STOP,
            Blow::Thaw => Signal::CONT,
        };
        signal(pid, blow);
    }

    fn await_end(&mut self, _: &str, pid: u32) {
        let mut ended = self.processes.remove(&pid).unwrap();
        wait_until(&true, || ended.0.try_wait().unwrap().is_some());
    }

    fn damage(&mut self, _: &str, pids: &[u32]) {
        pids.iter().for_each(|pid| damage_of(*pid, &self.folder));
    }
}

#[test]
fn a_ledger_tells_runs_after_a_loss_from_runs_too_many() {
    // Its thread is counted by others.
    let _beside = beside_others();
    let begun = "joins 2 b\njoins 3 c\nbegins 1 2\n";
    // The value of call 1 lies beside its reference, and that of call 5 in a store.
    for lines in [
        "",
        "dies 2\nbegins 1 3",
        "dies 2\nbegins 1 2\nbegins 1 3",
        "ready 1\ndrops 1\nbegins 1 3",
        "begins 5 2\nready 5\ndies 2\nbegins 5 3",
        "begins 5 2\nready 5\ndamage b\nbegins 5 3",
    ] {
        Audit::of(&format!("{begun}{lines}"));
    }
    for lines in [
        "begins 1 3",
        "ready 1\ndies 2\nbegins 1 3",
        "dies 3\nbegins 1 2",
        "dies 2\nbegins 1 3\nbegins 1 3",
        "begins 5 2\nready 5\ndamage c\nbegins 5 3",
        "begins 5 2\nready 5\ndies 2\nbegins 5 3\nbegins 5 3",
    ] {
        let read = std::panic::catch_unwind(|| Audit::of(&format!("{begun}{lines}")));
        assert!(read.is_err(), "{lines}");
    }
}

#[test]
fn rft_02_rft_03_rft_04_a_random_graph_over_three_hosts_is_right_although_their_processes_and_stores_die() {
    let _alone = alone();
    drop(Runtime::new());
    let before = settled(Census::take);
    let folder = std::env::temp_dir().join(format!("selvedge-storm-{}", std::process::id()));
    std::fs::create_dir_all(&folder).unwrap();
    {
        let runtime = Runtime::new()
            .silence_timeout(Duration::from_secs(5))
            .store(StoreOptions::new().bytes(STORE_BYTES).spill(&folder));
        let site = Played {
            folder: folder.clone(),
            processes: BTreeMap::new(),
        };
        let mut storm = Storm::new(&runtime, site, &["b", "c", "d"], folder.join("ledger"));
        storm.run();
    }
    std::fs::remove_dir_all(folder).unwrap();
    assert_eq!(wait_until(&before, || settled(Census::take)), before);
}
