//! Communicators of NCCL: joining, launching, ending.
//!
//! The functions block a host only where NCCL documents that it blocks, and with a time limit. One behaviour of the
//! real library is not simulated: it may connect peers lazily inside the first call, which can block the host of a
//! blocking communicator.

use std::collections::{HashMap, HashSet};
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, LazyLock};
use std::time::{Duration, Instant};

use parking_lot::Mutex;

use crate::board::{GROUP_MAX, RANKS_MAX, SharedBoard};
use crate::code::Cu;
use crate::engine::{self, Operation};
use crate::group::{Group, Member};
use crate::host;
use crate::memory::Use;
use crate::point::Point;
use crate::process::Watch;
use crate::settings;
use crate::shared::{self, Address};

pub(crate) const UNHANDLED_CUDA: u32 = 1;
pub(crate) const SYSTEM: u32 = 2;
pub(crate) const INVALID_ARGUMENT: u32 = 4;
pub(crate) const INVALID_USAGE: u32 = 5;
pub(crate) const REMOTE: u32 = 6;
pub(crate) const IN_PROGRESS: u32 = 7;

/// The time limit of a blocking call that waits for the other ranks.
const PATIENCE: Duration = Duration::from_secs(120);

/// Whether calls return only when they are done.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Blocking {
    Yes,
    No,
}

/// One rank of a communicator.
#[derive(Debug)]
pub(crate) struct Communicator {
    pub(crate) handle: u64,
    pub(crate) board: SharedBoard,
    pub(crate) rank: usize,
    pub(crate) ranks: usize,
    pub(crate) blocking: Blocking,
    aborted: AtomicBool,
    state: Mutex<State>,
}

#[derive(Debug, Default)]
struct State {
    /// True if all ranks have joined and this rank has noticed.
    complete: bool,
    /// True if the last call returned `ncclInProgress` and the state has not been queried since.
    unasked: bool,
    finalizing: bool,
    /// The end of the last group, and its stream.
    last: Option<(Arc<Point>, u64)>,
    /// The watched processes of other ranks.
    watches: HashMap<u32, Watch>,
}

static COMMUNICATORS: LazyLock<Mutex<HashMap<u64, Arc<Communicator>>>> = LazyLock::new(Mutex::default);
/// Boards that this process has made and that not all ranks have joined: other processes open them through the
/// descriptors of this process.
static BOARDS: LazyLock<Mutex<HashMap<u64, SharedBoard>>> = LazyLock::new(Mutex::default);

/// Creates a board for a new communicator.
pub(crate) fn new_board() -> Cu<Address> {
    forget_complete_boards();
    let board = SharedBoard::create().map_err(|_| SYSTEM)?;
    let address = board.address();
    BOARDS.lock().insert(address.nonce, board);
    Ok(address)
}

/// Closes boards that all ranks have joined: every rank has its own descriptor of them.
fn forget_complete_boards() {
    BOARDS.lock().retain(|_, board| {
        let _guard = board.lock();
        !board.is_complete()
    });
}

/// Joins as one rank. The other ranks may join later.
pub(crate) fn join(address: Address, ranks: usize, rank: usize, blocking: Blocking) -> Cu<Arc<Communicator>> {
    if ranks == 0 || ranks > RANKS_MAX || rank >= ranks {
        return Err(INVALID_ARGUMENT);
    }
    let mine = BOARDS.lock().get(&address.nonce).cloned();
    let board = match mine {
        Some(board) => board,
        None => SharedBoard::open(address).map_err(|_| SYSTEM)?,
    };
    {
        let _guard = board.lock();
        match board.ranks() {
            0 => board.set_ranks(ranks),
            known if known == ranks => {}
            _ => return Err(INVALID_ARGUMENT),
        }
        if board.pid(rank) != 0 {
            return Err(INVALID_USAGE);
        }
        board.set_pid(rank, std::process::id());
    }
    board.ring();
    let communicator = Arc::new(Communicator {
        handle: host::fresh_handle(),
        board,
        rank,
        ranks,
        blocking,
        aborted: AtomicBool::new(false),
        state: Mutex::default(),
    });
    COMMUNICATORS
        .lock()
        .insert(communicator.handle, Arc::clone(&communicator));
    Ok(communicator)
}

/// Returns the communicator of a handle.
pub(crate) fn find(handle: u64) -> Cu<Arc<Communicator>> {
    COMMUNICATORS.lock().get(&handle).cloned().ok_or(INVALID_ARGUMENT)
}

impl Communicator {
    pub(crate) fn is_aborted(&self) -> bool {
        self.aborted.load(Ordering::Acquire)
    }

    /// Whether all ranks are in this process.
    pub(crate) fn is_within_process(&self) -> bool {
        let _guard = self.board.lock();
        (0..self.ranks).all(|rank| self.board.pid(rank) == std::process::id())
    }

    /// Whether all ranks have joined.
    fn is_complete(&self) -> bool {
        let mut state = self.state.lock();
        if !state.complete {
            state.complete = {
                let _guard = self.board.lock();
                self.board.is_complete()
            };
            if state.complete {
                BOARDS.lock().remove(&self.board.address().nonce);
            }
        }
        state.complete
    }

    /// Blocks the host until all ranks have joined.
    pub(crate) fn wait_complete(&self) -> Cu {
        let deadline = Instant::now() + PATIENCE;
        let word = self.board.word().ok_or(SYSTEM)?;
        loop {
            let seen = word.load(Ordering::Acquire);
            if self.is_complete() {
                return Ok(());
            }
            let left = deadline.saturating_duration_since(Instant::now());
            if left.is_zero() {
                return Err(SYSTEM);
            }
            shared::sleep_on(word, seen, Some(left));
        }
    }

    /// Returns the code of every call if the process of another rank has died; with `SELVEDGE_SIM_LOST`, as soon as it
    /// begins to die.
    fn lost(&self) -> Cu {
        let early = settings::get().lost;
        let pids: HashSet<u32> = {
            let _guard = self.board.lock();
            (0..self.ranks).map(|rank| self.board.pid(rank)).collect()
        };
        let others = pids
            .into_iter()
            .filter(|pid| *pid != 0 && *pid != std::process::id());
        let mut state = self.state.lock();
        let is_lost = |pid| {
            let watch = state.watches.entry(pid).or_insert_with(|| Watch::new(pid));
            match early {
                Some(_) => watch.is_ending(pid),
                None => watch.is_dead(),
            }
        };
        if others.into_iter().any(is_lost) {
            return Err(early.unwrap_or(REMOTE));
        }
        Ok(())
    }

    /// Returns the result of `ncclCommGetAsyncError`.
    pub(crate) fn condition(&self) -> u32 {
        if let Err(code) = self.lost() {
            return code;
        }
        if !self.is_complete() {
            return IN_PROGRESS;
        }
        let mut state = self.state.lock();
        state.unasked = false;
        let busy = state.last.as_ref().is_some_and(|(last, _)| !last.is_reached());
        if state.finalizing && busy { IN_PROGRESS } else { 0 }
    }

    /// Refuses a call that comes before the last one is done or after the loss of a rank, as the library does.
    fn ready(&self) -> Cu {
        self.lost()?;
        let complete = self.is_complete();
        let state = self.state.lock();
        if !complete || state.unasked || state.finalizing {
            return Err(INVALID_ARGUMENT);
        }
        Ok(())
    }

    /// Refuses a call that cannot be launched now.
    pub(crate) fn check(&self) -> Cu {
        self.ready()
    }

    /// Launches a group of calls on the first of their streams. That stream waits for the others, and the others wait
    /// for the group.
    pub(crate) fn launch(self: &Arc<Self>, calls: Vec<(u64, Member)>) -> Cu {
        self.ready()?;
        if calls.len() > GROUP_MAX {
            return Err(INVALID_USAGE);
        }
        let Some((first, _)) = calls.first() else {
            return Ok(());
        };
        let first = *first;
        let others: HashSet<u64> = calls
            .iter()
            .map(|(stream, _)| *stream)
            .filter(|stream| *stream != first)
            .collect();
        let mut state = self.state.lock();
        // Groups of one communicator run one after the other, on whatever streams.
        if let Some((last, _)) = state.last.take().filter(|(_, stream)| *stream != first) {
            enqueue(first, engine::wait(last, "NCCL order, wait"))?;
        }
        for other in &others {
            let point = Point::new();
            enqueue(*other, engine::record(&point, "NCCL order, record"))?;
            enqueue(first, engine::wait(point, "NCCL order, wait"))?;
        }
        let done = Point::new();
        enqueue(first, self.operation(calls, &done))?;
        for other in others {
            enqueue(other, engine::wait(Arc::clone(&done), "NCCL order, wait"))?;
        }
        state.last = Some((done, first));
        state.unasked = self.blocking == Blocking::No;
        Ok(())
    }

    fn operation(self: &Arc<Self>, calls: Vec<(u64, Member)>, done: &Arc<Point>) -> Operation {
        let members: Vec<Member> = calls.into_iter().map(|(_, member)| member).collect();
        let uses: Vec<Use> = members.iter().flat_map(Member::uses).collect();
        let names: Vec<&str> = members.iter().map(|member| member.call.verb.name()).collect();
        let group = Group::new(Arc::clone(self), members);
        Operation {
            name: names.join("+").into(),
            uses,
            run: Box::new(move |turn| group.run(turn)),
            done: Some(Arc::clone(done)),
        }
    }

    /// Accepts no more calls. A blocking communicator waits for the calls already launched.
    pub(crate) fn finalize(&self) -> Cu {
        self.ready()?;
        let last = {
            let mut state = self.state.lock();
            state.finalizing = true;
            state.last.clone()
        };
        if let (Blocking::Yes, Some((last, _))) = (self.blocking, last) {
            engine::wait_on_host(&last);
        }
        Ok(())
    }

    /// Aborts the communicator and frees all calls that are stuck in it. Never waits.
    pub(crate) fn abort(&self) {
        COMMUNICATORS.lock().remove(&self.handle);
        {
            let _guard = self.board.lock();
            self.board.set_gone(self.rank);
        }
        self.aborted.store(true, Ordering::Release);
        self.board.ring();
    }

    /// Removes the handle; launched calls continue. Never waits, whereas the library would wait for stuck calls.
    pub(crate) fn destroy(&self) {
        COMMUNICATORS.lock().remove(&self.handle);
    }
}

fn enqueue(stream: u64, operation: Operation) -> Cu {
    engine::enqueue(stream, operation).map_err(|_| UNHANDLED_CUDA)
}
