//! Simulated networks of processes that create, pass and drop references.
#![allow(missing_docs)]

use selvedge_simulation::faults::Setting;
use selvedge_simulation::frames::{to_a_holder, to_a_third};
use selvedge_simulation::report::Report;
use selvedge_simulation::world::run;

const BAD: Setting = Setting {
    processes: 12,
    refs: 400,
    loss_per_mille: 50,
    duplication_per_mille: 20,
    reorders: true,
    crashes: 0,
    mistakes: 0,
    shutdowns: 0,
};

/// Runs several seeds, and asserts that none of them frees early, leaves anything, or waits for ever.
fn clean(setting: Setting) -> Vec<Report> {
    let run = |seed| {
        let report = run(setting, seed);
        assert!(report.is_clean(), "seed {seed}: {report}");
        report
    };
    (0..5).map(run).collect()
}

#[test]
fn rref_27_a_bad_network_frees_every_object_exactly_once() {
    for report in clean(BAD) {
        assert_eq!(report.created, report.freed, "{report}");
        assert!(report.passed > 200, "{report}");
    }
}

#[test]
fn rref_42_deaths_leave_nothing_among_the_living() {
    let dying = Setting {
        crashes: 3,
        mistakes: 2,
        ..BAD
    };
    clean(dying);
}

#[test]
fn rref_37_processes_shut_down_cleanly_among_others_that_run_and_die() {
    let ending = Setting { shutdowns: 3, ..BAD };
    for report in clean(ending) {
        assert_eq!(report.shutdowns, 3, "{report}");
    }
    clean(Setting { crashes: 2, ..ending });
}

#[test]
fn a_seed_decides_everything() {
    let dying = Setting { crashes: 2, ..BAD };
    assert_eq!(run(dying, 7), run(dying, 7));
    assert_ne!(run(dying, 7).hash, run(dying, 8).hash);
}

#[test]
fn passing_a_reference_takes_few_frames() {
    assert!(to_a_third() <= 5, "{} frames", to_a_third());
    assert!(to_a_holder(1000) <= 1200, "{} frames", to_a_holder(1000));
}
