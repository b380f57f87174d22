//! Readiness: whether the value of a reference is made. The value itself stays where it is.

use std::time::Duration;

use super::content::Content;
use super::error::FetchError;
use super::fetch::{Fetched, Wish};
use super::ref_type::Ref;
use crate::call::request::CALL_TIMEOUT;
use crate::promise::{Answer, NoAnswer};
use crate::waiting::ToldOnce;

/// The source of the word that a value is made.
enum Word {
    /// The owner is this process.
    Here(Answer<Content>),
    /// The value is here.
    Fetched,
    /// The owner is to be asked.
    Owner,
}

impl<T> Ref<T> {
    /// Waits until the value is made, and leaves it where it is: `T` needs no serde. Waits at most one minute.
    ///
    /// # Errors
    /// [`FetchError`]: [`FetchError::Failed`] if the function that was to make the value failed.
    pub fn ready(&self) -> Result<(), FetchError> {
        self.ready_timeout(CALL_TIMEOUT)
    }

    /// Waits until the value is made like [`ready`](Self::ready), and at most `timeout`.
    ///
    /// # Errors
    /// [`FetchError`].
    pub fn ready_timeout(&self, timeout: Duration) -> Result<(), FetchError> {
        match self.word() {
            Word::Here(mut answer) => self.made(self.waited(&mut answer, timeout)?).map(drop),
            Word::Fetched => Ok(()),
            Word::Owner => {
                self.made_there(self.asked(timeout, |table| table.ask(self.id(), Wish::Readiness))?)
            }
        }
    }

    /// Waits until the value is made like [`ready`](Self::ready), by `.await` and without a limit.
    ///
    /// # Errors
    /// [`FetchError`].
    pub async fn until_ready(&self) -> Result<(), FetchError> {
        match self.word() {
            Word::Here(answer) => self.made(answer.await).map(drop),
            Word::Fetched => Ok(()),
            Word::Owner => self.made_there(self.ask(Wish::Readiness)?.await),
        }
    }

    /// Whether the value is made, or a failure stands in its place. Outside of the owner's process this asks the owner,
    /// unless the value was fetched before or has come along with the reference, and waits for the answer, at most one minute.
    ///
    /// # Errors
    /// [`FetchError`], if the owner does not answer.
    pub fn is_ready(&self) -> Result<bool, FetchError> {
        if let Some(table) = self.handle.owner_table() {
            return Ok(table.content_now(self.id()).is_some());
        }
        if self.handle.has_value() {
            return Ok(true);
        }
        match self.asked(CALL_TIMEOUT, |table| table.ask(self.id(), Wish::State))? {
            Ok(Fetched::Ready(is_ready)) => Ok(is_ready),
            other => Err(self.unanswered(other)),
        }
    }

    /// Whether this process knows already that the value is made, or a failure in its place.
    pub(crate) fn is_made_here(&self) -> bool {
        match self.handle.owner_table() {
            Some(table) => table.content_now(self.id()).is_some(),
            None => self.handle.has_value(),
        }
    }

    /// The word that the value is made, or a failure in its place; it wakes the thread that listens.
    pub(crate) fn told_when_ready(&self) -> Box<dyn ToldOnce> {
        match self.word() {
            Word::Here(answer) => Box::new(answer),
            Word::Fetched => Box::new(Answer::ready(())),
            Word::Owner => match self.ask(Wish::Readiness) {
                Ok(answer) => Box::new(answer),
                Err(_) => Box::new(Answer::ready(())),
            },
        }
    }

    fn word(&self) -> Word {
        match self.handle.owner_table() {
            Some(table) => Word::Here(table.content(self.id())),
            None if self.handle.has_value() => Word::Fetched,
            None => Word::Owner,
        }
    }

    fn made_there(&self, fetched: Result<Fetched, NoAnswer>) -> Result<(), FetchError> {
        match fetched {
            Ok(Fetched::Ready(true)) => Ok(()),
            other => Err(self.unanswered(other)),
        }
    }
}
