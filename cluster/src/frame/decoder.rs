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
    /// The section that is being read.
    section: Section<P>,
    /// The bytes of the header or the table so far.
    bytes: SmallVec<[u8; HEADER_BYTES]>,
    /// The frame so far.
    frame: Option<Frame<P>>,
    /// The error that ended the stream.
    failed: Option<FrameError>,
}

/// The lengths of parts, the last part first. Most frames have one.
type Lengths = SmallVec<[u64; 2]>;

/// The part of a frame that is being read, with its length where the header has told it.
#[derive(Debug)]
enum Section<P> {
    Header,
    /// With the bytes of the head so far.
    Head(Header, Head),
    Table(Header),
    /// Lengths of the parts that have not begun.
    Parts(Lengths),
    /// The part that is being read, the number of bytes that it lacks, and the lengths of those behind it.
    Part(P, usize, Lengths),
}

impl<P: PartMemory> Decoder<P> {
    /// A decoder at the beginning of a stream.
    pub fn new(limits: FrameLimits) -> Self {
        Decoder {
            limits,
            section: Section::Header,
            bytes: SmallVec::new(),
            frame: None,
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
        let result = self.advance(input, place);
        self.failed = result.as_ref().err().copied();
        result
    }

    /// The memory of the part that is being read, and the number of bytes that it lacks. Whoever has these bytes may put
    /// them there, and report them to [`filled`](Self::filled), instead of passing them to [`decode`](Self::decode).
    pub fn part(&mut self) -> Option<(&mut P, usize)> {
        match &mut self.section {
            Section::Part(part, missing, _) => Some((part, *missing)),
            _ => None,
        }
    }

    /// Notes that so many bytes were put into the [`part`](Self::part).
    pub fn filled(&mut self, bytes: usize) {
        if let Section::Part(_, missing, _) = &mut self.section {
            *missing = missing.saturating_sub(bytes);
        }
    }

    /// Ends the decoding. Returns the memory of the part that was being read.
    pub fn into_part(self) -> Option<P> {
        match self.section {
            Section::Part(part, ..) => Some(part),
            _ => None,
        }
    }

    /// The number of bytes of memory that the unfinished frame takes.
    pub fn held_bytes(&self) -> usize {
        let frame = self.frame.as_ref().map_or(0, |frame| {
            let parts: usize = frame.parts.iter().map(P::held_bytes).sum();
            held(&frame.head) + parts + held(&frame.parts)
        });
        let parts = match &self.section {
            Section::Parts(lengths) => held(lengths),
            Section::Part(part, _, lengths) => part.held_bytes() + held(lengths),
            Section::Head(_, head) => held(head),
            Section::Header | Section::Table(_) => 0,
        };
        held(&self.bytes) + frame + parts
    }

    fn advance(
        &mut self,
        input: &mut &[u8],
        mut place: impl FnMut(&Frame<P>, usize) -> Result<P, FrameError>,
    ) -> Result<Option<Frame<P>>, FrameError> {
        loop {
            if !self.fill(input) {
                return Ok(None);
            }
            self.section = match std::mem::replace(&mut self.section, Section::Header) {
                Section::Header => Section::Head(self.header()?, Head::new()),
                Section::Head(header, head) => {
                    if let Some(frame) = &mut self.frame {
                        frame.head = head;
                    }
                    Section::Table(header)
                }
                Section::Table(header) => {
                    let lengths = table(&header, &self.bytes)?;
                    self.bytes.clear();
                    Section::Parts(lengths)
                }
                Section::Part(part, _, lengths) => {
                    if let Some(frame) = &mut self.frame {
                        frame.parts.push(part);
                    }
                    Section::Parts(lengths)
                }
                Section::Parts(mut lengths) => match (lengths.pop(), &self.frame) {
                    (Some(length), Some(frame)) => {
                        let bytes = usize::try_from(length).unwrap_or(usize::MAX);
                        Section::Part(place(frame, bytes)?, bytes, lengths)
                    }
                    _ => return Ok(self.frame.take()),
                },
            };
        }
    }

    /// Reads the header, with which a frame begins.
    fn header(&mut self) -> Result<Header, FrameError> {
        let whole = self.bytes.first_chunk().copied().unwrap_or([0; HEADER_BYTES]);
        self.bytes.clear();
        let header = Header::decode(&whole, &self.limits)?;
        self.frame = Some(Frame {
            service: header.service,
            class: header.class,
            sequence: header.sequence,
            acknowledged: header.acknowledged,
            head: Head::new(),
            parts: Parts::new(),
        });
        Ok(header)
    }

    /// Takes bytes of the section that is being read. Returns whether the section is complete.
    fn fill(&mut self, input: &mut &[u8]) -> bool {
        match &mut self.section {
            Section::Header => gather(&mut self.bytes, HEADER_BYTES, input),
            Section::Head(header, head) => gather(head, header.head_bytes as usize, input),
            Section::Table(header) => gather(&mut self.bytes, 8 * header.parts as usize, input),
            Section::Parts(_) => true,
            Section::Part(part, missing, _) => {
                let taken = take(input, *missing);
                part.put(taken);
                *missing -= taken.len();
                *missing == 0
            }
        }
    }
}

/// Takes bytes until there are `length`; returns whether there are.
fn gather<A: Array<Item = u8>>(bytes: &mut SmallVec<A>, length: usize, input: &mut &[u8]) -> bool {
    let taken = take(input, length - bytes.len());
    match bytes.is_empty() {
        // Mostly the section is there as a whole.
        true => *bytes = SmallVec::from_slice(taken),
        false => bytes.extend_from_slice(taken),
    }
    bytes.len() == length
}

/// Takes up to `most` bytes from the front of `input`.
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

/// The lengths of the parts.
fn table(header: &Header, bytes: &[u8]) -> Result<Lengths, FrameError> {
    let mut lengths: Lengths = bytes.chunks_exact(8).map(word).collect();
    let add = |sum: u64, length: &u64| sum.checked_add(*length);
    if lengths.iter().try_fold(0, add) != Some(header.body_bytes) {
        return Err(FrameError::Parts {
            body: header.body_bytes,
        });
    }
    lengths.reverse();
    Ok(lengths)
}
