use std::time::Duration;

use proptest::prelude::*;

use crate::manager::{Escalation, KillPauses, KillStep};

fn seconds(seconds: u64) -> Duration {
    Duration::from_secs(seconds)
}

fn begun() -> Escalation {
    let (escalation, first) = Escalation::begin(seconds(100), KillPauses::default());
    assert_eq!(first, KillStep::Ask);
    escalation
}

#[test]
fn jmgr_19_a_worker_is_asked_then_quit_then_killed() {
    let mut escalation = begun();
    assert_eq!(escalation.deadline(), Some(seconds(115)));
    assert_eq!(escalation.tick(seconds(115) - Duration::from_nanos(1)), None);
    assert_eq!(escalation.tick(seconds(115)), Some(KillStep::Quit));
    assert_eq!(
        (escalation.tick(seconds(129)), escalation.deadline()),
        (None, Some(seconds(130)))
    );
    assert_eq!(escalation.tick(seconds(130)), Some(KillStep::Kill));
    assert_eq!(
        (escalation.tick(seconds(1000)), escalation.deadline()),
        (None, None)
    );
}

#[test]
fn jmgr_19_both_pauses_can_be_set() {
    let pauses = KillPauses {
        after_ask: seconds(2),
        after_quit: seconds(7),
    };
    let (mut escalation, _) = Escalation::begin(seconds(100), pauses);
    assert_eq!(escalation.deadline(), Some(seconds(102)));
    assert_eq!(escalation.tick(seconds(102)), Some(KillStep::Quit));
    assert_eq!(escalation.deadline(), Some(seconds(109)));
}

#[test]
fn jmgr_19_a_late_signal_leaves_its_whole_pause() {
    let mut escalation = begun();
    assert_eq!(escalation.tick(seconds(1000)), Some(KillStep::Quit));
    assert_eq!(
        (escalation.tick(seconds(1014)), escalation.deadline()),
        (None, Some(seconds(1015)))
    );
    let (mut endless, _) = Escalation::begin(Duration::MAX, KillPauses::default());
    assert_eq!(endless.tick(Duration::MAX), Some(KillStep::Quit));
}

#[test]
fn jmgr_19_a_worker_that_ends_gets_no_further_signal() {
    for signals in 0..2 {
        let mut escalation = begun();
        for _ in 0..signals {
            assert_eq!(escalation.tick(seconds(115)), Some(KillStep::Quit));
        }
        escalation.exited();
        assert_eq!(
            (escalation.deadline(), escalation.tick(seconds(1000))),
            (None, None)
        );
        assert_eq!(escalation.cannot_ask(seconds(1000)), None);
    }
}

#[test]
fn jmgr_19_a_worker_that_cannot_be_asked_is_quit_at_once() {
    let mut escalation = begun();
    assert_eq!(escalation.cannot_ask(seconds(101)), Some(KillStep::Quit));
    assert_eq!(escalation.cannot_ask(seconds(101)), None);
    assert_eq!(escalation.deadline(), Some(seconds(116)));
}

proptest! {
    #[test]
    fn jmgr_19_the_steps_come_once_in_order_and_never_early(waits in proptest::collection::vec(0..20_u64, 0..30)) {
        let mut escalation = begun();
        let (mut now, mut steps) = (seconds(100), vec![(KillStep::Ask, seconds(100))]);
        for wait in waits {
            now += seconds(wait);
            steps.extend(escalation.tick(now).map(|step| (step, now)));
            prop_assert!(escalation.deadline().is_none_or(|deadline| deadline > now));
        }
        let order = [KillStep::Ask, KillStep::Quit, KillStep::Kill];
        prop_assert!(steps.iter().map(|(step, _)| step).eq(&order[..steps.len()]));
        prop_assert!(steps.windows(2).all(|pair| pair[1].1 >= pair[0].1 + seconds(15)));
    }
}
