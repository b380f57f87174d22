//! The start of a guest: a worker that dials in is admitted, and says its first word.

use std::future::pending;
use std::sync::Arc;
use std::time::Duration;

use selvedge_cluster::manager::WorkerAddress;
use selvedge_cluster::net::Arrival;
use selvedge_cluster::peer::{Incarnation, Peer};
use tokio::time::{Instant, timeout, timeout_at};

use super::guest::GuestLink;
use super::hosted::Hosted;
use super::messages::WorkerMessage;
use super::node::NodeRef;
use super::worker_process::{ProcessHandle, WorkerProcess};
use super::worker_start::{Met, NewProcess, WorkerArgs};
use crate::death::Exit;
use crate::directory::Directory;
use crate::head_log::HeadRecord;
use crate::hosts::guests::Guests;
use crate::hosts::rejoin_terms::note_of;
use crate::process_end::ProcessEnd;
use crate::spawn_error::SpawnError;
use crate::topology::Station;
use crate::worker::letters::{BODY_BYTES_MAX, write_letters};
use crate::worker::link::Link;
use crate::worker::protocol::FromWorker;
use crate::worker::words::Words;

/// The time that a guest may take to introduce itself once it is admitted. Others may wait at the door meanwhile.
const INTRODUCTION_MAX: Duration = Duration::from_secs(5);

/// The worker that is met, and the means to meet it.
struct GuestMeeting {
    directory: Arc<Directory>,
    guests: Guests,
    peer: Peer,
}

impl WorkerArgs {
    /// Waits for a worker that dials in, and watches it from then on.
    pub(super) async fn start_guest(
        &mut self,
        node: &NodeRef<WorkerMessage>,
        guests: Guests,
    ) -> Result<(), SpawnError> {
        let worker = self.record.process_name();
        if self.incarnation > Incarnation(0) {
            let reason = "it has dialled in, so nobody can start it again".to_owned();
            return Err(SpawnError::Worker { worker, reason });
        }
        let mut hosted = Hosted::launched(&self.record, &self.launcher);
        let limit = self.launcher.time_limit(self.directory.limits().hello);
        let mut meeting = GuestMeeting {
            directory: Arc::clone(&self.directory),
            peer: guests.member().unwrap_or_else(|| self.next_peer()),
            guests,
        };
        let found = tokio::select! {
            met = timeout(limit, meeting.meet_next()) => {
                let nobody = |_| Err(format!("nobody has dialled in within {limit:?}"));
                met.unwrap_or_else(nobody).map_err(|reason| SpawnError::NoHello {
                    worker,
                    reason,
                    stderr_tail: Vec::new(),
                })
            }
            unwanted = self.unwanted() => Err(unwanted),
        };
        let peer = meeting.peer;
        self.incarnation = peer.incarnation;
        meeting.guests.end_wait();
        let met = match found {
            Ok(met) => met,
            Err(error) => {
                self.directory.log_death(peer).await;
                self.directory.hub.stayed_away(peer);
                hosted.failed();
                return Err(error);
            }
        };
        hosted.announced();
        if let (Some(keeping), Some(machine)) = (self.directory.keeping.get(), &met.machine) {
            let host = machine.shown_name();
            keeping.log.note_later(HeadRecord::Located { peer, host });
        }
        let guest = GuestLink::new(&self.directory.hub, peer);
        let started = NewProcess {
            peer,
            child: None,
            handle: ProcessHandle::Guest(guest.clone()),
            process: WorkerProcess::Guest(guest),
            stderr: None,
            hosted,
        };
        self.join(node, started, met);
        Ok(())
    }
}

impl GuestMeeting {
    /// Meets the next worker that dials in and introduces itself. One that goes meanwhile is forgotten, with its name.
    ///
    /// # Errors
    /// A text: the process that was meant has gone, or is another one.
    async fn meet_next(&mut self) -> Result<Met, String> {
        loop {
            let arrival = self.guests.next().await;
            let name = arrival.name().to_owned();
            let words = Words::Letters(self.directory.words.of(self.peer));
            let admitted = self.admit(arrival).await;
            if admitted.is_err() && self.guests.member().is_some() {
                // It dials again under its name, as long as it may.
                continue;
            }
            let met = match admitted {
                Ok(()) => self.introduced(words).await,
                Err(why) => Err(why),
            };
            let why = match met {
                Ok(met) => return Ok(met),
                Err(why) => why,
            };
            self.guests.door.note_refusal(format!("{name}: {why}"));
            if self.guests.is_one() {
                return Err(why);
            }
            let end = ProcessEnd::of(Exit::Fenced(why));
            self.directory.hub.buried(self.peer, end);
            let Incarnation(last) = self.peer.incarnation;
            self.peer.incarnation = Incarnation(last.saturating_add(1));
        }
    }

    /// Welcomes a process, whose words come from now on.
    async fn admit(&self, arrival: Arrival) -> Result<(), String> {
        let hub = &self.directory.hub;
        let keeping = self.directory.keeping.get();
        let note = note_of(keeping.map(|keeping| &keeping.terms))?;
        match self.guests.door.admit(hub, arrival, self.peer, note).await? {
            true => Ok(()),
            false => Err("its connection is not used".to_owned()),
        }
    }

    /// The id of the cluster that a member which comes back has to know.
    fn cluster_id(&self) -> Option<String> {
        let keeping = self.directory.keeping.get();
        let keeping = keeping.filter(|_| self.guests.member().is_some());
        keeping.map(|keeping| keeping.terms.cluster_id.clone())
    }

    /// The first word. A member that has not heard its welcome dials once more meanwhile.
    async fn first_word(&self, words: &mut Words) -> Result<FromWorker, String> {
        let deadline = Instant::now() + INTRODUCTION_MAX;
        loop {
            let again = async {
                match self.guests.member() {
                    Some(_) => self.guests.next().await,
                    None => pending().await,
                }
            };
            let first = tokio::select! {
                first = timeout_at(deadline, words.next()) => first,
                arrival = again => {
                    self.admit(arrival).await?;
                    continue;
                }
            };
            let first =
                first.map_err(|_| format!("it did not introduce itself within {INTRODUCTION_MAX:?}"))?;
            let first = first.map_err(|error| error.to_string())?;
            let (word, _) = first.ok_or_else(|| "it ended before it introduced itself".to_owned())?;
            return Ok(word);
        }
    }

    async fn introduced(&self, mut words: Words) -> Result<Met, String> {
        let FromWorker::Joined {
            pid,
            machine,
            listens_at,
            cluster_id,
        } = self.first_word(&mut words).await?
        else {
            return Err("it spoke before it introduced itself".to_owned());
        };
        if cluster_id != self.cluster_id() {
            return Err("it is a member of another cluster that has this cookie".to_owned());
        }
        let listens_at = listens_at.map(|place| place.parse::<WorkerAddress>()).transpose();
        let listens_at = listens_at.map_err(|error| format!("the place where it listens: {error}"))?;
        let (link, queue) = Link::with_limit(BODY_BYTES_MAX);
        let link = Arc::new(link);
        let hub = Arc::downgrade(&self.directory.hub);
        tokio::spawn(write_letters(queue, Arc::downgrade(&link), hub, self.peer));
        Ok(Met {
            words,
            link,
            stdout: None,
            pid,
            sentinels: Vec::new(),
            station: Some(Station {
                listens_at: listens_at.map(|place| place.to_string()),
                names: self.guests.names.clone(),
            }),
            machine: Some(machine),
        })
    }
}
