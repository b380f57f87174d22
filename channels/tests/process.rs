//! Two processes: this test binary, and a second instance of it as the child.
#![cfg(not(any(miri, loom)))] // Miri starts no processes
#![allow(
    missing_docs,
    unsafe_code,
    clippy::unwrap_used,
    clippy::expect_used,
    clippy::panic,
    clippy::indexing_slicing
)] // a test may panic

use std::process::{Child, Command, Stdio};
use std::time::{Duration, Instant};

use selvedge_channels::{
    ChannelError, Culprit, Doorbell, End, Provider, Region, SEGMENT_HEADER_BYTES, Segment, SegmentId,
    SharedReader, SharedSpec, SharedWriter, Waiting, decode, ends_spinning, format, may_spin, shared,
};

const CHILD: &str = "SELVEDGE_CHANNELS_TEST_CHILD";

const CULPRIT: Culprit = Culprit {
    end: End::Reader(0),
    pid: 4121,
};
const WAITING: Waiting = Waiting::SpinThenPark(Duration::from_micros(50));

fn spec() -> SharedSpec {
    SharedSpec {
        slots: 3,
        slot_bytes: 1000,
        readers: 1,
        max_bytes: 1 << 30,
    }
}

/// The contents of the segment: two doorbells (writer, reader), then a channel there and one back.
struct Layout {
    bells: [Doorbell; 2],
    there: Region,
    back: Region,
}

impl Layout {
    fn len_bytes() -> usize {
        SEGMENT_HEADER_BYTES + 2 * Doorbell::BYTES + 2 * spec().size_bytes().unwrap().next_multiple_of(64)
    }

    fn of(segment: &Segment) -> Self {
        let size = spec().size_bytes().unwrap();
        let at = |offset, len| {
            // SAFETY: both processes lay the segment out in this way, and use it for nothing else.
            unsafe { segment.region(SEGMENT_HEADER_BYTES + offset, len) }.unwrap()
        };
        let bell = |index: usize| Doorbell::at(at(index * Doorbell::BYTES, Doorbell::BYTES)).unwrap();
        let channel = |index: usize| at(2 * Doorbell::BYTES + index * size.next_multiple_of(64), size);
        Layout {
            bells: [bell(0), bell(1)],
            there: channel(0),
            back: channel(1),
        }
    }

    fn ends(&self, reads: &Region, writes: &Region) -> (SharedReader, SharedWriter) {
        let bells = self.bells.to_vec();
        // Each end rings the bells of both sides: a spurious wake-up must do no harm.
        let reader = SharedReader::attach(reads.clone(), &spec(), 0, bells[0].clone()).unwrap();
        let writer = SharedWriter::attach(writes.clone(), &spec(), bells).unwrap();
        (reader, writer)
    }
}

/// The child: echoes every payload until the channel ends. With `hang` it stops reading after one.
#[test]
#[ignore = "the child's part of the other tests"]
fn child() {
    let Ok(words) = std::env::var(CHILD) else { return };
    let words: Vec<u64> = words.split(' ').map(|word| word.parse().unwrap()).collect();
    let [pid, fd, nonce, len_bytes, hang] = words[..] else {
        panic!("{words:?}")
    };
    let id = SegmentId {
        pid: pid as u32,
        fd: fd as i32,
        nonce,
        len_bytes,
    };
    let layout = Layout::of(&Segment::open(&id).unwrap());
    let (mut reader, mut writer) = layout.ends(&layout.there, &layout.back);
    loop {
        let mut ended = false;
        layout.bells[1].wait(&WAITING, None, || {
            let ready = reader.ready();
            ended = ready.is_err();
            ended || matches!(ready, Ok(true))
        });
        if ended {
            return;
        }
        let bytes = reader.current().unwrap().unwrap().unwrap().to_vec();
        reader.release().unwrap();
        layout.bells[1].wait(&WAITING, None, || writer.has_space().unwrap());
        assert!(writer.try_write_bytes(&bytes).unwrap());
        if hang == 1 {
            std::thread::sleep(Duration::from_secs(60));
        }
    }
}

fn start(segment: &Segment, hang: u64) -> Child {
    let id = segment.id().unwrap();
    Command::new(std::env::current_exe().unwrap())
        .args(["--exact", "child", "--ignored", "--quiet", "--nocapture"])
        .env(
            CHILD,
            format!("{} {} {} {} {hang}", id.pid, id.fd, id.nonce, id.len_bytes),
        )
        .stdout(Stdio::null())
        .spawn()
        .unwrap()
}

fn make() -> (Segment, Layout) {
    let segment = Segment::create(Provider::Memfd, Layout::len_bytes()).unwrap();
    let layout = Layout::of(&segment);
    format(&layout.there, &spec()).unwrap();
    format(&layout.back, &spec()).unwrap();
    (segment, layout)
}

fn deadline() -> Option<Instant> {
    Some(Instant::now() + Duration::from_secs(60))
}

#[test]
fn chan_16_another_process_follows_growth_in_both_directions() {
    let (segment, layout) = make();
    let (mut reader, mut writer) = layout.ends(&layout.back, &layout.there);
    let mut child = start(&segment, 0);
    for (number, len) in [8, 3_000, 100, 400_000, 20, 5_000_000, 5_000_000, 0]
        .into_iter()
        .enumerate()
    {
        let sent = vec![number as u8; len];
        assert!(writer.try_write(&sent).unwrap());
        assert!(layout.bells[0].wait(&WAITING, deadline(), || reader.ready().unwrap()));
        let bytes = reader.current().unwrap().unwrap().unwrap();
        assert_eq!(decode::<Vec<u8>>(bytes).unwrap(), sent);
        reader.release().unwrap();
    }
    writer.close();
    assert!(child.wait().unwrap().success());
}

#[test]
fn chan_25_a_killed_reader_blocks_nobody_once_it_is_known() {
    let (segment, layout) = make();
    let (mut reader, mut writer) = layout.ends(&layout.back, &layout.there);
    let mut child = start(&segment, 1);
    assert!(writer.try_write(&1u8).unwrap());
    assert!(layout.bells[0].wait(&WAITING, deadline(), || reader.ready().unwrap()));
    while writer.has_space().unwrap() {
        assert!(writer.try_write(&2u8).unwrap());
    }
    child.kill().unwrap();
    child.wait().unwrap();
    // Until the death is reported, the ring is merely full.
    let soon = Some(Instant::now() + Duration::from_millis(5));
    assert!(!layout.bells[0].wait(&WAITING, soon, || writer.has_space().unwrap()));
    std::thread::scope(|scope| {
        scope.spawn(|| {
            std::thread::sleep(Duration::from_millis(5));
            shared::poison(&layout.there, CULPRIT).unwrap();
            shared::poison(&layout.back, CULPRIT).unwrap();
            layout.bells[0].ring();
        });
        let mut found = Ok(false);
        assert!(layout.bells[0].wait(&Waiting::Park, deadline(), || {
            found = writer.has_space();
            found.is_err()
        }));
        assert!(matches!(found, Err(ChannelError::Poisoned { culprit: CULPRIT })));
    });
    reader.release().unwrap();
    assert!(matches!(
        reader.ready(),
        Err(ChannelError::Poisoned { culprit: CULPRIT })
    ));
}

/// Keeps to the first core that this process may use.
fn keep_to_a_core() {
    let allowed = rustix::thread::sched_getaffinity(None).unwrap();
    let mut one = rustix::thread::CpuSet::new();
    one.set((0..).find(|core| allowed.is_set(*core)).unwrap());
    rustix::thread::sched_setaffinity(None, &one).unwrap();
}

/// Holds the permit to spin on a core, whenever it gets it.
#[test]
#[ignore = "the child's part of another test"]
fn spins() {
    if std::env::var_os(CHILD).is_some() {
        keep_to_a_core();
        loop {
            may_spin(Instant::now());
            std::thread::yield_now();
        }
    }
}

fn spinner() -> Child {
    Command::new(std::env::current_exe().unwrap())
        .args(["--exact", "spins", "--ignored", "--quiet", "--nocapture"])
        .env(CHILD, "")
        .stdout(Stdio::null())
        .spawn()
        .unwrap()
}

#[test]
#[cfg_attr(
    any(selvedge_portable, not(target_os = "linux")),
    ignore = "processes share no permits there"
)]
fn permit_02_another_process_is_refused_a_core_until_the_one_that_spins_there_is_killed() {
    let mut child = spinner();
    let deadline = Instant::now() + Duration::from_secs(60);
    let asks_until = |wanted: bool| {
        while may_spin(Instant::now()) != wanted {
            assert!(Instant::now() < deadline, "{wanted}");
            ends_spinning();
            std::thread::yield_now();
        }
    };
    keep_to_a_core();
    asks_until(false);
    child.kill().unwrap();
    child.wait().unwrap();
    asks_until(true);
}

/// In a namespace that only these processes have, so that the memory of others does not count.
#[test]
fn the_memory_of_the_permits_is_one_and_ends_with_its_last_process_also_if_all_are_killed() {
    // SAFETY: only this thread and the processes that it starts leave the namespace, and no memory is attached here.
    if let Err(error) = unsafe { rustix::thread::unshare_unsafe(rustix::thread::UnshareFlags::NEWIPC) } {
        let _ = std::io::Write::write_all(
            &mut std::io::stderr(),
            format!("\nleft out: a namespace of its own: {error}\n").as_bytes(),
        );
        return;
    }
    // Of each segment, whether it is removed, and the number of its processes.
    let segments = || -> Vec<(bool, u64)> {
        let table = std::fs::read_to_string("/proc/sysvipc/shm").unwrap();
        let lines = table.lines().skip(1).map(|line| {
            let fields: Vec<&str> = line.split_whitespace().collect();
            (fields[2] == "1600", fields[6].parse().unwrap())
        });
        lines.collect()
    };
    let deadline = Instant::now() + Duration::from_secs(60);
    // All of them share one segment, which has no name any more.
    let waits_for = |processes: u64| {
        while segments() != [(true, processes)] {
            assert!(Instant::now() < deadline, "{:?}", segments());
            std::thread::yield_now();
        }
    };
    let kills = |children: &mut [Child]| {
        for child in children {
            child.kill().unwrap();
            child.wait().unwrap();
        }
    };
    let mut children = [(); 3].map(|()| spinner());
    waits_for(3);
    kills(&mut children);
    assert_eq!(segments(), []);
    // At random moments, also between the making of a segment and its removal: then the next process removes it.
    for _ in 0..30 {
        kills(&mut [spinner(), spinner()]);
    }
    let mut last = [spinner()];
    waits_for(1);
    kills(&mut last);
    assert_eq!(segments(), []);
}
