//! The functions that fuzz targets run, and, for a short time, every `cargo test`. Bytes of any content give frames, packets
//! and steps or one typed error, without a panic, and with memory in proportion to the bytes.

use std::collections::BTreeMap;
use std::time::Duration;

use crate::frame::{Class, Decoder, Frame, FrameLimits, Joiner, Parts, Service};
use crate::handshake::{Cookie, Handshake, Hello, Identity, Role};
use crate::peer::{Incarnation, Peer, ProcessId};
use crate::session::{Content, Packet, Session, SessionSettings};

const NOW: Duration = Duration::ZERO;

/// Lets the bytes be what a process sends at any stage of a link; the first byte chooses the stage.
pub fn peers(bytes: &[u8]) {
    let Some((stage, bytes)) = bytes.split_first() else {
        return;
    };
    match stage % 5 {
        0 => frames(bytes),
        1 => strangers(bytes),
        2 => hellos(bytes),
        3 => packets(bytes),
        _ => links(bytes),
    }
}

/// Decodes the bytes in pieces, whose lengths the first byte decides.
pub fn frames(bytes: &[u8]) {
    let Some((first, bytes)) = bytes.split_first() else {
        return;
    };
    let mut decoder = Decoder::<Vec<u8>>::new(FrameLimits::default());
    let mut fed = 0;
    for mut piece in bytes.chunks(usize::from(*first).max(1)) {
        fed += piece.len();
        while !piece.is_empty() {
            match decoder.decode(&mut piece) {
                Ok(frame) => assert!(frame.as_ref().is_none_or(is_within_limits)),
                Err(error) => {
                    assert_eq!(decoder.decode(&mut &bytes[..]), Err(error), "FRAME-2");
                    return;
                }
            }
        }
        assert!(decoder.held_bytes() <= 8 * fed + 1024, "FRAME-1");
    }
}

fn is_within_limits(frame: &Frame) -> bool {
    let (limits, body) = (
        FrameLimits::default(),
        frame.parts.iter().map(Vec::len).sum::<usize>(),
    );
    frame.head.len() <= limits.head_bytes_max as usize && body as u64 <= limits.body_bytes_max
}

/// Lets the bytes be what a peer sends to a session: a packet in each three bytes.
pub fn packets(bytes: &[u8]) {
    let mut receiver = Receiver::new();
    for packet in bytes.chunks_exact(3) {
        let [kind, sequence, acknowledged] = packet else {
            continue;
        };
        let sequence = u64::from(*sequence);
        let content = match kind % 4 {
            0 => Content::Loose(0),
            1 => Content::Acknowledgement,
            _ => Content::Ordered(sequence, sequence),
        };
        let acknowledged = u64::from(*acknowledged);
        let packet = Packet {
            acknowledged,
            content,
        };
        receiver.receive(packet, usize::from(*kind));
    }
}

/// Lets the bytes be what a peer sends after the handshake: frames for a session, among them the chunks of long messages.
pub fn links(bytes: &[u8]) {
    let (mut input, mut decoder) = (bytes, Decoder::<Vec<u8>>::new(FrameLimits::default()));
    let (mut joiner, mut receiver, sent) = (Joiner::new(LONG_MAX), Receiver::new(), bytes.len());
    while let Ok(Some(mut frame)) = decoder.decode_with(&mut input, |frame, bytes| {
        joiner.place(frame, bytes, |_, _, _| None)
    }) {
        let bytes = frame.head.len() + joiner.store(&mut frame);
        let (sequence, acknowledged) = (frame.sequence, frame.acknowledged);
        let content = match frame.class {
            Class::Ordered | Class::Chunk => Content::Ordered(sequence, sequence),
            Class::Loose => Content::Loose(0),
            Class::Acknowledgement => Content::Acknowledgement,
        };
        let packet = Packet {
            acknowledged,
            content,
        };
        receiver.chunks.insert(sequence, frame);
        for number in receiver.receive(packet, bytes) {
            let frame = receiver.chunks.remove(&number);
            let Some(chunk) = frame.filter(|frame| frame.class == Class::Chunk) else {
                joiner.delivered();
                continue;
            };
            match joiner.join(chunk.service, &chunk.head, &chunk.parts.concat()) {
                Ok(message) => assert!(message.is_none_or(|message| message.body.len() <= LONG_MAX)),
                Err(_) => return,
            }
        }
        assert!(joiner.held_bytes() <= 2 * LONG_MAX + sent, "FRAME-4");
    }
}

/// The longest body of a long message.
const LONG_MAX: usize = 1 << 10;

/// A session with a hostile peer, to which every sequence number is sent as the message.
struct Receiver {
    session: Session<u64>,
    delivered: u64,
    settings: SessionSettings,
    /// The frames of messages that are not delivered.
    chunks: BTreeMap<u64, Frame>,
}

impl Receiver {
    fn new() -> Self {
        let peer = |incarnation| Peer {
            process: ProcessId::HEAD,
            incarnation: Incarnation(incarnation),
        };
        let settings = SessionSettings {
            frames_max: 8,
            bytes_max: 64,
            ..SessionSettings::default()
        };
        let mut session = Session::new(peer(1), peer(2), settings);
        let _first = session.connected(NOW, peer(2));
        Receiver {
            session,
            delivered: 0,
            settings,
            chunks: BTreeMap::new(),
        }
    }

    /// Receives a packet. Returns the numbers of the messages that are delivered.
    fn receive(&mut self, packet: Packet<u64>, bytes: usize) -> Vec<u64> {
        let _own = self.session.send(NOW, 0, 1);
        let received = self.session.received(NOW, packet, bytes);
        let mut numbers = Vec::new();
        for number in received.map(|it| it.messages).unwrap_or_default() {
            if number > 0 {
                self.delivered += 1;
                assert_eq!(number, self.delivered, "SESSION-1");
                numbers.push(number);
            }
        }
        assert!(self.session.early_bytes() <= self.settings.bytes_max, "SESSION-6");
        numbers
    }
}

/// Lets the bytes be the head of the first frame that a stranger sends to a listener.
pub fn hellos(bytes: &[u8]) {
    let frame: Frame = Frame {
        service: Service::HANDSHAKE,
        class: Class::Ordered,
        sequence: 0,
        acknowledged: 0,
        head: bytes.into(),
        parts: Parts::new(),
    };
    if let Ok(prefix) = frame.prefix(&FrameLimits::default()) {
        strangers(&[prefix.clone(), prefix].concat());
    }
}

/// Lets the bytes be what a stranger sends to a listener.
pub fn strangers(bytes: &[u8]) {
    let hello = Hello {
        nonce: [1; 32],
        ..Hello::new("", "", 0, Role::Head)
    };
    let identity = Identity {
        hello,
        cookie: Cookie::new([2; 32]),
        binding: Vec::new(),
    };
    let mut handshake = Handshake::listen(NOW, identity);
    let mut input = bytes;
    while let Ok(step) = handshake.receive(NOW, &mut input) {
        let is_admitted = matches!(
            step,
            Some(crate::handshake::Step::Authenticated(_) | crate::handshake::Step::Welcomed(..))
        );
        assert!(!is_admitted, "HELLO-1: nobody can prove this cookie");
        if input.is_empty() {
            break;
        }
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    fn frame() -> impl Strategy<Value = Frame> {
        let bytes = || proptest::collection::vec(any::<u8>(), 0..40);
        let parts = proptest::collection::vec(bytes(), 0..4);
        let class = prop_oneof![
            Just(Class::Ordered),
            Just(Class::Loose),
            Just(Class::Acknowledgement),
            Just(Class::Chunk)
        ];
        let numbers = (any::<u16>(), any::<u64>(), any::<u64>());
        (class, numbers, bytes(), parts).prop_map(|(class, numbers, head, parts)| Frame {
            service: Service(numbers.0),
            class,
            sequence: numbers.1,
            acknowledged: numbers.2,
            head: head.into(),
            parts: parts.into(),
        })
    }

    fn encoded(frames: &[Frame]) -> Vec<u8> {
        let encode = |frame: &Frame| {
            let prefix = frame.prefix(&FrameLimits::default()).unwrap();
            [prefix, frame.parts.concat()].concat()
        };
        frames.iter().flat_map(encode).collect()
    }

    proptest! {
        /// FRAME-3.
        #[test]
        fn frames_arrive_as_they_were_however_they_are_cut(
            frames in proptest::collection::vec(frame(), 0..5), piece in 1_usize..50,
        ) {
            let (bytes, mut decoder, mut read) = (encoded(&frames), Decoder::<Vec<u8>>::new(FrameLimits::default()), Vec::new());
            for mut piece in bytes.chunks(piece) {
                while !piece.is_empty() {
                    read.extend(decoder.decode(&mut piece).unwrap());
                }
            }
            prop_assert_eq!(read, frames);
        }

        #[test]
        fn rser_10_mutated_frames_are_frames_or_an_error(
            original in frame(), at in any::<prop::sample::Index>(), byte in any::<u8>(), piece in any::<u8>(),
        ) {
            let mut bytes = encoded(&[original.clone(), original]);
            let length = bytes.len();
            bytes[at.index(length)] = byte;
            bytes.insert(0, piece);
            frames(&bytes);
            strangers(&bytes[1..]);
            links(&bytes[1..]);
        }

        #[test]
        fn rser_10_random_bytes_are_frames_packets_or_an_error(bytes in proptest::collection::vec(any::<u8>(), 0..600)) {
            frames(&bytes);
            packets(&bytes);
            strangers(&bytes);
            links(&bytes);
            peers(&bytes);
        }

        /// The decoder behind the frame: a handshake's frame with any head.
        #[test]
        fn a_stranger_with_any_hello_is_refused(head in proptest::collection::vec(any::<u8>(), 0..200)) {
            hellos(&head);
        }
    }

    #[test]
    fn a_claimed_length_takes_no_memory() {
        let mut header = encoded(&[]);
        let claim = crate::frame::Header {
            service: Service(9),
            class: Class::Loose,
            head_bytes: 1 << 20,
            parts: 4096,
            body_bytes: 64 << 20,
            sequence: 0,
            acknowledged: 0,
        };
        header.extend_from_slice(&claim.encode());
        let mut decoder = Decoder::<Vec<u8>>::new(FrameLimits::default());
        assert_eq!(decoder.decode(&mut &header[..]), Ok(None));
        assert!(decoder.held_bytes() <= 1024, "FRAME-1: {}", decoder.held_bytes());
    }
}
