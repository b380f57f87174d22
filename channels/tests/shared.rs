//! Guarantees of channels between processes alone: ends from descriptors, bad shapes, bad memory, dead peers.
#![cfg(not(loom))]
#![allow(
    missing_docs,
    unsafe_code,
    clippy::unwrap_used,
    clippy::expect_used,
    clippy::panic,
    clippy::indexing_slicing
)] // a test may panic

mod support;

use std::sync::atomic::Ordering;

use selvedge_channels::{
    ChannelError, Culprit, Doorbell, End, Provider, SegmentError, SharedReader, SharedSpec, SharedWriter,
    format, shared,
};
use support::{Bells, Make, Reading, SharedHeap, Writing, payload, region, spec};

const CULPRIT: Culprit = Culprit {
    end: End::Reader(0),
    pid: 4121,
};

#[test]
fn chan_19_buffers_below_a_thousand_bytes_are_refused() {
    let with = |slot_bytes| SharedSpec {
        slot_bytes,
        ..spec(1, 1)
    };
    assert!(matches!(
        with(999).size_bytes(),
        Err(ChannelError::InvalidSpec {
            what: "buffer_bytes",
            value: 999,
            least: 1000
        })
    ));
    assert!(with(1000).size_bytes().is_ok());
}

#[test]
fn a_channel_has_slots_and_readers() {
    for bad in [spec(0, 1), spec(1, 0)] {
        assert!(matches!(
            bad.size_bytes(),
            Err(ChannelError::InvalidSpec { value: 0, .. })
        ));
    }
    assert!(selvedge_channels::ring::<u8>(0, Doorbell::heap(), vec![Doorbell::heap()]).is_err());
    assert!(selvedge_channels::ring::<u8>(1, Doorbell::heap(), vec![]).is_err());
}

#[test]
fn a_spec_that_overflows_is_refused() {
    let bad = SharedSpec {
        slots: u32::MAX,
        slot_bytes: u64::MAX / 2,
        ..spec(1, 1)
    };
    assert!(matches!(
        bad.size_bytes(),
        Err(ChannelError::Segment(SegmentError::NoMemory { .. }))
    ));
}

#[test]
fn an_end_of_a_region_that_holds_no_such_channel_is_refused() {
    let (spec, other) = (spec(2, 2), spec(2, 1));
    let (segment, region) = region(Provider::Heap, &spec);
    let reader = |spec: &SharedSpec, index| {
        SharedReader::attach(region.clone(), spec, index, Doorbell::heap()).map(drop)
    };
    assert!(matches!(reader(&other, 0), Err(ChannelError::Corrupt { .. })));
    // SAFETY: no end is attached, and none can attach to a region without a channel.
    let blank = unsafe { segment.region(128, spec.size_bytes().unwrap() - 64) }.unwrap();
    let writer = SharedWriter::attach(blank, &spec, vec![]);
    assert!(writer.is_err());
    let short = region.sub(0, 640).unwrap();
    assert!(matches!(format(&short, &spec), Err(ChannelError::Segment(_))));
}

#[test]
fn chan_01_each_end_has_one_owner() {
    let spec = spec(2, 2);
    let (_segment, region) = region(Provider::Heap, &spec);
    let writer = || SharedWriter::attach(region.clone(), &spec, vec![]);
    let reader = |index| SharedReader::attach(region.clone(), &spec, index, Doorbell::heap());
    let _ends = (writer().unwrap(), reader(0).unwrap(), reader(1).unwrap());
    assert!(matches!(
        writer(),
        Err(ChannelError::Attached { end: End::Writer, .. })
    ));
    assert!(matches!(
        reader(1),
        Err(ChannelError::Attached {
            end: End::Reader(1),
            ..
        })
    ));
}

#[test]
fn chan_22_a_reader_more_than_declared_is_refused() {
    let spec = spec(2, 2);
    let (_segment, region) = region(Provider::Heap, &spec);
    let extra = SharedReader::attach(region, &spec, 2, Doorbell::heap());
    assert!(matches!(
        extra,
        Err(ChannelError::Corrupt {
            what: "more readers than declared"
        })
    ));
}

#[test]
fn chan_25_poison_ends_a_wait_for_a_reader_that_was_killed() {
    let spec = spec(1, 1);
    let (_segment, region) = region(Provider::Heap, &spec);
    let mut writer = SharedWriter::attach(region.clone(), &spec, vec![Doorbell::heap()]).unwrap();
    // The state after SIGKILL: the reader reads no more, and its end is not dropped.
    let _killed = SharedReader::attach(region.clone(), &spec, 0, Doorbell::heap()).unwrap();
    assert!(writer.write(Ok(payload(0, 10))).unwrap());
    assert!(!writer.space().unwrap());
    shared::poison(&region, CULPRIT).unwrap();
    assert!(matches!(
        writer.space(),
        Err(ChannelError::Poisoned { culprit: CULPRIT })
    ));
    assert!(matches!(
        writer.write(Ok(payload(1, 10))),
        Err(ChannelError::Poisoned { culprit: CULPRIT })
    ));
    // Closing does not hide the cause.
    writer.close();
    assert!(matches!(
        writer.space(),
        Err(ChannelError::Poisoned { culprit: CULPRIT })
    ));
}

#[test]
fn chan_25_poison_ends_a_wait_for_a_writer_that_was_killed() {
    let spec = spec(2, 1);
    let (_segment, region) = region(Provider::Heap, &spec);
    let mut writer = SharedWriter::attach(region.clone(), &spec, vec![Doorbell::heap()]).unwrap();
    let mut reader = SharedReader::attach(region.clone(), &spec, 0, Doorbell::heap()).unwrap();
    assert!(writer.write(Ok(payload(0, 10))).unwrap());
    shared::poison(&region, CULPRIT).unwrap();
    // The writer is not dropped; a message that it wrote before can still be read.
    assert_eq!(reader.take().unwrap().unwrap().unwrap(), payload(0, 10));
    assert!(matches!(
        reader.ready(),
        Err(ChannelError::Poisoned { culprit: CULPRIT })
    ));
}

#[test]
fn a_region_without_a_channel_cannot_be_poisoned() {
    let segment = selvedge_channels::Segment::create(Provider::Heap, 4096).unwrap();
    // SAFETY: the segment is new, and nothing else uses it.
    let blank = unsafe { segment.region(64, 1024) }.unwrap();
    assert!(matches!(
        shared::poison(&blank, CULPRIT),
        Err(ChannelError::Corrupt { .. })
    ));
}

#[test]
fn chan_15_bytes_that_are_a_payload_already_go_as_they_are() {
    let (mut writer, mut readers) = SharedHeap::make(1, &Bells::new(1));
    let bytes = selvedge_channels::encode(&(1u8, "two".to_owned()))
        .unwrap()
        .to_vec();
    assert!(writer.try_write_bytes(&bytes).unwrap());
    let found = readers[0].current().unwrap().unwrap().unwrap();
    assert_eq!(found, bytes);
    let value: (u8, String) = selvedge_channels::decode(found).unwrap();
    assert_eq!(value, (1, "two".to_owned()));
}

#[test]
fn chan_23_a_slot_is_not_written_while_it_is_read() {
    let (mut writer, mut readers) = SharedHeap::make(1, &Bells::new(1));
    assert!(writer.write(Ok(payload(0, 300))).unwrap());
    let view = readers[0].current().unwrap().unwrap().unwrap();
    assert!(!writer.write(Ok(payload(1, 300))).unwrap());
    assert_eq!(
        selvedge_channels::view_slice::<u8>(view).unwrap().unwrap(),
        payload(0, 300)
    );
}

/// Sets each word of control, tails and headers to values that no honest end leaves there.
#[test]
fn shm_3_a_word_that_lies_is_an_error_or_changes_nothing() {
    for word in 0..8 * 3 {
        if cfg!(miri) && word >= 16 && word % 8 >= 3 {
            // Miri aborts on an atomic write over a payload's plain bytes.
            continue;
        }
        for lie in [1, 2, 3, 7, 1000, 5000, 1 << 32, 1 << 40, u64::MAX - 1, u64::MAX] {
            let spec = spec(1, 1);
            let (_segment, region) = region(Provider::Heap, &spec);
            let bell = Doorbell::heap();
            let mut writer = SharedWriter::attach(region.clone(), &spec, vec![bell.clone()]).unwrap();
            let mut reader = SharedReader::attach(region.clone(), &spec, 0, bell).unwrap();
            assert!(writer.write(Ok(payload(0, 300))).unwrap());
            region.atomic_u64(8 * word).unwrap().store(lie, Ordering::Relaxed);
            if let Ok(Some(Ok(bytes))) = reader.current() {
                assert!(bytes.len() <= 1024);
                std::hint::black_box(bytes.to_vec());
            }
            let _ = (reader.release(), writer.space());
        }
    }
}
