//! References to actors. A reference outlives its actor.

use std::any::type_name;
use std::sync::{Arc, Weak};
use std::time::{Duration, Instant};

use selvedge_channels::{Payload, Traits, Wire};
use selvedge_cluster::peer;

use crate::actor::ActorEntry;
use crate::actor::arguments::{Arguments, ArgumentsKind, Returned};
use crate::actor::extension::Method;
use crate::actor::registry::check_linked;
use crate::actor_record::{ActorRecord, Liveness};
use crate::body::Body;
use crate::call::request::{ActorCall, CallFault};
use crate::call::{Call, Callee};
use crate::cancel::CallCancel;
use crate::control::messages::NodeMessage;
use crate::death::Death;
use crate::directory::Directory;
use crate::failure::Failure;
use crate::home::placement::PlacementLabel;
use crate::id::{ActorId, Address, LaneId, ProcessId};
use crate::promise::{Answer, promise};
use crate::short_name::short;

/// The time that `kill` waits until the death is recorded.
const KILL_TIMEOUT: Duration = Duration::from_secs(1);

/// A reference to an actor. Clones refer to the same actor. A reference does not keep the runtime alive.
#[derive(Clone)]
pub struct ActorRef {
    record: Arc<ActorRecord>,
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
        Arc::ptr_eq(&self.record, &other.record)
    }
}

impl Eq for ActorRef {}

impl std::hash::Hash for ActorRef {
    fn hash<H: std::hash::Hasher>(&self, state: &mut H) {
        self.id().hash(state);
    }
}

impl ActorRef {
    pub(crate) fn new(record: Arc<ActorRecord>, directory: &Arc<Directory>) -> Self {
        Self {
            record,
            directory: Arc::downgrade(directory),
        }
    }

    pub(crate) fn record(&self) -> &Arc<ActorRecord> {
        &self.record
    }

    pub(crate) fn directory(&self) -> Option<Arc<Directory>> {
        self.directory.upgrade()
    }

    /// The actor's number, unique among the actors of all runtimes of this process.
    #[must_use]
    pub fn id(&self) -> ActorId {
        self.record.id()
    }

    /// The name that the actor was given.
    #[must_use]
    pub fn name(&self) -> &str {
        self.record.name()
    }

    /// The description of the actor's type.
    #[doc(hidden)] // for the compiler and generated code
    #[must_use]
    pub fn entry(&self) -> &'static ActorEntry {
        self.record.blueprint.entry
    }

    /// The device that holds the actor's tensors, if one was declared.
    #[must_use]
    pub fn device(&self) -> Option<u32> {
        self.record.blueprint.device
    }

    /// The core that the actor's thread is pinned to, if one was named.
    #[must_use]
    pub fn core(&self) -> Option<u32> {
        self.record.blueprint.core
    }

    /// The number of the actor's async methods that may be in flight at a time; 1 for an inline actor.
    #[must_use]
    pub fn concurrency(&self) -> u32 {
        match self.placement() {
            PlacementLabel::Inline => 1,
            PlacementLabel::Thread | PlacementLabel::Process(_) => self.record.blueprint.concurrency,
        }
    }

    /// Whether the actor must stay on the thread that built it, because its type is not `Send`.
    #[must_use]
    pub fn is_pinned(&self) -> bool {
        (self.entry().is_pinned)()
    }

    /// The address of the actor's lane.
    #[doc(hidden)] // for the compiler
    #[must_use]
    pub fn address(&self) -> Address {
        self.record.home.address()
    }

    /// The lane that the actor lives on.
    #[must_use]
    pub fn lane(&self) -> LaneId {
        self.record.lane()
    }

    /// The number of the actor's worker process among the processes of the runtime. `None` if the actor lives in this process.
    #[must_use]
    pub fn worker(&self) -> Option<peer::ProcessId> {
        let process = self.record.process();
        (process != ProcessId::DRIVER).then(|| process.among_peers())
    }

    /// The present place of the actor, for display.
    #[must_use]
    pub fn placement(&self) -> PlacementLabel {
        self.record.home.label()
    }

    /// The pid of the actor's worker process. `None` if the actor lives in the driver's process, and while no worker
    /// process runs.
    #[must_use]
    pub fn pid(&self) -> Option<u32> {
        match self.placement() {
            PlacementLabel::Process(pid) => pid,
            PlacementLabel::Inline | PlacementLabel::Thread => None,
        }
    }

    /// Whether the actor is alive. `false` while the actor restarts, and once its runtime has ended.
    #[must_use]
    pub fn is_alive(&self) -> bool {
        let runs = self.directory().is_some_and(|directory| !directory.is_closed());
        runs && self.record.liveness() == Liveness::Alive
    }

    /// The actor's last death, if it died. The actor may have been restarted since.
    #[must_use]
    pub fn last_death(&self) -> Option<Death> {
        self.record.last_death()
    }

    /// Ends the actor for good. A worker process is killed with all actors in it. An actor on a thread is removed from
    /// the thread, and a thread of its own ends. Returns once the death is recorded, at most a second later.
    pub fn kill(&self) {
        let Some(directory) = self.directory().filter(|directory| !directory.is_closed()) else {
            return;
        };
        let record = &self.record;
        record.retire();
        let why = format!("`kill()` was called for actor `{}`", record.name());
        if record.home.kill(&why) {
            let deadline = Instant::now() + KILL_TIMEOUT;
            let is_dead = || matches!(record.liveness(), Liveness::Dead(_));
            directory.leases.wait(deadline, is_dead);
        } else {
            directory.end_actors(std::slice::from_ref(record), "it was killed");
        }
    }

    /// Calls a method of the actor's entry, by its index, or of an extension, with a tuple of arguments.
    #[doc(hidden)] // for generated code
    pub fn call<A: Wire, R: Wire>(&self, method: impl Into<Method>, args: A) -> Call<R> {
        self.call_with(method, args, const { (&Traits::LETTER, &Traits::LETTER) })
    }

    /// Calls a method as [`call`](Self::call) does, with values of any types, given their traits. Code generated by
    /// `#[actor]` calls this function.
    #[doc(hidden)]
    pub fn call_with<A: Payload, R: Payload>(
        &self,
        method: impl Into<Method>,
        args: A,
        traits: (&Traits<A>, &'static Traits<R>),
    ) -> Call<R> {
        let method = method.into();
        let cancel = Arc::new(CallCancel::default());
        let answer = self.send(method, args, traits.0, Arc::clone(&cancel));
        let method = method.name(self.entry());
        let callee = Callee::Method(Arc::clone(&self.record), method);
        Call::new(answer, cancel, callee, traits.1)
    }

    fn send<A: Payload>(
        &self,
        method: Method,
        args: A,
        traits: &Traits<A>,
        cancel: Arc<CallCancel>,
    ) -> Answer<Result<Returned, CallFault>> {
        let Some(directory) = self.directory().filter(|directory| !directory.is_closed()) else {
            return Answer::ready(Err(CallFault::NoActor));
        };
        if let Liveness::Dead(death) = self.record.liveness() {
            return Answer::ready(Err(CallFault::Died(death)));
        }
        drop(directory);
        let home = &self.record.home;
        let arguments = match home.arguments() {
            ArgumentsKind::Local => Arguments::local(args),
            ArgumentsKind::Bytes => match encoded(method, &args, traits) {
                Ok(body) => Arguments::Bytes(body),
                Err(failure) => return Answer::ready(Err(CallFault::Failed(failure))),
            },
        };
        let (reply, answer) = promise();
        let call = ActorCall {
            actor: self.id(),
            method,
            arguments,
            reply: Box::new(move |result| reply.keep(result)),
            cancel,
        };
        match self.record.node.get() {
            // A node that has stopped drops the call; the caller then reads the actor's state itself.
            Some(node) => drop(node.send(NodeMessage::Call(call))),
            // An inline actor has no node: the caller's thread runs the method.
            None => home.call(call),
        }
        answer
    }
}

/// Encodes the arguments for a worker process, which must be able to find the method.
fn encoded<A>(method: Method, args: &A, traits: &Traits<A>) -> Result<Body, Failure> {
    if let Some(extension) = method.extension {
        check_linked(extension).map_err(Failure::from_error)?;
    }
    let encoded = Failure::catch(|| Body::encoded(args, traits));
    // The method has not failed: it does not run.
    encoded.map_err(|failure| {
        let why = format!(
            "the caller cannot encode its arguments, of type `{}`: {failure}",
            short(type_name::<A>())
        );
        Failure::from_error(why)
    })
}
