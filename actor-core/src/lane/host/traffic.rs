//! Traffic: which methods of an actor with overlapping methods may begin, and when.
//!
//! A method with `&self` begins while fewer than the actor's concurrency are in flight; one with `&mut self` begins when
//! none is. What cannot begin waits in a line, and nothing overtakes it. The line holds ordinary calls, one place for
//! the program's next task, and the removal of the actor.

use crate::actor::arguments::{Arguments, Returned};
use crate::actor::sharing::{Overlap, Sharing};
use crate::call::request::{ActorCall, CallFault};
use crate::cancel::{Cancellation, Scope, within};
use crate::cell::ActorCell;
use crate::failure::Failure;
use crate::id::{ActorId, FlightId};
use crate::lane::flights::{Landing, Owner, Ticket};
use crate::lane::host::{LaneHost, LaneState};
use crate::lane::mailbox::LaneMessage;

impl LaneHost<'_> {
    /// Whether the program may run a method of an actor with overlapping methods now. If not, the program gets a place in
    /// the actor's line, and asks again whenever the lane has moved.
    pub fn may_run(&mut self, actor: ActorId, sharing: &Sharing) -> bool {
        let is_free = self.lane.is_free(actor, sharing);
        let traffic = self.lane.flights.traffic(actor);
        let is_mine = |ticket: &Ticket| matches!(ticket, Ticket::Program);
        if is_free && traffic.line.front().is_none_or(is_mine) {
            if traffic.line.pop_front().is_some() {
                self.lane.admit_later(actor);
            }
            return true;
        }
        if !traffic.line.iter().any(is_mine) {
            traffic.line.push_back(Ticket::Program);
        }
        false
    }

    /// Gives up the program's place in an actor's line.
    pub fn withdraw(&mut self, actor: ActorId) {
        let traffic = self.lane.flights.traffic(actor);
        traffic.line.retain(|ticket| !matches!(ticket, Ticket::Program));
        self.lane.admit_later(actor);
    }

    /// Begins an async method that overlaps, after [`may_run`](Self::may_run) has returned `true`. The future is polled
    /// once at once, and later whenever it is woken.
    ///
    /// # Errors
    /// [`Failure`] if the actor is not here, or if its state or the arguments cannot be used.
    pub fn fly(
        &mut self,
        actor: ActorId,
        overlap: &Overlap,
        arguments: Arguments,
        cancellation: Cancellation,
    ) -> Result<FlightId, Box<Failure>> {
        let cell = self.lane.actor(actor);
        let cell =
            cell.ok_or_else(|| Failure::Internal(format!("actor {} does not live on this lane", actor.0)))?;
        let future = cell.begin(overlap, arguments)?;
        let id = self.lane.flights.add(actor, future, Owner::Program(cancellation));
        self.lane.poll(id);
        Ok(id)
    }

    /// Takes the result of a flight of the program; `None` while the flight goes on.
    pub fn landed(&mut self, id: FlightId) -> Option<Result<Returned, Failure>> {
        self.lane.flights.take(id)
    }

    /// Drops a flight of the program, where it awaits.
    pub fn abandon(&mut self, id: FlightId) {
        if let Some(actor) = self.lane.flights.abandon(id) {
            self.lane.has_left(actor);
        }
    }

    /// Stops methods of actors that are about to be lent from beginning, or ends that stop.
    pub(crate) fn hold(&mut self, actors: &[ActorId], is_held: bool) {
        for actor in actors {
            let is_concurrent = self.lane.actor(*actor).is_some_and(|cell| cell.is_concurrent());
            if is_concurrent {
                self.lane.flights.traffic(*actor).is_held = is_held;
                self.lane.admit_later(*actor);
            }
        }
    }

    /// Whether methods of one of these actors are in flight.
    pub(crate) fn has_flights(&self, actors: &[ActorId]) -> bool {
        actors.iter().any(|actor| self.lane.flights.flying(*actor) > 0)
    }
}

impl LaneState {
    /// Polls a flight that was woken.
    pub(super) fn poll(&mut self, id: FlightId) {
        if let Some(landing) = self.flights.poll(id, &self.driver) {
            self.has_landed(&landing);
        }
    }

    fn has_landed(&mut self, landing: &Landing) {
        if landing.has_panicked
            && let Some(cell) = self.actor(landing.actor)
        {
            cell.flight_panicked();
        }
        self.has_left(landing.actor);
    }

    /// A flight is over. If a panic asked for a new state, the last one makes it, so no method begins with the old one.
    fn has_left(&mut self, actor: ActorId) {
        self.recover_if_idle(actor);
        self.admit_later(actor);
    }

    fn recover_if_idle(&mut self, actor: ActorId) {
        if self.flights.flying(actor) == 0
            && let Some(cell) = self.actor(actor)
        {
            cell.recover();
        }
    }

    /// Whether a method may begin now, but for those that wait in line.
    fn is_free(&self, actor: ActorId, sharing: &Sharing) -> bool {
        let Some(cell) = self.actor_ref(actor) else {
            return true;
        };
        let (flying, known) = (self.flights.flying(actor), self.flights.known(actor));
        !known.is_some_and(|traffic| traffic.is_held)
            && match sharing {
                Sharing::Exclusive => flying == 0,
                Sharing::Shared => true,
                Sharing::Overlapping(_) => flying < cell.concurrency() && !cell.is_tripped(),
            }
    }

    /// Has the lane begin what waits for an actor, as soon as the lane handles its mail.
    fn admit_later(&self, actor: ActorId) {
        if self
            .flights
            .known(actor)
            .is_some_and(|traffic| !traffic.line.is_empty())
            || self.actor_ref(actor).is_some_and(ActorCell::is_tripped)
        {
            // A closed mailbox belongs to a lane that ends.
            drop(self.mailbox.push(LaneMessage::Admit(actor)));
        }
    }

    /// Begins what waits for an actor, in order, as far as the methods in flight allow.
    pub(super) fn admit(&mut self, actor: ActorId) {
        self.recover_if_idle(actor);
        while let Some(ticket) = self.next_ticket(actor) {
            match ticket {
                Ticket::Call(call) => self.begin_call(call),
                Ticket::Remove => self.remove(actor),
                Ticket::Program => {}
            }
        }
    }

    /// Takes the first request of an actor's line, if it may begin. The program takes its place itself.
    fn next_ticket(&mut self, actor: ActorId) -> Option<Ticket> {
        let may_begin = match self.flights.known(actor)?.line.front()? {
            Ticket::Program => false,
            Ticket::Remove => self.is_free(actor, &Sharing::Exclusive),
            Ticket::Call(call) => self.is_free(actor, &self.sharing(call)),
        };
        let line = &mut self.flights.traffic(actor).line;
        if may_begin { line.pop_front() } else { None }
    }

    fn sharing(&self, call: &ActorCall) -> Sharing {
        let cell = self.actor_ref(call.actor);
        let method = cell.and_then(|cell| call.method.of(cell.entry()));
        method.map_or(Sharing::Shared, |method| method.sharing)
    }

    /// Takes a call for an actor whose methods may overlap.
    pub(super) fn line_up(&mut self, call: ActorCall) {
        let actor = call.actor;
        self.flights.traffic(actor).line.push_back(Ticket::Call(call));
        self.admit(actor);
    }

    /// Begins a call: as a flight if its method overlaps, else to its end.
    fn begin_call(&mut self, call: ActorCall) {
        let sharing = self.sharing(&call);
        let cell = self.actor(call.actor);
        let (Sharing::Overlapping(overlap), Some(cell)) = (sharing, cell) else {
            return self.answer_now(call);
        };
        if cell.is_visiting() {
            return self.answer_now(call);
        }
        if call.cancel.is_cancelled() {
            return (call.reply)(Err(CallFault::Failed(Failure::Interrupted)));
        }
        let scope = Scope::Of(Cancellation::of_call(call.cancel.clone()));
        match within(&scope, || cell.begin(&overlap, call.arguments)) {
            Ok(future) => {
                let owner = Owner::Call(call.cancel, call.reply);
                let id = self.flights.add(call.actor, future, owner);
                self.poll(id);
            }
            Err(failure) => (call.reply)(Err(CallFault::Failed(failure))),
        }
    }

    /// Removes an actor, after the requests that came before.
    pub(super) fn remove_in_turn(&mut self, actor: ActorId) {
        if self.flights.known(actor).is_some() {
            self.flights.traffic(actor).line.push_back(Ticket::Remove);
            self.admit(actor);
        } else {
            self.remove(actor);
        }
    }

    /// Ends the flights of an actor that leaves the lane, and puts what waits for it back into the mailbox.
    pub(super) fn end_flights(&mut self, actor: ActorId) {
        for ticket in self.flights.end_actor(actor) {
            let message = match ticket {
                Ticket::Call(call) => LaneMessage::Call(call),
                Ticket::Remove => LaneMessage::Remove(actor),
                Ticket::Program => continue,
            };
            // A closed mailbox belongs to a lane that ends.
            drop(self.mailbox.push(message));
        }
    }

    /// Ends the flights of the program.
    pub(super) fn end_program(&mut self) {
        self.flights.end_program();
        for actor in self.flights.actors() {
            self.admit_later(actor);
        }
    }
}
