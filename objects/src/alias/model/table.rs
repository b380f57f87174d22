//! The table by itself: all orders, long chains, refusals, and random calls compared with an interpreter.

use std::collections::BTreeMap;

use proptest::prelude::*;

use super::id;
use crate::alias::{AliasError, AliasTable, Resolution, Target};

fn table(references: u64) -> AliasTable {
    let mut table = AliasTable::default();
    (1..=references).for_each(|number| {
        assert!(table.register(id(number)));
    });
    table
}

#[derive(Clone, Copy, Debug)]
enum Announced {
    Alias(u64, u64),
    Ready(u64),
}

/// All orders of these calls.
fn orders(calls: &[Announced]) -> Vec<Vec<Announced>> {
    if calls.is_empty() {
        return vec![Vec::new()];
    }
    let with_first = |first: usize| {
        let mut rest = calls.to_vec();
        let call = rest.remove(first);
        orders(&rest).into_iter().map(move |mut order| {
            order.insert(0, call);
            order
        })
    };
    (0..calls.len()).flat_map(with_first).collect()
}

/// Makes the calls in this order. Every reference is announced to have a value exactly once.
fn performed(order: &[Announced], references: u64) -> AliasTable {
    let (mut table, mut told) = (table(references), Vec::new());
    for call in order {
        told.extend(match call {
            Announced::Alias(alias, target) => table.alias(id(*alias), id(*target)).unwrap(),
            Announced::Ready(number) => table.ready(id(*number)).unwrap(),
        });
    }
    told.sort_unstable();
    assert_eq!(told, (1..=references).map(id).collect::<Vec<_>>(), "{order:?}");
    table
}

fn end_alike(calls: &[Announced], references: u64, count: usize) {
    let orders = orders(calls);
    assert_eq!(orders.len(), count);
    let mut ends: Vec<AliasTable> = orders.iter().map(|order| performed(order, references)).collect();
    for table in &mut ends {
        for number in 1..=references {
            assert_eq!(table.resolve(id(number)).unwrap(), Resolution::Canonical(id(1)));
        }
    }
    let first = ends.remove(0);
    assert!(ends.iter().all(|end| *end == first));
}

#[test]
fn alias_05_all_six_orders_end_alike() {
    end_alike(
        &[
            Announced::Alias(3, 2),
            Announced::Alias(2, 1),
            Announced::Ready(1),
        ],
        3,
        6,
    );
}

#[test]
fn alias_19_all_24_orders_of_a_tree_end_alike() {
    let calls = [
        Announced::Alias(3, 2),
        Announced::Alias(4, 2),
        Announced::Alias(2, 1),
        Announced::Ready(1),
    ];
    end_alike(&calls, 4, 24);
}

#[test]
fn alias_06_alias_07_a_reference_is_unknown_until_it_is_an_alias_or_has_a_value() {
    let mut table = table(2);
    assert_eq!(table.target(id(2)), Some(Target::Unknown));
    table.alias(id(2), id(1)).unwrap();
    table.ready(id(1)).unwrap();
    assert_eq!(table.target(id(2)), Some(Target::Alias(id(1))));
    assert_eq!(table.target(id(1)), Some(Target::Canonical));
    assert_eq!(table.target(id(3)), None);
}

#[test]
fn alias_09_a_class_is_found_from_any_member_the_value_first() {
    let mut table = performed(
        &[
            Announced::Alias(3, 2),
            Announced::Alias(4, 2),
            Announced::Alias(2, 1),
            Announced::Ready(1),
        ],
        4,
    );
    for number in 1..=4 {
        let end = table.resolve(id(number)).unwrap().end();
        let mut class = table.descent(end);
        assert_eq!(class[0], id(1));
        class.sort_unstable();
        assert_eq!(class, [1, 2, 3, 4].map(id));
    }
}

#[test]
fn alias_20_alias_21_refused_calls_are_typed_and_change_nothing() {
    let mut table = table(4);
    table.alias(id(3), id(2)).unwrap();
    table.ready(id(1)).unwrap();
    // Resolved once, so that a further look has nothing to compress.
    table.resolve(id(3)).unwrap();
    let before = table.clone();
    let cycle = AliasError::Cycle {
        alias: id(2),
        target: id(3),
    };
    assert_eq!(table.alias(id(2), id(2)), Err(AliasError::SelfAlias(id(2))));
    assert_eq!(table.alias(id(3), id(1)), Err(AliasError::AlreadyAliased(id(3))));
    assert_eq!(table.alias(id(1), id(2)), Err(AliasError::AlreadyAliased(id(1))));
    assert_eq!(table.alias(id(9), id(1)), Err(AliasError::Unknown(id(9))));
    assert_eq!(table.alias(id(2), id(9)), Err(AliasError::Unknown(id(9))));
    assert_eq!(table.alias(id(2), id(3)), Err(cycle));
    assert_eq!(table.ready(id(3)), Err(AliasError::NotCanonical(id(3))));
    assert_eq!(table.ready(id(1)), Err(AliasError::AlreadyAliased(id(1))));
    assert_eq!(table.ready(id(9)), Err(AliasError::Unknown(id(9))));
    assert_eq!(table.resolve(id(9)), Err(AliasError::Unknown(id(9))));
    assert_eq!(table.remove(id(2)), Err(AliasError::HasAliases(id(2))));
    assert_eq!(table.remove(id(9)), Err(AliasError::Unknown(id(9))));
    assert_eq!(table, before);
    assert!(cycle.to_string().contains("help"), "{cycle}");
}

/// The number of look-ups decides, and the time is told:
/// `cargo test --release -p selvedge-objects --lib alias_12_alias_23 -- --nocapture`.
#[test]
fn alias_12_alias_23_a_chain_of_100_000_is_resolved_compressed_and_freed_without_recursion() {
    const LENGTH: u64 = 100_000;
    let mut table = table(LENGTH);
    for number in 1..LENGTH {
        // Each becomes an alias of what is an alias already, so the chain is longest.
        table.alias(id(number), id(number + 1)).unwrap();
    }
    assert_eq!(table.ready(id(LENGTH)).unwrap().len(), LENGTH as usize);
    let timed = |table: &mut AliasTable| {
        let begun = std::time::Instant::now();
        let end = table.resolve(id(1)).unwrap();
        let time = begun.elapsed();
        assert_eq!(end, Resolution::Canonical(id(LENGTH)));
        time
    };
    let first = timed(&mut table);
    let compressed = table.clone();
    let again: std::time::Duration = (0..1000).map(|_| timed(&mut table)).sum();
    println!(
        "a chain of {LENGTH}: resolved in {first:?}, and again in {:?}",
        again / 1000
    );
    assert_eq!(table, compressed, "a second resolution has nothing to compress");
    assert_eq!(table.descent(id(LENGTH)).len(), LENGTH as usize);
    let mut freed = 0;
    let mut next = Some(id(1));
    while let Some(id) = next {
        next = table.remove(id).unwrap();
        freed += 1;
    }
    assert_eq!((freed, table.len()), (LENGTH, 0));
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(256))]

    /// Whatever is called, the table agrees with an interpreter that follows each chain step by step.
    #[test]
    fn random_calls_agree_with_an_interpreter(calls in prop::collection::vec((0u8..4, 1u64..9, 1u64..9), 1..60)) {
        let mut table = table(8);
        let mut targets: BTreeMap<u64, Option<u64>> = BTreeMap::new();
        for (kind, x, y) in calls {
            let end = |targets: &BTreeMap<u64, Option<u64>>, from: u64| {
                let mut at = from;
                while let Some(Some(next)) = targets.get(&at) {
                    at = *next;
                }
                at
            };
            match kind {
                0 | 1 => {
                    let is_free = !targets.contains_key(&x) && x != y && end(&targets, y) != x;
                    prop_assert_eq!(table.alias(id(x), id(y)).is_ok(), is_free);
                    if is_free {
                        targets.insert(x, Some(y));
                    }
                }
                2 => {
                    let is_free = !targets.contains_key(&x);
                    prop_assert_eq!(table.ready(id(x)).is_ok(), is_free);
                    targets.entry(x).or_insert(None);
                }
                _ => prop_assert_eq!(table.resolve(id(x)).unwrap().end(), id(end(&targets, x))),
            }
            prop_assert!(table.is_sound());
        }
    }
}
