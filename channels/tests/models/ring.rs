//! M5: one writer, N readers, K slots.

use selvedge_channels::{
    ChannelError, Culprit, Doorbell, End, Provider, Region, SEGMENT_HEADER_BYTES, Segment, SharedReader,
    SharedSpec, SharedWriter, decode, format, shared,
};

use crate::explore::{Machine, holds, is_found};

/// The offset of the word that says whether the channel is open, and its value when it is not.
const STATE: usize = 8;
const CLOSED: u64 = 1;
/// The size of a reader's words, and of a slot's header.
const LINE: usize = 128;

#[derive(Clone, Copy, PartialEq)]
enum Mutant {
    None,
    /// No monitor reports a death.
    NoMonitor,
    /// A reader passes a message before it has read it.
    PassesBeforeReading,
    /// A reader never passes.
    NeverPasses,
    /// A writer that closes says so before its last message.
    ClosesFirst,
}

#[derive(Clone, Copy)]
struct Ring {
    slots: u32,
    readers: u32,
    messages: u64,
    closes: bool,
    leaves: bool,
    crashes: u32,
    mutant: Mutant,
}

#[derive(Clone, Copy, Debug, PartialEq, Hash)]
enum Action {
    Write,
    Close,
    Begin(usize),
    End(usize),
    Leave(usize),
    CrashReader(usize),
    CrashWriter,
    Notice,
}

#[derive(Clone, Copy, PartialEq)]
enum Party {
    Here,
    /// Has learned of the end, or has sent everything.
    Done,
    /// Has left.
    Gone,
    Dead,
}

struct Reader {
    end: Option<SharedReader>,
    party: Party,
    /// The message that the reader holds.
    inside: Option<u64>,
    next: u64,
}

struct World {
    region: Region,
    writer: SharedWriter,
    writing: Party,
    closed: bool,
    readers: Vec<Reader>,
    /// The first message that the writer may not write yet, as far as it knows; there it reads the tails again.
    limit: u64,
    crashes: u32,
    unnoticed: Option<Culprit>,
}

impl Ring {
    fn spec(&self) -> SharedSpec {
        SharedSpec {
            slots: self.slots,
            slot_bytes: 1000,
            readers: self.readers,
            max_bytes: 1000,
        }
    }

    fn stamp(&self, world: &World, message: u64) -> u64 {
        let slot = (message % u64::from(self.slots)) as usize;
        let offset = (self.readers as usize + 1 + slot) * LINE;
        world
            .region
            .atomic_u64(offset)
            .unwrap()
            .load(std::sync::atomic::Ordering::Relaxed)
    }

    /// C1: a message that a reader holds keeps its slot and its value.
    fn check_held(&self, world: &mut World) -> Result<(), &'static str> {
        for index in 0..world.readers.len() {
            let Some(message) = world.readers[index].inside else {
                continue;
            };
            if self.stamp(world, message) != message + 1 {
                return Err("C1: a slot was written under a reader's eyes");
            }
            let reader = &mut world.readers[index];
            if self.mutant == Mutant::PassesBeforeReading || reader.party == Party::Dead {
                continue;
            }
            let value = match reader.end.as_mut().unwrap().current() {
                Ok(Some(Ok(bytes))) => decode::<u64>(bytes).ok(),
                _ => None,
            };
            if value != Some(message * 7) {
                return Err("C1: a message changed under a reader's eyes");
            }
        }
        Ok(())
    }

    fn begin(&self, world: &mut World, index: usize) -> Result<(), &'static str> {
        let written = world.writer.position();
        let reader = &mut world.readers[index];
        let end = reader.end.as_mut().unwrap();
        match end.current() {
            Ok(Some(Ok(bytes))) => {
                if decode::<u64>(bytes).unwrap() != reader.next * 7 {
                    return Err("C2: a message out of order");
                }
                reader.inside = Some(reader.next);
                if self.mutant == Mutant::PassesBeforeReading {
                    end.release().unwrap();
                }
            }
            Ok(Some(Err(_))) => return Err("a fault that nobody wrote"),
            Ok(None) => {}
            Err(ChannelError::Closed | ChannelError::Poisoned { .. }) => {
                if reader.next < written {
                    return Err("C4: ended before the last message");
                }
                reader.party = Party::Done;
            }
            Err(_) => return Err("an error without a cause"),
        }
        Ok(())
    }

    fn write(&self, world: &mut World) -> Result<(), &'static str> {
        let number = world.writer.position();
        if number >= world.limit {
            let passed = |reader: &Reader| match &reader.end {
                Some(end) => end.position(),
                None => u64::MAX,
            };
            let slowest = world
                .readers
                .iter()
                .map(passed)
                .min()
                .unwrap_or(u64::MAX)
                .min(number);
            world.limit = world.limit.max(slowest + u64::from(self.slots));
        }
        match world.writer.try_write(&(number * 7)) {
            Ok(true) => {
                let behind = world.readers.iter().filter(|reader| reader.end.is_some());
                let slowest = behind.map(|reader| reader.inside.unwrap_or(reader.next)).min();
                if slowest.is_some_and(|slowest| number + 1 - slowest > u64::from(self.slots)) {
                    return Err("C3: more messages than slots");
                }
            }
            Ok(false) if world.writer.position() == number => {}
            Ok(false) => return Err("C5: a write without space moved the writer"),
            Err(ChannelError::Poisoned { .. } | ChannelError::Closed) => world.writing = Party::Done,
            Err(_) => return Err("an error without a cause"),
        }
        Ok(())
    }
}

impl Machine for Ring {
    type World = World;
    type Action = Action;

    fn fresh(&self) -> World {
        let spec = self.spec();
        let size = spec.size_bytes().unwrap();
        let segment = Segment::create(Provider::Heap, SEGMENT_HEADER_BYTES + size).unwrap();
        // SAFETY: the segment is new, and nothing else uses it.
        let region = unsafe { segment.region(SEGMENT_HEADER_BYTES, size) }.unwrap();
        format(&region, &spec).unwrap();
        let bells: Vec<_> = (0..spec.readers).map(|_| Doorbell::heap()).collect();
        let writer = SharedWriter::attach(region.clone(), &spec, bells).unwrap();
        let reader = |index| Reader {
            end: Some(SharedReader::attach(region.clone(), &spec, index, Doorbell::heap()).unwrap()),
            party: Party::Here,
            inside: None,
            next: 0,
        };
        World {
            readers: (0..spec.readers).map(reader).collect(),
            region: region.clone(),
            writer,
            writing: Party::Here,
            closed: false,
            limit: u64::from(self.slots),
            crashes: 0,
            unnoticed: None,
        }
    }

    fn actions(&self, world: &World) -> Vec<Action> {
        let mut actions = Vec::new();
        if world.writing == Party::Here {
            if world.writer.position() < self.messages {
                actions.push(Action::Write);
            } else if self.closes {
                actions.push(Action::Close);
            }
            if self.closes && self.mutant == Mutant::ClosesFirst {
                actions.push(Action::Close);
            }
            if world.crashes < self.crashes {
                actions.push(Action::CrashWriter);
            }
        }
        for (index, reader) in world.readers.iter().enumerate() {
            if reader.party != Party::Here {
                continue;
            }
            actions.push(if reader.inside.is_some() {
                Action::End(index)
            } else {
                Action::Begin(index)
            });
            if self.leaves {
                actions.push(Action::Leave(index));
            }
            if world.crashes < self.crashes {
                actions.push(Action::CrashReader(index));
            }
        }
        if world.unnoticed.is_some() && self.mutant != Mutant::NoMonitor {
            actions.push(Action::Notice);
        }
        actions
    }

    fn step(&self, world: &mut World, action: Action) -> Result<(), &'static str> {
        let died = |end| Some(Culprit { end, pid: 4121 });
        match action {
            Action::Write => self.write(world)?,
            Action::Close => {
                world.closed = true;
                if self.mutant == Mutant::ClosesFirst && world.writer.position() < self.messages {
                    // The mutant writes the word itself, because an end writes nothing after its own close.
                    let state = world.region.atomic_u64(STATE).unwrap();
                    state.store(CLOSED, std::sync::atomic::Ordering::Relaxed);
                } else {
                    world.writer.close();
                    if world.writer.try_write(&0_u64).is_ok() {
                        return Err("CHAN-06: a write after the end");
                    }
                    world.writing = Party::Done;
                }
            }
            Action::Begin(index) => self.begin(world, index)?,
            Action::End(index) => {
                let reader = &mut world.readers[index];
                if self.mutant != Mutant::PassesBeforeReading && self.mutant != Mutant::NeverPasses {
                    reader.end.as_mut().unwrap().release().unwrap();
                }
                reader.inside = None;
                reader.next += 1;
            }
            Action::Leave(index) => {
                world.readers[index].end = None;
                world.readers[index].inside = None;
                world.readers[index].party = Party::Gone;
            }
            Action::CrashReader(index) => {
                // The reader does nothing any more; its end stays as it is.
                world.readers[index].party = Party::Dead;
                world.crashes += 1;
                world.unnoticed = died(End::Reader(index as u32));
            }
            Action::CrashWriter => {
                world.writing = Party::Dead;
                world.crashes += 1;
                world.unnoticed = died(End::Writer);
            }
            Action::Notice => {
                let culprit = world.unnoticed.take().unwrap();
                shared::poison(&world.region, culprit).unwrap();
            }
        }
        self.check_held(world)
    }

    fn seen(&self, world: &World) -> Vec<u64> {
        let lines = (self.readers + 1 + self.slots) as usize;
        let words = (0..lines * LINE).step_by(8);
        let word = |offset| {
            world
                .region
                .atomic_u64(offset)
                .unwrap()
                .load(std::sync::atomic::Ordering::Relaxed)
        };
        let mut seen: Vec<u64> = words.map(word).collect();
        seen.extend([
            world.writer.position(),
            world.limit,
            world.writing as u64,
            world.closed.into(),
        ]);
        seen.extend([u64::from(world.crashes), u64::from(world.unnoticed.is_some())]);
        for reader in &world.readers {
            seen.extend([
                reader.party as u64,
                reader.next,
                reader.inside.map_or(u64::MAX, |message| message),
            ]);
        }
        seen
    }

    fn rest(&self, world: &World) -> Result<(), &'static str> {
        let ended = world.closed || world.crashes > 0;
        for reader in world.readers.iter().filter(|reader| reader.party == Party::Here) {
            if ended || reader.next < world.writer.position() {
                return Err("a reader waits for ever");
            }
        }
        // After a death, a reader that knows of it misses messages that the writer still sends before it knows.
        let lost = |reader: &Reader| {
            world.crashes == 0 && reader.party == Party::Done && reader.next < world.writer.position()
        };
        if world.readers.iter().any(lost) {
            return Err("C4: a message after the end");
        }
        let all_sent = world.writer.position() == self.messages;
        if world.writing == Party::Here && !all_sent {
            return Err("the writer waits for ever");
        }
        Ok(())
    }
}

const QUIET: Ring = Ring {
    slots: 2,
    readers: 2,
    messages: 4,
    closes: false,
    leaves: false,
    crashes: 0,
    mutant: Mutant::None,
};

#[test]
fn chan_03_every_order_of_calls_keeps_the_protocol() {
    assert!(holds(QUIET) > 100);
    assert!(holds(Ring { slots: 3, ..QUIET }) > 200);
    assert!(
        holds(Ring {
            readers: 3,
            messages: 3,
            ..QUIET
        }) > 300
    );
    assert!(
        holds(Ring {
            slots: 1,
            messages: 3,
            ..QUIET
        }) > 40
    );
}

#[test]
fn chan_06_close_and_leave_end_every_wait() {
    holds(Ring {
        closes: true,
        ..QUIET
    });
    holds(Ring {
        closes: true,
        leaves: true,
        messages: 3,
        ..QUIET
    });
}

#[test]
fn chan_25_a_crash_anywhere_ends_every_wait() {
    assert!(
        holds(Ring {
            crashes: 1,
            messages: 3,
            ..QUIET
        }) > 300
    );
    holds(Ring {
        crashes: 2,
        messages: 2,
        closes: true,
        ..QUIET
    });
}

#[test]
fn mutants_of_the_ring_are_found() {
    let crashing = Ring {
        crashes: 1,
        messages: 3,
        mutant: Mutant::NoMonitor,
        ..QUIET
    };
    is_found(
        crashing,
        &["a reader waits for ever", "the writer waits for ever"],
    );
    let hasty = Ring {
        mutant: Mutant::PassesBeforeReading,
        ..QUIET
    };
    is_found(
        hasty,
        &[
            "C1: a slot was written under a reader's eyes",
            "C3: more messages than slots",
        ],
    );
    let greedy = Ring {
        mutant: Mutant::NeverPasses,
        ..QUIET
    };
    is_found(
        greedy,
        &["C2: a message out of order", "the writer waits for ever"],
    );
    let early = Ring {
        closes: true,
        mutant: Mutant::ClosesFirst,
        ..QUIET
    };
    is_found(early, &["C4: a message after the end"]);
}
