//! Lines: the waiting part of an endpoint, with a time limit and the detection of dead peers.

use std::task::{Context, Poll};
use std::time::{Duration, Instant};

use super::helper::Helper;
#[cfg(feature = "cuda")]
use super::peers::OnDeath;
use super::peers::Peers;
use crate::error::{ChannelError, SegmentError};
use crate::wait::doorbell::Doorbell;
use crate::wait::spin_budget::SpinBudget;
use crate::wait::waiting::Waiting;

/// The doorbell of an endpoint, with its waiting strategy, its time limit and its peers.
#[derive(Debug)]
pub(super) struct EndpointWaiter {
    bell: Doorbell,
    budget: SpinBudget,
    pub(super) timeout: Option<Duration>,
    peers: Option<Peers>,
    helper: Option<Helper>,
}

impl EndpointWaiter {
    pub(super) fn new(bell: Doorbell, waiting: Waiting, timeout: Option<Duration>) -> Self {
        EndpointWaiter {
            bell,
            budget: SpinBudget::new(waiting),
            timeout,
            peers: None,
            helper: None,
        }
    }

    /// Adds the peers of a channel whose other endpoints may be in other processes.
    pub(super) fn with_peers(mut self, peers: Peers) -> Self {
        self.peers = Some(peers);
        self
    }

    /// The endpoint's own doorbell.
    #[cfg(feature = "cuda")]
    pub(super) fn bell(&self) -> &Doorbell {
        &self.bell
    }

    /// Registers a callback for the death of a peer.
    #[cfg(feature = "cuda")]
    pub(super) fn on_death(&self, told: OnDeath) {
        if let Some(peers) = &self.peers {
            peers.on_death(told);
        }
    }

    /// Starts to watch every peer that has come since the last look, for callers that do not park.
    #[cfg(feature = "cuda")]
    pub(super) fn look(&mut self) {
        if let Some(peers) = &mut self.peers {
            peers.look_for_new();
        }
    }

    /// Repeats `attempt` until it returns an answer or `timeout` has passed. The spin time is extended for messages of
    /// `expected_bytes`.
    pub(super) fn wait<R>(
        &mut self,
        timeout: Option<Duration>,
        expected_bytes: usize,
        mut attempt: impl FnMut() -> Result<Option<R>, ChannelError>,
    ) -> Result<R, ChannelError> {
        let mut outcome = attempt();
        if let Ok(Some(found)) = outcome {
            return Ok(found);
        }
        if let Some(helper) = &self.helper {
            helper.disarm();
        }
        let started = Instant::now();
        let deadline = timeout.and_then(|timeout| started.checked_add(timeout));
        let peers = &mut self.peers;
        let waiting = self.budget.waiting().for_payload(expected_bytes);
        // An attempt that has failed is not repeated here.
        if outcome.is_ok()
            && !waiting.spin(deadline, || {
                outcome = attempt();
                let waits = matches!(outcome, Ok(None));
                if waits && let Some(peers) = peers {
                    peers.look_for_new();
                }
                !waits
            })
        {
            self.budget.park(&self.bell, deadline, || {
                // The look at the peers comes before the attempt, which then sees the effects of a death.
                if let Some(peers) = peers {
                    peers.look_for_new();
                }
                outcome = attempt();
                if deadline.is_none() && matches!(outcome, Ok(None)) {
                    outcome = never_told(peers);
                }
                !matches!(outcome, Ok(None))
            });
        }
        let outcome = self.unless_dead(outcome, &mut attempt);
        let late = || ChannelError::Timeout {
            waited: started.elapsed(),
            peers: self.peers.as_ref().map_or_else(String::new, Peers::describe),
        };
        outcome?.ok_or_else(late)
    }

    /// Makes one attempt, without waiting.
    pub(super) fn attempt<R>(
        &mut self,
        mut attempt: impl FnMut() -> Result<Option<R>, ChannelError>,
    ) -> Result<Option<R>, ChannelError> {
        let outcome = attempt();
        if matches!(outcome, Ok(None))
            && let Some(peers) = &mut self.peers
        {
            peers.look_for_new();
        }
        self.unless_dead(outcome, attempt)
    }

    /// Returns the outcome of an attempt. If the attempt failed to open memory and a peer has died unnoticed, poisons
    /// the channel and makes one more attempt, whose error then names the dead peer.
    #[inline]
    fn unless_dead<R>(
        &mut self,
        outcome: Result<Option<R>, ChannelError>,
        mut attempt: impl FnMut() -> Result<Option<R>, ChannelError>,
    ) -> Result<Option<R>, ChannelError> {
        match outcome {
            Err(ChannelError::Segment(_)) if self.peers.as_mut().is_some_and(Peers::find_dead) => attempt(),
            outcome => outcome,
        }
    }

    /// Makes an attempt for an async task. If there is no answer yet, the task is woken when the bell rings.
    pub(super) fn poll<R>(
        &mut self,
        context: &mut Context<'_>,
        mut attempt: impl FnMut() -> Result<Option<R>, ChannelError>,
    ) -> Poll<Result<R, ChannelError>> {
        if let Some(helper) = &self.helper {
            helper.disarm();
        }
        if let Ok(Some(found)) = attempt() {
            return Poll::Ready(Ok(found));
        }
        self.bell.announce();
        if let Some(peers) = &mut self.peers {
            peers.look_for_new();
        }
        let outcome = attempt();
        let outcome = match self.unless_dead(outcome, &mut attempt) {
            Ok(None) => never_told(&mut self.peers),
            outcome => outcome,
        };
        match outcome {
            Ok(None) => {}
            found => {
                self.bell.retract();
                return Poll::Ready(found.and_then(|found| found.ok_or(ChannelError::NoValue)));
            }
        }
        let helper = match &self.helper {
            Some(helper) => helper,
            None => match Helper::start(self.bell.clone()) {
                Ok(helper) => self.helper.insert(helper),
                Err(error) => {
                    self.bell.retract();
                    let error = SegmentError::System {
                        what: "starting a thread".into(),
                        len_bytes: 0,
                        error,
                    };
                    return Poll::Ready(Err(error.into()));
                }
            },
        };
        helper.arm(context.waker());
        Poll::Pending
    }
}

/// The outcome of an attempt without an answer, for a wait without a time limit: it goes on, unless a death of a peer would not end it.
fn never_told<R>(peers: &mut Option<Peers>) -> Result<Option<R>, ChannelError> {
    peers.as_mut().and_then(Peers::take_refusal).map_or(Ok(None), Err)
}
