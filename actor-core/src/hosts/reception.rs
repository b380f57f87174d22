//! The head's side of jobs: the door lets them in, and each is watched like a guest.

use std::io;
use std::sync::Arc;
use std::time::Duration;

use super::add::AddError;
use super::dial_in::DialIn;
use super::door::Guests;
use super::manager::ClusterManager;
use super::terms::Terms;
use crate::control::supervisor_message::SupervisorMessage;
use crate::id::ProcessId;
use crate::promise::promise;
use crate::runtime::Runtime;
use crate::worker::launch::{Launched, Launcher};
use crate::worker::record::WorkerRecord;

/// The time that a job may take from its handshake to its first word.
const JOIN_TIMEOUT: Duration = Duration::from_secs(10);

/// Launches nothing: the job is there.
struct JobLauncher(Guests);

impl Launcher for JobLauncher {
    fn launch(&self, _: &str, _: &[(String, String)]) -> io::Result<Launched> {
        Err(io::ErrorKind::Unsupported.into())
    }

    fn time_limit(&self, _: Duration) -> Duration {
        JOIN_TIMEOUT
    }

    fn guests(&self) -> Option<Guests> {
        Some(self.0.clone())
    }
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
        self.open(door, &turn.terms)?;
        let supervisor = self.inner().control()?.supervisor();
        door.door().let_jobs_in(move |door, arrival| {
            let record = Arc::new(WorkerRecord::new(ProcessId::next(), "job", Vec::new()));
            record.note_guest();
            let (reply, _nobody_waits) = promise();
            supervisor.send(SupervisorMessage::AddWorker {
                record,
                launcher: Arc::new(JobLauncher(Guests::job(door, arrival))),
                reply,
            });
        });
        turn.fix();
        Ok(())
    }
}
