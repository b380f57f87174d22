//! The static split of a range.

use std::ops::Range;

/// Cuts a range into at most `parts` chunks, in order. Their lengths differ by at most one, the longer ones come first, and none is
/// empty: there are fewer chunks than parts if the range is shorter than that. The rule is that of Julia's `splitrange`.
///
/// ```
/// assert_eq!(selvedge_parallel::split_range(1..11, 4), [1..4, 4..7, 7..9, 9..11]);
/// assert_eq!(selvedge_parallel::split_range(5..7, 4), [5..6, 6..7]);
/// assert_eq!(selvedge_parallel::split_range(5..5, 4), []);
/// ```
#[must_use]
pub fn split_range(range: Range<u64>, parts: usize) -> Vec<Range<u64>> {
    let length = range.end.saturating_sub(range.start);
    let parts = (parts as u64).min(length);
    let (each, longer) = (
        length.checked_div(parts).unwrap_or(0),
        length.checked_rem(parts).unwrap_or(0),
    );
    let mut begin = range.start;
    let chunks = (0..parts).map(|part| {
        let end = begin + each + u64::from(part < longer);
        let chunk = begin..end;
        begin = end;
        chunk
    });
    chunks.collect()
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    #[test]
    fn jpar_10_the_reference_cases() {
        for (range, parts, lengths) in [
            (0..10, 3, vec![4, 3, 3]),
            (0..10, 5, vec![2, 2, 2, 2, 2]),
            (7..10, 2, vec![2, 1]),
            (7..10, 8, vec![1, 1, 1]),
            (u64::MAX - 3..u64::MAX, 2, vec![2, 1]),
            (4..4, 3, vec![]),
            (0..4, 0, vec![]),
        ] {
            let chunks = split_range(range, parts);
            let found: Vec<u64> = chunks.iter().map(|chunk| chunk.end - chunk.start).collect();
            assert_eq!(found, lengths);
        }
    }

    proptest! {
        #[test]
        fn jpar_10_chunks_are_the_range_in_order_and_differ_by_one(
            begin in any::<u32>(), length in 0_u64..1000, parts in 0_usize..40,
        ) {
            let range = u64::from(begin)..u64::from(begin) + length;
            let chunks = split_range(range.clone(), parts);
            let all: Vec<u64> = chunks.iter().cloned().flatten().collect();
            prop_assert_eq!(all, if parts > 0 { range.collect() } else { Vec::new() });
            let lengths: Vec<u64> = chunks.iter().map(|chunk| chunk.end - chunk.start).collect();
            prop_assert!(lengths.is_sorted_by(|one, other| one >= other));
            let (first, last) = (lengths.first(), lengths.last());
            prop_assert!(last.is_none_or(|last| *last > 0 && first.is_some_and(|first| first - last <= 1)));
            prop_assert!(chunks.len() <= parts);
        }
    }
}
