//! Tests of byte rings.

use std::io::IoSlice;
use std::sync::atomic::Ordering;

use proptest::prelude::*;

use super::*;
use crate::memory::segment::{Provider, SEGMENT_HEADER_BYTES, Segment};

const CAPACITY: usize = 64;

fn region(capacity: usize) -> Region {
    let len = BYTE_RING_HEADER + capacity;
    let segment = Segment::create(Provider::Heap, SEGMENT_HEADER_BYTES + len).unwrap();
    segment.part(SEGMENT_HEADER_BYTES, len).unwrap()
}

fn ring() -> (ByteWriter, ByteReader) {
    ring_of(CAPACITY)
}

fn ring_of(capacity: usize) -> (ByteWriter, ByteReader) {
    let region = region(capacity);
    let reader = ByteReader::attach(region.clone()).unwrap();
    (ByteWriter::attach(region).unwrap(), reader)
}

fn write(writer: &mut ByteWriter, bytes: &[u8]) -> usize {
    writer.write(&[IoSlice::new(bytes)]).unwrap()
}

fn read(reader: &mut ByteReader, most: usize) -> Vec<u8> {
    let mut into = Vec::with_capacity(most);
    let count = reader.read(&mut into, most).unwrap();
    assert_eq!(count, into.len());
    into
}

#[test]
fn a_ring_takes_as_much_as_it_holds_and_gives_it_back_in_order() {
    let (mut writer, mut reader) = ring();
    assert!(read(&mut reader, 10).is_empty());
    let bytes: Vec<u8> = (0..100).collect();
    let slices = [
        IoSlice::new(&bytes[..30]),
        IoSlice::new(&[]),
        IoSlice::new(&bytes[30..]),
    ];
    assert_eq!(writer.write(&slices).unwrap(), CAPACITY);
    assert_eq!(write(&mut writer, &bytes), 0);
    assert_eq!(read(&mut reader, 10), bytes[..10]);
    assert_eq!(write(&mut writer, &bytes[64..]), 10);
    assert_eq!(read(&mut reader, 1000), bytes[10..74]);
    assert!(!reader.has_bytes());
}

#[test]
fn what_is_longer_than_a_published_piece_comes_out_as_it_went_in() {
    let capacity = 2 * PUBLISHED_BYTES;
    let (mut writer, mut reader) = ring_of(capacity);
    let bytes: Vec<u8> = (0..3 * capacity).map(|at| (at % 251) as u8).collect();
    let (mut sent, mut got) = (0, Vec::new());
    while got.len() < bytes.len() {
        // Slices that end before, on and after the end of a piece.
        let (head, rest) = bytes[sent..].split_at((bytes.len() - sent).min(10));
        let (piece, rest) = rest.split_at(rest.len().min(PUBLISHED_BYTES - 10));
        let slices = [head, piece, rest].map(IoSlice::new);
        sent += writer.write(&slices).unwrap();
        got.extend(read(&mut reader, PUBLISHED_BYTES + 1));
        got.extend(read(&mut reader, capacity));
    }
    assert_eq!(got, bytes);
    assert!(!reader.has_bytes());
}

#[test]
fn a_read_takes_no_more_than_the_vector_has_room_for() {
    let (mut writer, mut reader) = ring();
    assert_eq!(write(&mut writer, b"abcd"), 4);
    let mut into = Vec::with_capacity(8);
    into.extend_from_slice(b"123456");
    let room = into.capacity() - into.len();
    let count = reader.read(&mut into, 100).unwrap();
    assert_eq!(count, room.min(4));
    assert!(into.starts_with(b"123456ab"));
}

#[test]
fn bytes_4_a_sleeper_is_woken_by_the_first_change_after_its_announcement_and_by_no_other() {
    let (mut writer, mut reader) = ring();
    assert_eq!(write(&mut writer, b"1"), 1);
    assert!(!writer.claim_reader(), "it is awake");
    assert!(!reader.doze(), "there is a byte");
    assert_eq!(write(&mut writer, b"2"), 1);
    assert!(!writer.claim_reader(), "it has not gone to sleep");
    assert_eq!(read(&mut reader, 10), b"12");
    assert!(reader.doze());
    assert_eq!(write(&mut writer, b"3"), 1);
    assert!(writer.claim_reader());
    assert_eq!(write(&mut writer, b"4"), 1);
    assert!(!writer.claim_reader(), "it was woken");
    assert_eq!(read(&mut reader, 10), b"34");
    assert!(reader.doze());
    reader.look_out();
    assert_eq!(write(&mut writer, b"5"), 1);
    assert!(!writer.claim_reader(), "it looks by itself");
}

#[test]
fn bytes_4_a_writer_is_woken_when_half_of_the_ring_is_free() {
    let (mut writer, mut reader) = ring();
    assert!(!writer.doze(1).unwrap(), "there is room");
    assert_eq!(write(&mut writer, &[0; CAPACITY]), CAPACITY);
    assert!(writer.doze(1).unwrap());
    read(&mut reader, CAPACITY / 2 - 1);
    assert!(!reader.claim_writer().unwrap());
    read(&mut reader, 1);
    assert!(reader.claim_writer().unwrap());
    assert!(!reader.claim_writer().unwrap());
    assert!(writer.has_room(CAPACITY / 2).unwrap());
    assert!(!writer.has_room(CAPACITY / 2 + 1).unwrap());
}

#[test]
fn bytes_3_numbers_that_no_honest_end_has_are_errors() {
    for (word, value) in [
        (WRITTEN, CAPACITY as u64 + 1),
        (WRITTEN, u64::MAX),
        (READ, 1),
        (READ, u64::MAX),
    ] {
        let region = region(CAPACITY);
        let mut reader = ByteReader::attach(region.clone()).unwrap();
        let mut writer = ByteWriter::attach(region.clone()).unwrap();
        region.atomic_u64(word).unwrap().store(value, Ordering::Relaxed);
        if word == WRITTEN {
            assert!(reader.has_bytes(), "the error is to be read");
            assert!(reader.read(&mut Vec::with_capacity(8), 8).is_err());
            assert!(reader.claim_writer().is_err());
        } else {
            assert!(writer.write(&[IoSlice::new(&[0; CAPACITY + 1])]).is_err());
        }
    }
    for capacity in [0, 3, 100] {
        assert!(ByteReader::attach(region(capacity)).is_err());
    }
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(if cfg!(miri) { 4 } else { 256 }))]

    #[test]
    fn a_stream_comes_out_as_it_went_in(steps in prop::collection::vec((0..100_usize, 0..100_usize), 1..60)) {
        let (mut writer, mut reader) = ring();
        let (mut sent, mut got) = (Vec::<u8>::new(), Vec::<u8>::new());
        for (put, take) in steps {
            let bytes: Vec<u8> = (0..put).map(|at| (sent.len() + at) as u8).collect();
            let held = sent.len() - got.len();
            let count = write(&mut writer, &bytes);
            prop_assert_eq!(count, put.min(CAPACITY - held));
            sent.extend_from_slice(&bytes[..count]);
            got.extend(read(&mut reader, take));
        }
        got.extend(read(&mut reader, CAPACITY));
        prop_assert_eq!(sent, got);
    }
}

#[test]
fn two_threads_pass_a_stream_and_sleep_in_between() {
    use std::sync::{Condvar, Mutex};
    let total = if cfg!(miri) { 300 } else { 300_000 };
    let (mut writer, mut reader) = ring();
    // The means by which an end wakes the other one.
    let bells = [(); 2].map(|()| (Mutex::new(false), Condvar::new()));
    let wake = |bell: &(Mutex<bool>, Condvar)| {
        *bell.0.lock().unwrap() = true;
        bell.1.notify_one();
    };
    let sleep = |bell: &(Mutex<bool>, Condvar)| {
        let woken = bell.1.wait_while(bell.0.lock().unwrap(), |woken| !*woken);
        *woken.unwrap() = false;
    };
    std::thread::scope(|scope| {
        scope.spawn(|| {
            let mut sent = 0_usize;
            while sent < total {
                let bytes: Vec<u8> = (sent..total.min(sent + 50)).map(|at| at as u8).collect();
                let count = write(&mut writer, &bytes);
                if writer.claim_reader() {
                    wake(&bells[0]);
                }
                sent += count;
                if count == 0 && writer.doze(1).unwrap() {
                    sleep(&bells[1]);
                }
            }
        });
        let mut got = 0_usize;
        while got < total {
            let bytes = read(&mut reader, 40);
            if reader.claim_writer().unwrap() {
                wake(&bells[1]);
            }
            for byte in &bytes {
                assert_eq!(*byte, got as u8);
                got += 1;
            }
            if bytes.is_empty() && reader.doze() {
                sleep(&bells[0]);
            }
        }
    });
}
