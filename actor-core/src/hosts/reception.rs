//! The head's side of processes that a door lets in as they come: each is watched like a guest.

use std::sync::{Arc, Weak};
use std::time::Duration;

use selvedge_cluster::net::Arrival;
use selvedge_cluster::peer::Peer;

use super::add::AddError;
use super::dial_in::DialIn;
use super::door::Door;
use super::guests::Guests;
use super::launcher::GuestLauncher;
use super::manager::ClusterManager;
use super::terms::Terms;
use crate::control::node::NodeRef;
use crate::control::supervisor_message::SupervisorMessage;
use crate::directory::Directory;
use crate::head_log::{HeadRecord, MemberPart, NotLogged};
use crate::id::ProcessId;
use crate::promise::promise;
use crate::runtime::Runtime;
use crate::worker::record::WorkerRecord;

/// The time that a process may take from its handshake to its first word.
const JOIN_TIMEOUT: Duration = Duration::from_secs(10);

/// Lets processes in at a door.
struct Usher {
    directory: Weak<Directory>,
    supervisor: NodeRef<SupervisorMessage>,
    part: MemberPart,
}

impl Usher {
    /// Begins to admit a process under the next number. A head with a log logs that before.
    fn let_in(&self, door: Arc<Door>, arrival: Arrival) {
        let Some(directory) = self.directory.upgrade() else {
            return;
        };
        match directory.keeping.get() {
            None => {
                let admission = self.begin(&directory, door, arrival);
                admission.admit();
            }
            // A number that another one overtakes on its way to the log would be one that was given before.
            Some(keeping) => keeping.log.decide(|| {
                let admission = self.begin(&directory, door, arrival);
                let joined = HeadRecord::Joined {
                    peer: admission.peer(),
                    part: self.part,
                    name: admission.record.name().to_owned(),
                };
                let then = |logged| match logged {
                    Ok(()) => admission.admit(),
                    Err(error) => admission.refuse(&error),
                };
                (joined, Box::new(then))
            }),
        }
    }

    /// Gives a process its number.
    fn begin(&self, directory: &Directory, door: Arc<Door>, arrival: Arrival) -> Admission {
        let name = match self.part {
            MemberPart::Job => "job",
            MemberPart::Guest => "guest",
        };
        let mut record = WorkerRecord::new(ProcessId::next(), name, Vec::new());
        record.is_guest = true;
        let record = Arc::new(record);
        directory.note_let_in(&record);
        Admission {
            record,
            guests: Guests::arrived(Arc::clone(&door), self.part, arrival),
            door,
            supervisor: self.supervisor.clone(),
        }
    }
}

/// A process that has a number, and is not admitted yet.
struct Admission {
    record: Arc<WorkerRecord>,
    guests: Guests,
    door: Arc<Door>,
    supervisor: NodeRef<SupervisorMessage>,
}

impl Admission {
    fn peer(&self) -> Peer {
        self.record.id().among_peers().first_life()
    }

    fn admit(self) {
        add(&self.supervisor, self.record, self.guests, JOIN_TIMEOUT);
    }

    fn refuse(self, why: &NotLogged) {
        self.door.note_refusal(why.to_string());
    }
}

/// Has a process watched that comes, or is there.
pub(super) fn add(
    supervisor: &NodeRef<SupervisorMessage>,
    record: Arc<WorkerRecord>,
    guests: Guests,
    wait: Duration,
) {
    let (reply, _nobody_waits) = promise();
    let seat = None;
    supervisor.send(SupervisorMessage::AddWorker {
        record,
        launcher: Arc::new(GuestLauncher { guests, wait, seat }),
        reply,
    });
}

impl Runtime {
    /// Lets other programs of this build join this runtime as jobs, at this door: [`connect`](Self::connect). They need the
    /// runtime's cookie, such as an [`invitation`](Self::invitation) has it. Without this call a runtime has no address, and nobody
    /// can join it. Jobs are let in as long as a clone of `door` lives, or
    /// a job or a guest that has come by it.
    ///
    /// When a job ends, however that happens, its calls are cancelled, and its references and actors go. Workers stay, and so
    /// does everything that others hold.
    ///
    /// # Errors
    /// [`AddError`]: the door belongs to another runtime, its transport is not the one of the runtime's workers, or this process
    /// is no head.
    pub fn accept_jobs(&self, door: &DialIn) -> Result<(), AddError> {
        self.check_head()?;
        let terms = Terms {
            topology: door.topology(),
            transport: door.transport(),
        };
        let turn = self.turn(terms)?;
        let jobs = self.usher(MemberPart::Job)?;
        let let_in = move |door: Arc<Door>, arrival: Arrival| jobs.let_in(door, arrival);
        self.open(door, &turn.terms, Some(Arc::new(let_in)))?;
        turn.fix();
        Ok(())
    }

    /// Lets workers in at this door as they come.
    pub(super) fn accept_workers(&self, door: &DialIn) -> Result<(), AddError> {
        let workers = self.usher(MemberPart::Guest)?;
        door.door()
            .let_workers_in(move |door, arrival| workers.let_in(door, arrival));
        Ok(())
    }

    fn usher(&self, part: MemberPart) -> Result<Usher, AddError> {
        Ok(Usher {
            directory: Arc::downgrade(&self.inner().directory),
            supervisor: self.inner().control()?.supervisor(),
            part,
        })
    }
}
