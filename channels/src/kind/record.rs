//! Records: what a message between processes has in front of its encoded value, for things in the value that one process
//! passes to another, such as references to objects.
//!
//! ```text
//! | number of things u64, zeros to 64 bytes | reader 0: a record per thing | reader 1: … | encoded value |
//! ```
//!
//! The writing process makes a record of each thing for each reader, and every reading end takes its own records over
//! exactly once, whether or not the value is ever decoded. The loader of a graph gives the two sides, [`RecordsOut`] and
//! [`RecordsIn`], to the ends of channels whose values may hold such things. Channels know nothing of their meaning.

use crate::error::ChannelError;

/// The length of a record in bytes.
pub const RECORD_BYTES: usize = 64;

/// A record.
pub type Record = [u8; RECORD_BYTES];

/// The writing side: makes records, and takes back those that no reader takes over.
pub trait RecordsOut: Send {
    /// Runs `encode`, which returns whether it has encoded the value of message `number`. Makes records for the things in
    /// it: for each reader in turn, one for each thing.
    ///
    /// # Errors
    /// [`ChannelError::Record`], and [`ChannelError::Closed`] if a reader is dead; nothing is passed then.
    fn pass(&mut self, number: u64, encode: &mut dyn FnMut() -> bool) -> Result<Vec<Record>, ChannelError>;

    /// Takes back the records of message `number`, which was not sent.
    fn take_back(&mut self, number: u64);

    /// All readers have passed the messages below `passed`, but for those that have left: the records of such a reader's
    /// messages from its number on are taken back.
    fn settle(&mut self, passed: u64, left: &[(u32, u64)]);
}

/// The reading side: takes records over.
pub trait RecordsIn: Send {
    /// Takes the records of one message over.
    ///
    /// # Errors
    /// [`ChannelError::Record`], and [`ChannelError::Closed`] if the writer is dead; the records are settled all the same.
    /// [`ChannelError::Corrupt`].
    fn take_over(&mut self, records: &[Record]) -> Result<Box<dyn TakenOver>, ChannelError>;
}

/// The things of one message, which were taken over. Its drop drops them.
pub trait TakenOver: Send {
    /// Runs `decode`, which finds the things.
    fn decode(&self, decode: &mut dyn FnMut());
}

const CORRUPT: ChannelError = ChannelError::Corrupt {
    what: "records that do not fit their message",
};

/// The bytes in front of a value with these records, for this number of readers.
pub(super) fn front(records: &[Record], readers: usize) -> Vec<u8> {
    let things = records.len().checked_div(readers).unwrap_or(0);
    let mut front = Vec::with_capacity((records.len() + 1) * RECORD_BYTES);
    front.extend_from_slice(&(things as u64).to_le_bytes());
    front.resize(RECORD_BYTES, 0);
    records.iter().for_each(|record| front.extend_from_slice(record));
    front
}

/// The records of one reader in a message for several, and the offset of the encoded value.
pub(super) fn records_of(
    bytes: &[u8],
    reader: usize,
    readers: usize,
) -> Result<(Vec<Record>, usize), ChannelError> {
    let things = bytes.first_chunk().map(|things| u64::from_le_bytes(*things));
    let block = things
        .and_then(|things| usize::try_from(things).ok())
        .and_then(|things| things.checked_mul(RECORD_BYTES));
    let block = block.ok_or(CORRUPT)?;
    let begin = block
        .checked_mul(reader)
        .and_then(|it| it.checked_add(RECORD_BYTES));
    let value = block
        .checked_mul(readers)
        .and_then(|it| it.checked_add(RECORD_BYTES));
    let (begin, value) = begin.zip(value).ok_or(CORRUPT)?;
    if value > bytes.len() {
        return Err(CORRUPT);
    }
    let own = bytes
        .get(begin..)
        .and_then(|own| own.get(..block))
        .ok_or(CORRUPT)?;
    let (records, _) = own.as_chunks();
    Ok((records.to_vec(), value))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn each_reader_finds_its_own_records_and_the_value() {
        let records: Vec<Record> = (1..=6).map(|number| [number; RECORD_BYTES]).collect();
        let mut bytes = front(&records, 2);
        bytes.extend_from_slice(b"value");
        for (reader, own) in [(0, &records[..3]), (1, &records[3..])] {
            let (found, value) = records_of(&bytes, reader, 2).unwrap();
            assert_eq!((found.as_slice(), &bytes[value..]), (own, &b"value"[..]));
        }
        let (none, value) = records_of(&front(&[], 3), 2, 3).unwrap();
        assert_eq!((none.len(), value), (0, RECORD_BYTES));
    }

    #[test]
    fn numbers_that_do_not_fit_their_message_are_refused() {
        let mut bytes = front(&[[0; RECORD_BYTES]; 2], 2);
        assert!(records_of(&bytes, 1, 2).is_ok() && records_of(&bytes, 2, 3).is_err());
        for things in [2, u64::MAX, u64::MAX / 64, 1 << 58] {
            bytes[..8].copy_from_slice(&things.to_le_bytes());
            assert!(records_of(&bytes, 1, 2).is_err());
        }
        assert!(records_of(&[0; 7], 0, 1).is_err());
    }
}
