//! Tests of permits: their terms, and what threads and processes know of each other's.

use super::*;

#[test]
fn a_permit_has_one_holder_who_extends_it_until_its_moment_has_passed() {
    let permit = CorePermit::default();
    let held = permit.take(0, 1000).unwrap();
    assert!(permit.is_held(1000) && permit.is_held(held - 1) && !permit.is_held(held));
    assert_eq!(permit.take(0, held - 1), None, "another one asks");
    let extended = permit.take(held, held - 1).unwrap();
    assert_eq!(permit.take(held, held), None, "that moment is over");
    let next = permit.take(0, extended).unwrap();
    permit.end(extended);
    assert_eq!(
        permit.take(extended, extended),
        None,
        "it was lost to the next holder"
    );
    assert!(permit.is_held(extended));
    permit.end(next);
    assert!(!permit.is_held(extended));
}

#[test]
fn no_value_of_another_process_holds_or_contests_a_core_for_long() {
    for hostile in [u64::MAX, u64::MAX / 2, 1_000_000_000] {
        let permit = CorePermit::default();
        permit.held_until.store(hostile, Ordering::Relaxed);
        permit.contested_until.store(hostile, Ordering::Relaxed);
        assert!(!permit.is_held(1000) && !permit.is_contested(1000));
        assert!(permit.take(0, 1000).is_some());
    }
    assert!(CorePermit::default().take(0, u64::MAX).is_some());
}

#[test]
fn a_core_is_contested_for_a_while() {
    let permit = CorePermit::default();
    assert!(!permit.is_contested(1000));
    permit.contest(1000);
    assert!(permit.is_contested(1000) && permit.is_contested(1000 + CONTESTED_NS - 1));
    assert!(!permit.is_contested(1000 + CONTESTED_NS));
    assert!(!permit.is_contested(1000), "the next look costs no clock");
}

/// Two threads ask for the permit of one core until the second one is refused.
#[test]
#[cfg(not(miri))] // Miri has one core
#[cfg_attr(
    any(selvedge_portable, not(target_os = "linux")),
    ignore = "it needs the number of a core"
)]
fn a_thread_that_is_refused_on_its_core_has_both_yield_there() {
    use crate::platform::cores::pinned::{cores, stay_on};
    use std::sync::atomic::AtomicBool;
    use std::thread::yield_now;

    let core = cores()[0];
    let (is_over, was_contested) = (AtomicBool::new(false), AtomicBool::new(false));
    let first = || {
        stay_on(core);
        while !is_over.load(Ordering::Relaxed) {
            may_spin(Instant::now());
            was_contested.fetch_or(is_contested(), Ordering::Relaxed);
            yield_now();
        }
    };
    let second = || {
        stay_on(core);
        while may_spin(Instant::now()) || !was_contested.load(Ordering::Relaxed) {
            ends_spinning();
            yield_now();
        }
        is_over.store(true, Ordering::Relaxed);
    };
    std::thread::scope(|scope| {
        scope.spawn(first);
        scope.spawn(second);
    });
    assert!(was_contested.into_inner());
}
