//! The scenarios that are explored, and the mutants that are found in them.

use stateright::HasDiscoveries;

use super::classes::{Carelessness, Classes};
use crate::alias::mutant::AliasMutant;
use crate::mutants::explore;

fn faults(name: &str, classes: Classes) -> Vec<&'static str> {
    explore(name, classes, HasDiscoveries::All)
}

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
