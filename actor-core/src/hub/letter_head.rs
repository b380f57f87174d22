//! The heads of letters, as postcard encodes them.

use postcard::ser_flavors::Flavor;
use selvedge_cluster::frame::Head;
use serde::Serialize;

/// The bytes of a head that need no memory while it is encoded.
const SHORT: usize = 128;

/// Encodes a head, mostly without memory of its own. Heads are plain data, which always encodes.
pub(super) fn encoded(head: &impl Serialize) -> Head {
    let room = HeadRoom {
        short: [0; SHORT],
        length: 0,
        long: Vec::new(),
    };
    postcard::serialize_with_flavor(head, room).unwrap_or_default()
}

/// Room for a head: on the stack first, and on the heap once it is longer.
struct HeadRoom {
    short: [u8; SHORT],
    /// The bytes in `short`; 0 once all are in `long`.
    length: usize,
    long: Vec<u8>,
}

impl HeadRoom {
    fn short(&self) -> &[u8] {
        self.short.get(..self.length).unwrap_or_default()
    }
}

impl Flavor for HeadRoom {
    type Output = Head;

    #[inline]
    fn try_push(&mut self, byte: u8) -> postcard::Result<()> {
        self.try_extend(&[byte])
    }

    #[inline]
    fn try_extend(&mut self, bytes: &[u8]) -> postcard::Result<()> {
        let end = self.length + bytes.len();
        match self.short.get_mut(self.length..end) {
            Some(place) if self.long.is_empty() => {
                place.copy_from_slice(bytes);
                self.length = end;
            }
            _ => {
                let before = std::mem::take(&mut self.length);
                self.long
                    .extend_from_slice(self.short.get(..before).unwrap_or_default());
                self.long.extend_from_slice(bytes);
            }
        }
        Ok(())
    }

    fn finalize(self) -> postcard::Result<Head> {
        Ok(match self.long.is_empty() {
            true => Head::from_slice(self.short()),
            false => self.long.into(),
        })
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
