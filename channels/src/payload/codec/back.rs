//! The check of a value that is encoded by name: it is decoded, encoded again, and both encodings are compared.

use std::sync::Arc;

use serde::Serialize;
use serde::de::DeserializeOwned;

use super::super::bytes64::Bytes64;
use super::super::collector::{Collecting, Providing};
use super::super::encode::HeadBytes;
use super::error::SerdeError;
use super::read::ValueReader;
use super::tag;
use super::write::ValueWriter;

/// Returns an error if a value, encoded by name as `head`, is not decoded as the same value.
pub(crate) fn arrives<T: Serialize + DeserializeOwned>(
    head: &[u8],
    parts: &[Arc<Bytes64>],
) -> Result<(), SerdeError> {
    let given = parts.iter().cloned().map(Some).collect();
    let mut reader = ValueReader::<true>::new(head);
    let providing = Providing::begin(given);
    let read = T::deserialize(&mut reader);
    drop(providing);
    let read = read?;
    reader.finish()?;
    let mut again = HeadBytes::new();
    let collecting = Collecting::begin_again(parts);
    let written = read.serialize(&mut ValueWriter::<_, true>::new(&mut again, None));
    collecting.end();
    crate::dispose::dispose(read);
    written?;
    equal(head, again.as_slice())
}

/// Returns an error if two encodings by name are not those of equal values.
fn equal(head: &[u8], again: &[u8]) -> Result<(), SerdeError> {
    // The elements of sets and maps may come in any order.
    if again == head || sum(head).is_some_and(|of_first| sum(again) == Some(of_first)) {
        return Ok(());
    }
    Err(SerdeError::said(
        "its `Deserialize` makes another value of what its `Serialize` writes: look at `untagged`, at fields that are left out and \
         at their defaults",
    ))
}

/// A hash of a value encoded by name that does not depend on the order of lists and maps, since sets are lists too. The
/// order of tuples counts.
fn sum(mut bytes: &[u8]) -> Option<u64> {
    let sum = Sum::value(&mut bytes)?;
    bytes.is_empty().then_some(sum)
}

struct Sum;

impl Sum {
    fn mix(seed: u64, word: u64) -> u64 {
        let mixed = (seed.rotate_left(23) ^ word).wrapping_mul(0x9e37_79b9_7f4a_7c15);
        mixed ^ mixed >> 29
    }

    fn bytes(seed: u64, bytes: &[u8]) -> u64 {
        let sum = bytes
            .iter()
            .fold(seed, |sum, byte| Self::mix(sum, u64::from(*byte)));
        Self::mix(sum, bytes.len() as u64)
    }

    fn lengthy(seed: u64, from: &mut &[u8]) -> Option<u64> {
        let (mut len, mut shift) = (0_usize, 0);
        loop {
            let byte = *from.split_off_first()?;
            len |= usize::from(byte & 0x7f).checked_shl(shift)?;
            if byte < 0x80 {
                return Some(Self::bytes(seed, from.split_off(..len)?));
            }
            shift += 7;
        }
    }

    /// The hash of one value. The depth of the recursion is bounded, because the writer's depth is.
    fn value(from: &mut &[u8]) -> Option<u64> {
        let tag = *from.split_off_first()?;
        let seed = Self::mix(1, u64::from(tag));
        let fixed = match tag {
            tag::U8 | tag::I8 => 1,
            tag::U16 | tag::I16 => 2,
            tag::U32 | tag::I32 | tag::F32 | tag::CHAR => 4,
            tag::U64 | tag::I64 | tag::F64 => 8,
            tag::U128 | tag::I128 => 16,
            tag::STR | tag::BYTES | tag::UNIT_VARIANT => return Self::lengthy(seed, from),
            tag::SOME => return Some(Self::mix(seed, Self::value(from)?)),
            tag::VARIANT => {
                let named = Self::lengthy(seed, from)?;
                return Some(Self::mix(named, Self::value(from)?));
            }
            tag::TUPLE => {
                let mut all = seed;
                while from.first() != Some(&tag::END) {
                    all = Self::mix(all, Self::value(from)?);
                }
                from.split_off_first()?;
                return Some(Self::mix(4, all));
            }
            tag::SEQ | tag::MAP => {
                let mut all = seed;
                while from.first() != Some(&tag::END) {
                    let mut item = Self::mix(2, Self::value(from)?);
                    if tag == tag::MAP {
                        item = Self::mix(item, Self::value(from)?);
                    }
                    all = all.wrapping_add(item);
                }
                from.split_off_first()?;
                return Some(Self::mix(3, all));
            }
            _ => 0,
        };
        Some(Self::bytes(seed, from.split_off(..fixed)?))
    }
}
