//! The requests of this process to channels, its own and those of others. Plain data.
//!
//! One `ChannelUser` numbers the requests to all channels of a process, so that no number is used twice there.

use selvedge_cluster::id_map::IdMap;
use selvedge_cluster::peer::Peer;
use selvedge_objects::channel::{Answer, ChannelError, ChannelUser, Outcome, Request};
use selvedge_objects::refs::RefId;

use super::message::ChannelRefusal;
use super::value::SharedValue;
use crate::promise::Promise;

/// The end of a request.
pub(super) type Settled = Result<Outcome<SharedValue>, ChannelRefusal>;

/// The use of the channels of one process.
pub(super) type User = ChannelUser<SharedValue>;

/// The begin of a request, with its number.
pub(super) type NumberedRequest = Result<(u64, Request<SharedValue>), ChannelError>;

/// The requests of this process, by the process of the channel.
#[derive(Default)]
pub(super) struct ChannelRequests {
    homes: IdMap<Peer, RequestsTo>,
    is_stopped: bool,
}

/// The requests to the channels of one process.
struct RequestsTo {
    user: User,
    waiting: IdMap<u64, (RefId, Promise<Settled>)>,
}

/// An error: the process ends, or that of the channel is dead.
#[derive(Debug)]
pub(super) enum NoRequest {
    Stopped,
    Lost,
}

impl ChannelRequests {
    /// Begins a request. The answer goes to `asker`.
    pub(super) fn begin(
        &mut self,
        channel: RefId,
        ask: impl FnOnce(&mut User) -> NumberedRequest,
        asker: Promise<Settled>,
    ) -> Result<Request<SharedValue>, NoRequest> {
        let to = self.to(channel.owner)?;
        let (number, request) = ask(&mut to.user).map_err(|_| NoRequest::Lost)?;
        to.waiting.insert(number, (channel, asker));
        Ok(request)
    }

    /// Closes a channel of `home`.
    pub(super) fn close(&mut self, home: Peer) -> Result<Request<SharedValue>, NoRequest> {
        self.to(home)?.user.close().map_err(|_| NoRequest::Lost)
    }

    fn to(&mut self, home: Peer) -> Result<&mut RequestsTo, NoRequest> {
        if self.is_stopped {
            return Err(NoRequest::Stopped);
        }
        Ok(self.homes.get_or_insert_with(home, || RequestsTo {
            user: ChannelUser::new(home),
            waiting: IdMap::new(),
        }))
    }

    /// The answer to a request has arrived. Returns who waits for it, and the end of the request.
    pub(super) fn answered(
        &mut self,
        home: Peer,
        number: u64,
        answer: Result<Answer<SharedValue>, ChannelRefusal>,
    ) -> Option<(Promise<Settled>, Settled)> {
        let to = self.homes.get_mut(&home)?;
        let settled = match answer {
            Ok(answer) => Ok(to.user.answered(number, answer)?),
            Err(refusal) => {
                to.user.cancel(number)?;
                Err(refusal)
            }
        };
        let (_, asker) = to.waiting.remove(&number)?;
        Some((asker, settled))
    }

    /// The channel that the request with this number is for.
    pub(super) fn channel(&self, home: Peer, number: u64) -> Option<RefId> {
        let to = self.homes.get(&home)?;
        to.waiting.get(&number).map(|(channel, _)| *channel)
    }

    /// A value that was taken is safe. Returns the request that says so.
    pub(super) fn acknowledge(&mut self, home: Peer, number: u64) -> Option<Request<SharedValue>> {
        self.homes.get_mut(&home)?.user.acknowledge(number)
    }

    /// A request is not wanted any more. Returns the request that says so, and who has waited.
    pub(super) fn cancel(
        &mut self,
        home: Peer,
        number: u64,
    ) -> (Option<Request<SharedValue>>, Option<Promise<Settled>>) {
        let Some(to) = self.homes.get_mut(&home) else {
            return (None, None);
        };
        let asker = to.waiting.remove(&number).map(|(_, asker)| asker);
        (to.user.cancel(number), asker)
    }

    /// A process is dead. Returns the ends of all requests to it.
    pub(super) fn died(&mut self, home: Peer) -> Vec<(Promise<Settled>, Settled)> {
        let Some(mut to) = self.homes.remove(&home) else {
            return Vec::new();
        };
        let lost = to.user.lost().into_iter();
        let mut asked = |number| to.waiting.remove(&number).map(|(_, asker)| asker);
        lost.filter_map(|(number, outcome)| Some((asked(number)?, Ok(outcome))))
            .collect()
    }

    /// A request was not sent. Returns who has waited. A process whose death was told before is forgotten as well.
    pub(super) fn forget(&mut self, home: Peer, number: u64, is_dead: bool) -> Option<Promise<Settled>> {
        let (_, asker) = self.cancel(home, number);
        if is_dead && self.homes.get(&home).is_some_and(|to| to.user.open() == 0) {
            self.homes.remove(&home);
        }
        asker
    }

    /// Refuses requests from now on. Returns all that wait.
    pub(super) fn stop(&mut self) -> Vec<Promise<Settled>> {
        self.is_stopped = true;
        let homes = std::mem::take(&mut self.homes).into_values();
        homes
            .flat_map(|to| to.waiting.into_values())
            .map(|(_, asker)| asker)
            .collect()
    }

    /// The number of requests without an answer, and of values that are not acknowledged.
    #[cfg(test)]
    pub(super) fn open(&self) -> usize {
        self.homes.values().map(|to| to.user.open()).sum()
    }
}
