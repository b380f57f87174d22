//! M5d: one message of a channel, read several times by the lane that caches it.

use selvedge_channels::{AnyValue, Arrival, Doorbell, Inlet, PayloadType, RingReader, RingWriter, ring};

use crate::explore::{Machine, holds, is_found};

#[derive(Clone, Copy)]
struct Cache {
    reads: u32,
    /// The number of reads that the value expects; a mutant expects another number.
    believed: u32,
    executions: u64,
}

#[derive(Clone, Copy, Debug, PartialEq, Hash)]
enum Action {
    Write,
    Fill,
    Read,
}

struct World {
    writer: RingWriter<u64>,
    value: Box<dyn AnyValue>,
    execution: u64,
    filled: bool,
    /// Whether a fill was tried: a fill releases leftovers, even if it finds no value.
    tried: bool,
    done: u32,
}

impl Machine for Cache {
    type World = World;
    type Action = Action;

    fn fresh(&self) -> World {
        let (writer, mut readers) = ring::<u64>(1, Doorbell::heap(), vec![Doorbell::heap()]).unwrap();
        let reader: RingReader<u64> = readers.pop().unwrap();
        let value = PayloadType::of::<u64>()
            .value(Inlet::Ring(Box::new(reader)), self.believed)
            .unwrap();
        World {
            writer,
            value,
            execution: 0,
            filled: false,
            tried: false,
            done: 0,
        }
    }

    fn actions(&self, world: &World) -> Vec<Action> {
        let mut actions = Vec::new();
        if world.writer.position() < self.executions {
            actions.push(Action::Write);
        }
        if world.execution < self.executions {
            actions.push(if world.filled { Action::Read } else { Action::Fill });
        }
        actions
    }

    fn step(&self, world: &mut World, action: Action) -> Result<(), &'static str> {
        match action {
            Action::Write => {
                let number = world.writer.position();
                let written = world.writer.try_write(Ok(number * 7)).is_ok();
                if written && number > world.execution {
                    return Err("the next write came before the last read");
                }
            }
            Action::Fill => {
                let filled = world
                    .value
                    .receive(world.execution)
                    .map_err(|_| "a fill failed")?;
                (world.filled, world.tried) = (filled == Arrival::Value, true);
            }
            Action::Read => {
                let value = world.value.typed::<u64>().unwrap();
                if value.get().ok() != Some(&(world.execution * 7)) {
                    return Err("a read of another execution's value");
                }
                world.value.read_done().map_err(|_| "a read too many")?;
                world.done += 1;
                if world.done == self.reads {
                    (world.execution, world.done) = (world.execution + 1, 0);
                    (world.filled, world.tried) = (false, false);
                }
            }
        }
        Ok(())
    }

    fn seen(&self, world: &World) -> Vec<u64> {
        vec![
            world.writer.position(),
            world.execution,
            world.filled.into(),
            world.tried.into(),
            world.done.into(),
        ]
    }

    fn rest(&self, world: &World) -> Result<(), &'static str> {
        if world.execution < self.executions {
            return Err("the lane waits for ever");
        }
        Ok(())
    }
}

const CACHE: Cache = Cache {
    reads: 3,
    believed: 3,
    executions: 4,
};

#[test]
fn cache_02_a_slot_is_given_back_after_the_last_read() {
    assert!(holds(CACHE) > 15);
    holds(Cache {
        reads: 1,
        believed: 1,
        ..CACHE
    });
}

/// A value that expects one read too few releases the slot while a task still reads; one that expects too many keeps
/// the slot until the next execution's fill, which releases leftovers.
#[test]
fn mutants_of_the_cache_are_found() {
    is_found(
        Cache { believed: 2, ..CACHE },
        &["the next write came before the last read"],
    );
    let writes_late = holds(Cache { believed: 4, ..CACHE });
    assert!(writes_late < holds(CACHE), "the writer is held back");
}
