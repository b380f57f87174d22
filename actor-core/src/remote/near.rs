//! Names that are similar to another one, for errors.

/// The number of similar names in an error.
const NEAR_MAX: usize = 5;

/// The names that are most similar to `path`, the most similar one first.
pub(crate) fn near(path: &str, mut known: Vec<String>) -> Vec<String> {
    known.sort_by_cached_key(|name| distance(path, name));
    known.truncate(NEAR_MAX);
    known
}

/// The longest part of a name that is compared, in bytes.
const COMPARED_MAX: usize = 256;

/// The number of bytes to insert, remove or replace to make `b` of `a` (Levenshtein 1966); |a|·|b| steps.
fn distance(a: &str, b: &str) -> usize {
    let mut row: Vec<usize> = (0..=b.len().min(COMPARED_MAX)).collect();
    for (i, x) in a.bytes().take(COMPARED_MAX).enumerate() {
        let (mut diagonal, mut left) = (i, i + 1);
        let mut next = vec![left];
        for (y, above) in b.bytes().zip(row.iter().skip(1)) {
            left = (diagonal + usize::from(x != y)).min(left + 1).min(above + 1);
            next.push(left);
            diagonal = *above;
        }
        row = next;
    }
    row.last().copied().unwrap_or_default()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_nearest_names_come_first() {
        assert_eq!(distance("kitten", "sitting"), 3);
        assert_eq!(distance("", "abc"), 3);
        let known = ["a::cube", "a::square", "a::squares", "b::x"].map(str::to_owned);
        assert_eq!(
            near("a::square", known.to_vec())[..2],
            ["a::square", "a::squares"]
        );
    }
}
