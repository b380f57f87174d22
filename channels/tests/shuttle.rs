//! The ring and the doorbell in schedules too large for loom: several readers, a few slots, many messages, and ends
//! that come and go. Schedules are random, or follow priorities that change at a few random points (PCT; Burckhardt et
//! al., ASPLOS 2010). A schedule in which all threads wait is a failure; a failure prints its schedule, so that it can
//! be replayed.
//!
//! `RUSTFLAGS="--cfg loom --cfg shuttle" cargo test -p selvedge-channels --test shuttle --release`
#![cfg(all(loom, shuttle))]
#![allow(
    missing_docs,
    clippy::unwrap_used,
    clippy::expect_used,
    clippy::panic,
    clippy::indexing_slicing
)] // a test may panic

use std::sync::Arc;

use selvedge_channels::{Doorbell, RingReader, RingWriter, Waiting, ring};
use shuttle::thread;

/// The number of points at which PCT changes priorities.
const DEPTH: usize = 4;

/// Runs `SCHEDULES` schedules of either kind; 20 000 without that variable.
fn check(scenario: fn()) {
    let schedules = std::env::var("SCHEDULES").map_or(20_000, |number| number.parse().unwrap());
    shuttle::check_random(scenario, schedules);
    shuttle::check_pct(scenario, schedules, DEPTH);
}

/// A ring and the bells of its ends.
struct Ring<T> {
    writer: RingWriter<T>,
    to_writer: Doorbell,
    readers: Vec<(RingReader<T>, Doorbell)>,
}

fn make<T: Clone + Send + Sync + 'static>(slots: usize, readers: usize) -> Ring<T> {
    let to_writer = Doorbell::heap();
    let bells: Vec<_> = (0..readers).map(|_| Doorbell::heap()).collect();
    let (writer, ends) = ring::<T>(slots, to_writer.clone(), bells.clone()).unwrap();
    let readers = ends.into_iter().zip(bells).collect();
    Ring {
        writer,
        to_writer,
        readers,
    }
}

fn write<T: std::fmt::Debug>(writer: &mut RingWriter<T>, bell: &Doorbell, message: T) {
    assert!(bell.wait(&Waiting::Park, None, || writer.has_space()));
    writer.try_write(Ok(message)).unwrap();
}

/// The next message; `None` after the last one.
fn read<T: Clone>(reader: &mut RingReader<T>, bell: &Doorbell) -> Option<T> {
    bell.wait(&Waiting::Park, None, || reader.ready() || reader.is_closed());
    reader.take().map(Result::unwrap)
}

#[test]
fn chan_03_four_readers_see_twenty_messages_and_the_end() {
    check(|| {
        let Ring {
            mut writer,
            to_writer,
            readers,
        } = make::<u32>(3, 4);
        let reading: Vec<_> = readers
            .into_iter()
            .map(|(mut reader, bell)| {
                thread::spawn(move || {
                    let messages = std::iter::from_fn(|| read(&mut reader, &bell));
                    assert!(messages.eq(0..20));
                })
            })
            .collect();
        (0..20).for_each(|message| write(&mut writer, &to_writer, message));
        drop(writer);
        reading.into_iter().for_each(|thread| thread.join().unwrap());
    });
}

#[test]
fn ring_05_readers_that_leave_in_the_middle_drop_nothing_under_anybodys_eyes() {
    check(|| {
        let Ring {
            mut writer,
            to_writer,
            readers,
        } = make::<Arc<u32>>(2, 3);
        let sent: Vec<Arc<u32>> = (0..8).map(Arc::new).collect();
        let reading: Vec<_> = readers
            .into_iter()
            .enumerate()
            .map(|(index, (mut reader, bell))| {
                thread::spawn(move || {
                    // The first reader stays to the end; the others leave after 2 and 4 messages.
                    let most = if index == 0 { 8 } else { 2 * index as u32 };
                    for expected in 0..most {
                        bell.wait(&Waiting::Park, None, || reader.ready());
                        assert_eq!(**reader.current().unwrap().as_ref().unwrap(), expected);
                        reader.release();
                    }
                })
            })
            .collect();
        sent.iter()
            .for_each(|message| write(&mut writer, &to_writer, Arc::clone(message)));
        reading.into_iter().for_each(|thread| thread.join().unwrap());
        drop(writer);
        assert!(sent.iter().all(|message| Arc::strong_count(message) == 1));
    });
}

/// A lane has one bell for three channels. A thread writes to each channel and waits for an answer from the lane.
#[test]
fn bell_03_one_wait_covers_all_channels_of_a_lane() {
    check(|| {
        let lane = Doorbell::heap();
        let mut ends = Vec::new();
        let mut writing = Vec::new();
        for _ in 0..3 {
            let bell = Doorbell::heap();
            let (mut there, mut from_there) = ring::<u32>(1, bell.clone(), vec![lane.clone()]).unwrap();
            let (back, mut from_back) = ring::<u32>(1, lane.clone(), vec![bell.clone()]).unwrap();
            ends.push((from_there.pop().unwrap(), back, 0));
            let mut answers = from_back.pop().unwrap();
            writing.push(thread::spawn(move || {
                for message in 0..3 {
                    write(&mut there, &bell, message);
                    assert_eq!(read(&mut answers, &bell), Some(message + 1));
                }
            }));
        }
        while ends.iter().any(|(_, _, answered)| *answered < 3) {
            let mut found = None;
            lane.wait(&Waiting::Park, None, || {
                found = ends
                    .iter_mut()
                    .position(|(from, to, _)| from.ready() && to.has_space());
                found.is_some()
            });
            let (from, to, answered) = &mut ends[found.unwrap()];
            let message = from.take().unwrap().unwrap();
            to.try_write(Ok(message + 1)).unwrap();
            *answered += 1;
        }
        writing.into_iter().for_each(|thread| thread.join().unwrap());
    });
}
