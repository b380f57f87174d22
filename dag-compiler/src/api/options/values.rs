//! The values of options: their bounds, and what a graph reads from them.

use std::time::Duration;

use selvedge_channels::Waiting;
use selvedge_core::{ActorId, IdSet};

use super::{OnFull, Options, Slots, Wait};
use crate::bind::transport::Transport;
use crate::ir::{Plan, Settings};

/// The longest finite timeout: longer than any program waits, and short enough to be added to an `Instant`. A longer
/// `timeout` or `submit_timeout` means no time limit.
const TIMEOUT_MAX: Duration = Duration::from_secs(100 * 365 * 24 * 3600);

/// The shortest time that a tear-down waits. A lane that computes nothing needs only a small part of it to notice the
/// end and to answer, even with every core busy. With a shorter time, workers without any fault would be killed.
const TEARDOWN_MIN: Duration = Duration::from_secs(1);

/// Bounds of [`Options::slots`] and [`Options::buffer_bytes`], and of the same settings of single edges.
pub(crate) const SLOTS_MAX: usize = 1 << 20;
pub(crate) const BUFFER_BYTES_MIN: usize = 1000;
pub(crate) const BUFFER_BYTES_MAX: usize = 1 << 40;

/// Describes an option that is out of bounds; `None` if it is within bounds.
pub(crate) fn beyond((name, value, least, most): OptionBounds) -> Option<String> {
    let wrong = value < least || value > most;
    wrong.then(|| format!("option `{name}` is {value}; it must lie between {least} and {most}"))
}

/// The name of an option, its value, and its lowest and highest allowed value.
pub(crate) type OptionBounds = (&'static str, usize, usize, usize);

impl Options {
    /// Describes the first option that is out of bounds.
    pub(crate) fn out_of_bounds(&self) -> Option<String> {
        let slots = self.slots_value();
        let bounds: [OptionBounds; 6] = [
            ("max_inflight", self.max_inflight, 1, 1 << 20),
            ("max_buffered", self.max_buffered, 1, usize::MAX),
            ("slots", slots, 1, SLOTS_MAX),
            (
                "buffer_bytes",
                self.buffer_bytes,
                BUFFER_BYTES_MIN,
                BUFFER_BYTES_MAX,
            ),
            (
                "max_payload_bytes",
                self.max_payload_bytes,
                self.buffer_bytes,
                usize::MAX,
            ),
            ("trace", self.trace, 0, 1 << 24),
        ];
        bounds.into_iter().find_map(beyond)
    }

    fn slots_value(&self) -> usize {
        match self.slots {
            Slots::Fixed(slots) => slots,
            Slots::Inflight | Slots::Auto => self.max_inflight,
        }
    }

    /// Returns how the graph's lanes wait, including the driver's lane.
    pub(crate) fn waiting(&self, plan: &Plan) -> Waiting {
        let kept: Vec<u32> = plan
            .lanes
            .iter()
            .filter_map(|it| plan.ir.core_of(it.address.lane))
            .collect();
        let distinct: IdSet<u32> = kept.iter().copied().collect();
        match self.wait {
            // Lanes that are pinned to one core take turns on it.
            Wait::Auto if distinct.len() < kept.len() => Waiting::auto(usize::MAX),
            Wait::Auto => Waiting::auto(plan.lanes.len()),
            Wait::Spin => Waiting::Spin,
            Wait::Park => Waiting::Park,
        }
    }

    /// Returns the settings that processes need, as far as they are known before the lanes are chosen.
    pub(crate) fn settings(&self) -> Settings {
        Settings {
            max_inflight: self.max_inflight as u32,
            slots: self.slots_value() as u32,
            auto_slots: self.slots == Slots::Auto,
            slot_bytes: self.buffer_bytes as u64,
            max_bytes: self.max_payload_bytes as u64,
            waiting: Waiting::Park,
            trace_events: self.trace as u32,
            overlap: self.overlap,
            lanes: self.lanes,
            cores: std::thread::available_parallelism().map_or(1, |cores| cores.get() as u32),
            communicator: self.communicator_value(),
        }
    }

    /// Returns the backend that the options name, else the one that the environment names.
    fn communicator_value(&self) -> Option<String> {
        let asked = std::env::var("SELVEDGE_COMMUNICATOR").ok();
        self.communicator
            .clone()
            .or(asked.filter(|name| !name.is_empty()))
    }

    pub(crate) fn trace_value(&self) -> usize {
        self.trace
    }

    pub(crate) fn transport_value(&self) -> Transport {
        self.transport
    }

    pub(crate) fn is_commuting(&self, actor: ActorId) -> bool {
        self.commuting.contains(&actor)
    }

    pub(crate) fn name_value(&self) -> Option<&str> {
        self.name.as_deref()
    }

    pub(crate) fn inputs_value(&self) -> usize {
        self.inputs
    }

    pub(crate) fn max_buffered_value(&self) -> usize {
        self.max_buffered
    }

    #[inline]
    pub(crate) fn timeout_value(&self) -> Option<Duration> {
        self.timeout.filter(|timeout| *timeout <= TIMEOUT_MAX)
    }

    pub(crate) fn submit_timeout_value(&self) -> Option<Duration> {
        self.submit_timeout.filter(|timeout| *timeout <= TIMEOUT_MAX)
    }

    pub(crate) fn compile_timeout_value(&self) -> Duration {
        self.compile_timeout.min(TIMEOUT_MAX)
    }

    pub(crate) fn teardown_timeout_value(&self) -> Duration {
        self.teardown_timeout.clamp(TEARDOWN_MIN, TIMEOUT_MAX)
    }

    pub(crate) fn on_full_value(&self) -> OnFull {
        self.on_full
    }
}
