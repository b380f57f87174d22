//! M5e: a lane with two inputs. When one of them fails, the lane computes nothing, does not wait for the other, and
//! goes on with the next execution, where it skips the late message.

use selvedge_channels::{
    AnyValue, Arrival, Doorbell, Fault, Inlet, Message, PayloadType, RingReader, RingWriter, ring,
};

use crate::explore::{Machine, holds, is_found};

const SLOTS: usize = 2;

#[derive(Clone, Copy)]
struct FailFast {
    executions: u64,
    /// The execution in which input 0 fails.
    fails: u64,
    /// Whether the lane skips messages of earlier executions; a mutant takes the next message of any execution.
    skips_leftovers: bool,
}

#[derive(Clone, Copy, Debug, PartialEq, Hash)]
enum Action {
    Write(usize),
    Step,
}

enum Input {
    Value(Box<dyn AnyValue>),
    Raw(RingReader<u64>),
}

struct World {
    writers: [RingWriter<u64>; 2],
    inputs: [Input; 2],
    execution: u64,
    computed: u64,
}

impl FailFast {
    fn message(&self, input: usize, execution: u64) -> Message<u64> {
        if input == 0 && execution == self.fails {
            return Err(Fault::failed(Vec::new(), None));
        }
        Ok(execution * 10 + input as u64)
    }

    /// Polls input number `index` for this execution: `None` before it arrives, then a fault or a value.
    fn look(world: &mut World, index: usize) -> Result<Option<Result<u64, ()>>, &'static str> {
        let execution = world.execution;
        match &mut world.inputs[index] {
            Input::Value(value) => {
                if value.receive(execution).map_err(|_| "a fill failed")? == Arrival::Nothing {
                    return Ok(None);
                }
                if value.fault().is_some() {
                    return Ok(Some(Err(())));
                }
                let typed = value.typed::<u64>().unwrap();
                Ok(Some(Ok(*typed.get().map_err(|_| "no value")?)))
            }
            Input::Raw(reader) => Ok(reader
                .current()
                .map(|message| message.as_ref().map(|value| *value).map_err(drop))),
        }
    }

    fn done(world: &mut World, index: usize) -> Result<(), &'static str> {
        match &mut world.inputs[index] {
            Input::Value(value) => value.read_done().map_err(|_| "a read too many"),
            Input::Raw(reader) => {
                reader.release();
                Ok(())
            }
        }
    }
}

impl Machine for FailFast {
    type World = World;
    type Action = Action;

    fn fresh(&self) -> World {
        let channel = || {
            let (writer, mut readers) = ring::<u64>(SLOTS, Doorbell::heap(), vec![Doorbell::heap()]).unwrap();
            let reader = readers.pop().unwrap();
            let input = if self.skips_leftovers {
                Input::Value(
                    PayloadType::of::<u64>()
                        .value(Inlet::Ring(Box::new(reader)), 1)
                        .unwrap(),
                )
            } else {
                Input::Raw(reader)
            };
            (writer, input)
        };
        let ((left, a), (right, b)) = (channel(), channel());
        World {
            writers: [left, right],
            inputs: [a, b],
            execution: 0,
            computed: 0,
        }
    }

    fn actions(&self, world: &World) -> Vec<Action> {
        let mut actions = Vec::new();
        for (index, writer) in world.writers.iter().enumerate() {
            if writer.position() < self.executions {
                actions.push(Action::Write(index));
            }
        }
        if world.execution < self.executions {
            actions.push(Action::Step);
        }
        actions
    }

    fn step(&self, world: &mut World, action: Action) -> Result<(), &'static str> {
        match action {
            Action::Write(index) => {
                let execution = world.writers[index].position();
                let _ = world.writers[index].try_write(self.message(index, execution));
            }
            Action::Step => {
                let (a, b) = (Self::look(world, 0)?, Self::look(world, 1)?);
                match (a, b) {
                    (Some(Err(())), _) => {
                        // Fail-fast: the lane does not wait for the other input.
                        Self::done(world, 0)?;
                        world.execution += 1;
                    }
                    (Some(Ok(a)), Some(Ok(b))) => {
                        if a != world.execution * 10 || b != a + 1 {
                            return Err("inputs of different executions were combined");
                        }
                        Self::done(world, 0)?;
                        Self::done(world, 1)?;
                        (world.execution, world.computed) = (world.execution + 1, world.computed + 1);
                    }
                    _ => {}
                }
            }
        }
        Ok(())
    }

    fn seen(&self, world: &World) -> Vec<u64> {
        let mut seen = vec![world.execution, world.computed];
        seen.extend(world.writers.iter().map(RingWriter::position));
        // The faults that a poll has noted decide which messages the writer may write next.
        seen.extend(world.inputs.iter().map(|input| match input {
            Input::Value(value) => value.fault().is_some().into(),
            Input::Raw(reader) => reader.position(),
        }));
        seen
    }

    fn rest(&self, world: &World) -> Result<(), &'static str> {
        match (
            world.execution == self.executions,
            world.computed == self.executions - 1,
        ) {
            (true, true) => Ok(()),
            (false, _) => Err("the lane waits for ever"),
            (true, false) => Err("an execution was lost"),
        }
    }
}

const LANE: FailFast = FailFast {
    executions: 4,
    fails: 1,
    skips_leftovers: true,
};

#[test]
fn rw_05_inputs_of_one_execution_are_combined_whatever_fails_when() {
    for fails in 0..3 {
        assert!(holds(FailFast { fails, ..LANE }) > 20);
    }
}

#[test]
fn mutants_of_the_failing_lane_are_found() {
    is_found(
        FailFast {
            skips_leftovers: false,
            ..LANE
        },
        &["inputs of different executions were combined"],
    );
}
