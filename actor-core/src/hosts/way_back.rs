//! The way of a worker that has dialled in to the next life of its driver.

use std::process;
use std::sync::{Arc, Weak};
use std::time::Duration;

use bytes::Bytes;
use parking_lot::Mutex;
use selvedge_cluster::handshake::Role;
use selvedge_cluster::peer::{Peer, ProcessId};

use super::dialing::PlaceOfPeer;
use super::guest::{Attempts, admitted};
use super::host_key::Machine;
use super::identity::Means;
use super::rejoin_terms::RejoinTerms;
use crate::hub::Hub;
use crate::hub::connection::Resume;
use crate::hub::post::Post;
use crate::platform::peer_socket::of_link;
use crate::worker::exit::{exit_now, refuse};
use crate::worker::letters::{WayOn, letter};
use crate::worker::protocol::FromWorker;

/// The place where the driver listens in each of its lives, and what it is told.
pub(super) struct WayBack {
    pub(super) hub: Weak<Hub>,
    pub(super) means: Means,
    /// The address of the driver; `None` if the driver has dialled.
    pub(super) to: Option<String>,
    /// The place where other workers dial this one, unless it has announced that.
    pub(super) listens_at: Option<String>,
    /// The life of the driver in which this worker is a member, or was.
    pub(super) driver: Mutex<Peer>,
    /// The terms of the first life of the driver, if it has a log. All its lives have one cluster id, and this worker waits for each of them
    /// as long as the first one has said.
    pub(super) terms: Option<RejoinTerms>,
}

/// The reason for which a worker is no member any more.
enum NotBack {
    /// The life of the driver that it knows goes on, and has declared it dead.
    Buried,
    /// The next life of the driver does not come, or does not let it in.
    Refused(String),
}

impl From<String> for NotBack {
    fn from(why: String) -> Self {
        NotBack::Refused(why)
    }
}

impl WayBack {
    /// Whether this worker outlives its driver.
    pub(super) fn is_there(&self) -> bool {
        self.to.is_some() && self.terms.is_some()
    }

    /// The time that the next life of the driver has.
    pub(super) fn within(&self) -> Duration {
        self.terms.as_ref().map(|terms| terms.within).unwrap_or_default()
    }

    /// The first word of this worker to its driver, with the id of the cluster if it was a member before.
    pub(super) fn introduction(&self, cluster_id: Option<String>) -> FromWorker {
        FromWorker::Joined {
            pid: process::id(),
            machine: Machine::mine(),
            listens_at: self.listens_at.clone(),
            cluster_id,
        }
    }

    /// Dials until the next life of the driver lets this worker in under its old name.
    async fn rejoin(&self, terms: &RejoinTerms, to: &str) -> Result<(), NotBack> {
        let hub = || self.hub.upgrade().ok_or_else(|| "this worker ends".to_owned());
        let me = hub()?.me();
        let mut attempts = Attempts::within(terms.within);
        let link = admitted(&self.means, Some(me), to, &mut attempts).await?;
        let driver = link.welcome.me;
        if link.hello.role != Role::Head || driver.process != ProcessId::HEAD || link.welcome.you != me {
            return Err(match driver == *self.driver.lock() {
                true => NotBack::Buried,
                false => NotBack::Refused(format!("{driver} listens there, and does not know this worker")),
            });
        }
        let way = PlaceOfPeer::of_driver(Role::Worker, me, driver, to.to_owned(), self.means.clone());
        let connection = of_link(link).map_err(|error| error.to_string())?;
        // Before all words that other threads have for the driver.
        let word = self.introduction(Some(terms.cluster_id.clone()));
        let word = postcard::to_stdvec(&word).map_err(|error| error.to_string())?;
        let is_new = hub()?.begin_with(driver, letter(false, &word, Bytes::new()));
        let adopted = hub()?.adopt(driver, connection, Resume::Dials(Arc::new(way)));
        if !(is_new && adopted.map_err(|error| error.to_string())?) {
            return Err(NotBack::Refused(format!("{driver} is dead already")));
        }
        *self.driver.lock() = driver;
        hub()?.ask_again();
        Ok(())
    }
}

impl WayOn for WayBack {
    /// Begins to look for the next life of the driver, and ends this process if that does not come.
    fn begin(self: Arc<Self>) {
        let (to, terms) = (self.to.clone(), self.terms.clone());
        let (Some(to), Some(terms), Some(hub)) = (to, terms, self.hub.upgrade()) else {
            // No process can use this worker any more.
            exit_now(0)
        };
        let search = async move {
            match self.rejoin(&terms, &to).await {
                Ok(()) => {}
                Err(NotBack::Buried) => refuse(&format!(
                    "the driver at {to} lives, counts this worker as dead, and does not let it in again (was it, its host or the \
                     network stopped for longer than the driver's silence timeout? help: start another worker)"
                )),
                Err(NotBack::Refused(why)) => refuse(&format!(
                    "the driver has ended, and its next life at {to} does not let this worker in within {:?}: {why}",
                    terms.within
                )),
            }
        };
        if !hub.spawn(Box::pin(search)) {
            exit_now(0)
        }
    }
}
