//! What everybody may hold of an actor: a reference that outlives it.

use std::sync::{Arc, Weak};
use std::time::{Duration, Instant};

use selvedge_channels::Wire;

use crate::actor::ActorEntry;
use crate::arguments::to_bytes;
use crate::call::{CALL_TIMEOUT, Call, CallFault, busy};
use crate::control::actor_node::{NodeCall, NodeMessage};
use crate::death::Death;
use crate::directory::Directory;
use crate::id::{ActorId, LaneId, ProcessId};
use crate::placement::PlacementLabel;
use crate::promise::{Answer, promise};
use crate::resident::{Home, Resident, Vital};
use crate::{Arguments, ArgumentsKind, AsyncDriver, Failure, Returned, Runtime};

/// How long `kill` waits for the death to be known.
const KILL_TIMEOUT: Duration = Duration::from_secs(1);

/// A reference to an actor. Clones refer to the same actor; it does not keep the runtime alive.
#[derive(Clone)]
pub struct ActorRef {
    resident: Arc<Resident>,
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
    pub(crate) fn new(resident: Arc<Resident>, directory: &Arc<Directory>) -> Self {
        Self {
            resident,
            directory: Arc::downgrade(directory),
        }
    }

    pub(crate) fn resident(&self) -> &Arc<Resident> {
        &self.resident
    }

    pub(crate) fn directory(&self) -> Option<Arc<Directory>> {
        self.directory.upgrade()
    }

    /// Its number, unique among the actors of all runtimes of this process.
    #[must_use]
    pub fn id(&self) -> ActorId {
        self.resident.id()
    }

    /// The name it was given.
    #[must_use]
    pub fn name(&self) -> &str {
        self.resident.name()
    }

    /// Its type.
    #[must_use]
    pub fn entry(&self) -> &'static ActorEntry {
        self.resident.blueprint.entry
    }

    /// The device that its tensors lie on, if that was declared.
    #[must_use]
    pub fn device(&self) -> Option<u32> {
        self.resident.blueprint.device
    }

    /// The core that its thread keeps to, if that was asked for.
    #[must_use]
    pub fn core(&self) -> Option<u32> {
        self.resident.blueprint.core
    }

    /// The thread it lives on.
    #[must_use]
    pub fn lane(&self) -> LaneId {
        self.resident.lane()
    }

    /// The process it lives in.
    #[must_use]
    pub fn process(&self) -> ProcessId {
        self.resident.process()
    }

    /// Where it lives, for people.
    #[must_use]
    pub fn placement(&self) -> PlacementLabel {
        match &self.resident.home {
            Home::Inline(_) => PlacementLabel::Inline,
            Home::Lane(_) => PlacementLabel::Thread,
            Home::Worker { worker, .. } => PlacementLabel::Process(worker.pid()),
        }
    }

    /// The pid of its worker process; `None` in the driver's process, and while no worker runs.
    #[must_use]
    pub fn pid(&self) -> Option<u32> {
        match &self.resident.home {
            Home::Worker { worker, .. } => worker.pid(),
            Home::Inline(_) | Home::Lane(_) => None,
        }
    }

    /// Whether it lives. An actor that restarts does not, for the moment; nor does one whose runtime has ended.
    #[must_use]
    pub fn is_alive(&self) -> bool {
        let runs = self.directory().is_some_and(|directory| !directory.is_closed());
        runs && self.resident.vital() == Vital::Alive
    }

    /// Its last death, if it died; it may live again.
    #[must_use]
    pub fn last_death(&self) -> Option<Death> {
        self.resident.last_death()
    }

    /// Whether it belongs to this runtime.
    #[must_use]
    pub fn same_runtime(&self, runtime: &Runtime) -> bool {
        self.directory
            .upgrade()
            .is_some_and(|directory| runtime.is(&directory))
    }

    /// Ends it for good: a worker process is killed with everybody in it, an actor of a thread loses its place
    /// there, and a thread of its own ends. Returns once that is known, at most a second later.
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
                    .wait(deadline, || matches!(resident.vital(), Vital::Dead(_)));
            }
            Home::Inline(_) | Home::Lane(_) => {
                directory.end_actors(std::slice::from_ref(resident), "it was killed")
            }
        }
    }

    /// Calls method number `method` with a tuple of arguments. What `#[actor]` generates goes through here.
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
        if let Vital::Dead(death) = self.resident.vital() {
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
            // An inline actor has no thread: the caller's runs it.
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
            // A node that has stopped drops the promise; the call then looks at the actor itself.
            let _ = node.send_message(NodeMessage::Call(NodeCall {
                method,
                arguments,
                reply,
            }));
        }
        answer
    }
}
