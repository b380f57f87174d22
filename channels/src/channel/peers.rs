//! Peers: the processes that hold the other endpoints of a channel, and the handling of their death.
//!
//! An endpoint that finds nothing to do reads the claims of the other endpoints and watches the process of each. A
//! process that takes an endpoint rings all bells, so that a parked endpoint sees the claim; an endpoint that spins or
//! polls reads the claims until every peer is watched. If a watched process ends while its endpoint is still claimed,
//! the channel is poisoned in its name and all bells ring.

use std::sync::{Arc, OnceLock};

use crate::error::{ChannelError, Culprit, End, SegmentError};
use crate::memory::deaths::HolderWatches;
use crate::memory::process::Process;
use crate::memory::region::Region;
use crate::shared::{MappedChannel, SharedSpec, poison};
use crate::wait::doorbell::Doorbell;

/// The callback for the death of a peer.
pub(super) type OnDeath = Arc<dyn Fn(End) + Send + Sync>;

/// The parts of a channel that are needed to end it.
struct ChannelHandle {
    channel: MappedChannel,
    bells: Vec<Doorbell>,
    on_death: OnceLock<OnDeath>,
}

impl std::fmt::Debug for ChannelHandle {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("ChannelHandle")
            .field("channel", &self.channel)
            .finish_non_exhaustive()
    }
}

impl ChannelHandle {
    /// Poisons the channel in the name of `end` if `process` still holds that endpoint. Rouses all waiters in any case.
    fn died(&self, end: End, process: Process) {
        if self.channel.holder(end) == Some(process) {
            let culprit = Culprit {
                end,
                pid: process.pid,
            };
            // Never fails: the region held a channel when this endpoint attached to it.
            let _ = poison(&self.channel.region, culprit);
            if let Some(on_death) = self.on_death.get() {
                on_death(end);
            }
        }
        // The process may have died while it rang (`BELL-4`).
        self.bells.iter().for_each(Doorbell::rouse);
    }

    fn ring_all(&self) {
        self.bells.iter().for_each(Doorbell::ring);
    }
}

/// The peers on which one endpoint depends.
#[derive(Debug)]
pub(super) struct Peers {
    reach: Arc<ChannelHandle>,
    others: HolderWatches<End>,
}

impl Peers {
    /// The peers of `own` in the channel in `region`. Rings all bells, so that the peers see that `own` is taken.
    pub(super) fn of(
        own: End,
        region: Region,
        spec: &SharedSpec,
        bells: Vec<Doorbell>,
    ) -> Result<Self, ChannelError> {
        let ends = std::iter::once(End::Writer).chain((0..spec.readers).map(End::Reader));
        // A reader depends on the writer alone, the writer on every reader.
        let matters = |end: &End| *end != own && (own == End::Writer || *end == End::Writer);
        let others = HolderWatches::new(ends.filter(matters));
        let reach = Arc::new(ChannelHandle {
            channel: MappedChannel::attach(region, spec)?,
            bells,
            on_death: OnceLock::new(),
        });
        reach.ring_all();
        Ok(Peers { reach, others })
    }

    /// Registers a callback that is called for a death before the bells ring. Call this once, before the first look at
    /// the peers.
    #[cfg(feature = "cuda")]
    pub(super) fn on_death(&self, told: OnDeath) {
        let _ = self.reach.on_death.set(told);
    }

    /// Starts to watch the peers that have come since the last look. The call costs one branch once every peer is
    /// watched, because the watcher reports deaths. Before that, it costs one load per peer, of a word that nobody
    /// writes in the meantime. If a process cannot be watched, only the time limit reveals its death
    /// ([`take_refusal`](Self::take_refusal)).
    #[inline]
    pub(super) fn look_for_new(&mut self) {
        let reach = &self.reach;
        self.others.look_for_new(
            |end| reach.channel.holder(end),
            |end, process| {
                let reach = Arc::clone(reach);
                Arc::new(move || reach.died(end, process))
            },
        );
    }

    /// The error of a wait that nothing but its time limit would end if a peer died, because the system refused to watch that peer.
    pub(super) fn take_refusal(&mut self) -> Option<ChannelError> {
        let error = self.others.take_refusal()?;
        let error = SegmentError::System {
            what: "watching a peer, which a wait without a time limit needs".into(),
            len_bytes: 0,
            error,
        };
        Some(error.into())
    }

    /// Checks whether a peer's process has ended, even if no watch has reported it, and poisons the channel in the name
    /// of the first such peer. Returns whether there is one.
    pub(super) fn find_dead(&mut self) -> bool {
        let ended = self.others.keys().find_map(|end| {
            let holder = self.reach.channel.holder(end)?;
            (!holder.is_current()).then_some((end, holder))
        });
        if let Some((end, process)) = ended {
            self.reach.died(end, process);
        }
        ended.is_some()
    }

    /// A description of the peers, for error messages.
    pub(super) fn describe(&self) -> String {
        let channel = &self.reach.channel;
        let of = |end: End| match (channel.holder(end), channel.passed(end)) {
            (Some(process), None) => format!("{end} is process {}", process.pid),
            (Some(process), Some(passed)) => {
                format!("{end} is process {}, at message {passed}", process.pid)
            }
            (None, _) => format!("nobody has {end}"),
        };
        self.others.keys().map(of).collect::<Vec<_>>().join(", ")
    }
}
