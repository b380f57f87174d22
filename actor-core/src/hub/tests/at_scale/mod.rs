//! A driver and the workers of many hosts in virtual time: the driver's broker and its questions for signs of life, and the hubs of
//! some of the workers, over connections that are slow, lose packets, stand still and are cut.
//!
//! One seed decides everything. A connection is one of TCP: what is lost comes later, and what follows it waits. Half of the
//! hosts are in the driver's rack (50 µs), three of ten at its site (0.5 ms), the others far away (5 to 150 ms).
//!
//! - Nobody is buried who has not died and could be heard within the time limit.
//! - Whoever has died, stands still or is cut off is buried, and joins again in another life once it can.
//! - In the end all members know exactly each other (MEMBER-4), and none has heard of a name twice (MEMBER-1).
//!
//! `CLUSTER_HOSTS=1000 CLUSTER_MINUTES=60 cargo test --release -p selvedge-core --lib only_the_dead -- --nocapture` runs 10 000 workers for an hour.

mod report;
mod world;

use std::time::Duration;

use report::ScaleReport;
use world::ScaleWorld;

use crate::hub::mutant::MemberMutant;
use crate::hub::peer_link::PeerLink;

/// The size of a cluster, and what goes wrong in it, at random moments.
#[derive(Clone, Copy)]
struct ScaleSetting {
    hosts: usize,
    /// The workers of each host.
    workers: usize,
    time: Duration,
    /// The time for which a worker may be silent.
    limit: Duration,
    /// The packets of a thousand that are lost.
    loss_per_mille: u64,
    /// The number of workers that are killed.
    kills: usize,
    /// The number of hosts that stand still for 15 to 30 s.
    freezes: usize,
    /// The number of hosts that stand still for less than 4 s.
    pauses: usize,
    /// The hosts of a hundred that are cut off for 30 s in the middle of the run.
    cut_percent: usize,
}

const SMALL: ScaleSetting = ScaleSetting {
    hosts: 20,
    workers: 4,
    time: Duration::from_secs(20 * 60),
    limit: Duration::from_secs(10),
    loss_per_mille: 20,
    kills: 25,
    freezes: 5,
    pauses: 40,
    cut_percent: 20,
};

/// The setting that the environment asks for.
fn large() -> Option<ScaleSetting> {
    let number = |name: &str| -> Option<usize> { std::env::var(name).ok()?.parse().ok() };
    let hosts = number("CLUSTER_HOSTS")?;
    let minutes = number("CLUSTER_MINUTES").unwrap_or(60);
    Some(ScaleSetting {
        hosts,
        workers: number("CLUSTER_WORKERS").unwrap_or(10),
        time: Duration::from_secs(60 * minutes as u64),
        loss_per_mille: 10,
        kills: hosts * 7 / 10,
        freezes: hosts / 10,
        pauses: hosts / 2,
        cut_percent: 10,
        ..SMALL
    })
}

fn run(setting: ScaleSetting, seed: u64) -> ScaleReport {
    ScaleWorld::new(setting, seed).run()
}

#[test]
fn only_the_dead_the_silent_and_the_cut_off_are_buried_and_all_agree_in_the_end() {
    let (setting, seeds) = large().map_or((SMALL, 0..4), |setting| (setting, 0..1));
    for seed in seeds {
        let report = run(setting, seed);
        println!("seed {seed}: {report}");
        assert_eq!(report.broken, Vec::<String>::new(), "seed {seed}");
        assert!(report.convergence.is_some(), "seed {seed}: {report}");
        assert_eq!(report.kills.len(), setting.kills, "seed {seed}: {report}");
        // The hosts that were cut off, and those that stood still.
        assert!(report.silences.len() > setting.freezes, "seed {seed}: {report}");
        let latest = setting.limit + setting.limit / 10 + Duration::from_secs(1);
        assert!(
            report.silences.iter().all(|it| *it <= latest),
            "seed {seed}: {report}"
        );
    }
}

#[test]
fn a_member_that_is_known_and_has_no_link_takes_little() {
    assert!(size_of::<PeerLink>() <= 1400, "{}", size_of::<PeerLink>());
}

#[test]
fn one_seed_is_one_run() {
    assert_eq!(run(SMALL, 7), run(SMALL, 7));
}

#[test]
fn a_limit_that_is_shorter_than_the_pauses_buries_the_living_and_the_run_says_so() {
    let hasty = ScaleSetting {
        limit: Duration::from_secs(2),
        kills: 0,
        freezes: 0,
        cut_percent: 0,
        ..SMALL
    };
    let report = run(hasty, 1);
    assert!(!report.silences.is_empty(), "{report}");
    assert_eq!(report.broken, Vec::<String>::new(), "they join again");
}

#[test]
fn answers_that_come_too_late_are_wrong_burials_and_the_run_says_so() {
    let lossy = ScaleSetting {
        loss_per_mille: 850,
        kills: 0,
        freezes: 0,
        pauses: 0,
        cut_percent: 0,
        ..SMALL
    };
    let report = run(lossy, 1);
    let is_wrong_burial = |broken: &String| broken.ends_with("could be heard, and was buried");
    assert!(report.broken.iter().any(is_wrong_burial), "{report}");
}

#[test]
fn a_driver_that_tells_nobody_of_deaths_is_found() {
    let report = ScaleWorld::new(SMALL, 1)
        .with_mutant(MemberMutant::BuriesSilently)
        .run();
    assert!(!report.broken.is_empty(), "{report}");
}
