//! The part of each process.

use std::ops::Range;

/// The elements of part number `part`, from 0, of an array of `len` elements that is cut into `parts`. All parts but the last one are
/// of equal length, and the last one takes the remainder. With fewer elements than parts, the first parts have one each. The rule is
/// that of Julia's `localindices`.
///
/// ```
/// use selvedge_channels::array::part_of;
///
/// assert_eq!([0, 1, 2].map(|part| part_of(14, 3, part)), [0..4, 4..8, 8..14]);
/// assert_eq!([0, 1, 2].map(|part| part_of(2, 3, part)), [0..1, 1..2, 2..2]);
/// ```
#[must_use]
pub fn part_of(len: usize, parts: usize, part: usize) -> Range<usize> {
    if part >= parts {
        return len..len;
    }
    let each = (len / parts).max(1);
    let start = part.saturating_mul(each).min(len);
    let is_last = part + 1 == parts;
    let end = if is_last { len } else { (start + each).min(len) };
    start..end
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    proptest! {
        #[test]
        #[cfg_attr(miri, ignore = "arithmetic alone, and slow under Miri")]
        fn jsa_10_parts_are_contiguous_disjoint_and_cover_all(len in 0_usize..2000, parts in 1_usize..40) {
            let cut: Vec<Range<usize>> = (0..parts).map(|part| part_of(len, parts, part)).collect();
            let all: Vec<usize> = cut.iter().cloned().flatten().collect();
            prop_assert_eq!(all, (0..len).collect::<Vec<_>>());
            let lengths: Vec<usize> = cut.iter().map(Range::len).collect();
            if len >= parts {
                prop_assert!(lengths[..parts - 1].iter().all(|length| *length == len / parts));
                prop_assert_eq!(lengths[parts - 1], len / parts + len % parts);
            } else {
                prop_assert!(lengths.iter().enumerate().all(|(part, length)| *length == usize::from(part < len)));
            }
            prop_assert!(part_of(len, parts, parts).is_empty() && part_of(len, 0, 0).is_empty());
        }
    }
}
