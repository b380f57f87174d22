//! The processes that one worker's start waits for at a door.

use std::sync::Arc;

use parking_lot::Mutex;
use selvedge_cluster::net::Arrival;
use selvedge_cluster::peer::Peer;
use tokio::sync::mpsc;

use super::door::Door;
use crate::head_log::MemberPart;
use crate::topology::Names;

/// The workers of one configuration that dial in.
#[derive(Clone)]
pub(crate) struct Guests {
    pub(crate) door: Arc<Door>,
    /// The names of these workers in a custom topology.
    pub(crate) names: Names,
    comes: Comes,
}

/// The processes that come.
#[derive(Clone)]
enum Comes {
    /// The next worker.
    Anybody,
    /// A process that is there. The first who asks has it.
    Arrived(MemberPart, Arc<Mutex<Option<Arrival>>>),
    /// A member of the head's last life.
    Back(Peer, Arc<tokio::sync::Mutex<mpsc::Receiver<Arrival>>>),
}

impl Guests {
    /// Workers with these names that will come to a door.
    pub(super) fn expected(door: Arc<Door>, names: Names) -> Self {
        Guests {
            door,
            names,
            comes: Comes::Anybody,
        }
    }

    /// A worker or a job that has come to a door.
    pub(super) fn arrived(door: Arc<Door>, part: MemberPart, arrival: Arrival) -> Self {
        Guests {
            door,
            names: Names::default(),
            comes: Comes::Arrived(part, Arc::new(Mutex::new(Some(arrival)))),
        }
    }

    /// A member of the head's last life, which may come back to a door.
    pub(super) fn back(door: Arc<Door>, peer: Peer) -> Self {
        let back = door.await_back(peer);
        Guests {
            door,
            names: Names::default(),
            comes: Comes::Back(peer, Arc::new(tokio::sync::Mutex::new(back))),
        }
    }

    /// Whether these are a job.
    pub(crate) fn are_a_job(&self) -> bool {
        matches!(self.comes, Comes::Arrived(MemberPart::Job, _))
    }

    /// The member of the head's last life that these are.
    pub(crate) fn member(&self) -> Option<Peer> {
        match self.comes {
            Comes::Back(peer, _) => Some(peer),
            Comes::Anybody | Comes::Arrived(..) => None,
        }
    }

    /// Whether these are one process that is known already, and not the next worker that comes.
    pub(crate) fn is_one(&self) -> bool {
        !matches!(self.comes, Comes::Anybody)
    }

    /// Waits for the next one to admit. After a process that was there, there is none; a member that comes back may dial again.
    pub(crate) async fn next(&self) -> Arrival {
        let arrival = match &self.comes {
            Comes::Anybody => return self.door.next().await,
            Comes::Arrived(_, arrival) => arrival.lock().take(),
            Comes::Back(_, back) => back.lock().await.recv().await,
        };
        match arrival {
            Some(arrival) => arrival,
            // Whoever waits has a time limit.
            None => std::future::pending().await,
        }
    }

    /// A member of the last life is there, or does not come any more.
    pub(crate) fn end_wait(&self) {
        if let Some(peer) = self.member() {
            self.door.end_wait(peer);
        }
    }
}
