//! The incremental decoder of frames.

use super::header::word;
use super::{Frame, FrameError, FrameLimits, HEADER_BYTES, Header};

/// Reads frames from a stream of bytes that arrives in pieces of any size.
///
/// The bytes are hostile: lengths are held against the limits before any of their bytes are read, and memory grows
/// with the bytes that have arrived, not with the lengths that they claim (`FRAME-1`).
#[derive(Debug)]
pub struct Decoder {
    limits: FrameLimits,
    /// The section that is being read.
    section: Section,
    /// The bytes of that section so far.
    bytes: Vec<u8>,
    /// The frame so far.
    frame: Option<Frame>,
    /// The error that ended the stream.
    failed: Option<FrameError>,
}

/// The part of a frame that is being read, with its length where the header has told it.
#[derive(Clone, Debug)]
enum Section {
    Header,
    Head(Header),
    Table(Header),
    /// Lengths of the parts still to come, the last part first.
    Parts(Vec<u64>),
}

impl Decoder {
    /// A decoder at the beginning of a stream.
    pub fn new(limits: FrameLimits) -> Self {
        Decoder {
            limits,
            section: Section::Header,
            bytes: Vec::new(),
            frame: None,
            failed: None,
        }
    }

    /// Changes the limits for the frames that begin from here on, after a handshake for example.
    pub fn set_limits(&mut self, limits: FrameLimits) {
        self.limits = limits;
    }

    /// Takes bytes from `input` until a frame is complete or the input is empty; `None` if more bytes are needed.
    /// Call again while there is input: it may contain several frames.
    ///
    /// # Errors
    /// The bytes are no frame within the limits. The stream is lost: every later call returns this error.
    pub fn decode(&mut self, input: &mut &[u8]) -> Result<Option<Frame>, FrameError> {
        if let Some(failed) = self.failed {
            return Err(failed);
        }
        let result = self.advance(input);
        self.failed = result.as_ref().err().copied();
        result
    }

    /// The number of bytes of memory that the unfinished frame takes.
    pub fn held_bytes(&self) -> usize {
        let frame = self.frame.as_ref().map_or(0, |frame| {
            let parts: usize = frame.parts.iter().map(Vec::capacity).sum();
            frame.head.capacity() + parts + frame.parts.capacity() * size_of::<Vec<u8>>()
        });
        let lengths = match &self.section {
            Section::Parts(lengths) => lengths.capacity() * size_of::<u64>(),
            _ => 0,
        };
        self.bytes.capacity() + frame + lengths
    }

    fn advance(&mut self, input: &mut &[u8]) -> Result<Option<Frame>, FrameError> {
        loop {
            if !self.fill(input) {
                return Ok(None);
            }
            let section = std::mem::replace(&mut self.section, Section::Header);
            let bytes = std::mem::take(&mut self.bytes);
            self.section = match section {
                Section::Header => Section::Head(self.header(&bytes)?),
                Section::Head(header) => {
                    if let Some(frame) = &mut self.frame {
                        frame.head = bytes;
                    }
                    Section::Table(header)
                }
                Section::Table(header) => Section::Parts(table(&header, &bytes)?),
                Section::Parts(mut lengths) => {
                    let is_part = lengths.pop().is_some();
                    if let Some(frame) = self.frame.as_mut().filter(|_| is_part) {
                        frame.parts.push(bytes);
                    }
                    Section::Parts(lengths)
                }
            };
            if matches!(&self.section, Section::Parts(left) if left.is_empty()) {
                self.section = Section::Header;
                return Ok(self.frame.take());
            }
        }
    }

    /// Reads the header, with which a frame begins.
    fn header(&mut self, bytes: &[u8]) -> Result<Header, FrameError> {
        let mut whole = [0; HEADER_BYTES];
        whole
            .iter_mut()
            .zip(bytes)
            .for_each(|(place, byte)| *place = *byte);
        let header = Header::decode(&whole, &self.limits)?;
        self.frame = Some(Frame {
            service: header.service,
            class: header.class,
            sequence: header.sequence,
            acknowledged: header.acknowledged,
            head: Vec::new(),
            parts: Vec::new(),
        });
        Ok(header)
    }

    /// Takes bytes of the section that is being read. Returns whether the section is complete.
    fn fill(&mut self, input: &mut &[u8]) -> bool {
        let length = match &self.section {
            Section::Header => HEADER_BYTES as u64,
            Section::Head(header) => u64::from(header.head_bytes),
            Section::Table(header) => 8 * u64::from(header.parts),
            Section::Parts(lengths) => lengths.last().copied().unwrap_or_default(),
        };
        let missing = length.saturating_sub(self.bytes.len() as u64);
        let taken = usize::try_from(missing).unwrap_or(usize::MAX).min(input.len());
        if let Some((taken, rest)) = input.split_at_checked(taken) {
            self.bytes.extend_from_slice(taken);
            *input = rest;
        }
        self.bytes.len() as u64 == length
    }
}

/// The lengths of the parts, the last part first.
fn table(header: &Header, bytes: &[u8]) -> Result<Vec<u64>, FrameError> {
    let mut lengths: Vec<u64> = bytes.chunks_exact(8).map(word).collect();
    let add = |sum: u64, length: &u64| sum.checked_add(*length);
    if lengths.iter().try_fold(0, add) != Some(header.body_bytes) {
        return Err(FrameError::Parts {
            body: header.body_bytes,
        });
    }
    lengths.reverse();
    Ok(lengths)
}
