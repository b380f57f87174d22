//! Gathering: lanes, the guests, lend their actors to another lane of their process, the host, while its program runs.
//!
//! The host's program finds all actors on its own lane. The guests' threads sleep meanwhile, and forward messages for
//! actors that are away.
//!
//! - `LEND-1` a cell is in exactly one place: its home, the exchange, or the host. The exchange hands cells over under
//!   a lock and rings the doorbell of the lane that waits for them.
//! - `LEND-2` messages are sorted under the exchange's lock, to the host before the end and home after it, so no call
//!   finds its actor away.
//! - `LEND-3` the host returns every cell when its program ends, also by a panic or before it began. A guest that arrives after that keeps
//!   its cells. So a guest that has lent waits only for the end of the host, and a guest that was abandoned (its mailbox is closed)
//!   ends without its actors.
//! - `LEND-4` a cell leaves its lane only while no method of the actor is in flight: the guest holds what would begin, and
//!   waits for the others.

use std::panic::{AssertUnwindSafe, catch_unwind, resume_unwind};
use std::sync::Arc;

use parking_lot::Mutex;
use selvedge_channels::{Doorbell, Waiting};
use selvedge_cluster::id_map::IdMap;

use crate::cell::ActorCell;
use crate::id::{ActorId, LaneId};
use crate::lane::host::LaneHost;
use crate::lane::mailbox::Mailbox;
use crate::lane::program::{LoadedPrograms, Program};

/// The actors that one lane lends.
struct Share {
    lane: LaneId,
    actors: Vec<ActorId>,
    /// Rung when the actors are back, and when messages can be forwarded to the host.
    bell: Doorbell,
}

#[derive(Default)]
struct GatherState {
    /// The host's mailbox, once all actors are there.
    host: Option<Arc<Mailbox>>,
    /// The guests' mailboxes.
    homes: IdMap<LaneId, Arc<Mailbox>>,
    /// The cells on the way to the host, by guest.
    offered: IdMap<LaneId, Vec<ActorCell>>,
    /// The cells on the way back, by guest.
    returned: IdMap<LaneId, Vec<ActorCell>>,
    ended: bool,
}

/// The exchange, where cells are handed over.
struct Exchange {
    state: Mutex<GatherState>,
    /// The host's doorbell.
    bell: Doorbell,
    shares: Vec<Arc<Share>>,
}

/// Returns programs with which the `guests` lend their actors to the lane `host` while `program` runs there, and the
/// host's own program. `bell` wakes the host while it waits for its guests. `ended` tells the host to stop waiting.
#[must_use]
pub fn gather(
    (host, program): (LaneId, Box<dyn Program>),
    guests: Vec<(LaneId, Vec<ActorId>)>,
    bell: Doorbell,
    ended: Box<dyn Fn() -> bool + Send>,
) -> LoadedPrograms {
    if guests.is_empty() {
        return vec![(host, program)];
    }
    let share = |(lane, actors)| {
        Arc::new(Share {
            lane,
            actors,
            bell: Doorbell::heap(),
        })
    };
    let exchange = Arc::new(Exchange {
        state: Mutex::default(),
        bell,
        shares: guests.into_iter().map(share).collect(),
    });
    let guest = |share: &Arc<Share>| {
        let guest = Guest {
            exchange: Arc::clone(&exchange),
            share: Arc::clone(share),
        };
        let guest: Box<dyn Program> = Box::new(guest);
        (share.lane, guest)
    };
    let mut programs: LoadedPrograms = exchange.shares.iter().map(guest).collect();
    let host_program = Host {
        exchange: Arc::clone(&exchange),
        program,
        ended,
    };
    programs.push((host, Box::new(host_program)));
    programs
}

/// The program of the lane that borrows the actors.
struct Host {
    exchange: Arc<Exchange>,
    program: Box<dyn Program>,
    ended: Box<dyn Fn() -> bool + Send>,
}

impl Program for Host {
    fn run(&mut self, lane: &mut LaneHost<'_>) {
        let exchange = Arc::clone(&self.exchange);
        lane.set_bell(Some(exchange.bell.clone()));
        let mut complete = false;
        while !complete && !(self.ended)() && !lane.is_closed() {
            exchange.bell.wait(&Waiting::Park, None, || {
                complete = exchange.state.lock().offered.len() == exchange.shares.len();
                complete || (self.ended)() || lane.mailbox_pending() || lane.is_closed()
            });
            if !complete && lane.mailbox_pending() {
                lane.serve_mailbox();
            }
        }
        if complete {
            let mut state = exchange.state.lock();
            let offered = std::mem::take(&mut state.offered);
            offered.into_values().flatten().for_each(|mut cell| {
                cell.set_visiting(true);
                lane.put_actor(cell);
            });
            // Set only now, so that a forwarded message finds its actor.
            state.host = Some(lane.mailbox());
            drop(state);
            exchange.ring_guests();
        }
        let program = &mut self.program;
        // Unwind safe: the program is not used again, and each cell handles panics of its methods itself.
        let outcome = catch_unwind(AssertUnwindSafe(|| program.run(lane)));
        exchange.give_back(lane);
        if let Err(panic) = outcome {
            resume_unwind(panic);
        }
    }
}

/// The end of a host whose lane has ended before it ran the program.
impl Drop for Host {
    fn drop(&mut self) {
        let mut state = self.exchange.state.lock();
        if !std::mem::replace(&mut state.ended, true) {
            state.returned = std::mem::take(&mut state.offered);
            drop(state);
            self.exchange.ring_guests();
        }
    }
}

impl Exchange {
    /// Returns all cells to their homes.
    fn give_back(&self, lane: &mut LaneHost<'_>) {
        // Without the lock: what is still in flight is dropped here, which is user code.
        let mut taken = |share: &Arc<Share>| -> Vec<ActorCell> {
            let actors = share.actors.iter();
            actors.filter_map(|actor| lane.take_actor(*actor)).collect()
        };
        let taken: Vec<_> = self
            .shares
            .iter()
            .map(|share| (share.lane, taken(share)))
            .collect();
        let mut state = self.state.lock();
        state.ended = true;
        for (from, cells) in taken {
            let mut all = state.offered.remove(&from).unwrap_or_default();
            all.extend(cells);
            state.returned.insert(from, all);
        }
        let home = |actor: ActorId| {
            let share = self.shares.iter().find(|share| share.actors.contains(&actor))?;
            state.homes.get(&share.lane).cloned()
        };
        lane.sort_mail(home);
        drop(state);
        self.ring_guests();
    }

    fn ring_guests(&self) {
        self.shares.iter().for_each(|share| share.bell.ring());
    }
}

/// The program of a lane that lends its actors.
struct Guest {
    exchange: Arc<Exchange>,
    share: Arc<Share>,
}

impl Program for Guest {
    fn run(&mut self, lane: &mut LaneHost<'_>) {
        let (exchange, share) = (&self.exchange, &self.share);
        lane.set_bell(Some(share.bell.clone()));
        self.end_flights(lane);
        {
            let mut state = exchange.state.lock();
            if state.ended {
                drop(state);
                return lane.hold(&share.actors, false);
            }
            let cells = share
                .actors
                .iter()
                .filter_map(|actor| lane.take_actor(*actor))
                .collect();
            state.offered.insert(share.lane, cells);
            state.homes.insert(share.lane, lane.mailbox());
        }
        exchange.bell.ring();
        let mut cells = None;
        while cells.is_none() && !lane.is_closed() {
            share.bell.wait(&Waiting::Park, None, || {
                let mut state = exchange.state.lock();
                cells = state.returned.remove(&share.lane);
                cells.is_some() || lane.is_closed() || (state.host.is_some() && lane.mailbox_pending())
            });
            let state = exchange.state.lock();
            if let (false, Some(host)) = (state.ended, &state.host) {
                lane.sort_mail(|actor| share.actors.contains(&actor).then(|| Arc::clone(host)));
            }
            drop(state);
            if cells.is_none() {
                lane.serve_deferred();
            }
        }
        lane.set_bell(None);
        cells.unwrap_or_default().into_iter().for_each(|mut cell| {
            cell.set_visiting(false);
            lane.put_actor(cell);
        });
    }
}

impl Guest {
    /// Waits until no method of the actors is in flight (`LEND-4`), as for a method that runs. Ends early if the host has ended, or
    /// if the lane was abandoned.
    fn end_flights(&self, lane: &mut LaneHost<'_>) {
        let (exchange, share) = (&self.exchange, &self.share);
        lane.hold(&share.actors, true);
        while lane.has_flights(&share.actors) && !lane.is_closed() && !exchange.state.lock().ended {
            share.bell.wait(&Waiting::Park, None, || {
                lane.mailbox_pending() || lane.is_closed() || exchange.state.lock().ended
            });
            lane.serve_mailbox();
        }
    }
}

#[cfg(test)]
mod tests {
    use std::sync::mpsc::{Sender, channel};
    use std::time::Duration;

    use super::*;
    use crate::cell::Blueprint;
    use crate::lane::mailbox::{LaneMessage, ProgramEnd};
    use crate::lane::thread::LaneThread;
    use crate::testing::wait_until;

    /// Tells whether an actor is on the lane.
    struct Looks(ActorId, Sender<bool>);

    impl Program for Looks {
        fn run(&mut self, lane: &mut LaneHost<'_>) {
            self.1.send(lane.actor(self.0).is_some()).unwrap();
        }
    }

    #[test]
    fn lend_3_a_host_that_is_dropped_before_it_runs_returns_the_cells() {
        let lane = LaneThread::start(LaneId(1), "guest", None).unwrap();
        let push = |message| assert!(lane.push(message).is_ok());
        let lent = Blueprint::of_nothing("lent");
        let (id, (told, is_back)) = (lent.id, channel());
        push(LaneMessage::Create(lent, Box::new(Result::unwrap)));
        let share = Share {
            lane: lane.id(),
            actors: vec![id],
            bell: Doorbell::heap(),
        };
        let exchange = Arc::new(Exchange {
            state: Mutex::default(),
            bell: Doorbell::heap(),
            shares: vec![Arc::new(share)],
        });
        let guest = Guest {
            exchange: Arc::clone(&exchange),
            share: Arc::clone(&exchange.shares[0]),
        };
        let host = Host {
            exchange: Arc::clone(&exchange),
            program: Box::new(Looks(id, told.clone())),
            ended: Box::new(|| false),
        };
        for program in [Box::new(guest) as Box<dyn Program>, Box::new(Looks(id, told))] {
            push(LaneMessage::Run(program, ProgramEnd::new(|_| {})));
        }
        wait_until("the actor is lent", || exchange.state.lock().offered.len() == 1);
        drop(host);
        assert_eq!(is_back.recv_timeout(Duration::from_secs(20)), Ok(true));
        lane.stop();
    }
}
