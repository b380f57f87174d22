//! A plan run over counters: who can move moves, until nobody can.

use crate::ir::{Operation, Plan, ValueId, Writer};

use super::cycle::cycle;
use super::{Blocked, Certificate, Deadlock, wiring};

/// What a party does next. Numbers are indices of ends and channels.
pub(super) enum Act {
    /// Waits for this execution's message at an end.
    Read(usize),
    /// Reads of these ends are done; one entry per read.
    Done(Vec<usize>),
    /// Writes one message to each channel, as soon as all ends of all have room (RW-13).
    Write { channels: Vec<usize>, ends: Vec<usize> },
}

pub(super) struct Step {
    pub(super) act: Act,
    pub(super) operation: Option<Operation>,
}

/// A lane, or whoever submits.
pub(super) struct Party {
    name: Writer,
    steps: Vec<Step>,
    step: usize,
    execution: u64,
    /// Ends of the current WRITE already found to have room: they keep it.
    roomy: usize,
    /// The end the party waits at: for a message if it reads there, else for room.
    waits_at: Option<usize>,
}

pub(super) struct Channel {
    pub(super) value: ValueId,
    pub(super) writer: usize,
    pub(super) slots: u64,
    pub(super) written: u64,
    pub(super) ends: Vec<usize>,
}

/// One reader's end of a channel.
pub(super) struct End {
    pub(super) channel: usize,
    pub(super) reader: usize,
    /// Reads in an execution, and reads done of the current one.
    pub(super) reads: u32,
    pub(super) done: u32,
    /// Messages whose slot this reader has given back.
    pub(super) consumed: u64,
}

pub(super) struct Machine {
    pub(super) parties: Vec<Party>,
    pub(super) channels: Vec<Channel>,
    pub(super) ends: Vec<End>,
    pub(super) executions: u64,
    pub(super) taken: u64,
}

/// An end that is in the way, and its place in the list of ends of a WRITE.
struct Obstacle {
    end: usize,
    place: usize,
}

/// Runs `slots + 1` executions with so many slots.
pub(super) fn run(plan: &Plan, slots: u32) -> Result<Certificate, Deadlock> {
    let mut machine = wiring::machine(plan, slots);
    let mut runnable: Vec<usize> = (0..machine.parties.len()).rev().collect();
    while let Some(party) = runnable.pop() {
        machine.advance(party, &mut runnable);
    }
    let stuck = machine.stuck();
    if !stuck.is_empty() {
        return Err(Deadlock { cycle: cycle(stuck) });
    }
    Ok(Certificate {
        executions: machine.executions,
        steps: machine.taken,
        slots,
    })
}

impl Party {
    pub(super) fn new(name: Writer, steps: Vec<Step>) -> Self {
        Party {
            name,
            steps,
            step: 0,
            execution: 0,
            roomy: 0,
            waits_at: None,
        }
    }
}

impl Machine {
    /// Why the party's step cannot be taken now.
    fn obstacle(&self, party: &Party, step: &Step) -> Option<Obstacle> {
        let blocked = |end: usize, receives: bool| {
            let Some(end) = self.ends.get(end) else {
                return true;
            };
            let Some(channel) = self.channels.get(end.channel) else {
                return true;
            };
            let limit = if receives {
                channel.written
            } else {
                end.consumed + channel.slots
            };
            limit <= party.execution
        };
        match &step.act {
            Act::Read(end) => blocked(*end, true).then_some(Obstacle { end: *end, place: 0 }),
            Act::Done(_) => None,
            Act::Write { ends, .. } => {
                let mut ends = ends.iter().enumerate().skip(party.roomy);
                let (place, end) = ends.find(|(_, end)| blocked(**end, false))?;
                Some(Obstacle { end: *end, place })
            }
        }
    }

    /// Runs a party as far as it goes; whoever can move because of it becomes runnable.
    fn advance(&mut self, index: usize, runnable: &mut Vec<usize>) {
        // Taken out while it runs: a party never wakes itself.
        let away = Party::new(Writer::Submit, Vec::new());
        let Some(place) = self.parties.get_mut(index) else {
            return;
        };
        let mut party = std::mem::replace(place, away);
        party.waits_at = None;
        while party.execution < self.executions && !party.steps.is_empty() {
            let Some(step) = party.steps.get(party.step) else {
                (party.execution, party.step) = (party.execution + 1, 0);
                continue;
            };
            if let Some(Obstacle { end, place }) = self.obstacle(&party, step) {
                (party.waits_at, party.roomy) = (Some(end), place);
                break;
            }
            self.take(&step.act, runnable);
            (party.step, party.roomy) = (party.step + 1, 0);
        }
        if let Some(place) = self.parties.get_mut(index) {
            *place = party;
        }
    }

    fn take(&mut self, act: &Act, runnable: &mut Vec<usize>) {
        self.taken += 1;
        match act {
            Act::Read(_) => {}
            Act::Done(ends) => ends.iter().for_each(|end| self.done(*end, runnable)),
            Act::Write { channels, ends } => {
                for channel in channels {
                    if let Some(channel) = self.channels.get_mut(*channel) {
                        channel.written += 1;
                    }
                }
                ends.iter()
                    .for_each(|end| self.wake(self.ends.get(*end).map(|end| end.reader), *end, runnable));
            }
        }
    }

    /// One read is done; the last of an execution gives the slot back (CACHE-02).
    fn done(&mut self, index: usize, runnable: &mut Vec<usize>) {
        let Some(end) = self.ends.get_mut(index) else {
            return;
        };
        end.done += 1;
        if end.done < end.reads {
            return;
        }
        end.done = 0;
        end.consumed += 1;
        let writer = self.channels.get(end.channel).map(|channel| channel.writer);
        self.wake(writer, index, runnable);
    }

    fn wake(&mut self, party: Option<usize>, end: usize, runnable: &mut Vec<usize>) {
        let Some(index) = party else { return };
        if let Some(party) = self.parties.get_mut(index)
            && party.waits_at == Some(end)
        {
            party.waits_at = None;
            runnable.push(index);
        }
    }

    /// Everybody who has not come to the end.
    fn stuck(&self) -> Vec<Blocked> {
        let blocked = |party: &Party| {
            let end = self.ends.get(party.waits_at?)?;
            let channel = self.channels.get(end.channel)?;
            let step = party.steps.get(party.step)?;
            let other = if matches!(step.act, Act::Read(_)) {
                channel.writer
            } else {
                end.reader
            };
            let waits_for = self.parties.get(other)?.name;
            Some(Blocked {
                party: party.name,
                operation: step.operation,
                value: channel.value,
                waits_for,
            })
        };
        self.parties.iter().filter_map(blocked).collect()
    }
}
