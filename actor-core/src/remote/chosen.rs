//! The options that a call has been given, and the verbs that have no use for some of them.

use std::time::Duration;

use crate::call::remote_error::RemoteError;
use crate::remote::remote_call::{Destination, RemoteCall};

/// The options for the scheduler that were set on a call itself. What the function declares is a default, and none of these.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct ChosenOptions {
    pub(crate) retries: bool,
    pub(crate) cpus: bool,
    pub(crate) gpus: bool,
    pub(crate) needs: bool,
}

impl ChosenOptions {
    /// The name of one of them.
    fn first(self) -> Option<&'static str> {
        let chosen = [
            ("retries", self.retries),
            ("cpus", self.cpus),
            ("gpus", self.gpus),
            ("needs", self.needs),
        ];
        let first = chosen.into_iter().find(|(_, is_set)| *is_set);
        first.map(|(name, _)| name)
    }
}

/// A way to use a described call.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Verb {
    Call,
    Cast,
    Keep,
    Submit,
    Everywhere,
    ScopeCall,
    ScopeCast,
}

impl Verb {
    fn name(self) -> &'static str {
        match self {
            Verb::Call => "Runtime::call",
            Verb::Cast => "Runtime::cast",
            Verb::Keep => "Runtime::keep",
            Verb::Submit => "Runtime::submit",
            Verb::Everywhere => "Runtime::everywhere",
            Verb::ScopeCall => "CallScope::call",
            Verb::ScopeCast => "CallScope::cast",
        }
    }

    /// Whether a deadline ends the call.
    fn has_deadline(self) -> bool {
        !matches!(self, Verb::Cast | Verb::Keep | Verb::Submit)
    }
}

impl<T, S> RemoteCall<T, S> {
    /// Whether every option that was set on the call has an effect with this verb.
    ///
    /// # Errors
    /// [`RemoteError::OptionWithoutEffect`].
    pub(crate) fn check_options(&self, verb: Verb) -> Result<(), RemoteError> {
        let chosen = match verb {
            Verb::Submit => None,
            _ => self.chosen.first().map(|name| (name, Verb::Submit)),
        };
        let deadline = self.request.deadline.filter(|_: &Duration| !verb.has_deadline());
        let deadline = deadline.map(|_| ("deadline", Verb::Call));
        let is_placed = verb == Verb::Everywhere && self.destination != Destination::Any;
        let place = is_placed.then_some(("on", Verb::Call));
        match chosen.or(deadline).or(place) {
            None => Ok(()),
            Some((option, instead)) => Err(RemoteError::OptionWithoutEffect {
                option,
                verb: verb.name(),
                instead: instead.name(),
            }),
        }
    }
}
