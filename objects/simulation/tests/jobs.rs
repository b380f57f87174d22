//! Remote channels over a simulated network.
#![allow(missing_docs)]

use selvedge_simulation::faults::Setting;
use selvedge_simulation::jobs::run_jobs;

const BAD: Setting = Setting {
    processes: 8,
    refs: 100,
    loss_per_mille: 50,
    duplication_per_mille: 20,
    reorders: true,
    crashes: 0,
    mistakes: 0,
    shutdowns: 0,
};

#[test]
fn jchan_15_every_job_is_done_exactly_once_over_a_bad_network() {
    for seed in 0..10 {
        let report = run_jobs(BAD, seed);
        assert_eq!(report.results.len(), 100, "seed {seed}: {report:?}");
        assert!(
            report.results.values().all(|times| *times == 1),
            "seed {seed}: {report:?}"
        );
        assert_eq!(
            (report.ended, report.left),
            (8, 0),
            "seed {seed}: every iteration has ended"
        );
    }
}

#[test]
fn jchan_16_no_job_is_lost_whoever_dies_and_only_theirs_are_done_twice() {
    let mut again = 0;
    for seed in 0..20 {
        let dying = Setting { crashes: 4, ..BAD };
        let report = run_jobs(dying, seed);
        assert_eq!(report.results.len(), 100, "seed {seed}: {report:?}");
        let twice = report.results.values().filter(|times| **times > 1).count();
        assert!(twice <= report.died, "seed {seed}: {report:?}");
        assert_eq!(
            (report.died, report.ended, report.left),
            (4, 4, 0),
            "seed {seed}: {report:?}"
        );
        again += twice;
    }
    println!("{again} jobs of 2000 were done twice");
}
