//! M5b: payloads that outgrow their slots, and the memory that they release.

use std::sync::{Mutex, PoisonError};

use selvedge_channels::{
    Doorbell, Provider, Region, SEGMENT_HEADER_BYTES, Segment, SharedReader, SharedSpec, SharedWriter,
    decode, format,
};

use crate::explore::{Machine, holds, is_found};

/// The sizes of the messages in turn: in the slot, outgrown, outgrown again, in the slot, in the grown segment.
const SIZES: [usize; 5] = [10, 2_000, 9_000, 10, 2_000];
const SLOTS: u32 = 2;
const LINE: usize = 128;

/// A lock for one model at a time: descriptors are counted per process.
static ALONE: Mutex<()> = Mutex::new(());

#[derive(Clone, Copy, PartialEq)]
enum Mutant {
    None,
    /// One reader stays at the first message that has grown.
    StaysBehind,
}

#[derive(Clone, Copy)]
struct Growth {
    readers: u32,
    messages: usize,
    mutant: Mutant,
}

#[derive(Clone, Copy, Debug, PartialEq, Hash)]
enum Action {
    Write,
    Begin(usize),
    End(usize),
}

struct World {
    region: Region,
    writer: SharedWriter,
    readers: Vec<(SharedReader, bool)>,
    limit: u64,
    /// The number of descriptors that existed before.
    others: usize,
}

/// The number of descriptors of memfds that this process holds.
fn held() -> usize {
    let fds = std::fs::read_dir("/proc/self/fd").unwrap().flatten();
    let ours = |fd: &std::fs::DirEntry| {
        std::fs::read_link(fd.path()).is_ok_and(|link| link.to_string_lossy().contains("memfd:selvedge"))
    };
    fds.filter(ours).count()
}

fn payload(number: usize) -> Vec<u8> {
    vec![number as u8; SIZES[number]]
}

impl Growth {
    /// The generation that message `number` needs: 0 is the ring's own slots.
    fn generation(number: u64) -> usize {
        let grown = SIZES.iter().take(number as usize + 1).scan(1000, |most, size| {
            let grows = *size > *most;
            *most = (*most).max(*size * if grows { 5 } else { 4 } / 4);
            Some(grows)
        });
        grown.filter(|grows| *grows).count()
    }
}

impl Machine for Growth {
    type World = World;
    type Action = Action;

    fn fresh(&self) -> World {
        let others = held();
        let spec = SharedSpec {
            slots: SLOTS,
            slot_bytes: 1000,
            readers: self.readers,
            max_bytes: 1 << 20,
        };
        let size = spec.size_bytes().unwrap();
        let segment = Segment::create(Provider::Heap, SEGMENT_HEADER_BYTES + size).unwrap();
        // SAFETY: the segment is new, and nothing else uses it.
        let region = unsafe { segment.region(SEGMENT_HEADER_BYTES, size) }.unwrap();
        format(&region, &spec).unwrap();
        let bells: Vec<_> = (0..self.readers).map(|_| Doorbell::heap()).collect();
        let writer = SharedWriter::attach(region.clone(), &spec, bells).unwrap();
        let reader = |index| SharedReader::attach(region.clone(), &spec, index, Doorbell::heap()).unwrap();
        let readers = (0..self.readers).map(|index| (reader(index), false)).collect();
        World {
            region: region.clone(),
            writer,
            readers,
            limit: SLOTS.into(),
            others,
        }
    }

    fn actions(&self, world: &World) -> Vec<Action> {
        let mut actions = Vec::new();
        if world.writer.position() < self.messages as u64 {
            actions.push(Action::Write);
        }
        for (index, (reader, inside)) in world.readers.iter().enumerate() {
            let stays = self.mutant == Mutant::StaysBehind && index == 0 && reader.position() == 1;
            if !stays {
                actions.push(if *inside {
                    Action::End(index)
                } else {
                    Action::Begin(index)
                });
            }
        }
        actions
    }

    fn step(&self, world: &mut World, action: Action) -> Result<(), &'static str> {
        match action {
            Action::Write => {
                let number = world.writer.position();
                let slowest = world
                    .readers
                    .iter()
                    .map(|(reader, _)| reader.position())
                    .min()
                    .unwrap();
                let grows = Self::generation(number) > 0;
                if number >= world.limit || grows {
                    world.limit = world.limit.max(slowest + u64::from(SLOTS));
                }
                world
                    .writer
                    .try_write(&payload(number as usize))
                    .map_err(|_| "a write failed")?;
            }
            Action::Begin(index) => {
                let (reader, inside) = &mut world.readers[index];
                let number = reader.position() as usize;
                match reader.current().map_err(|_| "a read failed")? {
                    Some(Ok(bytes)) if decode::<Vec<u8>>(bytes).ok() != Some(payload(number)) => {
                        return Err("another value than the one that was written");
                    }
                    Some(_) => *inside = true,
                    None => {}
                }
            }
            Action::End(index) => {
                let (reader, inside) = &mut world.readers[index];
                reader.release().map_err(|_| "a release failed")?;
                *inside = false;
            }
        }
        // Two segments may remain: the newest, and one that a reader has not passed yet.
        if held() - world.others > 2 {
            return Err("outgrown memory was kept");
        }
        Ok(())
    }

    fn seen(&self, world: &World) -> Vec<u64> {
        let word = |offset| {
            world
                .region
                .atomic_u64(offset)
                .unwrap()
                .load(std::sync::atomic::Ordering::Relaxed)
        };
        let mut seen = vec![
            world.writer.position(),
            world.limit,
            (held() - world.others) as u64,
        ];
        for (index, (reader, inside)) in world.readers.iter().enumerate() {
            let line = (index + 1) * LINE;
            seen.extend([reader.position(), u64::from(*inside), word(line), word(line + 8)]);
        }
        seen
    }

    fn rest(&self, world: &World) -> Result<(), &'static str> {
        let all = self.messages as u64;
        if world.readers.iter().any(|(reader, _)| reader.position() < all) {
            return Err("somebody waits for ever");
        }
        if held() - world.others > 2 {
            return Err("outgrown memory was kept");
        }
        Ok(())
    }
}

#[test]
fn chan_17_values_are_read_once_from_the_memory_they_were_written_to() {
    let _alone = ALONE.lock().unwrap_or_else(PoisonError::into_inner);
    assert!(
        holds(Growth {
            readers: 1,
            messages: 5,
            mutant: Mutant::None
        }) > 20
    );
    assert!(
        holds(Growth {
            readers: 2,
            messages: 4,
            mutant: Mutant::None
        }) > 50
    );
}

#[test]
fn mutants_of_growth_are_found() {
    let _alone = ALONE.lock().unwrap_or_else(PoisonError::into_inner);
    let stays = Growth {
        readers: 2,
        messages: 4,
        mutant: Mutant::StaysBehind,
    };
    is_found(stays, &["somebody waits for ever"]);
}
