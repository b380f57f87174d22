//! References to actors. A reference outlives its actor.

use std::sync::{Arc, Weak};
use std::time::{Duration, Instant};

use selvedge_channels::Wire;

use crate::actor::ActorEntry;
use crate::actor::arguments::{Arguments, ArgumentsKind, Returned, to_bytes};
use crate::actor_record::{ActorRecord, Home, Liveness};
use crate::call::Call;
use crate::call::request::{CALL_TIMEOUT, CallFault, busy};
use crate::cell::async_driver::AsyncDriver;
use crate::control::messages::{NodeCall, NodeMessage};
use crate::death::Death;
use crate::directory::Directory;
use crate::failure::Failure;
use crate::home::placement::PlacementLabel;
use crate::id::{ActorId, LaneId, ProcessId};
use crate::promise::{Answer, promise};

/// The time that `kill` waits until the death is recorded.
const KILL_TIMEOUT: Duration = Duration::from_secs(1);

/// A reference to an actor. Clones refer to the same actor. A reference does not keep the runtime alive.
#[derive(Clone)]
pub struct ActorRef {
    resident: Arc<ActorRecord>,
    directory: Weak<Directory>,
}

impl std::fmt::Debug for ActorRef {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "ActorRef({}, {})", self.name(), self.placement())
    }
}

impl PartialEq for ActorRef {
    /// Whether both refer to the same actor.
    fn eq(&self, other: &Self) -> bool {
        Arc::ptr_eq(&self.resident, &other.resident)
    }
}

impl Eq for ActorRef {}

impl ActorRef {
    pub(crate) fn new(resident: Arc<ActorRecord>, directory: &Arc<Directory>) -> Self {
        Self {
            resident,
            directory: Arc::downgrade(directory),
        }
    }

    pub(crate) fn resident(&self) -> &Arc<ActorRecord> {
        &self.resident
    }

    pub(crate) fn directory(&self) -> Option<Arc<Directory>> {
        self.directory.upgrade()
    }

    /// The actor's number, unique among the actors of all runtimes of this process.
    #[must_use]
    pub fn id(&self) -> ActorId {
        self.resident.id()
    }

    /// The name that the actor was given.
    #[must_use]
    pub fn name(&self) -> &str {
        self.resident.name()
    }

    /// The description of the actor's type.
    #[must_use]
    pub fn entry(&self) -> &'static ActorEntry {
        self.resident.blueprint.entry
    }

    /// The device that holds the actor's tensors, if one was declared.
    #[must_use]
    pub fn device(&self) -> Option<u32> {
        self.resident.blueprint.device
    }

    /// The core that the actor's thread is pinned to, if one was named.
    #[must_use]
    pub fn core(&self) -> Option<u32> {
        self.resident.blueprint.core
    }

    /// The lane that the actor lives on.
    #[must_use]
    pub fn lane(&self) -> LaneId {
        self.resident.lane()
    }

    /// The process that the actor lives in.
    #[must_use]
    pub fn process(&self) -> ProcessId {
        self.resident.process()
    }

    /// The present place of the actor, for display.
    #[must_use]
    pub fn placement(&self) -> PlacementLabel {
        match &self.resident.home {
            Home::Inline(_) => PlacementLabel::Inline,
            Home::Lane(_) => PlacementLabel::Thread,
            Home::Worker { worker, .. } => PlacementLabel::Process(worker.pid()),
        }
    }

    /// The pid of the actor's worker process. `None` if the actor lives in the driver's process, and while no worker
    /// process runs.
    #[must_use]
    pub fn pid(&self) -> Option<u32> {
        match &self.resident.home {
            Home::Worker { worker, .. } => worker.pid(),
            Home::Inline(_) | Home::Lane(_) => None,
        }
    }

    /// Whether the actor is alive. `false` while the actor restarts, and once its runtime has ended.
    #[must_use]
    pub fn is_alive(&self) -> bool {
        let runs = self.directory().is_some_and(|directory| !directory.is_closed());
        runs && self.resident.vital() == Liveness::Alive
    }

    /// The actor's last death, if it died. The actor may have been restarted since.
    #[must_use]
    pub fn last_death(&self) -> Option<Death> {
        self.resident.last_death()
    }

    /// Ends the actor for good. A worker process is killed with all actors in it. An actor on a thread is removed from
    /// the thread, and a thread of its own ends. Returns once the death is recorded, at most a second later.
    pub fn kill(&self) {
        let Some(directory) = self.directory().filter(|directory| !directory.is_closed()) else {
            return;
        };
        let resident = &self.resident;
        resident.retire();
        match &resident.home {
            Home::Worker { worker, .. } => {
                worker.kill();
                let deadline = Instant::now() + KILL_TIMEOUT;
                directory
                    .leases
                    .wait(deadline, || matches!(resident.vital(), Liveness::Dead(_)));
            }
            Home::Inline(_) | Home::Lane(_) => {
                directory.end_actors(std::slice::from_ref(resident), "it was killed")
            }
        }
    }

    /// Calls the method with index `method`, with a tuple of arguments. Code generated by `#[actor]` calls this
    /// function.
    pub fn call<A: Wire, R: Wire>(&self, method: u16, args: A) -> Call<R> {
        let answer = self.send(method, args);
        Call::new(
            answer,
            Arc::clone(&self.resident),
            self.entry().method_name(method),
        )
    }

    fn send<A: Wire>(&self, method: u16, args: A) -> Answer<Result<Returned, CallFault>> {
        let Some(directory) = self.directory().filter(|directory| !directory.is_closed()) else {
            return Answer::ready(Err(CallFault::NoActor));
        };
        if let Liveness::Dead(death) = self.resident.vital() {
            return Answer::ready(Err(CallFault::Died(death)));
        }
        drop(directory);
        let kind = match &self.resident.home {
            Home::Worker { .. } => ArgumentsKind::Bytes,
            Home::Inline(_) | Home::Lane(_) => ArgumentsKind::Local,
        };
        let arguments = match kind {
            ArgumentsKind::Local => Arguments::local(args),
            ArgumentsKind::Bytes => match Failure::catch(|| to_bytes(&args)) {
                Ok(bytes) => Arguments::Bytes(bytes),
                Err(failure) => return Answer::ready(Err(CallFault::Failed(failure))),
            },
        };
        if let Home::Inline(cell) = &self.resident.home {
            // An inline actor has no thread: the caller's thread runs the method.
            let deadline = || Some(Instant::now() + CALL_TIMEOUT);
            let driver = AsyncDriver::new().limited(CALL_TIMEOUT);
            let used = cell.with(deadline, |cell| cell.call(method, arguments, &driver));
            return Answer::ready(match used {
                Ok(result) => result.map_err(CallFault::Failed),
                Err(refused) => Err(busy(self.name(), refused)),
            });
        }
        let (reply, answer) = promise();
        if let Some(node) = self.resident.node.get() {
            // A node that has stopped drops the promise; the call then reads the actor's state itself.
            let _ = node.send_message(NodeMessage::Call(NodeCall {
                method,
                arguments,
                reply,
            }));
        }
        answer
    }
}
