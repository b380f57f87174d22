//! Letters as frames, and frames as packets of a session.

use std::collections::VecDeque;
use std::io::{ErrorKind, IoSlice};

use selvedge_cluster::frame::{Class, Frame, HEADER_BYTES, Head, Header, Service};
use selvedge_cluster::session::{Content, Packet};
use smallvec::SmallVec;

use super::link_end::LinkEnd;
use super::post::Letter;
use crate::body::{Body, BodyMemory};
use crate::platform::peer_socket::PeerSocket;

/// The bytes before the body that need no memory of their own: those of a call without references.
const PREFIX_BYTES: usize = 96;

/// The parts of frames in one vectored write.
const SLICES_MAX: usize = 32;

/// A frame on its way to the socket. The body is written from where it lies.
#[derive(Debug)]
pub(super) struct OutgoingFrame {
    pub(super) service: Service,
    /// Header, head, and the table of parts, and the body if it is a short one.
    prefix: SmallVec<[u8; PREFIX_BYTES]>,
    /// Any other body.
    body: Body,
    /// The bytes that are written already.
    written: usize,
    length: usize,
}

impl OutgoingFrame {
    pub(super) fn new(packet: Packet<Letter>) -> Self {
        let (class, sequence, letter) = match packet.content {
            Content::Ordered(sequence, letter) => (letter.class, sequence, Some(letter)),
            Content::Loose(letter) => (Class::Loose, 0, Some(letter)),
            Content::Acknowledgement => (Class::Acknowledgement, 0, None),
        };
        let (service, head, body) = match letter {
            Some(letter) => (letter.service, letter.head, letter.body),
            None => (Service::SESSION, Head::new(), Body::EMPTY),
        };
        let body_bytes = body.len();
        let header = Header {
            service,
            class,
            // Both lengths were held against the limits when the letter was sent.
            head_bytes: u32::try_from(head.len()).unwrap_or(u32::MAX),
            parts: u32::from(body_bytes > 0),
            body_bytes: body_bytes as u64,
            sequence,
            acknowledged: packet.acknowledged,
        };
        let table = header.body_bytes.to_le_bytes();
        let table = table.get(..8 * header.parts as usize).unwrap_or_default();
        let (short, long) = match body.is_shared() {
            true => (Body::EMPTY, body),
            false => (body, Body::EMPTY),
        };
        let short = short.segments().next().unwrap_or_default();
        let prefix = joined([&header.encode(), &head, table, short]);
        OutgoingFrame {
            service,
            length: prefix.len() + long.len(),
            prefix,
            body: long,
            written: 0,
        }
    }

    /// The length of the frame in bytes.
    pub(super) fn len(&self) -> usize {
        self.length
    }

    /// The body, of a frame that is not written any more.
    pub(super) fn into_body(self) -> Body {
        self.body
    }

    /// Calls `visit` with each stretch of the bytes that are not written yet.
    pub(super) fn rest<'a>(&'a self, mut visit: impl FnMut(&'a [u8])) {
        let mut skipped = self.written;
        let mut visit_rest = |part: &'a [u8]| match part.get(skipped..) {
            Some(rest) if !rest.is_empty() => {
                skipped = 0;
                visit(rest);
            }
            _ => skipped -= part.len(),
        };
        visit_rest(&self.prefix);
        self.body.segments().for_each(visit_rest);
    }

    /// Notes that up to `bytes` more bytes are written. Returns how many of them are of later frames.
    pub(super) fn advance(&mut self, bytes: usize) -> usize {
        let taken = bytes.min(self.len() - self.written);
        self.written += taken;
        bytes - taken
    }

    pub(super) fn is_written(&self) -> bool {
        self.written == self.len()
    }
}

/// The pieces of a prefix as one.
fn joined(pieces: [&[u8]; 4]) -> SmallVec<[u8; PREFIX_BYTES]> {
    if pieces.iter().map(|piece| piece.len()).sum::<usize>() > PREFIX_BYTES {
        return pieces.concat().into();
    }
    let mut joined = [0; PREFIX_BYTES];
    let mut length = 0;
    for piece in pieces {
        if let Some(place) = joined.get_mut(length..length + piece.len()) {
            place.copy_from_slice(piece);
        }
        length += piece.len();
    }
    SmallVec::from_buf_and_len(joined, length)
}

/// A frame that has arrived.
pub(super) struct ArrivedFrame {
    pub(super) packet: Packet<Letter>,
    pub(super) service: Service,
    /// The length of the frame in bytes.
    pub(super) bytes: usize,
}

impl ArrivedFrame {
    /// A frame whose parts had so many bytes, and which may be elsewhere already.
    pub(super) fn new(frame: Frame<BodyMemory>, body_bytes: usize) -> Self {
        let service = frame.service;
        let table = if body_bytes > 0 { 8 } else { 0 };
        let bytes = HEADER_BYTES + frame.head.len() + table + body_bytes;
        let body = frame.parts.into_iter().next().unwrap_or_default();
        let letter = Letter {
            service,
            class: frame.class,
            stream: 0,
            head: frame.head,
            body: body.into(),
        };
        let content = match frame.class {
            Class::Ordered | Class::Chunk => Content::Ordered(frame.sequence, letter),
            Class::Loose => Content::Loose(letter),
            Class::Acknowledgement => Content::Acknowledgement,
        };
        let packet = Packet {
            acknowledged: frame.acknowledged,
            content,
        };
        ArrivedFrame {
            packet,
            service,
            bytes,
        }
    }
}

/// Writes frames until the socket has no more room, and removes those that are written.
pub(super) fn write_frames(socket: &PeerSocket, frames: &mut VecDeque<OutgoingFrame>) -> Result<(), LinkEnd> {
    while !frames.is_empty() {
        let mut slices = SmallVec::<[IoSlice<'_>; SLICES_MAX]>::new();
        for frame in frames.iter().take(SLICES_MAX) {
            frame.rest(|part| {
                if slices.len() < SLICES_MAX {
                    slices.push(IoSlice::new(part));
                }
            });
        }
        let wrote = socket.try_write(&slices);
        drop(slices);
        let mut written = match wrote {
            Ok(written) => written,
            Err(error) if error.kind() == ErrorKind::WouldBlock => return Ok(()),
            Err(error) if error.kind() == ErrorKind::Interrupted => continue,
            Err(error) => return Err(error.into()),
        };
        while let Some(frame) = frames.front_mut() {
            written = frame.advance(written);
            if !frame.is_written() {
                break;
            }
            frames.pop_front();
        }
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;
    use selvedge_cluster::frame::{Decoder, FrameLimits};

    #[test]
    fn a_letter_arrives_as_it_was_sent_however_its_frame_is_cut() {
        for (head, body) in [("head", "a body"), ("", ""), ("head", ""), ("", "body")] {
            let letter = Letter {
                service: Service(16),
                class: Class::Ordered,
                stream: 0,
                head: head.as_bytes().into(),
                body: body.into(),
            };
            let packet = Packet {
                acknowledged: 3,
                content: Content::Ordered(7, letter),
            };
            let mut frame = OutgoingFrame::new(packet.clone());
            let mut decoder = Decoder::<BodyMemory>::new(FrameLimits::default());
            let mut arrived = None;
            let length = frame.len();
            while !frame.is_written() {
                let mut bytes = Vec::new();
                frame.rest(|part| bytes.extend_from_slice(part));
                let byte = bytes[0];
                assert_eq!(frame.advance(1), 0);
                arrived = decoder.decode(&mut &[byte][..]).unwrap();
            }
            assert_eq!(frame.advance(5), 5);
            let arrived = ArrivedFrame::new(arrived.unwrap(), body.len());
            assert_eq!(arrived.packet, packet);
            assert_eq!((arrived.service, arrived.bytes), (Service(16), length));
        }
    }
}
