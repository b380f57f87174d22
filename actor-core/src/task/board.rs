//! All submitted calls of this process, with the scheduler, the lineage and the aliases: plain data behind one lock.

use std::convert::Infallible;
use std::sync::Arc;

use selvedge_cluster::id_map::IdMap;
use selvedge_cluster::last_lives::LastLives;
use selvedge_cluster::peer::{Peer, ProcessId};
use selvedge_objects::alias::AliasTable;
use selvedge_objects::refs::RefId;
use tokio::sync::oneshot;

use super::options::TaskOptions;
use super::outer::{CallName, NamedReferences};
use crate::body::Body;
use crate::cancel::CallCancel;
use crate::cores::core_count;
use crate::lineage::{CallDigest, Lineage, NestedSpec};
use crate::process_name::NameBook;
use crate::reference::content::{Content, LostCopy, ObjectValue};
use crate::reference::handle::Handle;
use crate::remote::calls::CallId;
use crate::remote::function::FunctionEntry;
use crate::remote::request::{EncodedArguments, Request};
use crate::remote::waiter::Outcome;
use crate::schedule::{Resources, Scheduler};

/// The bytes of specs that are kept of calls that have ended, unless [`Runtime::lineage_bytes`](crate::Runtime::lineage_bytes) says
/// otherwise.
const KEPT_BYTES_MAX: usize = 256 << 20;

/// The arguments of a submitted call.
pub(super) enum TaskArguments {
    /// For this process, as they are.
    Here(Box<Request>),
    /// For any process.
    Encoded(EncodedArguments),
    /// The arguments of a call that has ended and may run again, with the references in them.
    Kept {
        body: Body,
        references: Vec<KeptReference>,
    },
    /// The call will not run again.
    Dropped,
}

impl TaskArguments {
    /// The bytes of encoded arguments.
    pub(super) fn inline_bytes(&self) -> usize {
        match self {
            TaskArguments::Encoded(EncodedArguments { body, .. }) | TaskArguments::Kept { body, .. } => {
                body.len()
            }
            TaskArguments::Here(_) | TaskArguments::Dropped => 0,
        }
    }

    /// The references in encoded arguments.
    pub(super) fn references(&self) -> Vec<RefId> {
        let id = |kept: &KeptReference| match kept {
            KeptReference::Held(handle) => handle.id(),
            KeptReference::Named(id) => *id,
        };
        match self {
            TaskArguments::Encoded(EncodedArguments { handles, .. }) => {
                handles.iter().map(|handle| handle.id()).collect()
            }
            TaskArguments::Kept { references, .. } => references.iter().map(id).collect(),
            TaskArguments::Here(_) | TaskArguments::Dropped => Vec::new(),
        }
    }
}

/// A reference in the arguments of a call that has ended and may run again.
#[derive(Clone)]
pub(super) enum KeptReference {
    Held(Arc<Handle>),
    /// A value of this process whose call may run again as well: nothing holds it here.
    Named(RefId),
}

/// Takes the reference out of a value that is one.
pub(super) type ReferenceOf = fn(&ObjectValue) -> Option<Arc<Handle>>;

/// A call to be submitted.
pub(crate) struct NewTask {
    pub(super) function: &'static FunctionEntry,
    pub(super) object: RefId,
    pub(super) arguments: TaskArguments,
    /// The bytes of the arguments that lie in the store.
    pub(super) stored_bytes: usize,
    pub(super) inputs: Vec<Arc<Handle>>,
    pub(super) options: TaskOptions,
    pub(super) pinned: Option<ProcessId>,
    /// For a function that returns a reference.
    pub(super) alias: Option<ReferenceOf>,
    pub(super) digest: CallDigest,
    /// The pure call that has submitted it, and the name by which that finds it again.
    pub(super) nested: Option<NestedSpec>,
    /// The references in the arguments that nested calls have made or put.
    pub(super) named: NamedReferences,
    /// The job that has submitted it, and with which it ends.
    pub(super) job: Option<Peer>,
}

/// The life of a submitted call.
#[derive(Clone)]
pub(super) enum TaskLife {
    /// Inputs are missing, or no worker has room.
    Queued,
    /// The call was sent to a worker.
    Runs {
        post: CallPost,
        /// Whether the worker was asked to give it back, if its function has not begun.
        is_withdrawn: bool,
    },
    /// The function has returned a reference whose value is not there yet.
    Stands,
    Ended {
        is_failed: bool,
    },
}

/// A submitted call whose value, or the value to come, somebody holds.
pub(super) struct Task {
    pub(super) new: NewTask,
    pub(super) life: TaskLife,
    /// Whether nobody holds the value any more. The call goes on all the same.
    pub(super) is_released: bool,
    /// The reference that the value stands for. The object of an alias holds one handle on its target.
    pub(super) target: Option<Arc<Handle>>,
    /// The waits for values on behalf of the call, which end with it.
    pub(super) waits: Vec<oneshot::Sender<Infallible>>,
}

impl Task {
    pub(super) fn new(new: NewTask) -> Self {
        Task {
            new,
            life: TaskLife::Queued,
            is_released: false,
            target: None,
            waits: Vec::new(),
        }
    }

    pub(super) fn has_ended(&self) -> bool {
        matches!(self.life, TaskLife::Ended { .. })
    }

    /// A wait on behalf of the call begins; it is to end with the call.
    pub(super) fn begin_wait(&mut self) -> UntilEnded {
        let (sender, ended) = oneshot::channel();
        self.waits.push(sender);
        ended
    }
}

/// Something that has happened to a submitted call, or to a worker.
pub(crate) enum TaskEvent {
    Submitted(Box<NewTask>),
    /// An input that was not submitted itself is there.
    InputMade {
        call: u64,
    },
    /// The arguments were encoded after all, for another process, where this attempt is to run.
    Encoded {
        call: u64,
        attempt: u32,
        worker: Peer,
        arguments: EncodedArguments,
    },
    Ended {
        call: u64,
        attempt: u32,
        worker: Peer,
        outcome: Outcome,
    },
    /// The references in the arguments of a call that is to run again are held again. Those that nobody held have no value.
    Prepared {
        call: u64,
        handles: Vec<Arc<Handle>>,
        revived: Vec<RefId>,
    },
    /// The object of a known call is held for the one that repeats it. If it was freed, it has no value.
    Adopted(u64, Arc<Handle>, bool),
    /// The last copy of an object's value is lost.
    Lost {
        object: RefId,
        value: ObjectValue,
        copy: LostCopy,
    },
    /// The value of the reference that the call has returned is there.
    TargetMade {
        call: u64,
        content: Content,
    },
    Blocked {
        by: BlockedCall,
        is_blocked: bool,
    },
    Freed(RefId),
    Cancelled(RefId),
    /// The workers that take work are others. They are met before and after each event.
    WorkersChanged,
    WorkerDied(Peer),
    /// A job has ended.
    JobEnded(Peer),
    /// A worker offers something else from now on.
    Offers(Peer, Resources),
}

/// The name of a call that waits.
pub(crate) enum BlockedCall {
    Here(u64),
    At(Peer, CallId),
}

/// The place of a call that was sent, and the way to reach it there.
#[derive(Clone)]
pub(super) struct CallPost {
    pub(super) worker: Peer,
    pub(super) cancel: Arc<CallCancel>,
    /// The number of the letter's call, unless it runs in this process.
    pub(super) asked: Option<CallId>,
}

/// Completes when the call has ended for which something is awaited.
pub(super) type UntilEnded = oneshot::Receiver<Infallible>;

/// Something that has to be done, without the lock.
pub(super) enum TaskEffect {
    Run {
        call: u64,
        attempt: u32,
        worker: Peer,
    },
    Fill(RefId, Content),
    /// Ask the function of a call for its end: it may run yet.
    Interrupt(CallPost),
    /// Take a call back, unless its function has begun.
    Withdraw(CallPost),
    /// Hold the references in the arguments of a call again, which is to run again.
    Prepare(u64),
    /// Hold the object of a known call for the one that repeats it.
    Adopt {
        call: u64,
        object: RefId,
    },
    /// Hold the object of a call on behalf of the one that has submitted it.
    HoldForOuter {
        call: u64,
        object: RefId,
    },
    /// Drop what is held on behalf of the call's outer one.
    LetGo(u64),
    /// Tell the store whether the object can be made again.
    Remakeable(RefId, bool),
    /// The value is lost with that of another object that stands for it.
    Lose(RefId, ObjectValue, LostCopy),
    /// Tell when this input is there.
    Watch(u64, Arc<Handle>, UntilEnded),
    /// Tell when the value of the reference that the call has returned is there.
    Follow(u64, Arc<Handle>, UntilEnded),
    /// End these waits.
    EndWaits(Vec<oneshot::Sender<Infallible>>),
    /// Drop this: some of it may be user code.
    Drop(Box<Task>),
    DropArguments(TaskArguments),
    DropHandles(Vec<Arc<Handle>>),
    DropOutcome(Outcome),
    DropContent(Content),
}

/// The number of cores that this process may use.
pub(super) fn cores() -> u32 {
    u32::try_from(core_count()).unwrap_or(u32::MAX)
}

/// A process that may run calls, as the scheduler has to know it.
#[derive(Clone, Copy, Default)]
pub(super) struct SchedulableWorker {
    /// Whether the process is on this host, and shares its cores with others.
    pub(super) is_near: bool,
    /// The cores that the process has said to have.
    pub(super) cores: Option<u32>,
}

/// All submitted calls.
pub(super) struct Board {
    pub(super) me: Peer,
    /// The names of processes in failures.
    pub(super) names: Arc<NameBook>,
    /// Whether this process is the worker, if there is no other one.
    pub(super) takes_work: bool,
    pub(super) scheduler: Scheduler,
    pub(super) lineage: Lineage,
    pub(super) aliases: AliasTable,
    pub(super) tasks: IdMap<u64, Task>,
    pub(super) objects: IdMap<RefId, u64>,
    /// The calls that wait at other processes, by the number of the letter's call there.
    pub(super) asked: IdMap<CallId, u64>,
    /// The calls that have their failure, and whose functions still run: they keep what they need until these end.
    pub(super) ending: IdMap<u64, CallPost>,
    /// The objects that are held on behalf of outer calls, by their own calls.
    pub(super) held_for_outer: IdMap<u64, Arc<Handle>>,
    /// The offers that users have set.
    pub(super) offers: IdMap<Peer, Resources>,
    /// The lives of processes that have ended.
    pub(super) dead: LastLives,
    pub(super) numbers: u64,
    /// Whether the workers were looked at, and each that comes or goes is told.
    has_met: bool,
}

impl Board {
    pub(super) fn new(me: Peer, names: Arc<NameBook>) -> Self {
        Board {
            me,
            names,
            takes_work: true,
            scheduler: Scheduler::on_host(cores()),
            lineage: Lineage::new(KEPT_BYTES_MAX),
            aliases: AliasTable::default(),
            tasks: IdMap::new(),
            objects: IdMap::new(),
            asked: IdMap::new(),
            ending: IdMap::new(),
            held_for_outer: IdMap::new(),
            offers: IdMap::new(),
            dead: LastLives::default(),
            numbers: 0,
            has_met: false,
        }
    }

    /// Whether the workers have to be looked at before an event. The head is told of each that comes or goes.
    pub(super) fn is_to_meet(&mut self, event: &TaskEvent) -> bool {
        let changes = matches!(event, TaskEvent::WorkersChanged | TaskEvent::WorkerDied(_));
        // The first of these notes that the process schedules, and from then on it is told.
        let schedules = matches!(event, TaskEvent::Submitted(_) | TaskEvent::Offers(..));
        let has_met = self.has_met;
        self.has_met |= schedules;
        changes || !has_met || self.me.process != ProcessId::HEAD
    }

    /// The call whose value an object is.
    pub(super) fn of_object(&mut self, object: RefId) -> Option<(u64, &mut Task)> {
        let call = *self.objects.get(&object)?;
        Some((call, self.tasks.get_mut(&call)?))
    }

    /// A number that no other call has.
    pub(super) fn next_number(&mut self) -> u64 {
        self.numbers += 1;
        self.numbers
    }

    /// The name of a call, if it may run again: so that what it submits has the same names then.
    pub(super) fn name(&self, call: u64) -> Option<CallName> {
        let task = self.tasks.get(&call)?;
        let is_pure = task.new.options.retries.is_some() && task.new.pinned.is_none();
        is_pure.then(|| CallName {
            number: call,
            digest: task.new.digest,
            named: task.new.named.clone(),
        })
    }
}
