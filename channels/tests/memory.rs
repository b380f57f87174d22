//! Memory stays flat: alternating small and large payloads need the memory of the small ones, and one grown buffer.
#![cfg(not(any(miri, loom)))] // Miri has no memfd
#![allow(
    missing_docs,
    clippy::unwrap_used,
    clippy::expect_used,
    clippy::panic,
    clippy::indexing_slicing
)] // a test may panic

use std::os::unix::fs::MetadataExt;
use std::sync::mpsc::{Receiver, Sender, channel as tokens};
use std::sync::{Barrier, Mutex, PoisonError};
use std::thread;
use std::time::Duration;

use selvedge_channels::ChannelOptions;

const KIB: usize = 1 << 10;
const MIB: usize = 1 << 20;
const LARGE: usize = 64 * MIB;

/// A lock for one test at a time: memory is counted per process.
static ALONE: Mutex<()> = Mutex::new(());

/// The bytes of this process's own memory, and the bytes behind the memfds that it holds.
#[derive(Clone, Copy, Debug)]
struct Memory {
    private: usize,
    shared: usize,
}

fn memory() -> Memory {
    let status = std::fs::read_to_string("/proc/self/status").unwrap();
    let private = status
        .lines()
        .find_map(|line| line.strip_prefix("RssAnon:"))
        .unwrap();
    let kib: usize = private.trim().trim_end_matches(" kB").parse().unwrap();
    let fds = std::fs::read_dir("/proc/self/fd").unwrap().flatten();
    let ours = fds.filter(|fd| {
        let link = std::fs::read_link(fd.path());
        link.is_ok_and(|link| link.to_string_lossy().contains("/memfd:selvedge"))
    });
    let blocks = ours
        .filter_map(|fd| std::fs::metadata(fd.path()).ok())
        .map(|file| file.blocks());
    Memory {
        private: kib * KIB,
        shared: blocks.sum::<u64>() as usize * 512,
    }
}

/// Sends payloads of `sizes` in turns. With several `readers` the last is slow: it reads a message only after the next
/// one has been sent, so that the writer waits for it repeatedly. Returns the memory held when all is read and all ends
/// still live.
fn run(sizes: &[usize], turns: usize, readers: u32) -> Memory {
    let patience = Duration::from_secs(60);
    let options = ChannelOptions::new()
        .slots(2)
        .readers(readers as usize)
        .timeout(patience);
    let channel = options.shared::<Vec<u8>>().unwrap();
    let mut writer = channel.writer().unwrap();
    let payloads: Vec<Vec<u8>> = sizes.iter().map(|size| vec![5; *size]).collect();
    let (token, may_read): (Sender<()>, Receiver<()>) = tokens();
    let [all_read, all_counted] = [(); 2].map(|()| Barrier::new(readers as usize + 1));
    let mut may_read = Some(may_read);
    thread::scope(|scope| {
        for index in 0..readers {
            let mut reader = channel.reader(index).unwrap();
            let waits = if readers > 1 && index == readers - 1 {
                may_read.take()
            } else {
                None
            };
            let (payloads, all_read, all_counted) = (&payloads, &all_read, &all_counted);
            scope.spawn(move || {
                for turn in 0..turns * payloads.len() {
                    waits.iter().for_each(|token| token.recv().unwrap());
                    let view = reader.view().unwrap();
                    let bytes = view.slice().unwrap();
                    assert_eq!(bytes.len(), payloads[turn % payloads.len()].len());
                    assert_eq!((bytes[0], bytes[bytes.len() - 1]), (5, 5));
                }
                all_read.wait();
                all_counted.wait();
            });
        }
        for turn in 0..turns * payloads.len() {
            writer.send_ref(&payloads[turn % payloads.len()]).unwrap();
            if turn > 0 {
                let _ = token.send(());
            }
        }
        let _ = token.send(());
        all_read.wait();
        let found = memory();
        all_counted.wait();
        found
    })
}

fn alternate(readers: u32) {
    let _alone = ALONE.lock().unwrap_or_else(PoisonError::into_inner);
    let turns = std::env::var("ALTERNATIONS").map_or(100, |text| text.parse().unwrap());
    let small = run(&[KIB, KIB], turns, readers);
    let before = memory();
    let both = run(&[KIB, LARGE], turns, readers);
    println!("{readers} readers, {turns} alternations: small only {small:?}, with 64 MiB {both:?}");
    // Messages of 64 MiB lie in every second slot, so one of the grown buffer's two slots has been used. The private 64
    // MiB are the test's own copy of the payload.
    assert!(both.shared <= small.shared + LARGE + MIB, "{small:?} {both:?}");
    assert!(
        both.private <= small.private.max(before.private) + LARGE + MIB,
        "{small:?} {before:?} {both:?}"
    );
    let after = memory();
    assert_eq!(after.shared, 0, "everything has been given back");
}

#[test]
fn chan_17_alternating_sizes_keep_one_grown_buffer() {
    alternate(1);
}

#[test]
fn chan_17_alternating_sizes_with_a_slow_one_of_four_readers_keep_one_grown_buffer() {
    alternate(4);
}

/// The number of minor page faults of this thread so far: those that needed no disk.
fn faults() -> u64 {
    let stat = std::fs::read_to_string("/proc/thread-self/stat").unwrap();
    let (_, fields) = stat.rsplit_once(')').unwrap();
    fields.split_whitespace().nth(7).unwrap().parse().unwrap()
}

#[test]
fn a_warm_channel_takes_no_page_faults() {
    let _alone = ALONE.lock().unwrap_or_else(PoisonError::into_inner);
    for size in [8, 4 * KIB, 70 * KIB, MIB] {
        let slots = 4;
        let channel = ChannelOptions::new().slots(slots).shared::<Vec<u8>>().unwrap();
        let (mut writer, mut reader) = (channel.writer().unwrap(), channel.reader(0).unwrap());
        let payload = vec![5_u8; size];
        let mut send = |count: usize| {
            for _ in 0..count {
                writer.send_ref(&payload).unwrap();
                let view = reader.view().unwrap();
                assert_eq!(
                    view.slice()
                        .unwrap()
                        .iter()
                        .map(|byte| u64::from(*byte))
                        .sum::<u64>(),
                    5 * size as u64
                );
            }
        };
        // Touches each slot once, and runs the count once, whose own memory is new as well.
        send(slots);
        faults();
        let mut round = || {
            let before = faults();
            send(20 * slots);
            faults() - before
        };
        // The kernel may move a page at any time; only faults in each of ten rounds come from the channel.
        let least = (0..10).map(|_| round()).min();
        assert_eq!(least, Some(0), "{size} bytes");
    }
}
