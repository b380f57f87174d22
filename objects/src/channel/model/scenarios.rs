//! The scripts that are explored, and the mutants that are found in them.

use super::Deed::{Close, Peek, Put, Take, TakeAll};
use super::{Deed, Script, faults};
use crate::channel::mutant::ChannelMutant;

fn script(capacity: usize, users: &[&[Deed]]) -> Script {
    Script {
        capacity,
        users: users.iter().map(|deeds| deeds.to_vec()).collect(),
        mortal: None,
        cancels: None,
        compares: false,
        mutant: ChannelMutant::None,
    }
}

fn holds(script: &Script) {
    assert_eq!(faults(script), [""; 0], "{script:?}");
}

fn is_found(mutant: ChannelMutant, script: &Script, fault: &str) {
    let mutated = Script {
        mutant,
        ..script.clone()
    };
    let found = faults(&mutated);
    assert!(found.contains(&fault), "{mutant:?}: {found:?}");
}

/// Puts, takes, peeks and a close of several users look like those of a queue that one thread uses.
#[test]
fn jchan_11_users_see_a_sequential_bounded_queue() {
    for capacity in [0, 1, 2] {
        for users in [
            &[&[Put(1), Put(2)][..], &[Put(3)], &[Take, Take, Take]][..],
            &[&[Put(1), Put(2)], &[Take], &[Take]],
            &[&[Put(1), Put(2), Close], &[TakeAll], &[Peek]],
            &[&[Put(1), Close], &[Put(2)], &[TakeAll]],
        ] {
            let compares = true;
            holds(&Script {
                compares,
                ..script(capacity, users)
            });
        }
    }
}

/// A taker dies at any time: with its request, with the value, after it has acknowledged.
fn dying(capacity: usize) -> Script {
    let mortal = Some(1);
    Script {
        mortal,
        ..script(
            capacity,
            &[&[Put(1), Put(2), Put(3), Close], &[TakeAll], &[TakeAll]],
        )
    }
}

#[test]
fn jchan_16_a_taker_that_dies_loses_nothing_and_doubles_nothing() {
    for capacity in 0..3 {
        holds(&dying(capacity));
    }
    for capacity in 0..2 {
        let putter = script(capacity, &[&[Put(3), Close], &[Put(1), Put(2)], &[TakeAll]]);
        let mortal = Some(1);
        holds(&Script { mortal, ..putter });
    }
}

#[test]
fn a_take_may_be_cancelled_whatever_has_become_of_it() {
    for capacity in 0..3 {
        let cancels = Some(1);
        let users: &[&[Deed]] = &[&[Put(1), Put(2), Close], &[Take, Take], &[TakeAll]];
        holds(&Script {
            cancels,
            ..script(capacity, users)
        });
        let cancels = Some(0);
        holds(&Script {
            cancels,
            ..script(capacity, users)
        });
    }
}

#[test]
fn jchan_13_closing_wakes_all_who_put_and_take() {
    for capacity in 0..2 {
        holds(&script(
            capacity,
            &[&[Put(1), Put(2)], &[Put(3)], &[Close], &[TakeAll]],
        ));
        holds(&script(capacity, &[&[Take, Peek], &[Take], &[Close]]));
    }
}

#[test]
fn mutants_of_the_channel_are_found() {
    let dying = dying(1);
    is_found(ChannelMutant::ForgetsReserved, &dying, "conserved");
    is_found(ChannelMutant::ReturnsToTheBack, &dying, "in order");
    is_found(ChannelMutant::ForgetsTheUnacknowledged, &dying, "nothing left");
    is_found(ChannelMutant::ClosesAtOnce, &dying, "conserved");
    let queue = Script {
        compares: true,
        ..script(2, &[&[Put(1), Put(2)], &[Put(3)], &[Take, Take, Take]])
    };
    is_found(ChannelMutant::TakesTheNewest, &queue, "linearizable");
    is_found(ChannelMutant::DeliversTwice, &queue, "conserved");
    is_found(ChannelMutant::ConfirmsEarly, &queue, "bounded");
    let unbuffered = script(0, &[&[Put(1)], &[Take]]);
    is_found(ChannelMutant::ConfirmsWithoutTaker, &unbuffered, "bounded");
    let closing = script(1, &[&[Put(1), Put(2)], &[Close], &[TakeAll]]);
    is_found(ChannelMutant::ForgetsPutters, &closing, "closed");
    is_found(ChannelMutant::ForgetsTakers, &closing, "ends");
    let cancelling = Script {
        cancels: Some(1),
        ..script(1, &[&[Put(1), Close], &[Take], &[TakeAll]])
    };
    is_found(ChannelMutant::IgnoresLateCancels, &cancelling, "ends");
}

/// Deaths and cancellations together; `LARGE=1` explores them.
#[test]
fn large_channels_hold() {
    if std::env::var_os("LARGE").is_none() {
        let _ = std::io::Write::write_all(
            &mut std::io::stderr(),
            b"\nleft out: large models of channels (LARGE=1 explores them)\n",
        );
        return;
    }
    for capacity in 0..3 {
        let users: &[&[Deed]] = &[&[Put(1), Put(2), Close], &[TakeAll], &[TakeAll]];
        for (mortal, cancels) in [(1, 2), (2, 0)] {
            let (mortal, cancels) = (Some(mortal), Some(cancels));
            holds(&Script {
                mortal,
                cancels,
                ..script(capacity, users)
            });
        }
    }
}
