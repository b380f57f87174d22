//! Channels of tensors between processes, which may die at any moment. The tests use the driver that `tests/driver`
//! finds.
//!
//! `KILLS` sets the number of trials, `SEED` the seed, and `MESSAGES` the number of messages in a stream.
#![cfg(all(feature = "cuda", not(any(miri, loom))))]
#![allow(
    missing_docs,
    clippy::unwrap_used,
    clippy::expect_used,
    clippy::panic,
    clippy::indexing_slicing
)] // a test may panic

mod driver;

use std::io::{BufRead, BufReader};
use std::process::{Child, Command, Stdio};
use std::thread;
use std::time::{Duration, Instant};

use selvedge_channels::device::{
    DeviceChannelError, DeviceChannelOptions, DeviceDescriptor, DeviceError, DeviceReader, DeviceWriter, Gpu,
    SharedDeviceChannel, Signals, Stream, TensorLayout,
};
use selvedge_channels::{ChannelError, Culprit, DType, End, Fault, Waiting};

use driver::{
    LONG, SpinKernel, census, census_returns_to, gpu, is_alone, len, no_violations, passes_alone, simulator,
    tensor,
};

const SIGNALS: [Signals; 2] = [Signals::Events, Signals::Values];

const PART: &str = "SELVEDGE_DEVICE_PART";

fn options() -> DeviceChannelOptions {
    DeviceChannelOptions::new(1 << 14)
        .waiting(Waiting::Park)
        .timeout(LONG)
}

/// Sends tensors of varying shapes, and a fault as every fiftieth message.
fn write_on(mut writer: DeviceWriter, stream: &Stream, messages: u64) -> Result<(), DeviceChannelError> {
    for message in 0..messages {
        if message % 50 == 49 {
            writer.send_fault(&Fault::failed(message.to_le_bytes().to_vec(), None))?;
            continue;
        }
        let tensors: Vec<_> = (0..message % 4)
            .map(|index| tensor(message, index, len(message, index)))
            .collect();
        let layouts: Vec<_> = tensors.iter().map(|it| TensorLayout::of(it).unwrap()).collect();
        let mut loan = writer.reserve(stream, &layouts)?;
        for (index, tensor) in tensors.iter().enumerate() {
            loan.upload(index, tensor)?;
        }
        loan.publish()?;
    }
    // This process may end only after the readers' devices have read the tensors; they read memory of this process.
    stream.wait(LONG)?;
    writer.flush(LONG)
}

fn read_on(reader: &mut DeviceReader, stream: &Stream) -> DeviceChannelError {
    for message in 0_u64.. {
        let mut view = match reader.recv(stream) {
            Ok(Ok(view)) => view,
            Ok(Err(fault)) => {
                assert_eq!(fault.report(), message.to_le_bytes());
                continue;
            }
            Err(error) => return error,
        };
        assert_eq!(view.len() as u64, message % 4);
        for index in 0..message % 4 {
            let expected = tensor(message, index, len(message, index));
            match view.download(index as usize, LONG) {
                Ok(found) => assert_eq!(found.bytes(), expected.bytes(), "{message}.{index}"),
                Err(error) => return error,
            }
        }
    }
    unreachable!("so many messages")
}

/// A child: runs the part that its environment variable names.
#[test]
#[ignore = "the children's part of the other tests"]
fn child() {
    let Ok(words) = std::env::var(PART) else { return };
    let (descriptor, part) = words.split_once(' ').unwrap();
    let gpu = Gpu::open(0).unwrap();
    let descriptor: DeviceDescriptor = descriptor.parse().unwrap();
    let channel = SharedDeviceChannel::open(&gpu, &descriptor, &options()).unwrap();
    let stream = Stream::compute(&gpu).unwrap();
    let mut words = part.split(' ');
    match (words.next().unwrap(), words.next().unwrap().parse().unwrap()) {
        ("writer", messages) => {
            let _ended = write_on(channel.writer().unwrap(), &stream, messages);
        }
        ("reader", index) => {
            let mut reader = channel.reader(u32::try_from(index).unwrap()).unwrap();
            let ended = read_on(&mut reader, &stream);
            if matches!(ended, DeviceChannelError::Channel(ChannelError::Closed)) {
                stream.wait(LONG).unwrap();
            }
        }
        // Publishes a message that the device never writes, and waits to be killed.
        ("hangs", number) => {
            SpinKernel::load(&gpu).spin(&stream, number);
            let mut writer = channel.writer().unwrap();
            let layout = TensorLayout::new(DType::U8, [16]).unwrap();
            writer.reserve(&stream, &[layout]).unwrap().publish().unwrap();
            let never = stream.wait(LONG);
            panic!("{never:?}");
        }
        // Reads on a stream that never ends, and waits to be killed.
        ("dawdles", number) => {
            let mut reader = channel.reader(0).unwrap();
            SpinKernel::load(&gpu).spin(&stream, number);
            drop(reader.recv(&stream).unwrap().unwrap());
            let never = stream.wait(LONG);
            panic!("{never:?}");
        }
        (part, _) => panic!("{part}"),
    }
    no_violations();
    drop(channel);
}

/// A child that makes a channel itself: it prints the descriptor for another process, publishes a message that the
/// device never writes, and waits to be killed.
#[test]
#[ignore = "the children's part of another test"]
fn maker() {
    let Ok(word) = std::env::var(PART) else { return };
    let signals = SIGNALS[word.parse::<usize>().unwrap()];
    let gpu = Gpu::open(0).unwrap();
    let channel = options().signals(signals).shared(&gpu).unwrap();
    let stream = Stream::compute(&gpu).unwrap();
    SpinKernel::load(&gpu).spin(&stream, 1);
    let mut writer = channel.writer().unwrap();
    let layout = TensorLayout::new(DType::U8, [16]).unwrap();
    writer.reserve(&stream, &[layout]).unwrap().publish().unwrap();
    println!("descriptor: {}", channel.descriptor());
    let never = stream.wait(LONG);
    panic!("{never:?}");
}

#[test]
fn chan_25_a_maker_that_dies_is_named_at_once() {
    if gpu().is_some() {
        passes_alone("the_maker_dies", &[]);
    }
}

#[test]
#[ignore = "a part of the test above"]
fn the_maker_dies() {
    let (Some(gpu), true) = (gpu(), is_alone()) else {
        return;
    };
    let before = census();
    for (index, signals) in SIGNALS.into_iter().enumerate().rev() {
        let child = Command::new(std::env::current_exe().unwrap())
            .args(["--exact", "maker", "--ignored", "--nocapture"])
            .env(PART, index.to_string())
            .stdout(Stdio::piped())
            .spawn()
            .unwrap();
        let pid = child.id();
        let mut kids = Kids(vec![child]);
        let mut lines = BufReader::new(kids.0[0].stdout.take().unwrap()).lines();
        let descriptor = lines.find_map(|line| Some(line.unwrap().split_once("descriptor: ")?.1.to_owned()));
        let descriptor = descriptor.unwrap().parse().unwrap();
        let channel = SharedDeviceChannel::open(&gpu, &descriptor, &options()).unwrap();
        let stream = Stream::compute(&gpu).unwrap();
        let mut reader = channel.reader(0).unwrap();
        let mut view = reader.recv(&stream).unwrap().unwrap();
        kids.0[0].kill().unwrap();
        let end = End::Writer;
        expect_poisoned(&view.wait(LONG).unwrap_err(), Culprit { end, pid });
        expect_poisoned(&view.release().unwrap_err(), Culprit { end, pid });
        expect_poisoned(&reader.recv(&stream).unwrap_err(), Culprit { end, pid });
        let gone = SharedDeviceChannel::open(&gpu, &descriptor, &options()).unwrap_err();
        let is_gone = matches!(gone, DeviceChannelError::Channel(ChannelError::Segment(_)));
        assert!(is_gone, "{gone}");
        if signals == Signals::Values {
            stream.wait(LONG).unwrap();
            drop((lines, reader, stream, channel, kids));
            census_returns_to(&before);
        }
    }
}

/// Creates a channel with values, takes no endpoint, and waits to be killed.
#[test]
#[ignore = "the children's part of another test"]
fn creator_without_endpoint() {
    if std::env::var_os(PART).is_none() {
        return;
    }
    let gpu = Gpu::open(0).unwrap();
    let channel = options().signals(Signals::Values).shared(&gpu).unwrap();
    println!("descriptor: {}", channel.descriptor());
    std::thread::sleep(LONG);
    panic!("nobody has killed the creator");
}

#[test]
fn chan_25_a_channel_with_values_goes_on_without_a_creator_that_has_no_endpoint() {
    if gpu().is_some() {
        passes_alone("the_creator_without_endpoint_dies", &[]);
    }
}

#[test]
#[ignore = "a part of the test above"]
fn the_creator_without_endpoint_dies() {
    let (Some(gpu), true) = (gpu(), is_alone()) else {
        return;
    };
    let before = census();
    let child = Command::new(std::env::current_exe().unwrap())
        .args(["--exact", "creator_without_endpoint", "--ignored", "--nocapture"])
        .env(PART, "")
        .stdout(Stdio::piped())
        .spawn()
        .unwrap();
    let mut kids = Kids(vec![child]);
    let mut lines = BufReader::new(kids.0[0].stdout.take().unwrap()).lines();
    let descriptor = lines.find_map(|line| Some(line.unwrap().split_once("descriptor: ")?.1.to_owned()));
    let descriptor = descriptor.unwrap().parse().unwrap();
    let channel = SharedDeviceChannel::open(&gpu, &descriptor, &options()).unwrap();
    let (writes, reads) = (Stream::compute(&gpu).unwrap(), Stream::compute(&gpu).unwrap());
    let (mut writer, mut reader) = (channel.writer().unwrap(), channel.reader(0).unwrap());
    kids.0[0].kill().unwrap();
    kids.0[0].wait().unwrap();
    let layout = TensorLayout::new(DType::U8, [16]).unwrap();
    for message in 0..20 {
        let mut loan = writer.reserve(&writes, std::slice::from_ref(&layout)).unwrap();
        loan.fill(0, message).unwrap();
        loan.publish().unwrap();
        let mut view = reader.recv(&reads).unwrap().unwrap();
        assert_eq!(view.download(0, LONG).unwrap().bytes(), [message; 16]);
        view.release().unwrap();
    }
    let gone = SharedDeviceChannel::open(&gpu, &descriptor, &options()).unwrap_err();
    let is_gone = matches!(gone, DeviceChannelError::Channel(ChannelError::Segment(_)));
    assert!(is_gone, "{gone}");
    writes.wait(LONG).unwrap();
    drop((lines, writer, reader, writes, reads, channel, kids));
    census_returns_to(&before);
}

/// Child processes, killed on drop, so that a failing test leaves none behind.
struct Kids(Vec<Child>);

impl Kids {
    fn start(&mut self, channel: &SharedDeviceChannel, part: &str, settings: &[(&str, String)]) -> u32 {
        let child = Command::new(std::env::current_exe().unwrap())
            .args(["--exact", "child", "--ignored", "--quiet", "--nocapture"])
            .env(PART, format!("{} {part}", channel.descriptor()))
            .envs(settings.iter().map(|(name, value)| (*name, value)))
            .stdout(Stdio::null())
            .stderr(Stdio::inherit())
            .spawn()
            .unwrap();
        let pid = child.id();
        self.0.push(child);
        pid
    }

    fn all_end_well(&mut self) {
        for child in &mut self.0 {
            assert!(child.wait().unwrap().success());
        }
    }
}

impl Drop for Kids {
    fn drop(&mut self) {
        for child in &mut self.0 {
            let _ = child.kill();
            let _ = child.wait();
        }
    }
}

/// A number that an environment variable may set.
fn number(name: &str, default: u64) -> u64 {
    std::env::var(name).map_or(default, |text| text.parse().unwrap())
}

/// Runs a channel with the writer in this process and the readers in others.
fn to_other_processes(signals: Signals, slots: usize, readers: u32, messages: u64, seed: u64) {
    let Some(gpu) = gpu() else { return };
    let channel = options()
        .signals(signals)
        .slots(slots)
        .readers(readers as usize)
        .shared(&gpu)
        .unwrap();
    let mut kids = Kids(Vec::new());
    for index in 0..readers {
        let seed = [("SELVEDGE_SIM_SEED", (seed + u64::from(index)).to_string())];
        let pid = kids.start(&channel, &format!("reader {index}"), &seed);
        channel.expect(End::Reader(index), pid).unwrap();
    }
    let stream = Stream::compute(&gpu).unwrap();
    write_on(channel.writer().unwrap(), &stream, messages).unwrap();
    kids.all_end_well();
}

/// Runs a channel with the reader in this process and the writer in another.
fn from_another_process(signals: Signals, slots: usize, messages: u64, seed: u64) {
    let Some(gpu) = gpu() else { return };
    let channel = options().signals(signals).slots(slots).shared(&gpu).unwrap();
    let mut kids = Kids(Vec::new());
    let seed = [("SELVEDGE_SIM_SEED", seed.to_string())];
    let pid = kids.start(&channel, &format!("writer {messages}"), &seed);
    channel.expect(End::Writer, pid).unwrap();
    let stream = Stream::compute(&gpu).unwrap();
    let mut reader = channel.reader(0).unwrap();
    let ended = read_on(&mut reader, &stream);
    assert!(
        matches!(ended, DeviceChannelError::Channel(ChannelError::Closed)),
        "{ended}"
    );
    assert_eq!(reader.position(), messages);
    kids.all_end_well();
}

#[test]
fn acc_05_tensors_come_from_another_process_whatever_the_slots() {
    let messages = number("MESSAGES", 200);
    for slots in 1..=8 {
        for signals in SIGNALS {
            from_another_process(signals, slots, messages, slots as u64);
        }
    }
    no_violations();
}

#[test]
fn acc_08_readers_in_other_processes_get_all_of_them() {
    for (slots, readers) in [(1, 1), (2, 2), (4, 3)] {
        for signals in SIGNALS {
            to_other_processes(signals, slots, readers, 200, slots as u64);
        }
    }
    no_violations();
}

#[test]
fn acc_05_over_the_older_handles_too() {
    if simulator().is_some() {
        passes_alone(
            "without_descriptors",
            &[("SELVEDGE_SIM_FAIL", "cuMemCreate:1:801,cuMemCreate:2:801")],
        );
    }
}

#[test]
#[ignore = "a part of the test above"]
fn without_descriptors() {
    if is_alone() {
        from_another_process(Signals::Events, 2, 100, 1);
        to_other_processes(Signals::Values, 2, 2, 100, 1);
        no_violations();
    }
}

fn expect_poisoned(error: &DeviceChannelError, expected: Culprit) {
    match error {
        DeviceChannelError::Channel(ChannelError::Poisoned { culprit }) => assert_eq!(*culprit, expected),
        other => panic!("{other}"),
    }
}

#[test]
fn chan_25_a_writer_that_dies_before_its_device_wrote_is_named_at_once() {
    if gpu().is_some() {
        passes_alone("the_writer_hangs", &[]);
    }
}

#[test]
#[ignore = "a part of the test above"]
fn the_writer_hangs() {
    let (Some(gpu), true) = (gpu(), is_alone()) else {
        return;
    };
    SIGNALS
        .iter()
        .for_each(|signals| the_writer_hangs_with(&gpu, *signals));
}

fn the_writer_hangs_with(gpu: &Gpu, signals: Signals) {
    let channel = options().signals(signals).shared(gpu).unwrap();
    let mut kids = Kids(Vec::new());
    let pid = kids.start(&channel, "hangs 1", &[]);
    channel.expect(End::Writer, pid).unwrap();
    let stream = Stream::compute(gpu).unwrap();
    let mut reader = channel.reader(0).unwrap();
    let mut view = reader.recv(&stream).unwrap().unwrap();
    let expected = Culprit {
        end: End::Writer,
        pid,
    };
    thread::scope(|scope| {
        let killer = scope.spawn(|| {
            thread::sleep(Duration::from_millis(50));
            kids.0[0].kill().unwrap();
            kids.0[0].wait().unwrap();
            Instant::now()
        });
        let error = view.download(0, LONG).unwrap_err();
        expect_poisoned(&error, expected);
        let dead = killer.join().unwrap();
        assert!(dead.elapsed() < LONG / 2, "at once");
    });
    drop(view);
    expect_poisoned(&reader.recv(&stream).unwrap_err(), expected);
    if signals == Signals::Values {
        stream.wait(LONG).unwrap();
    }
    // The ends and the channel can be dropped, although the stream may never end.
    drop((reader, stream, channel));
}

#[test]
fn chan_25_a_reader_that_dies_before_its_device_read_is_named_at_once() {
    if gpu().is_some() {
        passes_alone("the_reader_dawdles", &[]);
    }
}

#[test]
#[ignore = "a part of the test above"]
fn the_reader_dawdles() {
    let (Some(gpu), true) = (gpu(), is_alone()) else {
        return;
    };
    SIGNALS
        .iter()
        .for_each(|signals| the_reader_dawdles_with(&gpu, *signals));
}

fn the_reader_dawdles_with(gpu: &Gpu, signals: Signals) {
    let channel = options().signals(signals).slots(1).shared(gpu).unwrap();
    let mut kids = Kids(Vec::new());
    let pid = kids.start(&channel, "dawdles 1", &[]);
    channel.expect(End::Reader(0), pid).unwrap();
    let stream = Stream::compute(gpu).unwrap();
    let mut writer = channel.writer().unwrap();
    let layout = TensorLayout::new(DType::U8, [16]).unwrap();
    for _ in 0..2 {
        // The second message waits for the read of the first, on the device alone.
        let mut loan = writer.reserve(&stream, std::slice::from_ref(&layout)).unwrap();
        loan.fill(0, 1).unwrap();
        loan.publish().unwrap();
    }
    kids.0[0].kill().unwrap();
    kids.0[0].wait().unwrap();
    let error = writer
        .reserve(&stream, std::slice::from_ref(&layout))
        .unwrap_err();
    let end = End::Reader(0);
    expect_poisoned(&error, Culprit { end, pid });
    if signals == Signals::Values {
        stream.wait(LONG).unwrap();
    } else {
        let never = stream.wait(Duration::from_millis(20));
        assert!(matches!(never, Err(DeviceError::Timeout { .. })));
    }
    drop((writer, stream, channel));
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

const WRITER_POINTS: [&str; 5] = [
    "writer: after the claim",
    "device writer: with a slot in hand",
    "device writer: after the record",
    "writer: before the stamp",
    "writer: after the stamp",
];
const READER_POINTS: [&str; 5] = [
    "reader: after the claim",
    "device reader: with a message in hand",
    "device reader: before the record",
    "device reader: after the record",
    "reader: after letting go",
];

/// Runs one channel, made here, whose `victim` is another process that dies. Returns the time until the other end knew.
fn trial(gpu: &Gpu, signals: Signals, dice: &mut Dice) -> Duration {
    let slots = 1 + dice.below(4) as usize;
    let channel = options().signals(signals).slots(slots).shared(gpu).unwrap();
    let end = [End::Writer, End::Reader(0)][dice.below(2) as usize];
    let (part, points) = match end {
        End::Writer => ("writer 1000000", WRITER_POINTS),
        End::Reader(_) => ("reader 0", READER_POINTS),
    };
    let mut settings = vec![("SELVEDGE_SIM_SEED", dice.below(1000).to_string())];
    let armed = cfg!(feature = "fault-points") && dice.below(4) > 0;
    if armed {
        let point = points[dice.below(5) as usize];
        let count = if point.ends_with("claim") {
            1
        } else {
            1 + dice.below(12)
        };
        settings.push(("SELVEDGE_FAULT_POINT", format!("{point}:{count}")));
    }
    let mut kids = Kids(Vec::new());
    let pid = kids.start(&channel, part, &settings);
    channel.expect(end, pid).unwrap();
    let stream = Stream::compute(gpu).unwrap();
    let delay = Duration::from_micros(dice.below(60_000));
    let (error, known, dead) = thread::scope(|scope| {
        let (channel, stream) = (&channel, &stream);
        let survivor = scope.spawn(move || {
            let error = match end {
                End::Writer => read_on(&mut channel.reader(0).unwrap(), stream),
                End::Reader(_) => write_on(channel.writer().unwrap(), stream, u64::MAX).unwrap_err(),
            };
            (error, Instant::now())
        });
        if !armed {
            thread::sleep(delay);
            kids.0[0].kill().unwrap();
        }
        kids.0[0].wait().unwrap();
        let dead = Instant::now();
        let (error, known) = survivor.join().unwrap();
        (error, known, dead)
    });
    expect_poisoned(&error, Culprit { end, pid });
    if signals == Signals::Values {
        stream.wait(LONG).unwrap();
    }
    drop((stream, channel));
    known.saturating_duration_since(dead)
}

#[test]
fn chan_25_every_death_is_heard_of_by_name_and_leaves_nothing() {
    if gpu().is_some() {
        passes_alone("kills", &[]);
    }
}

#[test]
#[ignore = "a part of the test above"]
fn kills() {
    let (Some(gpu), true) = (gpu(), is_alone()) else {
        return;
    };
    let (trials, seed) = (number("KILLS", 40), number("SEED", 1));
    let mut dice = Dice(seed);
    trial(&gpu, Signals::Values, &mut dice);
    for signals in [Signals::Values, Signals::Events] {
        let seen = simulator().map_or(0, |simulator| simulator.violations());
        let before = census();
        let mut times: Vec<_> = (0..trials).map(|_| trial(&gpu, signals, &mut dice)).collect();
        match signals {
            // Streams that wait for an event of a dead process stay blocked, and no stream reads unwritten memory.
            Signals::Events => {
                let now = simulator().map_or(0, |simulator| simulator.violations());
                assert_eq!(now, seen, "see SELVEDGE_SIM_REPORT");
            }
            // The streams go on, over memory that the dead process has left unfinished; no reader gets that memory.
            _ => census_returns_to(&before),
        }
        times.sort_unstable();
        println!(
            "{trials} kills, {signals:?}, seed {seed}: known after {:?} (median), {:?} (slowest)",
            times[times.len() / 2],
            times.last().unwrap()
        );
    }
}

#[test]
fn chan_24_a_descriptor_of_nobody_is_refused() {
    let Some(gpu) = gpu() else { return };
    let channel = options().shared(&gpu).unwrap();
    let descriptor = channel.descriptor().clone();
    let own = SharedDeviceChannel::open(&gpu, &descriptor, &options()).unwrap_err();
    assert!(matches!(own, DeviceChannelError::OwnChannel), "{own}");
    let text = descriptor.to_string();
    assert_eq!(text.parse::<DeviceDescriptor>().unwrap(), descriptor);
    // A descriptor of a process that has ended: its number is above every number that the system assigns.
    let (_, rest) = text.split_once(':').unwrap();
    let (_, rest) = rest.split_once(':').unwrap();
    let gone = format!("selvedge-device-1:4194305:{rest}");
    let refused = SharedDeviceChannel::open(&gpu, &gone.parse().unwrap(), &options()).unwrap_err();
    assert!(
        matches!(refused, DeviceChannelError::Channel(ChannelError::Segment(_))),
        "{refused}"
    );
}
