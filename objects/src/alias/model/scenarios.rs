//! The scenarios that are explored, and the mutants that are found in them.

use std::collections::BTreeSet;

use super::classes::{Carelessness, Classes};
use super::owners::Owners;
use super::{faults, reference};
use crate::alias::mutant::AliasMutant;
use crate::refs::RefId;

fn classes(aliases: &[(u64, u64)]) -> Classes {
    Classes {
        aliases: aliases.to_vec(),
        again: None,
        careless: Carelessness::None,
        mutant: AliasMutant::None,
    }
}

/// h → g → f.
fn chain() -> Classes {
    classes(&[(3, 2), (2, 1)])
}

/// h → g, i → g, g → f: two references may be passed on, so a target may have several aliases.
fn tree() -> Classes {
    classes(&[(3, 2), (4, 2), (2, 1)])
}

fn holds(name: &str, classes: Classes) {
    assert_eq!(faults(name, classes), [""; 0], "{name}");
}

#[test]
fn alias_10_alias_11_alias_22_a_chain_is_freed_once_and_not_before_it_is_resolved() {
    holds("chain", chain());
    for again in [(3, 1), (1, 3)] {
        let again = Some(again);
        holds("chain, and one more", Classes { again, ..chain() });
    }
}

#[test]
fn alias_19_a_tree_of_aliases_is_freed_once_and_not_before_it_is_resolved() {
    holds("tree", tree());
}

#[test]
fn mutants_of_classes_are_found() {
    let careless = |careless, classes| Classes { careless, ..classes };
    for classes in [chain(), tree()] {
        let found = faults("noack", careless(Carelessness::NoAck, classes.clone()));
        assert!(found.contains(&"alive"), "{found:?}");
        let found = faults("no hold", careless(Carelessness::NoHold, classes));
        assert!(found.contains(&"counted"), "{found:?}");
    }
    let mutated = |mutant, classes| Classes { mutant, ..classes };
    let found = faults("forgets", mutated(AliasMutant::ForgetsAliases, chain()));
    assert!(found.contains(&"sound"), "{found:?}");
    let again = Classes {
        again: Some((3, 1)),
        ..chain()
    };
    let found = faults("decides twice", mutated(AliasMutant::DecidesTwice, again));
    assert!(found.contains(&"once"), "{found:?}");
    let circle = Classes {
        again: Some((1, 3)),
        ..chain()
    };
    let found = faults("walks nothing", mutated(AliasMutant::WalksNothing, circle));
    assert!(found.contains(&"sound"), "{found:?}");
}

fn owners(claims: &[(RefId, RefId)]) -> Owners {
    Owners {
        claims: claims.to_vec(),
        is_circle: true,
        mortal: None,
        mutant: AliasMutant::None,
    }
}

/// Two owners, each of whom has its reference stand for the other's.
fn duel() -> Owners {
    let (a, b) = (reference(1, 1), reference(2, 1));
    owners(&[(a, b), (b, a)])
}

/// Three owners in a circle.
fn ring() -> Owners {
    let [a, b, c] = [1, 2, 3].map(|owner| reference(owner, 1));
    owners(&[(a, b), (b, c), (c, a)])
}

/// Two owners with two references each, one circle; `LARGE=1` explores it.
fn braid() -> Owners {
    let [a, b] = [1, 2].map(|number| reference(1, number));
    let [c, d] = [1, 2].map(|number| reference(2, number));
    owners(&[(a, c), (c, b), (b, d), (d, a)])
}

/// A duel, and a third owner whose reference stands for one of the two.
fn onlooker() -> Owners {
    let mut claims = duel().claims;
    claims.push((reference(3, 1), reference(1, 1)));
    owners(&claims)
}

fn explored(name: &str, owners: Owners) {
    assert_eq!(faults(name, owners), [""; 0], "{name}");
}

#[test]
fn alias_21_aliases_that_close_a_circle_over_owners_are_refused_and_the_lowest_one_wins() {
    explored("duel", duel());
    explored("ring", ring());
    if std::env::var_os("LARGE").is_some() {
        explored("braid", braid());
    }
    explored("onlooker", onlooker());
    // Whatever the order, the alias of the lowest reference is made unless all others of the circle were decided before.
    let refused = duel().refusals();
    assert!(refused.contains(&reference(2, 1)));
    let never_late = Owners {
        claims: vec![duel().claims[0]],
        is_circle: false,
        ..duel()
    };
    assert_eq!(never_late.refusals(), BTreeSet::new());
}

#[test]
fn a_chain_over_owners_is_decided_without_refusal() {
    let [a, b, c] = [1, 2, 3].map(|owner| reference(owner, 1));
    let chain = Owners {
        is_circle: false,
        ..owners(&[(a, b), (b, c)])
    };
    assert_eq!(chain.refusals(), BTreeSet::new());
    explored("chain over owners", chain);
}

#[test]
fn an_owner_that_dies_holds_up_no_alias_of_others() {
    for (name, owners) in [("duel", duel()), ("ring", ring()), ("onlooker", onlooker())] {
        for mortal in [1, 2] {
            let mortal = Some(mortal);
            let owners = Owners {
                mortal,
                ..owners.clone()
            };
            explored(&format!("{name}, {mortal:?} may die"), owners);
        }
    }
}

#[test]
fn mutants_of_races_are_found() {
    let found = |mutant, owners: Owners| faults(&format!("{mutant:?}"), Owners { mutant, ..owners });
    assert!(found(AliasMutant::DecidesEarly, duel()).contains(&"no circle"));
    assert!(found(AliasMutant::NobodyGivesWay, duel()).contains(&"no circle"));
    assert!(found(AliasMutant::BothGiveWay, duel()).contains(&"one gives way"));
    assert!(found(AliasMutant::TellsNobody, duel()).contains(&"ends"));
}
