//! The user's side of a channel: requests without an answer, and values that are not acknowledged.

use selvedge_cluster::id_map::IdMap;
use selvedge_cluster::peer::Peer;

use super::{Answer, ChannelError, NotPut, Request, Wish};

/// The end of a request.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Outcome<V> {
    /// The value was stored.
    Stored,
    /// The value that was asked for. One that was taken has to be acknowledged, or cancelled.
    Value(V),
    /// Whether there was a value.
    Ready(bool),
    /// The value was not stored, and comes back.
    NotPut(NotPut<V>),
    /// The channel has given no value.
    Failed(ChannelError),
}

#[derive(Clone, Debug, PartialEq, Eq, Hash)]
enum Asked<V> {
    Putting(V),
    Taking,
    Peeking,
    /// Asks whether there is a value, or for the moment at which there is one.
    Looking,
    /// The value is here and not acknowledged.
    Taken,
}

/// One process's use of a channel. Every request goes to the home in an ordered frame.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub struct ChannelUser<V> {
    home: Peer,
    requests: IdMap<u64, Asked<V>>,
    /// The number of the last request.
    last: u64,
    is_lost: bool,
}

impl<V: Clone> ChannelUser<V> {
    /// The use of a channel that lives at `home`.
    pub fn new(home: Peer) -> Self {
        ChannelUser {
            home,
            requests: IdMap::new(),
            last: 0,
            is_lost: false,
        }
    }

    /// Puts a value. Returns the number of the request and the request itself.
    ///
    /// # Errors
    /// [`NotPut`] with the value: the home is lost.
    pub fn put(&mut self, value: V) -> Result<(u64, Request<V>), NotPut<V>> {
        if let Err(reason) = self.check() {
            return Err(NotPut { value, reason });
        }
        Ok(self.begin(Asked::Putting(value.clone()), Wish::Put(value)))
    }

    /// Takes the oldest value. Call [`ChannelUser::acknowledge`] when the value is safe.
    ///
    /// # Errors
    /// [`ChannelError::HomeLost`].
    pub fn take(&mut self) -> Result<(u64, Request<V>), ChannelError> {
        self.check()?;
        Ok(self.begin(Asked::Taking, Wish::Take))
    }

    /// Takes the next value of an iteration, which acknowledges the value before. The iteration ends with
    /// [`ChannelError::Closed`].
    ///
    /// # Errors
    /// [`ChannelError::HomeLost`].
    pub fn next(&mut self, before: Option<u64>) -> Result<(u64, Vec<Request<V>>), ChannelError> {
        let mut requests: Vec<_> = before.and_then(|it| self.acknowledge(it)).into_iter().collect();
        let (number, request) = self.take()?;
        requests.push(request);
        Ok((number, requests))
    }

    /// Reads the oldest value without removing it.
    ///
    /// # Errors
    /// [`ChannelError::HomeLost`].
    pub fn peek(&mut self) -> Result<(u64, Request<V>), ChannelError> {
        self.check()?;
        Ok(self.begin(Asked::Peeking, Wish::Peek))
    }

    /// Asks whether there is a value. The answer may be stale when it arrives: another process may have taken the value.
    ///
    /// # Errors
    /// [`ChannelError::HomeLost`].
    pub fn is_ready(&mut self) -> Result<(u64, Request<V>), ChannelError> {
        self.check()?;
        Ok(self.begin(Asked::Looking, Wish::IsReady))
    }

    /// Waits for a value, without moving it.
    ///
    /// # Errors
    /// [`ChannelError::HomeLost`].
    pub fn ready(&mut self) -> Result<(u64, Request<V>), ChannelError> {
        self.check()?;
        Ok(self.begin(Asked::Looking, Wish::Ready))
    }

    /// Closes the channel. No answer follows.
    ///
    /// # Errors
    /// [`ChannelError::HomeLost`].
    pub fn close(&mut self) -> Result<Request<V>, ChannelError> {
        self.check()?;
        self.last += 1;
        let number = self.last;
        Ok(Request {
            number,
            wish: Wish::Close,
        })
    }

    /// An answer has arrived. Returns the end of the request; `None` if nobody wants it any more.
    pub fn answered(&mut self, number: u64, answer: Answer<V>) -> Option<Outcome<V>> {
        let stage = self.requests.remove(&number)?;
        match (stage, answer) {
            (Asked::Putting(_), Answer::Stored) => Some(Outcome::Stored),
            (Asked::Taking, Answer::Value(value)) => {
                self.requests.insert(number, Asked::Taken);
                Some(Outcome::Value(value))
            }
            (Asked::Peeking, Answer::Value(value)) => Some(Outcome::Value(value)),
            (Asked::Looking, Answer::Ready(is_ready)) => Some(Outcome::Ready(is_ready)),
            (Asked::Taken, _) => {
                self.requests.insert(number, Asked::Taken); // a second answer, which no lawful home gives
                None
            }
            (stage, Answer::TooMany { limit }) => {
                let home = self.home;
                Some(Self::end(stage, ChannelError::TooMany { home, limit }))
            }
            // Answers that do not fit the request come from no lawful home; the request ends nevertheless.
            (stage, _) => Some(Self::end(stage, ChannelError::Closed(self.home))),
        }
    }

    /// A value that was taken is safe: it does not go back any more. Returns the request to send; `None` if the number is
    /// not that of a value that was taken.
    pub fn acknowledge(&mut self, number: u64) -> Option<Request<V>> {
        match self.requests.get(&number) {
            Some(Asked::Taken) => self.finish(number, Wish::Acknowledge),
            _ => None,
        }
    }

    /// A request is not wanted any more. A value that was taken, or is on its way, goes back; a value that is being put may
    /// have been stored. Returns the request to send; `None` if the number is not that of an open request.
    pub fn cancel(&mut self, number: u64) -> Option<Request<V>> {
        self.finish(number, Wish::Cancel)
    }

    /// The home is dead. Returns the end of each request that had none.
    pub fn lost(&mut self) -> Vec<(u64, Outcome<V>)> {
        self.is_lost = true;
        let open = std::mem::take(&mut self.requests).into_iter();
        let waiting = open.filter(|(_, stage)| !matches!(stage, Asked::Taken));
        let error = ChannelError::HomeLost(self.home);
        waiting
            .map(|(number, stage)| (number, Self::end(stage, error)))
            .collect()
    }

    /// The number of requests without an answer, and of values that are not acknowledged.
    pub fn open(&self) -> usize {
        self.requests.len()
    }

    fn check(&self) -> Result<(), ChannelError> {
        match self.is_lost {
            true => Err(ChannelError::HomeLost(self.home)),
            false => Ok(()),
        }
    }

    fn begin(&mut self, stage: Asked<V>, wish: Wish<V>) -> (u64, Request<V>) {
        self.last += 1;
        let number = self.last;
        self.requests.insert(number, stage);
        (number, Request { number, wish })
    }

    fn finish(&mut self, number: u64, wish: Wish<V>) -> Option<Request<V>> {
        self.requests.remove(&number)?;
        Some(Request { number, wish })
    }

    fn end(stage: Asked<V>, reason: ChannelError) -> Outcome<V> {
        match stage {
            Asked::Putting(value) => Outcome::NotPut(NotPut { value, reason }),
            Asked::Taking | Asked::Peeking | Asked::Looking | Asked::Taken => Outcome::Failed(reason),
        }
    }
}
