//! Maps and sets of identifiers do what trees do.

use std::collections::{BTreeMap, BTreeSet};

use super::*;
use crate::peer::{Incarnation, Peer, ProcessId};

#[test]
fn a_map_does_what_a_tree_does() {
    let (mut map, mut tree) = (IdMap::new(), BTreeMap::new());
    let mut seed = 0x9e37_79b9_u32;
    for step in 0..20_000_u32 {
        seed = seed.wrapping_mul(1_664_525).wrapping_add(1_013_904_223);
        let key = (seed >> 24, seed >> 22 & 3);
        match seed >> 20 & 3 {
            0 => assert_eq!(map.remove(&key), tree.remove(&key)),
            1 => *map.or_default(key) += step,
            _ => assert_eq!(map.insert(key, step), tree.insert(key, step)),
        }
        if seed >> 20 & 3 == 1 {
            *tree.entry(key).or_default() += step;
        }
        assert_eq!(map.get(&key), tree.get(&key));
        let most = (key.0 + step % 50, 1);
        assert!(
            map.between(key, most)
                .eq(tree.range(key.min(most)..=most).filter(|_| key <= most))
        );
        assert_eq!(map.first_from(key), tree.range(key..).next());
        assert_eq!(map.last_before(key), tree.range(..key).next_back());
        if step % 89 == 0 {
            assert_eq!(map.pop_first(), tree.pop_first());
            assert_eq!(map.pop_last(), tree.pop_last());
            let is_over = |value: &u32| value.is_multiple_of(5);
            let over: Vec<_> = tree.extract_if(.., |_, value| is_over(value)).collect();
            assert_eq!(map.extract(|_, value| is_over(value)), over);
        }
        if step % 97 == 0 {
            map.retain(|(first, _), value| (first + *value) % 3 > 0);
            tree.retain(|(first, _), value| (first + *value) % 3 > 0);
        }
        assert_eq!(
            (map.len(), map.first_key_value(), map.last_key_value()),
            (tree.len(), tree.first_key_value(), tree.last_key_value())
        );
    }
    assert!(map.iter().eq(tree.iter()));
    assert!(map.into_iter().eq(tree));
}

#[test]
fn keys_are_ordered_as_their_numbers() {
    let mut keys = BTreeSet::new();
    for process in [1, 2, u32::MAX].into_iter().filter_map(ProcessId::new) {
        for incarnation in [0, 7, u32::MAX].map(Incarnation) {
            let peer = Peer { process, incarnation };
            keys.insert((Some(peer), 3_u16));
            keys.insert((Some(peer), u16::MAX));
        }
    }
    keys.insert((None, u16::MAX));
    let set: IdSet<_> = keys.iter().rev().copied().collect();
    assert!(set.iter().eq(keys.iter()));
    assert!(set.into_iter().eq(keys));
}
