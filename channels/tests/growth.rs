//! Payloads larger than their slot, whose memory is released completely afterwards.
#![cfg(not(any(miri, loom)))] // Miri has no memfd
#![allow(
    missing_docs,
    clippy::unwrap_used,
    clippy::expect_used,
    clippy::panic,
    clippy::indexing_slicing
)] // a test may panic

mod support;

use std::sync::{Mutex, MutexGuard, PoisonError};

use proptest::test_runner::{Config, TestRunner};
use selvedge_channels::{
    ChannelError, ChannelOptions, EncodeError, Fault, Provider, SharedReader, SharedWriter, decode,
};
use support::{Bells, Make, Reading, SharedMemfd, Writing, payload, region, spec};

/// A lock for one test at a time: descriptors and mappings are counted per process.
static ALONE: Mutex<()> = Mutex::new(());

fn alone() -> MutexGuard<'static, ()> {
    ALONE.lock().unwrap_or_else(PoisonError::into_inner)
}

/// The numbers of open descriptors and of mappings of this crate's memfds.
#[derive(Debug, PartialEq, Eq, Clone, Copy)]
struct Held {
    fds: usize,
    maps: usize,
}

fn held() -> Held {
    let ours = |text: &str| text.contains("/memfd:selvedge");
    let fds = std::fs::read_dir("/proc/self/fd").unwrap();
    let links = fds.filter_map(|entry| std::fs::read_link(entry.unwrap().path()).ok());
    let maps = std::fs::read_to_string("/proc/self/maps").unwrap();
    Held {
        fds: links.filter(|link| ours(&link.to_string_lossy())).count(),
        maps: maps.lines().filter(|line| ours(line)).count(),
    }
}

fn pass(writer: &mut SharedWriter, readers: &mut [SharedReader], number: u64, len: usize) {
    assert!(writer.write(Ok(payload(number, len))).unwrap());
    for reader in readers {
        assert_eq!(
            reader.take().unwrap().unwrap().unwrap(),
            payload(number, len),
            "{len}"
        );
    }
}

#[test]
fn chan_16_a_payload_larger_than_its_slot_arrives() {
    let _alone = alone();
    let (mut writer, mut readers) = SharedMemfd::make(2, &Bells::new(2));
    let sizes = [
        0,
        1,
        40,
        41,
        959,
        960,
        961,
        1000,
        1024,
        5_000,
        70_000,
        1 << 20,
        64 << 20,
        10,
    ];
    for (number, len) in sizes.into_iter().enumerate() {
        pass(&mut writer, &mut readers, number as u64, len);
    }
}

#[test]
fn chan_08_a_buffer_is_as_large_as_asked_for_and_no_larger() {
    let _alone = alone();
    const FRAME: usize = 64;
    for bytes in [4096, 8192] {
        let options = ChannelOptions::new().slots(2).buffer_bytes(bytes as u64);
        let channel = options.shared::<Vec<u64>>().unwrap();
        let (mut writer, mut reader) = (channel.writer().unwrap(), channel.reader(0).unwrap());
        let ungrown = held();
        let fits = (bytes - FRAME) / size_of::<u64>();
        let mut send = |words: usize| {
            writer.send(vec![7; words]).unwrap();
            assert_eq!(reader.recv().unwrap(), vec![7; words]);
            held()
        };
        for _ in 0..4 {
            assert_eq!(send(fits), ungrown, "{fits} words in {bytes} bytes");
        }
        assert_eq!(send(fits + 1).fds, ungrown.fds + 1, "{fits} words and one more");
    }
}

#[test]
fn chan_17_old_segment_is_freed_after_growth() {
    let _alone = alone();
    let before = held();
    let (mut writer, mut readers) = SharedMemfd::make(2, &Bells::new(2));
    let ungrown = held();
    for round in 0..12 {
        pass(&mut writer, &mut readers, round, 2000 << round);
        pass(&mut writer, &mut readers, round, 20);
        let now = held();
        // One grown segment takes a descriptor and a mapping of the writer, and a mapping of each reader.
        assert_eq!(now.fds, ungrown.fds + 1, "{now:?}");
        assert_eq!(now.maps, ungrown.maps + 3, "{now:?}");
    }
    drop((writer, readers));
    assert_eq!(held(), before);
}

#[test]
fn chan_17_an_outgrown_segment_lives_until_the_slowest_reader_has_passed() {
    let _alone = alone();
    let (mut writer, mut readers) = SharedMemfd::make(4, &Bells::new(2));
    let ungrown = held();
    for (number, len) in [3_000, 300_000, 30_000_000].into_iter().enumerate() {
        assert!(writer.write(Ok(payload(number as u64, len))).unwrap());
    }
    assert_eq!(held().fds, ungrown.fds + 3);
    for (number, len) in [3_000, 300_000, 30_000_000].into_iter().enumerate() {
        for reader in &mut readers {
            let read = reader.take().unwrap().unwrap().unwrap();
            assert_eq!(read, payload(number as u64, len));
        }
    }
    assert!(writer.space().unwrap());
    assert_eq!(held().fds, ungrown.fds + 1);
}

#[test]
fn chan_17_alternating_sizes_keep_memory_bounded() {
    let _alone = alone();
    let (mut writer, mut readers) = SharedMemfd::make(3, &Bells::new(1));
    pass(&mut writer, &mut readers, 0, 900_000);
    let grown = held();
    for number in 1..200 {
        let len = if number % 2 == 0 { 900_000 } else { 50 };
        pass(&mut writer, &mut readers, number, len);
        assert_eq!(held(), grown);
    }
}

#[test]
fn chan_18_a_full_channel_is_usable_after_growth() {
    let _alone = alone();
    let (mut writer, mut readers) = SharedMemfd::make(1, &Bells::new(1));
    assert!(writer.write(Ok(payload(0, 10_000))).unwrap());
    let full = held();
    for _ in 0..5 {
        assert!(!writer.write(Ok(payload(1, 1_000_000))).unwrap());
        assert_eq!(held(), full, "nothing grows before there is a slot");
    }
    assert_eq!(readers[0].take().unwrap().unwrap().unwrap(), payload(0, 10_000));
    pass(&mut writer, &mut readers, 1, 1_000_000);
}

#[test]
fn chan_16_a_slot_is_lent_with_its_writer_and_the_channel_grows_for_it() {
    let _alone = alone();
    let (mut writer, mut readers) = SharedMemfd::make(1, &Bells::new(1));
    let mut number = 0;
    for len in [1, 500, 70_000, 1 << 20, 10] {
        // Given back, the slot is as free as before.
        writer = writer.into_loan(len).ok().unwrap().give_back();
        assert!(!readers[0].ready().unwrap());
        let mut loan = writer.into_loan(len).ok().unwrap();
        assert_eq!(loan.bytes().len(), len);
        loan.bytes_mut().fill(len as u8);
        assert!(!readers[0].ready().unwrap(), "nothing is published");
        let (back, published) = loan.publish();
        published.unwrap();
        writer = back;
        let message = readers[0].current().unwrap().unwrap().unwrap();
        assert!(message.len() == len && message.iter().all(|byte| *byte == len as u8));
        readers[0].release().unwrap();
        number += 1;
        pass(&mut writer, &mut readers, number, 100);
        number += 1;
    }
    while writer.has_space().unwrap() {
        assert!(writer.write(Ok(payload(number, 100))).unwrap());
    }
    let mut writer = writer.into_loan(10).err().expect("no slot is free");
    readers[0].current().unwrap().unwrap().unwrap();
    readers[0].release().unwrap();
    assert!(writer.has_space().unwrap());
    assert!(writer.into_loan(usize::MAX).is_err(), "above the cap");
}

#[test]
fn chan_16_a_payload_above_the_cap_is_refused_and_nothing_changes() {
    let _alone = alone();
    let mut spec = spec(2, 1);
    spec.max_bytes = 4096;
    let (_segment, region) = region(Provider::Memfd, &spec);
    let bells = Bells::new(1);
    let mut writer = SharedWriter::attach(region.clone(), &spec, bells.readers).unwrap();
    let mut reader = SharedReader::attach(region, &spec, 0, bells.writer).unwrap();
    let before = held();
    let refused = writer.try_write(&vec![0u8; 5000]);
    assert!(matches!(
        refused,
        Err(ChannelError::TooLarge {
            need_bytes: 5064,
            max_bytes: 4096
        })
    ));
    let refused = writer.try_write_fault(&Fault::failed(vec![0; 5000], None));
    assert!(matches!(refused, Err(ChannelError::TooLarge { .. })));
    assert_eq!((held(), writer.position()), (before, 0));
    assert!(writer.try_write_bytes(&[5; 4096]).unwrap());
    assert_eq!(reader.current().unwrap().unwrap().unwrap(), [5; 4096]);
}

/// A slot is a whole number of cache lines, so it may have room for more bytes than the limit allows.
#[test]
fn chan_16_the_cap_holds_where_the_slot_has_room_for_more() {
    let mut spec = spec(1, 1);
    spec.max_bytes = spec.slot_bytes;
    let (_segment, region) = region(Provider::Heap, &spec);
    let bells = Bells::new(1);
    let mut writer = SharedWriter::attach(region, &spec, bells.readers).unwrap();
    let cap = usize::try_from(spec.max_bytes).unwrap();
    let refused = writer.try_write_bytes(&vec![0; cap + 1]);
    assert!(
        matches!(refused, Err(ChannelError::TooLarge { .. })),
        "{refused:?}"
    );
    assert!(writer.try_write_bytes(&vec![0; cap]).unwrap());
}

#[test]
fn chan_14_a_value_that_cannot_be_serialised_changes_nothing() {
    #[derive(Clone, serde::Deserialize)]
    struct Refuses;
    impl serde::Serialize for Refuses {
        fn serialize<S: serde::Serializer>(&self, _: S) -> Result<S::Ok, S::Error> {
            Err(serde::ser::Error::custom("no"))
        }
    }
    let _alone = alone();
    let (mut writer, mut readers) = SharedMemfd::make(1, &Bells::new(1));
    let refused = writer.try_write(&Refuses);
    assert!(matches!(
        refused,
        Err(ChannelError::Encode(EncodeError::Serialize { .. }))
    ));
    pass(&mut writer, &mut readers, 0, 10);
}

#[test]
fn buf_03_payloads_of_any_size_keep_their_bytes() {
    let _alone = alone();
    let mut runner = TestRunner::new(Config {
        failure_persistence: None,
        ..Config::default()
    });
    let sizes = proptest::collection::vec(0..20_000usize, 1..60);
    runner
        .run(&sizes, |sizes| {
            let (mut writer, mut readers) = SharedMemfd::make(3, &Bells::new(1));
            for (number, len) in sizes.into_iter().enumerate() {
                pass(&mut writer, &mut readers, number as u64, len);
            }
            Ok(())
        })
        .unwrap();
}

#[test]
fn a_faults_long_report_grows_the_channel_too() {
    let _alone = alone();
    let (mut writer, mut readers) = SharedMemfd::make(1, &Bells::new(1));
    assert!(
        writer
            .try_write_fault(&Fault::failed(vec![3; 9000], None))
            .unwrap()
    );
    let fault = readers[0].current().unwrap().unwrap().unwrap_err();
    assert_eq!(fault.report(), [3; 9000]);
}

#[test]
fn a_grown_message_of_a_writer_that_has_closed_is_lost_and_says_so() {
    let _alone = alone();
    let (mut writer, mut readers) = SharedMemfd::make(1, &Bells::new(1));
    assert!(writer.write(Ok(payload(0, 100_000))).unwrap());
    drop(writer);
    assert!(matches!(readers[0].current(), Err(ChannelError::Closed)));
}

#[test]
fn a_view_of_a_grown_payload_is_aligned() {
    let _alone = alone();
    let (mut writer, mut readers) = SharedMemfd::make(3, &Bells::new(1));
    for number in 0..5u32 {
        let numbers: Vec<f64> = (0..3000).map(|it| f64::from(it + number)).collect();
        assert!(writer.try_write(&numbers).unwrap());
        let bytes = readers[0].current().unwrap().unwrap().unwrap();
        let view = selvedge_channels::view_slice::<f64>(bytes).unwrap();
        assert_eq!(view.unwrap(), numbers);
        assert_eq!(decode::<Vec<f64>>(bytes).unwrap(), numbers);
        readers[0].release().unwrap();
    }
}
