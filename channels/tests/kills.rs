//! Processes that die in the middle of the protocol: the survivors learn the culprit, no end hangs, and no resource
//! remains.
//!
//! `cargo test -p selvedge-channels --features fault-points --test kills -- --nocapture` prints trials, seed and times;
//! `KILLS` sets the number of trials, `SEED` the seed. Without the feature, processes are killed at random moments alone.
#![cfg(not(any(miri, loom)))] // Miri starts no processes
#![allow(
    missing_docs,
    clippy::unwrap_used,
    clippy::expect_used,
    clippy::panic,
    clippy::indexing_slicing
)] // a test may panic

#[path = "../../tests/census/mod.rs"]
mod census;

use std::fs;
use std::process::{Child, Command, Stdio};
use std::thread;
use std::time::{Duration, Instant};

use census::{settled, wait_until};
use selvedge_channels::{
    ChannelError, ChannelOptions, Culprit, End, Provider, Reader, SharedChannel, Waiting, Writer,
};

const CHILD: &str = "SELVEDGE_KILLS_CHILD";

const WRITER_POINTS: [&str; 6] = [
    "writer: before the fill",
    "writer: after the fill",
    "writer: before the stamp",
    "writer: after the stamp",
    "writer: after the bells",
    "writer: after growing",
];
const READER_POINTS: [&str; 4] = [
    "reader: with a message in hand",
    "reader: before letting go",
    "reader: after letting go",
    "reader: after following growth",
];
const CLAIMS: [&str; 2] = ["writer: after the claim", "reader: after the claim"];

fn options() -> ChannelOptions {
    ChannelOptions::new()
        .slots(3)
        .readers(2)
        .buffer_bytes(1000)
        .waiting(Waiting::Park)
        .timeout(LATE)
}

/// A time limit beyond the slowest report of a death.
const LATE: Duration = Duration::from_secs(60);

/// The way in which a surviving end waits for the dead one.
#[derive(Clone, Copy, Debug)]
enum Way {
    Waits(Waiting),
    Polls,
}

fn way(dice: &mut Dice) -> Way {
    let ways = [
        Way::Waits(Waiting::Park),
        Way::Waits(Waiting::Spin),
        Way::Waits(Waiting::auto(2)),
        Way::Polls,
    ];
    ways[dice.below(4) as usize]
}

/// Payloads small, large and growing, so that every fault point is reached.
fn payload(number: u64) -> Vec<u8> {
    let len = [8, 900, 3_000, 20, 9_000, 40_000][number as usize % 6] * if number < 60 { 1 } else { 2 };
    vec![number as u8; len]
}

/// Calls `ask` until it returns an answer, or until the time limit.
fn poll<R>(mut ask: impl FnMut() -> Option<R>) -> Option<R> {
    let begun = Instant::now();
    loop {
        match ask() {
            None if begun.elapsed() < LATE => thread::yield_now(),
            answer => return answer,
        }
    }
}

fn write_on(mut writer: Writer<Vec<u8>>, way: Way) -> ChannelError {
    (0..)
        .find_map(|number| match way {
            Way::Polls => {
                let sent = poll(|| match writer.try_send(payload(number)) {
                    Err(refused) if matches!(refused.error, ChannelError::Full) => None,
                    sent => Some(sent),
                });
                sent.expect("an answer").err().map(|it| it.error)
            }
            Way::Waits(_) => writer.send(payload(number)).err().map(|it| it.error),
        })
        .expect("an end")
}

fn read_on(mut reader: Reader<Vec<u8>>, way: Way) -> ChannelError {
    for number in 0.. {
        let read = match way {
            Way::Polls => poll(|| reader.try_recv().transpose()).expect("an answer"),
            Way::Waits(_) => reader.view().map(|view| view.slice().unwrap().to_vec()),
        };
        match read {
            Ok(found) => assert_eq!(found, payload(number)),
            Err(error) => return error,
        }
    }
    unreachable!("so many messages")
}

/// A child: runs the end that its environment variable names, for as long as it lives.
#[test]
#[ignore = "the children's part of the other tests"]
fn child() {
    let Ok(words) = std::env::var(CHILD) else { return };
    let (descriptor, part) = words.split_once(' ').unwrap();
    let channel = SharedChannel::open(&descriptor.parse().unwrap(), options()).unwrap();
    let way = Way::Waits(Waiting::Park);
    let _ended = match part {
        "writer" => write_on(channel.writer().unwrap(), way),
        index => read_on(channel.reader(index.parse().unwrap()).unwrap(), way),
    };
}

/// Child processes, killed on drop, so that a failing test leaves none behind.
struct Kids(Vec<Child>);

impl Drop for Kids {
    fn drop(&mut self) {
        for child in &mut self.0 {
            let _ = child.kill();
            let _ = child.wait();
        }
    }
}

fn start(channel: &SharedChannel<Vec<u8>>, end: End, point: Option<(&str, u64)>) -> Child {
    let part = match end {
        End::Writer => "writer".to_owned(),
        End::Reader(index) => index.to_string(),
    };
    let mut command = Command::new(std::env::current_exe().unwrap());
    command
        .args(["--exact", "child", "--ignored", "--quiet", "--nocapture"])
        .env(CHILD, format!("{} {part}", channel.descriptor()))
        .stdout(Stdio::null())
        .stderr(Stdio::null());
    if let Some((name, count)) = point {
        command.env("SELVEDGE_FAULT_POINT", format!("{name}:{count}"));
    }
    command.spawn().unwrap()
}

/// A pseudo-random generator that repeats its numbers for the same seed (SplitMix64).
struct Dice(u64);

impl Dice {
    fn below(&mut self, bound: u64) -> u64 {
        self.0 = self.0.wrapping_add(0x9E37_79B9_7F4A_7C15);
        let mut mixed = (self.0 ^ self.0 >> 30).wrapping_mul(0xBF58_476D_1CE4_E5B9);
        mixed = (mixed ^ mixed >> 27).wrapping_mul(0x94D0_49BB_1331_11EB);
        (mixed ^ mixed >> 31) % bound
    }
}

/// The provider of the channel's memory.
#[cfg(feature = "named")]
fn provider(dice: &mut Dice) -> Provider {
    [Provider::Memfd, Provider::Named][dice.below(2) as usize]
}

#[cfg(not(feature = "named"))]
fn provider(_: &mut Dice) -> Provider {
    Provider::Memfd
}

/// Counts descriptors and threads of this process, and names of this crate's segments.
fn held() -> (usize, usize, usize) {
    // The creation of a segment sweeps the grown segments that a killed writer has left.
    #[cfg(feature = "named")]
    drop(options().provider(Provider::Named).shared::<u8>().unwrap());
    let count = |path: &str| fs::read_dir(path).unwrap().count();
    let entries = fs::read_dir("/dev/shm").into_iter().flatten().flatten();
    let ours = entries.filter(|entry| entry.file_name().to_string_lossy().starts_with("selvedge-"));
    (count("/proc/self/fd"), count("/proc/self/task"), ours.count())
}

/// Waits until the system reports the death of `child` to its parent, and returns the time.
fn died(child: &mut Child) -> Instant {
    child.wait().unwrap();
    Instant::now()
}

/// Runs one channel whose `victim` is another process, which dies; the other ends are in this process. Returns the time
/// until all of them knew.
fn trial(dice: &mut Dice) -> (Duration, Culprit) {
    let way = way(dice);
    let options = match way {
        Way::Waits(waiting) => options().waiting(waiting),
        Way::Polls => options(),
    };
    let channel = options.provider(provider(dice)).shared::<Vec<u8>>().unwrap();
    let ends = [End::Writer, End::Reader(0), End::Reader(1)];
    let victim = ends[dice.below(3) as usize];
    let points: &[&str] = match victim {
        End::Writer => &WRITER_POINTS,
        End::Reader(_) => &READER_POINTS,
    };
    let armed = cfg!(feature = "fault-points") && dice.below(4) > 0;
    let point = armed.then(|| {
        if dice.below(8) == 0 {
            (CLAIMS[usize::from(victim != End::Writer)], 1)
        } else {
            (
                points[dice.below(points.len() as u64) as usize],
                1 + dice.below(20),
            )
        }
    });
    // Growth happens only a few times per trial.
    let point = point.map(|(name, count)| {
        (
            name,
            if name.contains("grow") {
                1 + count % 3
            } else {
                count
            },
        )
    });
    let delay = Duration::from_micros(dice.below(20_000));

    let mut kids = Kids(vec![start(&channel, victim, point)]);
    let pid = kids.0[0].id();
    channel.expect(victim, pid).unwrap();
    let writes = (victim != End::Writer).then(|| channel.writer().unwrap());
    let reads: Vec<_> = (0..2)
        .filter(|index| victim != End::Reader(*index))
        .map(|index| channel.reader(index).unwrap())
        .collect();
    let expected = Culprit { end: victim, pid };
    let (known, dead) = thread::scope(|scope| {
        let mut survivors = Vec::new();
        if let Some(writer) = writes {
            survivors.push(scope.spawn(move || (write_on(writer, way), Instant::now())));
        }
        for reader in reads {
            survivors.push(scope.spawn(move || (read_on(reader, way), Instant::now())));
        }
        if point.is_none() {
            thread::sleep(delay);
            kids.0[0].kill().unwrap();
        }
        let dead = died(&mut kids.0[0]);
        let known: Vec<_> = survivors.into_iter().map(|it| it.join().unwrap()).collect();
        (known, dead)
    });
    let mut slowest = Duration::ZERO;
    let writer_here = victim != End::Writer;
    for (index, (error, when)) in known.into_iter().enumerate() {
        let is_reader = !(writer_here && index == 0);
        match error {
            ChannelError::Poisoned { culprit } => assert_eq!(culprit, expected, "{point:?}, {way:?}"),
            // A writer here that learns of the death closes; a reader beside it may see only the close.
            ChannelError::Closed if is_reader && writer_here => {}
            other => panic!("{point:?}, {way:?}: {other}"),
        }
        slowest = slowest.max(when.saturating_duration_since(dead));
    }
    assert!(slowest < LATE / 2, "{point:?}, {way:?}: known after {slowest:?}");
    (slowest, expected)
}

/// A writer that dies after it has set a reader's bell to awake, and before it has woken the reader, leaves nobody asleep.
#[test]
#[cfg(feature = "fault-points")]
fn chan_25_a_writer_that_dies_while_it_rings_leaves_no_reader_asleep() {
    for count in 1..=10 {
        let channel = options().shared::<Vec<u8>>().unwrap();
        let mut kids = Kids(vec![start(
            &channel,
            End::Writer,
            Some(("bell: before the wake", count)),
        )]);
        channel.expect(End::Writer, kids.0[0].id()).unwrap();
        let readers = [0, 1].map(|index| channel.reader(index).unwrap());
        let known = thread::scope(|scope| {
            let readers = readers.map(|reader| scope.spawn(|| read_on(reader, Way::Waits(Waiting::Park))));
            let dead = died(&mut kids.0[0]);
            let errors = readers.map(|it| it.join().unwrap());
            assert!(
                errors
                    .iter()
                    .all(|it| matches!(it, ChannelError::Poisoned { .. })),
                "{errors:?}"
            );
            dead.elapsed()
        });
        assert!(known < LATE / 2, "ring {count}: known after {known:?}");
    }
}

#[test]
fn chan_25_every_death_is_heard_of_by_name_and_leaves_nothing() {
    let number = |name: &str, default: u64| std::env::var(name).map_or(default, |text| text.parse().unwrap());
    let (trials, seed) = (number("KILLS", 100), number("SEED", 1));
    let mut dice = Dice(seed);
    trial(&mut dice);
    let before = settled(held);
    let mut times: Vec<_> = (0..trials).map(|_| trial(&mut dice).0).collect();
    assert_eq!(wait_until(&before, held), before, "descriptors and threads");
    times.sort_unstable();
    println!(
        "{trials} kills, seed {seed}: known after {:?} (median), {:?} (p99), {:?} (slowest)",
        times[times.len() / 2],
        times[times.len() * 99 / 100],
        times.last().unwrap()
    );
}
