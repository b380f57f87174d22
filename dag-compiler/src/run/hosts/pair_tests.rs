//! Both ends of a shuttle against an oracle, with letters that wait as long as they like, and ends of processes that are not
//! honest.
#![allow(
    clippy::unwrap_used,
    clippy::indexing_slicing,
    clippy::panic,
    reason = "a test may panic"
)]

use std::collections::VecDeque;
use std::sync::atomic::Ordering;

use bytes::Bytes;
use proptest::prelude::*;
use selvedge_channels::payload::encode;
use selvedge_channels::{
    Bypass, ChannelError, DType, Doorbell, Fault, FaultKind, Provider, SEGMENT_HEADER_BYTES, Segment,
    SharedReader, SharedSpec, SharedWriter, Tensor, format,
};
use selvedge_core::{LentMemory, ProcessId};

use super::incoming::{Flushed, Incoming, IncomingError};
use super::lent::Told;
use super::outgoing::{Outgoing, OutgoingError, SentMessage};
use super::word::{MessageKind, Word};
use crate::ir::{ChannelId, ShuttlePlan};
use crate::run::control::region;
use crate::run::layout::Span;

const SLOTS: u32 = 3;
const BYTES_MAX: usize = 2 << 20;
const NEAR: ProcessId = ProcessId(1);
const FAR: ProcessId = ProcessId(2);

fn shuttle() -> ShuttlePlan {
    ShuttlePlan {
        mirror: ChannelId(1),
        source: ChannelId(0),
        reader: 0,
        from: NEAR,
        to: FAR,
    }
}

/// The ends of a channel with one reader.
fn channel() -> (SharedWriter, SharedReader) {
    let spec = SharedSpec {
        slots: SLOTS,
        slot_bytes: 1000,
        readers: 1,
        max_bytes: BYTES_MAX as u64,
    };
    let len = spec.size_bytes().unwrap();
    let provider = if cfg!(miri) {
        Provider::Heap
    } else {
        Provider::Memfd
    };
    let segment = Segment::create(provider, SEGMENT_HEADER_BYTES + len).unwrap();
    let span = Span {
        offset: SEGMENT_HEADER_BYTES,
        len,
    };
    let region = region(&segment, span).unwrap();
    format(&region, &spec).unwrap();
    let bell = Doorbell::heap();
    let writer = SharedWriter::attach(region.clone(), &spec, vec![bell.clone()]).unwrap();
    (writer, SharedReader::attach(region, &spec, 0, bell).unwrap())
}

/// The body of a letter that was received into its slot.
struct ArrivedSlot(Box<dyn LentMemory>);

impl AsRef<[u8]> for ArrivedSlot {
    fn as_ref(&self) -> &[u8] {
        self.0.bytes()
    }
}

/// A shuttle between two channels, and the letters that are on their way.
struct Pair {
    writer: SharedWriter,
    outgoing: Outgoing,
    letters: VecDeque<(u64, MessageKind, Bytes)>,
    incoming: Incoming,
    told: VecDeque<u64>,
    reader: SharedReader,
}

#[derive(Clone, Debug)]
enum ShuttleStep {
    Write(usize),
    Send,
    /// The next letter arrives. Its connection breaks so often before, of a long message that would be received into its slot.
    Arrive(usize),
    Told,
    Read,
}

fn steps() -> impl Strategy<Value = Vec<ShuttleStep>> {
    let step = prop_oneof![
        (0usize..3).prop_map(|size| ShuttleStep::Write([4, 500, 70_000][size])),
        Just(ShuttleStep::Send),
        (0usize..3).prop_map(ShuttleStep::Arrive),
        Just(ShuttleStep::Told),
        Just(ShuttleStep::Read),
    ];
    proptest::collection::vec(step, 0..200)
}

impl Pair {
    fn new() -> Self {
        let (writer, reader) = channel();
        let outgoing = Outgoing::new(shuttle(), reader, SLOTS, Told::Bell(Doorbell::heap()), None);
        let (far, reader) = channel();
        Pair {
            writer,
            outgoing,
            letters: VecDeque::new(),
            incoming: Incoming::new(&shuttle(), far),
            told: VecDeque::new(),
            reader,
        }
    }

    /// Writes message `number`: every fifth one is a failure, every seventh a tombstone.
    fn write(&mut self, number: u64, bytes: usize) -> bool {
        let mut value = number.to_le_bytes().to_vec();
        value.resize(bytes.max(8), 0);
        let written = match (number % 5, number % 7) {
            (4, _) => self.writer.try_write_fault(&Fault::failed(value, None)),
            (_, 6) => self.writer.try_write_fault(&Fault::cancelled()),
            _ => self.writer.try_write_bytes(&value),
        };
        written.unwrap()
    }

    /// Sends one message; returns whether it did.
    fn send(&mut self) -> bool {
        self.outgoing.settle().unwrap();
        let letters = &mut self.letters;
        let sent = self.outgoing.send((usize::MAX, usize::MAX), |to, word, body| {
            assert_eq!(to, FAR);
            let Word::Message { number, kind, .. } = word else {
                panic!("no message")
            };
            letters.push_back((*number, *kind, body.into_bytes()));
            Ok(())
        });
        matches!(sent.unwrap(), SentMessage::Counted(_))
    }

    fn arrive(&mut self, breaks: usize) -> bool {
        let Some((number, kind, mut body)) = self.letters.pop_front() else {
            return false;
        };
        if kind == MessageKind::Value && body.len() > 1000 {
            for attempt in 0..=breaks {
                if let Some(mut slot) = self.incoming.lend(NEAR, number, body.len()) {
                    slot.bytes_mut().copy_from_slice(&body);
                    if attempt == breaks {
                        body = Bytes::from_owner(ArrivedSlot(slot));
                    }
                }
            }
        }
        self.incoming.take(NEAR, number, kind, body).unwrap();
        self.flush();
        true
    }

    fn flush(&mut self) {
        self.told.extend(self.incoming.flush().unwrap().taken);
    }

    fn hear(&mut self) -> bool {
        let told = self.told.pop_front();
        if let Some(messages) = told {
            self.outgoing.taken().fetch_max(messages, Ordering::Relaxed);
        }
        told.is_some()
    }

    /// Reads message `number`, if it is there.
    fn read(&mut self, number: u64) -> bool {
        let Some(message) = self.reader.current().unwrap() else {
            return false;
        };
        let first = |bytes: &[u8]| u64::from_le_bytes(bytes[..8].try_into().unwrap());
        match (message, number % 5, number % 7) {
            (Err(fault), 4, _) => {
                assert_eq!((fault.kind(), first(fault.report())), (FaultKind::Failed, number))
            }
            (Err(fault), _, 6) => assert_eq!(fault.kind(), FaultKind::Cancelled),
            (Ok(bytes), ..) => assert_eq!(first(bytes), number),
            (Err(fault), ..) => panic!("message {number} is {fault:?}"),
        }
        self.reader.release().unwrap();
        self.flush();
        true
    }
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(if cfg!(miri) { 2 } else { 256 }))]

    /// `JOINT-1`, `JOINT-2`: messages arrive in order, once each, and all of them.
    #[test]
    fn chan_11_a_shuttle_is_a_bounded_queue(steps in steps()) {
        let mut pair = Pair::new();
        let (mut written, mut read) = (0, 0);
        for step in steps {
            match step {
                ShuttleStep::Write(bytes) => written += u64::from(pair.write(written, bytes)),
                ShuttleStep::Send => drop(pair.send()),
                ShuttleStep::Arrive(breaks) => drop(pair.arrive(breaks)),
                ShuttleStep::Told => drop(pair.hear()),
                ShuttleStep::Read => read += u64::from(pair.read(read)),
            }
            prop_assert!(pair.letters.len() <= SLOTS as usize);
            prop_assert!(read <= written && written - read <= 4 * u64::from(SLOTS));
        }
        // Whatever has happened, what moves goes on until all is read.
        while pair.hear() || pair.send() || pair.arrive(0) || pair.read(read) && { read += 1; true } {}
        prop_assert_eq!(read, written);
    }
}

#[test]
fn a_long_tensor_is_sent_from_where_it_lies_and_in_its_order() {
    let (mut writer, reader) = channel();
    let bypass = Bypass::default();
    writer.take_bypass(bypass.clone());
    let told = Told::Bell(Doorbell::heap());
    let mut outgoing = Outgoing::new(shuttle(), reader, SLOTS, told, Some(bypass.clone()));
    let tensor = |bytes: usize| Tensor::from_raw(DType::U8, &[bytes], &vec![7; bytes]).unwrap();
    let mut send = |most| {
        let mut letters = Vec::new();
        let sent = outgoing.send((usize::MAX, most), |_, _, body| {
            letters.push(body.into_bytes());
            Ok(())
        });
        (sent.unwrap(), letters)
    };
    let (short, long) = (tensor(20_000), tensor(600_000));
    let (value, too_long) = ((long.clone(), short.clone(), long.clone()), vec![long.clone(); 4]);
    assert!(matches!(
        writer.try_write(&too_long),
        Err(ChannelError::TooLarge { .. })
    ));
    assert!(writer.try_write(&7_u64).unwrap() && writer.try_write(&value).unwrap());
    assert!(writer.try_write_fault(&Fault::cancelled()).unwrap());
    assert!(!writer.try_write(&short).unwrap(), "a bypass has no more slots");
    assert_eq!(send(usize::MAX).1, [encode(&7_u64).unwrap().to_vec()]);
    assert_eq!(send(1000).0, SentMessage::TooLong);
    assert_eq!(send(usize::MAX).1, [encode(&value).unwrap().to_vec()]);
    assert_eq!(send(usize::MAX).1, [&b""[..]]);
    assert!(
        bypass.take(u64::MAX).is_none(),
        "nothing is kept of what was refused or sent"
    );
    assert!(writer.try_write(&value).unwrap());
    let segments = bypass.take(3).unwrap();
    let mut places = segments.iter().map(|segment| segment.as_ref().as_ptr());
    assert!(places.any(|place| place == long.bytes().as_ptr()));
    assert!(writer.try_write(&value).unwrap());
    outgoing.end();
    assert!(bypass.take(4).is_none(), "a graph that has ended keeps no values");
    assert!(writer.try_write(&value).unwrap());
    assert!(bypass.take(5).is_none());
}

#[test]
fn messages_that_no_honest_process_sends_are_errors() {
    let pair = Pair::new();
    let take = |from, number| {
        let taken = pair
            .incoming
            .take(from, number, MessageKind::Value, Bytes::from_static(b"value"));
        taken.map_err(|error| error.to_string())
    };
    take(NEAR, 0).unwrap();
    assert!(take(FAR, 1).unwrap_err().contains("writer's process"));
    assert!(
        take(NEAR, 0)
            .unwrap_err()
            .contains("message 0 came in the place of message 1")
    );
    assert!(take(NEAR, 2).unwrap_err().contains("message 2"));
    take(NEAR, 1).unwrap();
    take(NEAR, 2).unwrap();
    assert!(take(NEAR, 3).unwrap_err().contains("more messages"));
    let too_long = Bytes::from(vec![0; BYTES_MAX + 1]);
    let other = Pair::new();
    other
        .incoming
        .take(NEAR, 0, MessageKind::Value, too_long)
        .unwrap();
    assert!(matches!(other.incoming.flush(), Err(IncomingError::Mirror(_))));
}

#[test]
fn chan_11_a_slot_is_lent_for_the_next_message_of_the_writer_alone_and_filled_once() {
    let mut pair = Pair::new();
    let bytes = 70_000;
    assert!(pair.incoming.lend(FAR, 0, bytes).is_none());
    assert!(pair.incoming.lend(NEAR, 1, bytes).is_none());
    assert!(pair.incoming.lend(NEAR, 0, BYTES_MAX + 1).is_none(), "too long");
    let mut slot = pair.incoming.lend(NEAR, 0, bytes).unwrap();
    slot.bytes_mut().fill(7);
    // A process that is not honest sends the message a second time, beside the one that is on its way.
    let take = |body| pair.incoming.take(NEAR, 0, MessageKind::Value, body);
    assert!(!take(Bytes::from_static(b"short")).unwrap());
    assert_eq!(
        pair.incoming.flush().unwrap(),
        Flushed {
            waits: true,
            ..Flushed::default()
        }
    );
    let twice = take(Bytes::from_owner(ArrivedSlot(slot)));
    assert!(matches!(
        twice,
        Err(IncomingError::OutOfSequence {
            found: 0,
            expected: 1
        })
    ));
    assert!(pair.incoming.flush().unwrap().moved);
    assert_eq!(pair.reader.current().unwrap().unwrap().unwrap(), b"short");
    pair.reader.release().unwrap();
    // Nothing of the slot was published, and the next message gets it.
    let mut slot = pair.incoming.lend(NEAR, 1, bytes).unwrap();
    slot.bytes_mut().fill(8);
    assert!(pair.reader.current().unwrap().is_none());
    let body = Bytes::from_owner(ArrivedSlot(slot));
    assert!(pair.incoming.take(NEAR, 1, MessageKind::Value, body).unwrap());
    assert_eq!(pair.incoming.flush().unwrap().taken, Some(2));
    let message = pair.reader.current().unwrap().unwrap().unwrap();
    assert!(message.len() == bytes && message.iter().all(|byte| *byte == 8));
}

#[test]
fn a_far_end_that_has_more_than_was_sent_is_an_error() {
    let mut pair = Pair::new();
    assert!(pair.write(0, 4) && pair.send());
    pair.outgoing.taken().store(2, Ordering::Relaxed);
    assert!(matches!(
        pair.outgoing.settle(),
        Err(OutgoingError::TakenTooMany { taken: 2, sent: 1 })
    ));
}
