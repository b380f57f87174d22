//! Clusters of some dozens of hosts, over networks that lose and repeat frames.

use std::time::Duration;

use selvedge_cluster::membership::MemberSettings;
use selvedge_simulation::members::cluster::run;
use selvedge_simulation::members::setting::MemberSetting;

const SETTING: MemberSetting = MemberSetting {
    hosts: 30,
    workers: 3,
    time: Duration::from_secs(20 * 60),
    loss_per_mille: 50,
    duplication_per_mille: 20,
    kills: 5,
    worker_kills: 20,
    freezes: 5,
    pauses: 20,
    cut_percent: 20,
    times: MemberSettings {
        silence_timeout: Duration::from_secs(10),
        heartbeat: Duration::from_secs(1),
        orphaned_after: Duration::from_secs(60),
        link_within: Duration::from_secs(60),
    },
};

#[test]
fn all_agree_in_the_end_and_only_the_dead_the_silent_and_the_cut_off_are_buried() {
    for seed in 0..4 {
        let report = run(SETTING, seed);
        assert!(report.is_clean(), "seed {seed}: {report}");
        assert!(report.convergence.is_some(), "seed {seed}: {report}");
        assert!(
            !report.kills.is_empty() && !report.worker_kills.is_empty(),
            "seed {seed}: {report}"
        );
        // Six hosts are cut off, and some stand still.
        assert!(report.silences.len() > 6, "seed {seed}: {report}");
        assert_eq!(report.orphans, 0);
    }
}

#[test]
fn one_seed_is_one_run() {
    let (one, other) = (run(SETTING, 7), run(SETTING, 7));
    assert_eq!(format!("{one:?}"), format!("{other:?}"));
}

#[test]
fn pauses_as_long_as_the_time_out_are_burials_of_the_living_and_the_run_says_so() {
    // A host that stands still for up to 4 s is silent for too long if 2 s are.
    let times = MemberSettings {
        silence_timeout: Duration::from_millis(2_500),
        ..SETTING.times
    };
    let hasty = MemberSetting {
        times,
        kills: 0,
        worker_kills: 0,
        freezes: 0,
        cut_percent: 0,
        pauses: 60,
        ..SETTING
    };
    let report = run(hasty, 1);
    assert!(
        !report.silences.is_empty() || report.wrong_burials > 0,
        "{report}"
    );
    assert!(report.violations.is_empty(), "they join again: {report}");
}
