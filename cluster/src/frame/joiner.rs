//! Long messages: a message whose body is longer than a frame travels in chunks.
//!
//! A chunk is a frame of class [`Chunk`](super::Class::Chunk), whose part is the next stretch of the body. The head of
//! the first chunk begins with the length of the whole body, a `u64`, and goes on with the head of the message; the other
//! chunks have no head. The chunks of a message follow each other, and frames of other classes may lie between them. The
//! message is complete, and takes its place in the order, with its last byte.
//!
//! A link has one unfinished message at a time, so a peer can have memory reserved for one body, of a length within the
//! limit (`FRAME-4`). A chunk that comes in its turn is read into that memory straight away.

use super::header::word;
use super::{Class, Frame, FrameError, PartMemory, Service};

/// The bytes before the message's head in the head of a first chunk.
pub const CHUNK_HEAD_BYTES: usize = 8;

/// A long message that is complete.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct LongMessage<P> {
    /// The service that the message is for.
    pub service: Service,
    /// The encoded part.
    pub head: Vec<u8>,
    /// The body.
    pub body: P,
}

/// Puts the chunks of long messages together.
#[derive(Debug)]
pub struct Joiner<P> {
    body_bytes_max: usize,
    /// The sequence number of the next message in order.
    next: u64,
    begun: Option<Begun<P>>,
    /// The length of the chunk that is read into the memory of its message, until it is joined.
    placed: Option<usize>,
}

#[derive(Debug)]
struct Begun<P> {
    service: Service,
    head: Vec<u8>,
    /// The body so far; `None` while a frame is read into it.
    body: Option<P>,
    /// The length of the whole body, and of what has come of it.
    total: usize,
    joined: usize,
    /// Whether the first chunk was delivered.
    is_delivered: bool,
}

impl<P: PartMemory> Joiner<P> {
    /// A joiner for a link on which nothing was delivered yet, and for bodies of at most so many bytes.
    pub fn new(body_bytes_max: usize) -> Self {
        Joiner {
            body_bytes_max,
            next: 1,
            begun: None,
            placed: None,
        }
    }

    /// The memory for a part of this length, for [`Decoder::decode_with`](super::Decoder::decode_with).
    ///
    /// If the frame begins a message in its turn, `lend` is asked for the memory of the whole body: it gets the service and the head of
    /// the message, and the length of the body. What it lends is empty and has room for so many bytes. If the stream ends before
    /// the frame does, it is asked once more for the same message.
    ///
    /// # Errors
    /// [`FrameError::Chunk`], [`FrameError::MessageTooLong`], [`FrameError::NoMemory`].
    pub fn place(
        &mut self,
        frame: &Frame<P>,
        bytes: usize,
        lend: impl FnOnce(Service, &[u8], usize) -> Option<P>,
    ) -> Result<P, FrameError> {
        if frame.class != Class::Chunk || frame.sequence != self.next {
            return P::announced(bytes).ok_or(FrameError::NoMemory { bytes });
        }
        let begun = self.message(frame.service, &frame.head, bytes, lend)?;
        let body = begun.body.take().ok_or(FrameError::Chunk("has several parts"))?;
        self.placed = Some(bytes);
        Ok(body)
    }

    /// Takes a part that was read into the memory of its message out of its frame. Returns the length of the frame's parts.
    pub fn store(&mut self, frame: &mut Frame<P>) -> usize {
        match (self.placed, &mut self.begun) {
            (Some(bytes), Some(begun)) if begun.body.is_none() => {
                begun.body = frame.parts.pop();
                begun.joined += bytes;
                bytes
            }
            _ => frame.parts.iter().map(P::len).sum(),
        }
    }

    /// A message that is no chunk was delivered in its order.
    pub fn delivered(&mut self) {
        self.next = self.next.saturating_add(1);
    }

    /// A chunk was delivered in its order, whose head and body are given as far as they were not
    /// [stored](Self::store). Returns the message if this was its last chunk.
    ///
    /// # Errors
    /// Those of [`place`](Self::place).
    pub fn join(
        &mut self,
        service: Service,
        head: &[u8],
        body: &[u8],
    ) -> Result<Option<LongMessage<P>>, FrameError> {
        self.delivered();
        let placed = self.placed.take();
        let begun = match (placed, &mut self.begun) {
            (Some(_), Some(begun)) => begun,
            _ => {
                let begun = self.message(service, head, body.len(), |_, _, _| None)?;
                begun.body.iter_mut().for_each(|so_far| so_far.put(body));
                begun.joined += body.len();
                begun
            }
        };
        begun.is_delivered = true;
        if begun.joined < begun.total {
            return Ok(None);
        }
        Ok(self.begun.take().and_then(Begun::complete))
    }

    /// The stream has ended, perhaps within a frame. The stream that follows begins with that frame or an earlier one. `part` is
    /// the memory of the part that was being read, of which the decoder was asked by [`Decoder::into_part`](super::Decoder::into_part).
    pub fn interrupted(&mut self, part: Option<P>) {
        self.placed = None;
        let Some(begun) = self.begun.as_mut().filter(|begun| begun.is_delivered) else {
            // The first chunk comes again.
            self.begun = None;
            return;
        };
        if let (None, Some(mut part)) = (&begun.body, part) {
            part.truncate(begun.joined);
            begun.body = Some(part);
        }
    }

    /// The number of bytes of memory that the unfinished message takes.
    pub fn held_bytes(&self) -> usize {
        self.begun.as_ref().map_or(0, |begun| {
            begun.head.capacity() + begun.body.as_ref().map_or(0, P::held_bytes)
        })
    }

    /// The message of a chunk with this head and so many bytes, which begins here if there is a head.
    fn message(
        &mut self,
        service: Service,
        head: &[u8],
        bytes: usize,
        lend: impl FnOnce(Service, &[u8], usize) -> Option<P>,
    ) -> Result<&mut Begun<P>, FrameError> {
        if !head.is_empty() {
            if self.begun.is_some() {
                return Err(FrameError::Chunk(
                    "begins a message, and the one before is not complete",
                ));
            }
            self.begun = Some(Begun::of(service, head, self.body_bytes_max, lend)?);
        }
        let Some(begun) = &mut self.begun else {
            return Err(FrameError::Chunk("belongs to no message"));
        };
        if bytes > begun.total - begun.joined {
            return Err(FrameError::Chunk("is longer than its message"));
        }
        if service != begun.service {
            return Err(FrameError::Chunk("is for another service than its message"));
        }
        Ok(begun)
    }
}

impl<P: PartMemory> Begun<P> {
    fn of(
        service: Service,
        head: &[u8],
        limit: usize,
        lend: impl FnOnce(Service, &[u8], usize) -> Option<P>,
    ) -> Result<Self, FrameError> {
        let Some((total, head)) = head.split_at_checked(CHUNK_HEAD_BYTES) else {
            return Err(FrameError::Chunk("has too short a head"));
        };
        let bytes = word(total);
        let total = usize::try_from(bytes).ok().filter(|total| *total <= limit);
        let limit = limit as u64;
        let total = total.ok_or(FrameError::MessageTooLong { bytes, limit })?;
        let body = lend(service, head, total).or_else(|| P::announced(total));
        let body = body.ok_or(FrameError::NoMemory { bytes: total })?;
        Ok(Begun {
            service,
            head: head.to_vec(),
            body: Some(body),
            total,
            joined: 0,
            is_delivered: false,
        })
    }

    fn complete(self) -> Option<LongMessage<P>> {
        let (service, head) = (self.service, self.head);
        self.body.map(|body| LongMessage { service, head, body })
    }
}

/// The head of the first chunk of a message with this head, and with a body of so many bytes.
pub fn chunk_head(body_bytes: usize, head: &[u8]) -> Vec<u8> {
    [&(body_bytes as u64).to_le_bytes(), head].concat()
}

#[cfg(test)]
mod tests {
    use super::super::{Decoder, FrameLimits};
    use super::*;

    const SERVICE: Service = Service(16);

    fn chunk(sequence: u64, head: Vec<u8>, body: &[u8]) -> Frame<Vec<u8>> {
        Frame {
            service: SERVICE,
            class: Class::Chunk,
            sequence,
            acknowledged: 0,
            head: head.into(),
            parts: [body.to_vec()].into(),
        }
    }

    /// Reads a frame into the joiner's memory, and joins it as if it were delivered.
    fn arrive(
        joiner: &mut Joiner<Vec<u8>>,
        frame: &Frame<Vec<u8>>,
    ) -> Result<Option<LongMessage<Vec<u8>>>, FrameError> {
        let mut bytes = frame.prefix(&FrameLimits::default())?;
        bytes.extend(frame.parts.concat());
        let mut decoder = Decoder::new(FrameLimits::default());
        let mut read = decoder
            .decode_with(&mut &bytes[..], |frame, bytes| {
                joiner.place(frame, bytes, |_, _, _| None)
            })?
            .unwrap();
        assert_eq!(joiner.store(&mut read), frame.parts.concat().len());
        joiner.join(read.service, &read.head, &read.parts.concat())
    }

    #[test]
    fn chunks_become_a_message_in_place_and_out_of_their_turn() {
        for sequences in [[1, 2, 3], [1, 9, 3], [7, 8, 9]] {
            let mut joiner = Joiner::new(6);
            let [one, two, three] = sequences;
            let first = chunk(one, chunk_head(6, b"head"), b"ab");
            assert_eq!(arrive(&mut joiner, &first), Ok(None));
            assert_eq!(arrive(&mut joiner, &chunk(two, Vec::new(), b"")), Ok(None));
            let whole = arrive(&mut joiner, &chunk(three, Vec::new(), b"cdef")).unwrap();
            let (service, head, body) = (SERVICE, b"head".to_vec(), b"abcdef".to_vec());
            assert_eq!(whole, Some(LongMessage { service, head, body }));
            assert_eq!(joiner.held_bytes(), 0);
        }
    }

    #[test]
    fn a_message_goes_on_after_a_stream_that_ended_anywhere() {
        let frames = [
            chunk(1, chunk_head(6, b"head"), b"ab"),
            chunk(2, Vec::new(), b"cd"),
            chunk(3, Vec::new(), b"ef"),
        ];
        let bytes = |frame: &Frame<Vec<u8>>| {
            [
                frame.prefix(&FrameLimits::default()).unwrap(),
                frame.parts.concat(),
            ]
            .concat()
        };
        let whole: Vec<u8> = frames.iter().flat_map(bytes).collect();
        for end in 0..=whole.len() {
            let mut joiner = Joiner::new(6);
            let (mut delivered, mut messages) = (0, Vec::new());
            let mut lent = Vec::new();
            let mut lend = |service, head: &[u8], total| {
                assert_eq!((service, head), (SERVICE, &b"head"[..]));
                let memory = Vec::with_capacity(total);
                lent.push(memory.as_ptr());
                Some(memory)
            };
            // The first stream ends there; the second one begins with what was not delivered.
            for stream in [&whole[..end], &whole[..]] {
                let mut decoder = Decoder::new(FrameLimits::default());
                let mut rest = stream;
                loop {
                    let place = |frame: &Frame<Vec<u8>>, bytes| joiner.place(frame, bytes, &mut lend);
                    let Some(mut frame) = decoder.decode_with(&mut rest, place).unwrap() else {
                        break;
                    };
                    joiner.store(&mut frame);
                    if frame.sequence <= delivered {
                        continue;
                    }
                    delivered = frame.sequence;
                    messages.extend(joiner.join(SERVICE, &frame.head, &frame.parts.concat()).unwrap());
                }
                joiner.interrupted(decoder.into_part());
            }
            let bodies: Vec<_> = messages.into_iter().map(|message| message.body).collect();
            assert_eq!(
                bodies,
                [b"abcdef".to_vec()],
                "the first stream ends after {end} bytes"
            );
            // What was lent first comes back if the stream ends before the first chunk does.
            assert!(lent.len() <= 2 && lent.last() == Some(&bodies[0].as_ptr()));
        }
    }

    #[test]
    fn chunks_that_make_no_message_are_errors() {
        let arrived = |frames: &[Frame<Vec<u8>>]| {
            let mut joiner = Joiner::new(6);
            frames
                .iter()
                .try_for_each(|frame| arrive(&mut joiner, frame).map(drop))
        };
        // In their turn, and out of it.
        for at in [1, 5] {
            let begin = |total| chunk(at, chunk_head(total, b""), b"ab");
            let next = |body: &[u8]| chunk(at + 1, Vec::new(), body);
            let cases = [
                (
                    vec![begin(6), next(b"cd"), next(b"efg")],
                    "is longer than its message",
                ),
                (vec![next(b"ab")], "belongs to no message"),
                (vec![chunk(at, vec![1; 7], b"")], "has too short a head"),
                (
                    vec![begin(6), chunk(at + 1, chunk_head(6, b""), b"")],
                    "begins a message, and the one before is not complete",
                ),
            ];
            for (frames, why) in cases {
                assert_eq!(arrived(&frames), Err(FrameError::Chunk(why)));
            }
            let (bytes, limit) = (7, 6);
            assert_eq!(
                arrived(&[begin(7)]),
                Err(FrameError::MessageTooLong { bytes, limit })
            );
            let other = Frame {
                service: Service(17),
                ..next(b"")
            };
            let why = "is for another service than its message";
            assert_eq!(arrived(&[begin(6), other]), Err(FrameError::Chunk(why)));
        }
    }
}
