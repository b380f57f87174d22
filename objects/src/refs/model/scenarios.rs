//! The scenarios that are explored, and the mutants that are found in them.

use stateright::HasDiscoveries;

use super::{Death, Origin, Scenario, explore, faults};
use crate::refs::mutant::Mutant;

fn kept(processes: usize, passes: &[(usize, usize)]) -> Scenario {
    Scenario {
        processes,
        origin: Origin::Kept,
        passes: passes.to_vec(),
        batches: false,
        loses_calls: false,
        discards: false,
        mortal: None,
        fetches: None,
        ends: None,
        brings: false,
        revives: false,
        is_impatient: false,
        narrow: None,
        mutant: Mutant::None,
    }
}

fn holds(scenario: &Scenario) {
    assert_eq!(faults(scenario), [""; 0], "{scenario:?}");
}

fn is_found(mutant: Mutant, scenario: &Scenario, fault: &'static str) {
    let mutated = Scenario {
        mutant,
        ..scenario.clone()
    };
    let found = explore(&mutated, HasDiscoveries::AnyOf([fault].into()));
    assert!(found.contains(&fault), "{mutant:?}: {found:?}");
}

#[test]
fn rref_09_a_chain_of_two_users_frees_exactly_at_the_end() {
    holds(&kept(3, &[(1, 2)]));
}

/// M1d: a process that gets a reference twice has one entry.
#[test]
fn rref_31_two_forks_of_one_process_merge() {
    holds(&kept(3, &[(1, 2), (1, 2)]));
}

#[test]
fn rref_15_a_chain_of_three_users_frees_exactly_at_the_end() {
    holds(&kept(4, &[(1, 2), (2, 3)]));
}

#[test]
fn rref_23_a_reference_that_the_owner_passes_on_is_listed_at_once() {
    let created = Scenario {
        origin: Origin::Created,
        ..kept(3, &[(0, 1), (0, 1), (1, 2)])
    };
    holds(&created);
}

/// M1b: the phantom child of a reference that goes to its owner.
#[test]
fn rref_21_a_reference_goes_home_and_out_again() {
    holds(&kept(3, &[(1, 0), (0, 2)]));
    holds(&kept(3, &[(1, 2), (2, 0)]));
}

/// Releases that wait for their bundle, while the reference arrives anew.
#[test]
fn jgc_07_a_release_that_waits_is_taken_back() {
    let batched = Scenario {
        origin: Origin::Created,
        batches: true,
        ..kept(2, &[(0, 1), (0, 1)])
    };
    holds(&batched);
    is_found(Mutant::ReleasesRevived, &batched, "no early free");
}

#[test]
fn rref_41_what_was_not_sent_is_undone() {
    let loses = Scenario {
        loses_calls: true,
        ..kept(3, &[(1, 2)])
    };
    holds(&loses);
    let created = Scenario {
        origin: Origin::Created,
        passes: vec![(0, 1), (1, 2)],
        ..loses.clone()
    };
    holds(&created);
    // The creator, which has lost it, gets it from its child.
    holds(&Scenario {
        passes: vec![(1, 2), (2, 1)],
        ..loses
    });
}

#[test]
fn jrem_20_a_parcel_that_is_never_decoded_is_released() {
    let discards = Scenario {
        discards: true,
        ..kept(3, &[(1, 2)])
    };
    holds(&discards);
    is_found(Mutant::ForgetsParcels, &discards, "nothing left at rest");
}

/// M1c: a fetch that overtakes the creator's call.
#[test]
fn rref_19_every_fetch_is_answered() {
    let fetches = Scenario {
        fetches: Some(2),
        ..kept(3, &[(1, 2)])
    };
    holds(&fetches);
}

/// M2: any one process dies at any time, or is declared dead by mistake.
#[test]
fn rref_42_a_death_leaves_nothing_and_frees_nothing_early() {
    for (mortal, death) in [
        (1, Death::Crash),
        (2, Death::Crash),
        (1, Death::Mistake),
        (2, Death::Mistake),
    ] {
        let dies = Scenario {
            mortal: Some((mortal, death)),
            ..kept(3, &[(1, 2)])
        };
        holds(&dies);
    }
    let owner = Scenario {
        mortal: Some((0, Death::Crash)),
        ..kept(3, &[(1, 2)])
    };
    holds(&owner);
}

#[test]
fn mutants_of_the_reference_count_are_found() {
    let chain = kept(3, &[(1, 2)]);
    is_found(Mutant::NoParents, &chain, "no early free");
    is_found(Mutant::MergesBlindly, &chain, "no early free");
    is_found(Mutant::RunsEarly, &chain, "settled calls");
    is_found(Mutant::ListsCreatorLate, &chain, "no early free");
    is_found(Mutant::NoTombstones, &chain, "nothing left at rest");
    is_found(Mutant::NoPhantom, &kept(2, &[(1, 0)]), "no early free");
    is_found(
        Mutant::LowMovesEarly,
        &kept(3, &[(1, 2), (1, 2)]),
        "all is answered",
    );
    is_found(
        Mutant::LowMovesEarly,
        &kept(3, &[(1, 2), (1, 2)]),
        "comes to rest",
    );
}

/// The mutant of M3: a removal that overtakes its addition leaves an entry for ever.
#[test]
fn jgc_09_additions_without_answers_leak() {
    is_found(
        Mutant::AddsWithoutAnswers,
        &kept(3, &[(1, 2)]),
        "nothing left at rest",
    );
}

#[test]
fn mutants_of_death_are_found() {
    let dies = Scenario {
        mortal: Some((1, Death::Crash)),
        ..kept(3, &[(1, 2)])
    };
    is_found(Mutant::KeepsTheDead, &dies, "nothing left at rest");
    is_found(Mutant::ListsFreed, &dies, "no early free");
    let fetches = Scenario {
        fetches: Some(2),
        ..dies
    };
    holds(&fetches);
    is_found(Mutant::AwaitsTheDead, &fetches, "nothing left at rest");
}

/// The creator dies while its call waits for a reference, and the owner itself holds what the call was to make.
#[test]
fn an_object_whose_call_waits_when_its_creator_dies_fails() {
    for death in [Death::Crash, Death::Mistake] {
        let dies = Scenario {
            mortal: Some((1, death)),
            brings: true,
            ..kept(3, &[(1, 0)])
        };
        holds(&dies);
        is_found(Mutant::ForgetsKept, &dies, "what is awaited comes");
    }
    // The owner shuts down, and the creator asks for the value.
    holds(&Scenario {
        fetches: Some(1),
        ends: Some(0),
        brings: true,
        ..kept(3, &[])
    });
}

/// A child that was told that the object is gone is not listed by a late copy of its question, when the object has got
/// another entry, to hold an error.
#[test]
fn rref_32_a_late_copy_lists_nobody_for_an_object_that_came_home_after_a_death() {
    let comes_home = Scenario {
        mortal: Some((1, Death::Crash)),
        ..kept(3, &[(1, 2), (2, 0)])
    };
    holds(&comes_home);
    is_found(Mutant::ForgetsRefusals, &comes_home, "nothing left at rest");
}

/// A child of the dead brings the reference home, and then the object is made again.
#[test]
fn an_object_that_came_home_with_an_error_is_made_again() {
    let comes_home = Scenario {
        mortal: Some((1, Death::Crash)),
        revives: true,
        ..kept(3, &[(1, 2), (2, 0)])
    };
    is_found(
        Mutant::StaysFailed,
        &comes_home,
        "what is held again is made again",
    );
    holds(&comes_home);
}

/// A child that was told that the object is gone gets the reference again, when the object is made again.
#[test]
fn a_lost_reference_that_arrives_anew_is_alive_again() {
    let revives = Scenario {
        mortal: Some((1, Death::Crash)),
        revives: true,
        ..kept(3, &[(1, 2), (0, 2)])
    };
    holds(&revives);
    is_found(Mutant::StaysLost, &revives, "what is given is there");
    let mistaken = Scenario {
        mortal: Some((1, Death::Mistake)),
        ..revives
    };
    holds(&mistaken);
}

/// A confirmation may be late at any time; the reference is counted like any other.
#[test]
fn rref_30_a_late_confirmation_frees_nothing_early_and_leaves_nothing() {
    holds(&Scenario {
        is_impatient: true,
        ..kept(3, &[(1, 2)])
    });
    holds(&Scenario {
        is_impatient: true,
        loses_calls: true,
        ..kept(3, &[(1, 2)])
    });
}

#[test]
fn rref_37_a_process_may_shut_down_at_any_time() {
    for ends in 0..3 {
        let ending = Scenario {
            ends: Some(ends),
            ..kept(3, &[(1, 2)])
        };
        holds(&ending);
    }
    // The parent of the one that shuts down may die meanwhile, and the other way round.
    for (ends, mortal) in [(2, 1), (1, 2), (0, 1)] {
        let ending = Scenario {
            ends: Some(ends),
            mortal: Some((mortal, Death::Crash)),
            ..kept(3, &[(1, 2)])
        };
        holds(&ending);
    }
    let parent = Scenario {
        ends: Some(1),
        ..kept(3, &[(1, 2)])
    };
    is_found(Mutant::EndsHastily, &parent, "no early free");
}

/// Calls are refused, since there is room for few entries.
#[test]
fn a_refused_call_leaves_nothing_and_frees_nothing_early() {
    for narrow in [0, 2] {
        let narrow = Scenario {
            narrow: Some(narrow),
            ..kept(3, &[(1, 2), (1, 0)])
        };
        holds(&narrow);
        is_found(Mutant::RefusesSilently, &narrow, "comes to rest");
    }
}

/// Scenarios of some hundred thousand states; `LARGE=1` explores them.
#[test]
fn large_scenarios_hold() {
    if std::env::var_os("LARGE").is_none() {
        let _ = std::io::Write::write_all(
            &mut std::io::stderr(),
            b"\nleft out: large models of references (LARGE=1 explores them)\n",
        );
        return;
    }
    let (chain, home) = (kept(4, &[(1, 2), (2, 3)]), kept(3, &[(1, 2), (2, 0)]));
    for (mortal, death) in [(1, Death::Crash), (2, Death::Mistake)] {
        let mortal = Some((mortal, death));
        holds(&Scenario {
            mortal,
            ..chain.clone()
        });
        holds(&Scenario {
            mortal,
            ..home.clone()
        });
    }
    let loses_calls = true;
    let fetches = Some(2);
    holds(&Scenario { loses_calls, ..home });
    // Another user lends the reference to the child that has lost it.
    let revives = Scenario {
        mortal: Some((1, Death::Crash)),
        revives: true,
        ..kept(4, &[(1, 2), (0, 3), (3, 2)])
    };
    holds(&revives);
    is_found(Mutant::StaysLost, &revives, "what is given is there");
    holds(&Scenario {
        loses_calls,
        fetches,
        ..kept(3, &[(1, 2)])
    });
    holds(&Scenario {
        batches: true,
        ..kept(3, &[(1, 2)])
    });
    holds(&kept(3, &[(1, 2), (2, 1)]));
    let created = Scenario {
        origin: Origin::Created,
        mortal: Some((1, Death::Crash)),
        ..kept(3, &[(0, 1), (1, 2), (0, 2)])
    };
    holds(&created);
}
