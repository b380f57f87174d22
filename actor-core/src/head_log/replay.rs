//! The bytes of a log: a magic word, and frames. The first frame has the header, each further one a batch of records that were written
//! at once. A frame is `[length u32][checksum of the payload u32][checksum of these two u32][payload]`, little endian.

use serde::de::DeserializeOwned;
use serde::{Deserialize, Serialize};

use super::error::HeadLogCause;
use super::record::HeadRecord;
use super::state::HeadState;

const MAGIC: &[u8; 8] = b"selvhead";

/// The version of the format.
const FORMAT: u16 = 1;

const PREFIX_BYTES: usize = 12;

/// The first frame: whose log this is.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) struct LogHeader {
    pub(crate) cluster: String,
    /// The build of the program, and the hash of its functions.
    pub(crate) build: String,
    pub(crate) registry: u64,
    /// 128 random bits that are the cluster's alone, in hexadecimal digits.
    pub(crate) cluster_id: String,
}

/// The contents of a log.
#[derive(Debug, PartialEq, Eq)]
pub(super) struct Replayed {
    pub(super) header: LogHeader,
    pub(super) state: HeadState,
    /// The bytes of whole frames. What follows was being written when its head ended, and nobody was told.
    pub(super) whole_bytes: usize,
}

/// The beginning of a log.
///
/// # Errors
/// The header is too long.
pub(super) fn beginning(header: &LogHeader) -> Result<Vec<u8>, postcard::Error> {
    let mut bytes = [MAGIC.as_slice(), &FORMAT.to_le_bytes()].concat();
    bytes.extend(frame(header)?);
    Ok(bytes)
}

/// A frame with a batch of records.
///
/// # Errors
/// The batch is too long.
pub(super) fn batch(records: &[HeadRecord]) -> Result<Vec<u8>, postcard::Error> {
    frame(&records)
}

fn frame(payload: &impl Serialize) -> Result<Vec<u8>, postcard::Error> {
    let payload = postcard::to_stdvec(payload)?;
    let length = u32::try_from(payload.len()).map_err(|_| postcard::Error::SerializeBufferFull)?;
    let mut bytes = Vec::with_capacity(PREFIX_BYTES + payload.len());
    bytes.extend(length.to_le_bytes());
    bytes.extend(crc32fast::hash(&payload).to_le_bytes());
    bytes.extend(crc32fast::hash(&bytes).to_le_bytes());
    bytes.extend(payload);
    Ok(bytes)
}

/// Reads a log. `check` sees whose it is before its records are read: those of another build may be of another form.
///
/// # Errors
/// [`HeadLogCause`]: it is no log, of another version, refused by `check`, or damaged.
pub(super) fn replay(
    bytes: &[u8],
    check: impl FnOnce(&LogHeader) -> Result<(), HeadLogCause>,
) -> Result<Replayed, HeadLogCause> {
    let behind = bytes.strip_prefix(MAGIC).ok_or(HeadLogCause::NoLog)?;
    let (format, rest) = behind.split_first_chunk().ok_or(HeadLogCause::NoLog)?;
    let (found, ours) = (u16::from_le_bytes(*format), FORMAT);
    if found != ours {
        return Err(HeadLogCause::Format { found, ours });
    }
    let mut reading = LogReading {
        at: bytes.len() - rest.len(),
        rest,
    };
    // A log gets its name when its beginning is whole.
    let header = reading
        .next()?
        .ok_or_else(|| reading.damaged("its header is torn"))?;
    check(&header)?;
    let (state, whole_bytes) = reading.records()?;
    Ok(Replayed {
        header,
        state,
        whole_bytes,
    })
}

/// The bytes that are not read yet.
struct LogReading<'a> {
    at: usize,
    rest: &'a [u8],
}

impl LogReading<'_> {
    /// The outcome of all records that are whole, and where they end.
    fn records(&mut self) -> Result<(HeadState, usize), HeadLogCause> {
        let mut state = HeadState::new();
        loop {
            let at = self.at;
            let Some(records) = self.next::<Vec<HeadRecord>>()? else {
                return Ok((state, at));
            };
            for record in records {
                state.step(record).map_err(|error| HeadLogCause::Damaged {
                    at: at as u64,
                    why: error.to_string(),
                })?;
            }
        }
    }

    /// The next frame; `None` at the end of what is whole.
    fn next<T: DeserializeOwned>(&mut self) -> Result<Option<T>, HeadLogCause> {
        let Some((prefix, behind)) = self.rest.split_first_chunk::<PREFIX_BYTES>() else {
            return Ok(None);
        };
        let [a, b, c, d, e, f, g, h, check @ ..] = *prefix;
        if crc32fast::hash(&[a, b, c, d, e, f, g, h]) != u32::from_le_bytes(check) {
            // A file may have got its length before its bytes, of which some then are zeros. No batch is.
            return match behind.iter().all(|byte| *byte == 0) {
                true => Ok(None),
                false => Err(self.damaged("the length of a frame is not what was written")),
            };
        }
        let length = u32::from_le_bytes([a, b, c, d]);
        let length = usize::try_from(length).unwrap_or(usize::MAX);
        let Some((payload, rest)) = behind.split_at_checked(length) else {
            return Ok(None);
        };
        if crc32fast::hash(payload) != u32::from_le_bytes([e, f, g, h]) {
            return match rest.is_empty() {
                true => Ok(None),
                false => Err(self.damaged("a frame is not what was written")),
            };
        }
        let read = match postcard::take_from_bytes(payload) {
            Ok((read, [])) => read,
            Ok(_) => return Err(self.damaged("a frame is longer than its records")),
            Err(error) => return Err(self.damaged(&error.to_string())),
        };
        self.at += PREFIX_BYTES + length;
        self.rest = rest;
        Ok(Some(read))
    }

    fn damaged(&self, why: &str) -> HeadLogCause {
        HeadLogCause::Damaged {
            at: self.at as u64,
            why: why.to_owned(),
        }
    }
}
