//! The incremental decoder of frames.

use smallvec::{Array, SmallVec};

use super::header::word;
use super::{Frame, FrameError, FrameLimits, HEADER_BYTES, Head, Header, Parts};

/// The memory of a part that is being read.
pub trait PartMemory: Sized {
    /// Memory for as many bytes as a peer has announced; `None` if there is no memory. The bytes may never come.
    fn announced(bytes: usize) -> Option<Self>;

    /// Adds bytes behind those that are there.
    fn put(&mut self, bytes: &[u8]);

    /// The number of bytes that are there.
    fn len(&self) -> usize;

    /// Removes the bytes behind the first `bytes`.
    fn truncate(&mut self, bytes: usize);

    /// The number of bytes of memory in use.
    fn held_bytes(&self) -> usize;

    /// Whether no bytes are there.
    fn is_empty(&self) -> bool {
        self.len() == 0
    }
}

impl PartMemory for Vec<u8> {
    /// An empty vector, which grows with the bytes that come.
    fn announced(_: usize) -> Option<Self> {
        Some(Vec::new())
    }

    fn put(&mut self, bytes: &[u8]) {
        self.extend_from_slice(bytes);
    }

    fn len(&self) -> usize {
        self.len()
    }

    fn truncate(&mut self, bytes: usize) {
        self.truncate(bytes);
    }

    fn held_bytes(&self) -> usize {
        self.capacity()
    }
}

/// Reads frames from a stream of bytes that arrives in pieces of any size.
///
/// The bytes are hostile: lengths are held against the limits before any of their bytes are read. With vectors for parts,
/// memory grows with the bytes that have arrived, not with the lengths that they claim (`FRAME-1`); other memory for parts
/// may be reserved up to the limits.
#[derive(Debug)]
pub struct Decoder<P = Vec<u8>> {
    limits: FrameLimits,
    /// The bytes before the parts of the next frame, if they have come in pieces.
    prefix: SmallVec<[u8; PREFIX_BYTES]>,
    /// The frame whose parts are being read.
    begun: Option<OpenFrame<P>>,
    /// The error that ended the stream.
    failed: Option<FrameError>,
}

/// The bytes before the parts of most frames: header, head, and the length of one part.
const PREFIX_BYTES: usize = HEADER_BYTES + 24 + 8;

/// The lengths of parts, the last part first. Most frames have one.
type Lengths = SmallVec<[u64; 2]>;

/// A frame whose parts are being read.
#[derive(Debug)]
struct OpenFrame<P> {
    /// The frame so far. Its last part is being read.
    frame: Frame<P>,
    /// The number of bytes that the last part lacks.
    missing: usize,
    /// The lengths of the parts that have not begun.
    lengths: Lengths,
}

impl<P: PartMemory> Decoder<P> {
    /// A decoder at the beginning of a stream.
    pub fn new(limits: FrameLimits) -> Self {
        Decoder {
            limits,
            prefix: SmallVec::new(),
            begun: None,
            failed: None,
        }
    }

    /// Takes bytes from `input` until a frame is complete or the input is empty; `None` if more bytes are needed.
    /// Call again while there is input: it may contain several frames.
    ///
    /// # Errors
    /// The bytes are no frame within the limits. The stream is lost: every later call returns this error.
    pub fn decode(&mut self, input: &mut &[u8]) -> Result<Option<Frame<P>>, FrameError> {
        let place = |_: &Frame<P>, bytes| P::announced(bytes).ok_or(FrameError::NoMemory { bytes });
        self.decode_with(input, place)
    }

    /// Decodes like [`decode`](Self::decode). `place` gives the memory for each part: it gets the frame so far, with its
    /// head, and the length of the part. The part is added to what that memory holds.
    ///
    /// # Errors
    /// Those of [`decode`](Self::decode), and those of `place`.
    pub fn decode_with(
        &mut self,
        input: &mut &[u8],
        place: impl FnMut(&Frame<P>, usize) -> Result<P, FrameError>,
    ) -> Result<Option<Frame<P>>, FrameError> {
        if let Some(failed) = self.failed {
            return Err(failed);
        }
        if input.is_empty() && self.begun.is_none() {
            return Ok(None);
        }
        let result = self.advance(input, place);
        self.failed = result.as_ref().err().copied();
        result
    }

    /// The memory of the part that is being read, and the number of bytes that it lacks. Whoever has these bytes may put
    /// them there, and report them to [`filled`](Self::filled), instead of passing them to [`decode`](Self::decode).
    pub fn part(&mut self) -> Option<(&mut P, usize)> {
        let begun = self.begun.as_mut()?;
        Some((begun.frame.parts.last_mut()?, begun.missing))
    }

    /// Notes that so many bytes were put into the [`part`](Self::part).
    pub fn filled(&mut self, bytes: usize) {
        if let Some(begun) = &mut self.begun {
            begun.missing = begun.missing.saturating_sub(bytes);
        }
    }

    /// Ends the decoding. Returns the memory of the part that was being read.
    pub fn into_part(self) -> Option<P> {
        self.begun?.frame.parts.pop()
    }

    /// The number of bytes of memory that the unfinished frame takes.
    pub fn held_bytes(&self) -> usize {
        let begun = self.begun.as_ref().map_or(0, |begun| {
            let Frame { head, parts, .. } = &begun.frame;
            let bytes: usize = parts.iter().map(P::held_bytes).sum();
            bytes + held(head) + held(parts) + held(&begun.lengths)
        });
        held(&self.prefix) + begun
    }

    fn advance(
        &mut self,
        input: &mut &[u8],
        mut place: impl FnMut(&Frame<P>, usize) -> Result<P, FrameError>,
    ) -> Result<Option<Frame<P>>, FrameError> {
        let mut begun = match self.begun.take() {
            Some(begun) => begun,
            None => match self.begin(input)? {
                Some(begun) => begun,
                None => return Ok(None),
            },
        };
        loop {
            if let Some(part) = begun.frame.parts.last_mut() {
                let taken = take(input, begun.missing);
                part.put(taken);
                begun.missing -= taken.len();
            }
            if begun.missing > 0 {
                self.begun = Some(begun);
                return Ok(None);
            }
            let Some(length) = begun.lengths.pop() else {
                return Ok(Some(begun.frame));
            };
            begun.missing = usize::try_from(length).unwrap_or(usize::MAX);
            let part = place(&begun.frame, begun.missing)?;
            begun.frame.parts.push(part);
        }
    }

    /// Reads the bytes before the parts. Returns the frame without its parts once they are there.
    fn begin(&mut self, input: &mut &[u8]) -> Result<Option<OpenFrame<P>>, FrameError> {
        if self.prefix.is_empty()
            && let Some((header, rest)) = header_of(input, &self.limits)?
            && let Some((prefix, rest)) = rest.split_at_checked(header.prefix_bytes())
        {
            // Mostly they are there as a whole.
            *input = rest;
            return frame_of(&header, prefix).map(Some);
        }
        loop {
            let header = header_of(&self.prefix, &self.limits)?;
            let length = header
                .as_ref()
                .map_or(HEADER_BYTES, |(header, _)| HEADER_BYTES + header.prefix_bytes());
            if let (Some((header, prefix)), true) = (header, self.prefix.len() == length) {
                let begun = frame_of(&header, prefix);
                self.prefix = SmallVec::new();
                return begun.map(Some);
            }
            let taken = take(input, length - self.prefix.len());
            if taken.is_empty() {
                return Ok(None);
            }
            self.prefix.extend_from_slice(taken);
        }
    }
}

/// The header with which the bytes begin, held against the limits, and the bytes behind it; `None` if some of it is missing.
#[inline]
fn header_of<'a>(bytes: &'a [u8], limits: &FrameLimits) -> Result<Option<(Header, &'a [u8])>, FrameError> {
    match bytes.split_first_chunk() {
        Some((header, rest)) => Ok(Some((Header::decode(header, limits)?, rest))),
        None => Ok(None),
    }
}

/// The frame that begins with this header. `prefix` is its head and its table of lengths.
fn frame_of<P>(header: &Header, prefix: &[u8]) -> Result<OpenFrame<P>, FrameError> {
    let (head, table) = prefix
        .split_at_checked(header.head_bytes as usize)
        .unwrap_or((prefix, &[]));
    let mut lengths = Lengths::new();
    let mut sum = Some(0_u64);
    for length in table.chunks_exact(8).rev().map(word) {
        sum = sum.and_then(|sum| sum.checked_add(length));
        lengths.push(length);
    }
    if sum != Some(header.body_bytes) {
        return Err(FrameError::Parts {
            body: header.body_bytes,
        });
    }
    let frame = Frame {
        service: header.service,
        class: header.class,
        sequence: header.sequence,
        acknowledged: header.acknowledged,
        head: Head::from_slice(head),
        parts: Parts::new(),
    };
    Ok(OpenFrame {
        frame,
        missing: 0,
        lengths,
    })
}

/// Takes up to `most` bytes from the front of `input`.
#[inline]
fn take<'a>(input: &mut &'a [u8], most: usize) -> &'a [u8] {
    let (taken, rest) = input.split_at_checked(most).unwrap_or((input, &[]));
    *input = rest;
    taken
}

/// The bytes of memory that a vector takes beside the decoder.
fn held<A: Array>(vector: &SmallVec<A>) -> usize {
    match vector.spilled() {
        true => vector.capacity() * size_of::<A::Item>(),
        false => 0,
    }
}
