//! The contract of every channel: one suite, run by each kind.
#![cfg(not(loom))]
#![allow(
    missing_docs,
    clippy::unwrap_used,
    clippy::expect_used,
    clippy::panic,
    clippy::indexing_slicing
)] // a test may panic

mod support;

use std::collections::VecDeque;
use std::time::{Duration, Instant};

use proptest::prelude::*;
use proptest::test_runner::{Config, TestRunner};
use selvedge_channels::{ChannelError, Doorbell, Fault, Waiting};
use support::{Bells, Make, Reading, Writing, payload, plain};

for_every_channel!(
    chan_03_every_reader_sees_every_value_once_and_in_order,
    buf_02_as_many_writes_as_slots_then_full,
    buf_03_order_is_fifo_after_a_full_lap,
    buf_03_any_order_of_operations_matches_a_queue,
    buf_05_a_refused_write_or_read_changes_nothing,
    chan_06_close_is_idempotent_and_what_was_written_is_still_read,
    chan_06_close_wakes_a_parked_reader,
    chan_07_a_fault_is_read_like_a_value,
    chan_25_a_dead_reader_does_not_hold_the_writer_back,
    chan_25_readers_that_live_on_lose_nothing_when_one_dies,
    chan_26_a_value_can_be_released_unread,
    chan_02_a_parked_writer_wakes_when_a_slot_is_freed,
    threads_pass_messages_through_few_slots,
);

/// Whether `change`, made after a waiter has announced its sleep, wakes the waiter, which then sees the change.
fn wakes(bell: &Doorbell, change: impl FnOnce(), mut seen: impl FnMut() -> bool) -> bool {
    let deadline = Instant::now() + Duration::from_secs(60);
    let (mut looks, mut change) = (0, Some(change));
    let found = bell.wait(&Waiting::Park, Some(deadline), || {
        looks += 1;
        match change.take_if(|_| looks == 2) {
            Some(change) => {
                change();
                false
            }
            None => seen(),
        }
    });
    found && Instant::now() < deadline
}

fn chan_03_every_reader_sees_every_value_once_and_in_order<M: Make>() {
    let (mut writer, mut readers) = M::make(4, &Bells::new(3));
    for number in 0..4 {
        assert!(writer.write(Ok(payload(number, 30))).unwrap());
    }
    for reader in &mut readers {
        for number in 0..4 {
            assert_eq!(reader.position(), number);
            assert_eq!(reader.take().unwrap().unwrap().unwrap(), payload(number, 30));
        }
        assert!(reader.take().unwrap().is_none());
    }
}

fn buf_02_as_many_writes_as_slots_then_full<M: Make>() {
    for slots in [1, 2, 7] {
        let (mut writer, mut readers) = M::make(slots, &Bells::new(1));
        for number in 0..slots as u64 {
            assert!(writer.space().unwrap());
            assert!(writer.write(Ok(payload(number, 9))).unwrap());
        }
        assert!(!writer.space().unwrap());
        assert!(!writer.write(Ok(payload(99, 9))).unwrap());
        readers[0].release().unwrap();
        assert!(writer.space().unwrap());
    }
}

fn buf_03_order_is_fifo_after_a_full_lap<M: Make>() {
    let (mut writer, mut readers) = M::make(3, &Bells::new(1));
    let mut expected = VecDeque::new();
    for number in 0..20 {
        while !writer.write(Ok(payload(number, number as usize * 7))).unwrap() {
            let read = readers[0].take().unwrap().unwrap().unwrap();
            assert_eq!(Some(read), expected.pop_front());
        }
        expected.push_back(payload(number, number as usize * 7));
    }
}

fn buf_05_a_refused_write_or_read_changes_nothing<M: Make>() {
    let (mut writer, mut readers) = M::make(1, &Bells::new(1));
    let reader = &mut readers[0];
    assert!(reader.take().unwrap().is_none());
    reader.release().unwrap();
    assert_eq!(reader.position(), 0);
    assert!(writer.write(Ok(payload(0, 100))).unwrap());
    for _ in 0..3 {
        assert!(!writer.write(Ok(payload(1, 100))).unwrap());
    }
    assert_eq!(reader.take().unwrap().unwrap().unwrap(), payload(0, 100));
    assert!(!reader.ready().unwrap());
    assert!(writer.write(Ok(payload(2, 100))).unwrap());
    assert_eq!(reader.take().unwrap().unwrap().unwrap(), payload(2, 100));
}

fn chan_06_close_is_idempotent_and_what_was_written_is_still_read<M: Make>() {
    let (mut writer, mut readers) = M::make(2, &Bells::new(2));
    assert!(writer.write(Ok(payload(0, 10))).unwrap());
    writer.close();
    writer.close();
    drop(writer);
    for reader in &mut readers {
        assert_eq!(reader.take().unwrap().unwrap().unwrap(), payload(0, 10));
        assert!(matches!(reader.ready(), Err(ChannelError::Closed)));
        assert!(matches!(reader.take(), Err(ChannelError::Closed)));
    }
}

fn chan_06_close_wakes_a_parked_reader<M: Make>() {
    let bells = Bells::new(2);
    let (mut writer, mut readers) = M::make(1, &bells);
    let (reader, bell) = (&mut readers[1], &bells.readers[1]);
    assert!(wakes(bell, || writer.close(), || reader.ready().is_err()));
}

fn chan_07_a_fault_is_read_like_a_value<M: Make>() {
    let (mut writer, mut readers) = M::make(4, &Bells::new(2));
    let long = vec![9; 500];
    assert!(writer.write(Err(Fault::failed(vec![1, 2], None))).unwrap());
    assert!(writer.write(Err(Fault::cancelled())).unwrap());
    assert!(writer.write(Err(Fault::failed(long.clone(), None))).unwrap());
    for reader in &mut readers {
        let mut next = || plain(&reader.take().unwrap().unwrap());
        assert_eq!(next(), Err(("failed".into(), vec![1, 2])));
        assert_eq!(next(), Err(("cancelled".into(), vec![])));
        assert_eq!(next(), Err(("failed".into(), long.clone())));
    }
}

fn chan_25_a_dead_reader_does_not_hold_the_writer_back<M: Make>() {
    let (mut writer, readers) = M::make(2, &Bells::new(2));
    assert!(writer.write(Ok(payload(0, 10))).unwrap());
    drop(readers);
    for number in 1..10 {
        assert!(
            writer
                .write(Ok(payload(number, 2000 * usize::from(!cfg!(miri)))))
                .unwrap()
        );
    }
}

fn chan_25_readers_that_live_on_lose_nothing_when_one_dies<M: Make>() {
    let (mut writer, mut readers) = M::make(2, &Bells::new(2));
    assert!(writer.write(Ok(payload(0, 10))).unwrap());
    assert!(writer.write(Ok(payload(1, 10))).unwrap());
    let mut survivor = readers.pop().unwrap();
    drop(readers);
    assert!(!writer.space().unwrap());
    for number in 0..9 {
        assert_eq!(survivor.take().unwrap().unwrap().unwrap(), payload(number, 10));
        assert!(writer.write(Ok(payload(number + 2, 10))).unwrap());
    }
}

fn chan_26_a_value_can_be_released_unread<M: Make>() {
    let (mut writer, mut readers) = M::make(2, &Bells::new(1));
    assert!(writer.write(Ok(payload(0, 10))).unwrap());
    assert!(writer.write(Ok(payload(1, 10))).unwrap());
    readers[0].release().unwrap();
    assert_eq!(readers[0].take().unwrap().unwrap().unwrap(), payload(1, 10));
}

fn chan_02_a_parked_writer_wakes_when_a_slot_is_freed<M: Make>() {
    let bells = Bells::new(1);
    let (mut writer, mut readers) = M::make(1, &bells);
    assert!(writer.write(Ok(payload(0, 10))).unwrap());
    let release = || readers[0].release().unwrap();
    assert!(wakes(&bells.writer, release, || writer.space().unwrap()));
}

fn threads_pass_messages_through_few_slots<M: Make>() {
    let messages: u64 = if cfg!(miri) { 30 } else { 5_000 };
    let watchdog = Some(Instant::now() + Duration::from_secs(120));
    for (slots, waiting) in [
        (1, Waiting::Park),
        (3, Waiting::SpinThenPark(Duration::from_micros(20))),
    ] {
        let bells = Bells::new(2);
        let (mut writer, readers) = M::make(slots, &bells);
        std::thread::scope(|scope| {
            for (mut reader, bell) in readers.into_iter().zip(bells.readers.clone()) {
                scope.spawn(move || {
                    for number in 0..messages {
                        assert!(bell.wait(&waiting, watchdog, || reader.ready().unwrap()));
                        let read = reader.take().unwrap().unwrap().unwrap();
                        assert_eq!(read, payload(number, number as usize % 90));
                    }
                });
            }
            for number in 0..messages {
                assert!(bells.writer.wait(&waiting, watchdog, || writer.space().unwrap()));
                assert!(writer.write(Ok(payload(number, number as usize % 90))).unwrap());
            }
        });
    }
}

/// An operation on a channel, and on the queue that serves as its oracle.
#[derive(Clone, Debug)]
enum Operation {
    Write { len: usize },
    Fault { len: usize },
    Take { reader: usize },
    Look { reader: usize },
    Release { reader: usize },
    Leave { reader: usize },
}

fn operation() -> impl Strategy<Value = Operation> {
    let reader = 0..3usize;
    // Sizes around the limits of the stamp's cache line and of the slot.
    let near = prop_oneof![0..80usize, 860..1010usize];
    let len = if cfg!(miri) {
        (0..80usize).boxed()
    } else {
        near.boxed()
    };
    prop_oneof![
        8 => len.clone().prop_map(|len| Operation::Write { len }),
        1 => len.prop_map(|len| Operation::Fault { len }),
        8 => reader.clone().prop_map(|reader| Operation::Take { reader }),
        3 => reader.clone().prop_map(|reader| Operation::Look { reader }),
        2 => reader.clone().prop_map(|reader| Operation::Release { reader }),
        1 => reader.prop_map(|reader| Operation::Leave { reader }),
    ]
}

fn buf_03_any_order_of_operations_matches_a_queue<M: Make>() {
    let mut runner = TestRunner::new(Config {
        cases: if cfg!(miri) { 3 } else { 200 },
        failure_persistence: None,
        ..Config::default()
    });
    let operations = proptest::collection::vec(operation(), 1..if cfg!(miri) { 40 } else { 200 });
    let scenario = (1..5usize, 1..4usize, operations);
    runner
        .run(&scenario, |(slots, readers, operations)| {
            compare_with_queue::<M>(slots, readers, operations);
            Ok(())
        })
        .unwrap();
}

fn compare_with_queue<M: Make>(slots: usize, count: usize, operations: Vec<Operation>) {
    let (mut writer, readers) = M::make(slots, &Bells::new(count));
    let mut readers: Vec<_> = readers.into_iter().map(Some).collect();
    let mut queues: Vec<Option<VecDeque<_>>> = vec![Some(VecDeque::new()); count];
    let mut written = 0;
    for operation in operations {
        match operation {
            Operation::Write { len } | Operation::Fault { len } => {
                let message = match operation {
                    Operation::Fault { .. } => Err(Fault::failed(payload(written, len), None)),
                    _ => Ok(payload(written, len)),
                };
                let space = queues.iter().flatten().all(|queue| queue.len() < slots);
                assert_eq!(writer.space().unwrap(), space);
                assert_eq!(writer.write(message.clone()).unwrap(), space);
                if space {
                    let queues = queues.iter_mut().flatten();
                    queues.for_each(|queue| queue.push_back(plain(&message)));
                    written += 1;
                }
            }
            Operation::Leave { reader } => {
                if let (Some(reader), Some(queue)) = (readers.get_mut(reader), queues.get_mut(reader)) {
                    (*reader, *queue) = (None, None);
                }
            }
            Operation::Take { reader } | Operation::Look { reader } | Operation::Release { reader } => {
                let (Some(Some(reader)), Some(Some(queue))) =
                    (readers.get_mut(reader), queues.get_mut(reader))
                else {
                    continue;
                };
                let expected = match operation {
                    Operation::Look { .. } => queue.front().cloned(),
                    _ => queue.pop_front(),
                };
                let found = match operation {
                    Operation::Look { .. } => reader.look().unwrap(),
                    Operation::Take { .. } => reader.take().unwrap(),
                    _ => {
                        reader.release().unwrap();
                        continue;
                    }
                };
                assert_eq!(found.as_ref().map(plain), expected);
            }
        }
    }
}
