//! Flights: the futures of async methods that overlap, all of one lane.
//!
//! The lane's own thread polls them. A waker posts a message to the lane's mailbox, so a future wakes an idle lane, and a
//! lane that waits for its program's inputs, as an ordinary call does. Timers and sockets are served by the helper thread
//! of the lane's async driver.
//!
//! - `FLY-1` a future is polled after each wake: the waker's flag is cleared before the poll, and a wake that finds the
//!   flag clear sets it and posts a message.
//! - `FLY-2` a future is dropped once, on its lane's thread, before its actor's state is dropped, rebuilt or moved.

use std::collections::VecDeque;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::task::{Context, Poll, Wake, Waker};

use selvedge_channels::dispose;
use selvedge_cluster::id_map::IdMap;

use crate::actor::arguments::Returned;
use crate::actor::sharing::MethodFuture;
use crate::call::request::{ActorCall, CallFault, CallReply};
use crate::cancel::{CallCancel, Cancellation, Scope, within};
use crate::cell::async_driver::AsyncDriver;
use crate::failure::Failure;
use crate::id::{ActorId, FlightId};

/// A callback that has the lane poll a flight.
pub(crate) type PollLater = Arc<dyn Fn(FlightId) + Send + Sync>;

/// The one that a flight belongs to.
pub(crate) enum Owner {
    /// An ordinary call, which gets the result.
    Call(Arc<CallCancel>, CallReply),
    /// The lane's program, which asks for the result.
    Program(Cancellation),
}

/// A request that waits until the methods of its actor that are in flight allow it.
pub(crate) enum Ticket {
    Call(ActorCall),
    /// The next task of the program.
    Program,
    /// The removal of the actor.
    Remove,
}

/// The state of a flight.
enum Flight {
    Flying {
        actor: ActorId,
        future: MethodFuture,
        scope: Scope,
        call: Option<(Arc<CallCancel>, CallReply)>,
        waker: Arc<FlightWaker>,
    },
    /// The result of a flight of the program.
    Landed(Result<Returned, Failure>),
}

/// A flight that has just ended.
pub(crate) struct Landing {
    pub(crate) actor: ActorId,
    pub(crate) has_panicked: bool,
}

struct FlightWaker {
    id: FlightId,
    /// Set while a message to the lane is on its way.
    queued: AtomicBool,
    poll_later: PollLater,
}

impl Wake for FlightWaker {
    fn wake(self: Arc<Self>) {
        self.wake_by_ref();
    }

    fn wake_by_ref(self: &Arc<Self>) {
        // SYNC flight-queued: pairs with the swap in `poll`. What the waking thread did before is seen by the poll (FLY-1).
        if !self.queued.swap(true, Ordering::AcqRel) {
            (self.poll_later)(self.id);
        }
    }
}

/// The traffic of one actor: how many of its methods are in flight, and what waits for them.
#[derive(Default)]
pub(crate) struct Traffic {
    pub(crate) flying: u32,
    pub(crate) line: VecDeque<Ticket>,
    /// Set while the lane is about to lend the actor: nothing begins.
    pub(crate) is_held: bool,
}

/// The flights of a lane.
pub(crate) struct Flights {
    next: u64,
    table: IdMap<FlightId, Flight>,
    traffic: IdMap<ActorId, Traffic>,
    poll_later: PollLater,
}

impl Flights {
    pub(crate) fn new(poll_later: PollLater) -> Self {
        Flights {
            next: 0,
            table: IdMap::new(),
            traffic: IdMap::new(),
            poll_later,
        }
    }

    /// The traffic of an actor, from its first method on.
    pub(crate) fn traffic(&mut self, actor: ActorId) -> &mut Traffic {
        self.traffic.or_default(actor)
    }

    /// The traffic of an actor, if there was any.
    pub(crate) fn known(&self, actor: ActorId) -> Option<&Traffic> {
        self.traffic.get(&actor)
    }

    /// The number of an actor's methods in flight.
    pub(crate) fn flying(&self, actor: ActorId) -> u32 {
        self.known(actor).map_or(0, |traffic| traffic.flying)
    }

    /// The actors with traffic.
    pub(crate) fn actors(&self) -> Vec<ActorId> {
        self.traffic.keys().copied().collect()
    }

    /// Adds a flight, which is to be polled next.
    pub(crate) fn add(&mut self, actor: ActorId, future: MethodFuture, owner: Owner) -> FlightId {
        let id = FlightId(self.next);
        self.next += 1;
        let (scope, call) = match owner {
            Owner::Program(cancellation) => (Scope::Of(cancellation), None),
            Owner::Call(cancel, reply) => {
                let scope = Scope::Of(Cancellation::of_call(Arc::clone(&cancel)));
                (scope, Some((cancel, reply)))
            }
        };
        let waker = Arc::new(FlightWaker {
            id,
            queued: AtomicBool::new(false),
            poll_later: Arc::clone(&self.poll_later),
        });
        self.traffic(actor).flying += 1;
        let flight = Flight::Flying {
            actor,
            future,
            scope,
            call,
            waker,
        };
        self.table.insert(id, flight);
        id
    }

    /// Polls a flight; returns `None` if it goes on, or is not there any more.
    pub(crate) fn poll(&mut self, id: FlightId, driver: &AsyncDriver) -> Option<Landing> {
        let Flight::Flying {
            future,
            scope,
            call,
            waker,
            ..
        } = self.table.get_mut(&id)?
        else {
            return None;
        };
        // SYNC flight-queued: cleared before the poll (FLY-1).
        waker.queued.swap(false, Ordering::AcqRel);
        let waker = Waker::from(Arc::clone(waker));
        let _entered = driver.enter();
        if call.as_ref().is_some_and(|(cancel, _)| cancel.listen(&waker)) {
            return self.land(id, Err(Failure::Interrupted), false);
        }
        let mut context = Context::from_waker(&waker);
        // Unwind safe: the future is dropped after a panic, and the policy of its actor decides about the state.
        let polled = catch_unwind(AssertUnwindSafe(|| {
            within(scope, || future.as_mut().poll(&mut context))
        }));
        match polled {
            Ok(Poll::Pending) => {
                driver.awaits();
                None
            }
            Ok(Poll::Ready(result)) => self.land(id, result, false),
            Err(payload) => self.land(id, Err(Failure::panic(payload)), true),
        }
    }

    /// Drops the future of a flight, then hands its result over.
    fn land(
        &mut self,
        id: FlightId,
        result: Result<Returned, Failure>,
        has_panicked: bool,
    ) -> Option<Landing> {
        let Flight::Flying {
            actor, future, call, ..
        } = self.table.remove(&id)?
        else {
            return None;
        };
        dispose(future);
        let traffic = self.traffic(actor);
        traffic.flying = traffic.flying.saturating_sub(1);
        match call {
            Some((cancel, reply)) => {
                cancel.answered();
                reply(result.map_err(CallFault::Failed));
            }
            None => drop(self.table.insert(id, Flight::Landed(result))),
        }
        Some(Landing { actor, has_panicked })
    }

    /// Takes the result of a flight of the program, if it has landed.
    pub(crate) fn take(&mut self, id: FlightId) -> Option<Result<Returned, Failure>> {
        if !matches!(self.table.get(&id), Some(Flight::Landed(_))) {
            return None;
        }
        match self.table.remove(&id)? {
            Flight::Landed(result) => Some(result),
            Flight::Flying { .. } => None,
        }
    }

    /// Drops a flight, where it awaits; returns its actor if it had not landed.
    pub(crate) fn abandon(&mut self, id: FlightId) -> Option<ActorId> {
        let flight = self.table.remove(&id)?;
        let actor = match &flight {
            Flight::Flying { actor, .. } => Some(*actor),
            Flight::Landed(_) => None,
        };
        // A call's reply goes too, which breaks its promise.
        dispose(flight);
        if let Some(actor) = actor {
            let traffic = self.traffic(actor);
            traffic.flying = traffic.flying.saturating_sub(1);
        }
        actor
    }

    /// Drops all flights of the program, and its places in the lines.
    pub(crate) fn end_program(&mut self) {
        let of_program = |flight: &Flight| match flight {
            Flight::Flying { call, .. } => call.is_none(),
            Flight::Landed(_) => true,
        };
        let flights = self.table.iter().filter(|(_, flight)| of_program(flight));
        let ids: Vec<FlightId> = flights.map(|(id, _)| *id).collect();
        for id in ids {
            self.abandon(id);
        }
        for traffic in self.traffic.values_mut() {
            traffic.line.retain(|ticket| !matches!(ticket, Ticket::Program));
        }
    }

    /// Drops all flights of an actor (`FLY-2`); returns what waits for the actor.
    pub(crate) fn end_actor(&mut self, actor: ActorId) -> VecDeque<Ticket> {
        let is_its = |flight: &Flight| matches!(flight, Flight::Flying { actor: of, .. } if *of == actor);
        let flights = self.table.iter().filter(|(_, flight)| is_its(flight));
        let ids: Vec<FlightId> = flights.map(|(id, _)| *id).collect();
        for id in ids {
            self.abandon(id);
        }
        self.traffic
            .remove(&actor)
            .map(|traffic| traffic.line)
            .unwrap_or_default()
    }
}

impl Drop for Flights {
    fn drop(&mut self) {
        for (_, flight) in std::mem::take(&mut self.table) {
            dispose(flight);
        }
    }
}
