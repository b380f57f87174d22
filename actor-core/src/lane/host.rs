//! The lane as a program sees it: its actors, its mailbox, its async driver.

mod traffic;

use std::collections::VecDeque;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::Arc;

use selvedge_channels::Doorbell;

use crate::call::request::{ActorCall, CallFault};
use crate::cancel::{Cancellation, Scope, within};
use crate::cell::async_driver::AsyncDriver;
use crate::cell::{ActorCell, Blueprint};
use crate::cores::{CoreError, Kept};
use crate::failure::{Failure, panic_message};
use crate::id::{ActorId, LaneId};
use crate::lane::flights::{Flights, PollLater};
use crate::lane::mailbox::{LaneMessage, Mailbox, ProgramEnd};
use crate::lane::program::Program;

/// The state that a lane's thread owns.
pub(crate) struct LaneState {
    id: LaneId,
    /// Dropped before the actors, which the futures borrow (`FLY-2`).
    flights: Flights,
    /// Sorted by id, because programs look actors up once per computation.
    actors: Vec<ActorCell>,
    driver: AsyncDriver,
    mailbox: Arc<Mailbox>,
    /// Messages that arrived while a program ran and must wait for its end.
    deferred: VecDeque<LaneMessage>,
    /// The core that the thread is pinned to.
    kept: Option<Kept>,
}

/// A lane, lent to a program while the program runs.
pub struct LaneHost<'a> {
    lane: &'a mut LaneState,
}

impl LaneHost<'_> {
    /// The lane's number.
    #[must_use]
    pub fn id(&self) -> LaneId {
        self.lane.id
    }

    /// Returns the actor with this number, if it lives here.
    pub fn actor(&mut self, id: ActorId) -> Option<&mut ActorCell> {
        self.lane.actor(id)
    }

    /// Returns an actor as [`LaneHost::actor`] does, but looks first at the index `seat`, where it was found last.
    #[inline]
    pub fn actor_at(&mut self, seat: &mut usize, id: ActorId) -> Option<&mut ActorCell> {
        let actors = &mut self.lane.actors;
        if actors.get(*seat).is_some_and(|cell| cell.id() == id) {
            return actors.get_mut(*seat);
        }
        *seat = actors.binary_search_by_key(&id, ActorCell::id).ok()?;
        actors.get_mut(*seat)
    }

    /// The driver of this lane's async methods; a clone is cheap and shares the runtime.
    #[must_use]
    pub fn driver(&self) -> AsyncDriver {
        self.lane.driver.clone()
    }

    /// Whether messages wait in the mailbox. One atomic load.
    #[must_use]
    #[inline]
    pub fn mailbox_pending(&self) -> bool {
        self.lane.mailbox.is_pending()
    }

    /// Handles the messages that wait, on this thread: answers calls, and creates or removes actors. Programs and the
    /// request to stop are deferred. What arrives meanwhile waits for the next time, so a future that wakes itself whenever it is
    /// polled never keeps the program from going on.
    pub fn serve_mailbox(&mut self) {
        for _ in 0..self.lane.mailbox.len() {
            let Some(message) = self.lane.mailbox.try_pop() else {
                return;
            };
            match message {
                LaneMessage::Run(..) | LaneMessage::Stop => self.lane.deferred.push_back(message),
                other => self.lane.handle(other),
            }
        }
    }

    /// Takes an actor off the lane, so that it can be put on another one. `None` if it does not live here, or is pinned.
    pub(crate) fn take_actor(&mut self, id: ActorId) -> Option<ActorCell> {
        self.lane.end_flights(id);
        let at = self.lane.actors.binary_search_by_key(&id, ActorCell::id).ok()?;
        if self.lane.actors.get(at)?.is_pinned() {
            return None;
        }
        Some(self.lane.actors.remove(at))
    }

    /// Puts an actor on the lane.
    pub(crate) fn put_actor(&mut self, cell: ActorCell) {
        self.lane.insert(cell);
    }

    pub(crate) fn mailbox(&self) -> Arc<Mailbox> {
        Arc::clone(&self.lane.mailbox)
    }

    /// Whether the lane was abandoned: no message reaches it any more.
    pub(crate) fn is_closed(&self) -> bool {
        self.lane.mailbox.is_closed()
    }

    /// Forwards the messages that wait for actors that are elsewhere, and handles none. The other messages wait for
    /// [`LaneHost::serve_deferred`] or the program's end. A lane that refuses a message has ended; a call for it is
    /// dropped.
    pub(crate) fn sort_mail(&mut self, elsewhere: impl Fn(ActorId) -> Option<Arc<Mailbox>>) {
        while let Some(message) = self.lane.mailbox.try_pop() {
            let actor = match &message {
                LaneMessage::Call(call) => Some(call.actor),
                LaneMessage::Remove(actor) => Some(*actor),
                LaneMessage::Wake(_)
                | LaneMessage::Admit(_)
                | LaneMessage::Create(..)
                | LaneMessage::Run(..)
                | LaneMessage::Stop => None,
            };
            match actor.and_then(&elsewhere) {
                Some(mailbox) => drop(mailbox.push(message)),
                None => self.lane.deferred.push_back(message),
            }
        }
    }

    /// Handles the deferred messages, except programs and the request to stop.
    pub(crate) fn serve_deferred(&mut self) {
        for message in std::mem::take(&mut self.lane.deferred) {
            match message {
                LaneMessage::Run(..) | LaneMessage::Stop => self.lane.deferred.push_back(message),
                other => self.lane.handle(other),
            }
        }
    }

    /// Whether the lane was asked to stop, so that the program should end. Known after [`LaneHost::serve_mailbox`].
    #[must_use]
    pub fn stopping(&self) -> bool {
        self.lane
            .deferred
            .iter()
            .any(|message| matches!(message, LaneMessage::Stop))
    }

    /// Sets the doorbell that is rung when a message arrives while this program runs; `None` removes it, as does the
    /// end of the program. After setting it, check [`LaneHost::mailbox_pending`] once before waiting.
    pub fn set_bell(&mut self, bell: Option<Doorbell>) {
        self.lane.mailbox.set_bell(bell);
    }

    /// Sets the driver of this program's async methods, for [`Lease::wake_async`](crate::Lease::wake_async). The end of
    /// the program removes it.
    pub fn set_driver(&mut self, driver: AsyncDriver) {
        self.lane.mailbox.set_driver(Some(driver));
    }
}

/// Returns the callback of the wakers of flights. A waker that outlives the lane has no effect.
fn poll_later(mailbox: &Arc<Mailbox>) -> PollLater {
    let mailbox = Arc::downgrade(mailbox);
    Arc::new(move |flight| {
        if let Some(mailbox) = mailbox.upgrade() {
            // A closed mailbox belongs to a lane that ends, and its flights with it.
            drop(mailbox.push(LaneMessage::Wake(flight)));
        }
    })
}

impl LaneState {
    pub(crate) fn new(id: LaneId, mailbox: Arc<Mailbox>) -> Self {
        Self {
            id,
            flights: Flights::new(poll_later(&mailbox)),
            actors: Vec::new(),
            driver: AsyncDriver::new(),
            mailbox,
            deferred: VecDeque::new(),
            kept: None,
        }
    }

    /// Handles one message after another, until the lane is told to stop.
    pub(crate) fn run(&mut self) {
        loop {
            let next = self.deferred.pop_front().or_else(|| self.mailbox.wait_pop());
            match next {
                None | Some(LaneMessage::Stop) => return,
                Some(message) => self.handle(message),
            }
        }
    }

    fn handle(&mut self, message: LaneMessage) {
        match message {
            LaneMessage::Create(blueprint, reply) => match self.build(blueprint) {
                Ok(cell) => {
                    self.insert(cell);
                    reply(Ok(()));
                }
                Err(failure) => reply(Err(failure)),
            },
            LaneMessage::Remove(id) => self.remove_in_turn(id),
            LaneMessage::Call(call) => self.answer(call),
            LaneMessage::Wake(flight) => self.poll(flight),
            LaneMessage::Admit(actor) => self.admit(actor),
            LaneMessage::Run(program, end) => self.run_program(program, end),
            LaneMessage::Stop => {}
        }
    }

    /// Builds an actor on the core that it names, so that memory which it allocates is first touched there.
    fn build(&mut self, blueprint: Blueprint) -> Result<ActorCell, Failure> {
        match (blueprint.core, &self.kept) {
            (Some(core), None) => self.kept = Some(Kept::to(core).map_err(Failure::from_error)?),
            (Some(core), Some(kept)) if core != kept.core => {
                let kept = kept.core;
                return Err(Failure::from_error(CoreError::Taken { kept, core }));
            }
            _ => {}
        }
        let driver = self.driver.clone();
        blueprint.build(driver).inspect_err(|_| self.free_core())
    }

    fn remove(&mut self, id: ActorId) {
        if let Ok(at) = self.actors.binary_search_by_key(&id, ActorCell::id) {
            self.end_flights(id);
            drop(self.actors.remove(at));
            self.free_core();
        }
    }

    /// Releases the thread from its core once no actor of the lane names one.
    fn free_core(&mut self) {
        if !self.actors.iter().any(|cell| cell.core().is_some())
            && let Some(kept) = self.kept.take()
        {
            kept.free();
        }
    }

    fn insert(&mut self, cell: ActorCell) {
        match self.actors.binary_search_by_key(&cell.id(), ActorCell::id) {
            // An actor replaces one with the same number. Numbers are never reused, so both are the same actor.
            Ok(at) => {
                if let Some(place) = self.actors.get_mut(at) {
                    *place = cell;
                }
            }
            Err(at) => self.actors.insert(at, cell),
        }
    }

    fn actor(&mut self, id: ActorId) -> Option<&mut ActorCell> {
        let at = self.actors.binary_search_by_key(&id, ActorCell::id).ok()?;
        self.actors.get_mut(at)
    }

    fn actor_ref(&self, id: ActorId) -> Option<&ActorCell> {
        let at = self.actors.binary_search_by_key(&id, ActorCell::id).ok()?;
        self.actors.get(at)
    }

    fn answer(&mut self, call: ActorCall) {
        match self.actor_ref(call.actor) {
            Some(cell) if cell.is_concurrent() => self.line_up(call),
            _ => self.answer_now(call),
        }
    }

    /// Runs a call to its end.
    fn answer_now(&mut self, call: ActorCall) {
        let driver = self.driver.for_call(Arc::clone(&call.cancel));
        let scope = Scope::Of(Cancellation::of_call(Arc::clone(&call.cancel)));
        let result = match self.actor(call.actor) {
            Some(cell) => {
                within(&scope, || cell.call(call.method, call.arguments, &driver)).map_err(CallFault::Failed)
            }
            None => Err(CallFault::NoActor),
        };
        call.cancel.answered();
        (call.reply)(result);
    }

    /// Runs a program. A panic is a bug in the program; the lane and its actors survive it.
    fn run_program(&mut self, mut program: Box<dyn Program>, end: ProgramEnd) {
        let outcome = catch_unwind(AssertUnwindSafe(|| {
            program.run(&mut LaneHost { lane: self });
            drop(program);
        }));
        self.mailbox.set_bell(None);
        self.mailbox.set_driver(None);
        self.end_program();
        end.tell(outcome.err().map(panic_message));
    }
}
