//! Continuous batching (Yu et al., "Orca", 2022): the members of a loop come and go between its steps.
//!
//! A member rests, or it is in a step. If several steps may be in flight, the resting members form the next step while
//! the others are in another one. So the groups of a pipeline form and keep their size by themselves.

use std::collections::{BTreeSet, VecDeque};
use std::ops::ControlFlow;
use std::task::Waker;

use crate::batcher::Work;
use crate::error::{BatchError, discard};
use crate::graph_slot::{GraphSlot, Running};
use crate::in_flight::{Completed, InFlight};
use crate::options::Batching;
use crate::pace::Pace;
use crate::queue::Moment;
use crate::sequence::{Grant, Sequence};
use crate::share::{Ask, StepLimits, share};
use crate::shared::Shared;
use crate::ticket::TicketPromise;

struct Member<S: Sequence> {
    sequence: S,
    promise: TicketPromise<S::Output>,
    slot: u32,
    /// The number of members that came before this one.
    number: u64,
    /// The generation of the graph whose actors hold the member's state.
    generation: u64,
    arrival: Moment,
    joined: Moment,
    /// The moment at which the member has to leave.
    leaves: Moment,
}

impl<S: Sequence> Member<S> {
    /// Returns the reason why the member has to leave before the next step, if there is one.
    fn unwanted(&self, now: Moment) -> Option<BatchError> {
        match BatchError::catch("the sequence", || self.sequence.is_cancelled()) {
            Err(panicked) => Some(panicked),
            Ok(cancelled) if cancelled || self.promise.is_abandoned() => Some(BatchError::Cancelled),
            Ok(_) if self.leaves <= now => Some(BatchError::Expired {
                waited: now.saturating_sub(self.arrival),
            }),
            Ok(_) => None,
        }
    }
}

/// The members of one step, each with its grant.
type StepMembers<S> = Vec<(Member<S>, Grant)>;

/// The numbers of the slots. Only a number that was given back takes memory, for there may be billions.
struct Slots {
    most: u32,
    fresh: u32,
    returned: BTreeSet<u32>,
}

impl Slots {
    fn any_free(&self) -> bool {
        self.fresh < self.most || !self.returned.is_empty()
    }

    /// Takes the lowest free number.
    fn take(&mut self) -> Option<u32> {
        let fresh = self.fresh;
        self.returned.pop_first().or_else(|| {
            self.fresh += u32::from(fresh < self.most);
            (fresh < self.most).then_some(fresh)
        })
    }
}

pub(crate) struct Continuous<S: Sequence> {
    in_flight: InFlight<S::Step, S::Answers, StepMembers<S>>,
    /// The members that rest, the one that has rested longest first.
    resting: VecDeque<Member<S>>,
    slots: Slots,
    pace: Pace,
    joined: u64,
    last_leave: Moment,
}

impl<S: Sequence> Continuous<S> {
    pub(crate) fn new(inflight: usize, options: &Batching, waker: Waker) -> Self {
        let slots = u32::try_from(options.max_size).unwrap_or(u32::MAX);
        Continuous {
            in_flight: InFlight::new(inflight, waker),
            resting: VecDeque::new(),
            slots: Slots {
                most: slots,
                fresh: 0,
                returned: BTreeSet::new(),
            },
            pace: Pace::new(options.step_goal, options.max_cost.max(slots as usize)),
            joined: 0,
            last_leave: Moment::ZERO,
        }
    }

    fn complete(
        &mut self,
        shared: &Shared<S, S::Output>,
        completed: Completed<S::Answers, StepMembers<S>>,
        now: Moment,
    ) {
        match completed.result {
            Err(error) => self.all_leave(shared, completed.batch, &error),
            Ok(mut answers) => {
                let granted = completed.batch.iter().map(|(_, grant)| grant.budget);
                let took = now.saturating_sub(completed.began);
                self.pace.took(granted.sum(), took);
                for (mut member, grant) in completed.batch {
                    let said =
                        BatchError::catch("the sequence", || member.sequence.advance(&mut answers, grant));
                    match said {
                        Ok(ControlFlow::Continue(())) => self.resting.push_back(member),
                        Ok(ControlFlow::Break(output)) => {
                            // If several members leave at once, the whole time counts for the first.
                            shared.went_through(1, now.saturating_sub(self.last_leave.max(member.joined)));
                            self.last_leave = now;
                            self.leave(shared, member, Ok(output));
                        }
                        Err(panicked) => self.leave(shared, member, Err(panicked)),
                    }
                }
                discard([answers]);
            }
        }
    }

    fn leave(
        &mut self,
        shared: &Shared<S, S::Output>,
        member: Member<S>,
        answer: Result<S::Output, BatchError>,
    ) {
        self.slots.returned.insert(member.slot);
        shared.answer(vec![(member.promise, answer)]);
        discard([member.sequence]);
    }

    /// Removes the resting members that are cancelled, that have stayed too long, or whose graph is gone, and with it
    /// the state that its actors kept for them. Answers each with the reason.
    fn dismiss(&mut self, shared: &Shared<S, S::Output>, generation: Option<u64>, now: Moment) {
        for _ in 0..self.resting.len() {
            let Some(member) = self.resting.pop_front() else {
                return;
            };
            let unwanted = match generation {
                Some(current) if current == member.generation => member.unwanted(now),
                _ => Some(shared.cause()),
            };
            match unwanted {
                Some(error) => self.leave(shared, member, Err(error)),
                None => self.resting.push_back(member),
            }
        }
    }

    /// Admits waiting items, as far as there are free slots and places in the next step.
    fn admit(&mut self, shared: &Shared<S, S::Output>, generation: u64, now: Moment, places: usize) {
        while self.resting.len() < places
            && self.slots.any_free()
            && let Some(waiting) = shared.take_one()
            && let Some(slot) = self.slots.take()
        {
            let longest = now.saturating_add(shared.options.stay());
            let entry = waiting.value;
            let member = Member {
                sequence: entry.item,
                promise: entry.promise,
                slot,
                number: self.joined,
                generation,
                arrival: waiting.arrival,
                joined: now,
                leaves: entry.deadline.map_or(longest, |own| own.min(longest)),
            };
            self.joined += 1;
            match member.unwanted(now) {
                Some(error) => self.leave(shared, member, Err(error)),
                None => self.resting.push_back(member),
            }
        }
    }

    /// Returns the maximum number of members in one step: all members divided among the steps that may be in flight.
    fn places(&self, shared: &Shared<S, S::Output>) -> usize {
        let all = (self.held() + shared.waiting()).min(self.slots.most as usize);
        all.div_ceil(self.in_flight.most()).max(1)
    }

    /// Returns the costs that the resting members ask for. A member whose `cost` panics is removed.
    fn asks(&mut self, shared: &Shared<S, S::Output>) -> Vec<Ask> {
        let mut asks = Vec::with_capacity(self.resting.len());
        for _ in 0..self.resting.len() {
            let Some(member) = self.resting.pop_front() else {
                break;
            };
            match BatchError::catch("the sequence", || member.sequence.cost()) {
                Ok(cost) => {
                    asks.push(Ask {
                        cost,
                        number: member.number,
                    });
                    self.resting.push_back(member);
                }
                Err(panicked) => self.leave(shared, member, Err(panicked)),
            }
        }
        asks
    }

    /// Returns the maximum cost of a step of `members` members. A member that is alone delays no other, and needs no
    /// small pieces.
    fn step_budget(&self, members: usize) -> usize {
        match self.held() {
            0 | 1 => self.pace.most(),
            _ => self.pace.budget(members),
        }
    }

    /// Forms the next step, of at most `most` members: its input and its members.
    fn form(&mut self, shared: &Shared<S, S::Output>, most: usize) -> (S::Step, StepMembers<S>) {
        let asks = self.asks(shared);
        let limits = StepLimits {
            budget: self.step_budget(asks.len().min(most)),
            slots: self.slots.most as usize,
            members: most,
        };
        let mut grants = vec![0; asks.len()];
        for (index, grant) in share(&asks, limits) {
            if let Some(place) = grants.get_mut(index) {
                *place = grant;
            }
        }
        let (mut step, mut members) = (S::Step::default(), Vec::new());
        for budget in grants {
            let Some(mut member) = self.resting.pop_front() else {
                break;
            };
            if budget == 0 {
                self.resting.push_back(member);
                continue;
            }
            let slot = member.slot;
            let grant = Grant { slot, budget };
            match BatchError::catch("the sequence", || member.sequence.join(&mut step, grant)) {
                Ok(()) => members.push((member, grant)),
                Err(panicked) => self.leave(shared, member, Err(panicked)),
            }
        }
        (step, members)
    }

    /// Begins a step, if there is a member for it. Returns `false` if no step was begun.
    fn begin(
        &mut self,
        shared: &Shared<S, S::Output>,
        graph: &GraphSlot<S::Step, S::Answers>,
        now: Moment,
    ) -> bool {
        let Some(running) = graph.running(shared) else {
            return false;
        };
        self.in_flight.fit(&running.graph);
        let has_begun = self.begin_refused(shared, graph, &running, now);
        self.dismiss(shared, Some(running.generation), now);
        if !self.in_flight.has_room() {
            return has_begun;
        }
        let (step, members) = loop {
            let places = self.places(shared);
            self.admit(shared, running.generation, now, places);
            let (step, members) = self.form(shared, places);
            // If all chosen members panicked, other members may rest.
            if !members.is_empty() {
                break (step, members);
            }
            discard([step]);
            if self.resting.is_empty() {
                return has_begun;
            }
        };
        shared.count(|stats| {
            stats.executions += 1;
            stats.sizes.record(members.len() as u64);
        });
        let time = (now, now.saturating_add(shared.options.timeout));
        if let Err((members, error)) = self.in_flight.submit(&running, step, members, time) {
            self.all_leave(shared, members, &error);
            graph.check(shared);
        }
        true
    }

    /// Begins the step for which the graph had no room, if it has room now; returns whether it has begun. If its members are
    /// on a graph that is gone, they leave.
    fn begin_refused(
        &mut self,
        shared: &Shared<S, S::Output>,
        graph: &GraphSlot<S::Step, S::Answers>,
        running: &Running<S::Step, S::Answers>,
        now: Moment,
    ) -> bool {
        let of_another = |members: &StepMembers<S>| {
            members
                .iter()
                .any(|(member, _)| member.generation != running.generation)
        };
        if let Some(members) = self.in_flight.take_refused_if(of_another) {
            self.all_leave(shared, members, &shared.cause());
        }
        self.in_flight
            .try_again(running, now)
            .unwrap_or_else(|(members, error)| {
                self.all_leave(shared, members, &error);
                graph.check(shared);
                false
            })
    }

    fn all_leave(&mut self, shared: &Shared<S, S::Output>, members: StepMembers<S>, error: &BatchError) {
        for (member, _) in members {
            self.leave(shared, member, Err(error.clone()));
        }
    }
}

impl<S: Sequence> Work for Continuous<S> {
    type Item = S;
    type Output = S::Output;
    type In = S::Step;
    type Out = S::Answers;

    fn turn(
        &mut self,
        shared: &Shared<S, S::Output>,
        graph: &GraphSlot<S::Step, S::Answers>,
        now: Moment,
    ) -> (Option<Moment>, bool) {
        while let Some(completed) = self.in_flight.next_completed(now) {
            self.complete(shared, completed, now);
        }
        graph.check(shared);
        if graph.running(shared).is_none() {
            self.dismiss(shared, None, now);
            if let Some(members) = self.in_flight.take_refused_if(|_| true) {
                self.all_leave(shared, members, &shared.cause());
            }
        }
        let mut begun = false;
        while self.begin(shared, graph, now) {
            begun = true;
        }
        let held = (self.held(), self.in_flight.overdue());
        graph.report(shared, held, |generation| self.in_flight.overdue_on(generation));
        let room = self.in_flight.has_room() && self.slots.any_free();
        let leaves = self.resting.iter().map(|member| member.leaves);
        (self.in_flight.wakes_at(begun, now, leaves), room)
    }

    fn held(&self) -> usize {
        self.resting.len() + self.in_flight.batches().map(Vec::len).sum::<usize>()
    }

    fn let_go(self) {
        discard(self.resting);
        discard(self.in_flight.into_batches().flatten());
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn slots_are_reused_and_cost_nothing_until_then() {
        let mut slots = Slots {
            most: u32::MAX,
            fresh: 0,
            returned: BTreeSet::new(),
        };
        let taken = [slots.take(), slots.take(), slots.take()];
        assert_eq!(taken, [Some(0), Some(1), Some(2)]);
        slots.returned.extend([2, 0]);
        assert_eq!([slots.take(), slots.take()], [Some(0), Some(2)]);
        slots.fresh = u32::MAX - 1;
        assert_eq!([slots.take(), slots.take()], [Some(u32::MAX - 1), None]);
        assert!(!slots.any_free());
        slots.returned.insert(7);
        assert!(slots.any_free());
    }
}
