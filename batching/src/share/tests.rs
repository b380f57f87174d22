//! Properties of `share` for any members, budget and limits.
#![allow(clippy::unwrap_used, clippy::indexing_slicing)]

use proptest::prelude::*;

use super::{Ask, StepLimits, share};

fn asks() -> impl Strategy<Value = Vec<Ask>> {
    let costs = prop::collection::vec(1..40_usize, 1..12);
    costs.prop_flat_map(|costs| {
        let numbers: Vec<u64> = (0..costs.len() as u64).collect();
        (Just(costs), Just(numbers).prop_shuffle()).prop_map(|(costs, numbers)| {
            let both = costs.into_iter().zip(numbers);
            both.map(|(cost, number)| Ask { cost, number }).collect()
        })
    })
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(2000))]

    #[test]
    fn share_1_2_3_hold_for_any_members(asks in asks(), spare in 0..60_usize, members in 1..12_usize) {
        let slots = 12;
        let budget = slots + spare;
        let granted = share(&asks, StepLimits { budget, slots, members });
        // SHARE-1
        prop_assert!(granted.iter().map(|(_, grant)| grant).sum::<usize>() <= budget);
        prop_assert!(!granted.is_empty() && granted.len() <= members);
        // SHARE-2
        let mut seen: Vec<usize> = granted.iter().map(|(index, _)| *index).collect();
        seen.sort_unstable();
        seen.dedup();
        prop_assert_eq!(seen.len(), granted.len());
        prop_assert!(granted.iter().all(|(index, grant)| (1..=asks[*index].cost).contains(grant)));
        // Small asks are never cut.
        let fair = budget / slots;
        let small = |index: usize| asks[index].cost <= fair;
        prop_assert!(granted.iter().all(|(index, grant)| !small(*index) || *grant == asks[*index].cost));
        // SHARE-3
        let first_small = (0..asks.len()).find(|index| small(*index));
        let first_large = (0..asks.len()).filter(|index| !small(*index)).min_by_key(|index| asks[*index].number);
        let is_in = |wanted: Option<usize>| wanted.is_none_or(|wanted| seen.contains(&wanted));
        if members > 1 {
            prop_assert!(is_in(first_small) && is_in(first_large));
        } else {
            prop_assert!(seen.contains(&0));
        }
    }
}
