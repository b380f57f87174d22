//! The heads of letters, as postcard encodes them.

use postcard::ser_flavors::Flavor;
use selvedge_cluster::frame::Head;
use serde::Serialize;

/// Encodes a head, mostly without memory of its own. Heads are plain data, which always encodes.
pub(super) fn encoded(head: &impl Serialize) -> Head {
    postcard::serialize_with_flavor(head, HeadBytes(Head::new())).unwrap_or_default()
}

/// The bytes of a head so far.
struct HeadBytes(Head);

impl Flavor for HeadBytes {
    type Output = Head;

    #[inline]
    fn try_push(&mut self, byte: u8) -> postcard::Result<()> {
        self.0.push(byte);
        Ok(())
    }

    #[inline]
    fn try_extend(&mut self, bytes: &[u8]) -> postcard::Result<()> {
        self.0.extend_from_slice(bytes);
        Ok(())
    }

    #[inline]
    fn finalize(self) -> postcard::Result<Head> {
        Ok(self.0)
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
