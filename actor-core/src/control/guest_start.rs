//! The start of a guest: a worker that dials in is admitted, and says its first word.

use std::sync::Arc;
use std::time::Duration;

use selvedge_cluster::manager::WorkerAddress;
use selvedge_cluster::net::Arrival;
use selvedge_cluster::peer::{Incarnation, Peer};
use tokio::time::timeout;

use super::guest::GuestLink;
use super::hosted::Hosted;
use super::messages::WorkerMessage;
use super::node::NodeRef;
use super::worker_process::{ProcessHandle, WorkerProcess};
use super::worker_start::{Met, NewProcess, WorkerArgs};
use crate::directory::Directory;
use crate::hosts::door::Guests;
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
            guests,
            peer: self.next_peer(),
        };
        let found = tokio::select! {
            met = timeout(limit, meeting.meet_next()) => met.map_err(|_| SpawnError::NoHello {
                worker,
                reason: format!("nobody has dialled in within {limit:?}"),
                stderr_tail: Vec::new(),
            }),
            unwanted = self.unwanted() => Err(unwanted),
        };
        let peer = meeting.peer;
        self.incarnation = peer.incarnation;
        let met = found.inspect_err(|_| {
            self.directory.hub.buried(peer);
            hosted.failed();
        })?;
        hosted.announced();
        let guest = GuestLink::new(&self.directory.hub, peer);
        let started = NewProcess {
            peer,
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
    async fn meet_next(&mut self) -> Met {
        loop {
            let arrival = self.guests.next().await;
            let name = arrival.name().to_owned();
            match self.meet(arrival).await {
                Ok(met) => return met,
                Err(why) => {
                    self.directory.hub.buried(self.peer);
                    self.guests.door.note_refusal(format!("{name}: {why}"));
                    let Incarnation(last) = self.peer.incarnation;
                    self.peer.incarnation = Incarnation(last.saturating_add(1));
                }
            }
        }
    }

    async fn meet(&self, arrival: Arrival) -> Result<Met, String> {
        let (hub, peer) = (&self.directory.hub, self.peer);
        let mut words = Words::Letters(self.directory.words.of(peer));
        if !self.guests.door.admit(hub, arrival, peer).await? {
            return Err("its connection is not used".to_owned());
        }
        let (link, queue) = Link::with_limit(BODY_BYTES_MAX);
        let link = Arc::new(link);
        let writing = write_letters(queue, Arc::downgrade(&link), Arc::downgrade(hub), peer);
        tokio::spawn(writing);
        let first = timeout(INTRODUCTION_MAX, words.next()).await;
        let first = first.map_err(|_| format!("it did not introduce itself within {INTRODUCTION_MAX:?}"))?;
        let first = first.map_err(|error| error.to_string())?;
        let (pid, machine, listens_at) = match first {
            Some((
                FromWorker::Joined {
                    pid,
                    machine,
                    listens_at,
                },
                _,
            )) => (pid, machine, listens_at),
            Some(_) => return Err("it spoke before it introduced itself".to_owned()),
            None => return Err("it ended before it introduced itself".to_owned()),
        };
        let listens_at = listens_at.map(|place| place.parse::<WorkerAddress>()).transpose();
        let listens_at = listens_at.map_err(|error| format!("the place where it listens: {error}"))?;
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
