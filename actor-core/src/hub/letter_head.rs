//! The heads of letters, as postcard encodes them.

use selvedge_cluster::frame::Head;
use serde::Serialize;

/// The bytes of the longest head that is encoded on the stack.
const SHORT_BYTES: usize = 128;

/// Encodes a head, mostly without memory of its own. Heads are plain data, which always encodes.
pub(super) fn encoded(head: &impl Serialize) -> Head {
    let mut short = [0; SHORT_BYTES];
    match postcard::to_slice(head, &mut short) {
        Ok(bytes) => Head::from_slice(bytes),
        Err(_) => postcard::to_stdvec(head).unwrap_or_default().into(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn heads_of_every_length_are_encoded_as_postcard_does() {
        for length in (0..300).chain([5_000]) {
            let head = (7_u8, vec![0xa5_u8; length], "end", u64::MAX);
            assert_eq!(
                encoded(&head).as_slice(),
                postcard::to_stdvec(&head).unwrap(),
                "{length}"
            );
        }
    }
}
