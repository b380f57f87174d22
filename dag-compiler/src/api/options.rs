//! Options of a graph, which are given when it is compiled.

mod env;

use selvedge_core::IdSet;
use std::time::Duration;

use selvedge_channels::Waiting;
use selvedge_core::{ActorId, ActorRef};

use crate::bind::transport::Transport;
use crate::ir::{GraphIr, Lanes, Plan, Settings};

/// The reaction of `execute` when as many executions are unfinished as allowed.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
#[non_exhaustive]
pub enum OnFull {
    /// Waits for room, for at most `submit_timeout`.
    #[default]
    Block,
    /// Fails with `ExecError::CapacityExceeded`, or with `ExecError::InputsUnread` if fewer executions are unfinished
    /// but an input has no free slot.
    Fail,
    /// Cancels the oldest unfinished execution, then waits for its slot.
    DropOldest,
}

/// The way in which lanes and callers wait.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
#[non_exhaustive]
pub enum Wait {
    /// Spins and then parks, if every lane can have a core of its own. The spin lasts 100 µs, or up to 1 ms if the last
    /// wait took about as long. A thread that the scheduler has put on the core of the thread it waits for parks at
    /// once, and a lane's thread moves to another core. With more lanes than cores, a waiter yields its core a few
    /// times and then parks.
    #[default]
    Auto,
    /// Spins and never parks: lowest latency, one core per lane.
    Spin,
    /// Parks at once.
    Park,
}

/// The number of messages of one channel that may be in flight.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
#[non_exhaustive]
pub enum Slots {
    /// `max_inflight`, so that a legal submission never waits for a slot.
    #[default]
    Inflight,
    /// A fixed number.
    Fixed(usize),
    /// The fewest slots with which the graph reaches the throughput that `max_inflight` slots allow, computed from
    /// measured or declared durations.
    Auto,
}

impl From<usize> for Slots {
    fn from(slots: usize) -> Self {
        Slots::Fixed(slots)
    }
}

/// Options of a graph: a builder with a default for every option.
#[derive(Clone, Debug)]
#[must_use]
pub struct Options {
    pub(crate) name: Option<String>,
    max_inflight: usize,
    pub(crate) max_buffered: usize,
    slots: Slots,
    lanes: Lanes,
    overlap: bool,
    pub(crate) transport: Transport,
    communicator: Option<String>,
    pub(crate) commuting: Vec<(ActorId, String)>,
    buffer_bytes: usize,
    max_payload_bytes: usize,
    timeout: Option<Duration>,
    submit_timeout: Option<Duration>,
    compile_timeout: Duration,
    teardown_timeout: Duration,
    wait: Wait,
    pub(crate) on_full: OnFull,
    inputs: Option<usize>,
    pub(crate) trace: usize,
}

impl Default for Options {
    fn default() -> Self {
        Options {
            name: None,
            max_inflight: 10,
            max_buffered: 1000,
            slots: Slots::Inflight,
            lanes: Lanes::Spawned,
            overlap: true,
            transport: Transport::Auto,
            communicator: None,
            commuting: Vec::new(),
            buffer_bytes: 64 << 10,
            max_payload_bytes: 1 << 30,
            timeout: Some(Duration::from_secs(10)),
            submit_timeout: Some(Duration::from_secs(10)),
            compile_timeout: Duration::from_secs(60),
            teardown_timeout: Duration::from_secs(5),
            wait: Wait::Auto,
            on_full: OnFull::Block,
            inputs: None,
            trace: 0,
        }
    }
}

impl Options {
    /// Returns the default options.
    pub fn new() -> Self {
        Options::default()
    }

    /// Sets the graph's name in errors. Default: file and line of the compile call.
    pub fn named(mut self, name: impl Into<String>) -> Self {
        self.name = Some(name.into());
        self
    }

    /// Sets the largest number of unfinished executions. Default 10, at least 1.
    pub fn max_inflight(mut self, executions: usize) -> Self {
        self.max_inflight = executions;
        self
    }

    /// Sets the largest number of finished results that wait to be fetched. Default 1000, at least 1.
    pub fn max_buffered(mut self, results: usize) -> Self {
        self.max_buffered = results;
        self
    }

    /// Sets the number of messages of one channel that may be in flight: a number, or [`Slots::Auto`]. Default
    /// [`Slots::Inflight`]. Fewer slots save memory and bound how far a fast stage runs ahead. A plain value of up to
    /// 64 bytes is no longer in flight as soon as its reader has received it.
    pub fn slots(mut self, slots: impl Into<Slots>) -> Self {
        self.slots = slots.into();
        self
    }

    /// Sets how lanes are chosen. Default [`Lanes::Spawned`].
    pub fn lanes(mut self, lanes: Lanes) -> Self {
        self.lanes = lanes;
        self
    }

    /// Sets whether collectives and the receives of a rendezvous are posted before they are needed, so that a transfer
    /// overlaps with other work. Default `true`.
    pub fn overlap(mut self, overlap: bool) -> Self {
        self.overlap = overlap;
        self
    }

    /// Sets the transport of edges that ask for none themselves. Default [`Transport::Auto`].
    pub fn transport(mut self, transport: Transport) -> Self {
        self.transport = transport;
        self
    }

    /// Declares that the methods of an actor may run in any order within an execution; bind order does not constrain
    /// them then. Executions keep their order. `compile` refuses an actor that has no task in the graph (D0126).
    pub fn commuting(mut self, actor: &ActorRef) -> Self {
        self.commuting.push((actor.id(), actor.name().to_owned()));
        self
    }

    /// Sets the bytes of a slot of a channel between processes, before the channel grows. Default 64 KiB; at least 1000
    /// bytes.
    pub fn buffer_bytes(mut self, bytes: usize) -> Self {
        self.buffer_bytes = bytes;
        self
    }

    /// Sets the largest payload between processes, in bytes. Default 1 GiB; at least [`buffer_bytes`](Self::buffer_bytes).
    /// A larger payload is an error of its task. A value takes up to 64 bytes more than its contents.
    pub fn max_payload_bytes(mut self, bytes: usize) -> Self {
        self.max_payload_bytes = bytes;
        self
    }

    /// Sets the time that `wait`, `run` and `.await` wait for a result. Default 10 s; `None` means no limit.
    pub fn timeout(mut self, timeout: impl Into<Option<Duration>>) -> Self {
        self.timeout = timeout.into();
        self
    }

    /// Sets the time that `execute` waits for room. Default 10 s; `None` means no limit.
    pub fn submit_timeout(mut self, timeout: impl Into<Option<Duration>>) -> Self {
        self.submit_timeout = timeout.into();
        self
    }

    /// Sets the time limit of compiling. It covers, all together, the wait for actors that another graph releases or
    /// that restart, and the wait for worker processes to load their programs. Default 60 s.
    pub fn compile_timeout(mut self, timeout: Duration) -> Self {
        self.compile_timeout = timeout;
        self
    }

    /// Sets the time that a tear-down waits for lanes to end, including the methods that they run. Default 5 s; less
    /// than 1 s counts as 1 s, because a lane that computes nothing needs some time to notice the tear-down. After that
    /// time, worker processes whose lanes have not ended are killed, and threads are abandoned together with their
    /// actors.
    pub fn teardown_timeout(mut self, timeout: Duration) -> Self {
        self.teardown_timeout = timeout;
        self
    }

    /// Sets how lanes and callers wait. Default [`Wait::Auto`].
    pub fn wait(mut self, wait: Wait) -> Self {
        self.wait = wait;
        self
    }

    /// Sets the reaction of `execute` to a full graph. Default [`OnFull::Block`].
    pub fn on_full(mut self, on_full: OnFull) -> Self {
        self.on_full = on_full;
        self
    }

    /// Sets the number of edges of each `Vec` in the graph's input. Default 1; at most 2^20. `compile` refuses the option
    /// for a graph without a `Vec` in its input (D0126).
    pub fn inputs(mut self, edges: usize) -> Self {
        self.inputs = Some(edges);
        self
    }

    /// Sets the number of latest operations that every lane keeps for `Graph::trace`. A lane may keep more, because
    /// READs, COMPUTE and WRITE of a task that ran in one go count as one. Each takes 64 bytes in the graph's segment.
    /// Default 0, which disables tracing.
    pub fn trace(mut self, events: usize) -> Self {
        self.trace = events;
        self
    }

    /// Sets the backend of the graph's collectives: `shm`, `nccl` (feature `cuda`), or a name that was registered with
    /// `selvedge::communicator_backend!`. Without this call, the environment variable `SELVEDGE_COMMUNICATOR` names the
    /// backend. The default is `shm`. `compile` refuses this option for a graph without collectives (D0126).
    pub fn communicator(mut self, backend: impl Into<String>) -> Self {
        self.communicator = Some(backend.into());
        self
    }
}

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

/// The largest number of edges of a `Vec` in a graph's input.
const INPUTS_MAX: usize = 1 << 20;

/// Describes an option that is out of bounds; `None` if it is within bounds.
pub(crate) fn beyond((name, value, least, most): OptionBounds) -> Option<String> {
    let wrong = value < least || value > most;
    let bounds = match most {
        usize::MAX => format!("be at least {least}"),
        _ => format!("lie between {least} and {most}"),
    };
    wrong.then(|| format!("option `{name}` is {value}; it must {bounds}"))
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
            ("trace", self.trace, 0, 1 << 24),
            ("inputs", self.inputs_value(), 0, INPUTS_MAX),
        ];
        let (payload, buffer) = (self.max_payload_bytes, self.buffer_bytes);
        let payload = (payload < buffer).then(|| {
            format!("option `max_payload_bytes` is {payload}; it must be at least `buffer_bytes`, which is {buffer}")
        });
        bounds.into_iter().find_map(beyond).or(payload)
    }

    /// Describes each option that was given and has no effect in a graph. `lists` says whether an input is a `Vec`.
    pub(crate) fn without_effect(&self, ir: &GraphIr, lists: bool) -> Vec<String> {
        let inputs = self.inputs.filter(|_| !lists);
        let absent = |id: &ActorId| ir.actors.iter().all(|actor| actor.id != *id);
        let commuting = self.commuting.iter().filter(|(id, _)| absent(id));
        let backend = self.communicator.iter().filter(|_| ir.collectives.is_empty());
        let inputs =
            inputs.map(|edges| format!("option `inputs` is {edges}, and no input of the graph is a `Vec`"));
        let commuting = commuting.map(|(_, name)| {
            format!("option `commuting` names actor `{name}`, which has no task in the graph")
        });
        let backend =
            backend.map(|name| format!("option `communicator` is `{name}`, and the graph has no collective"));
        inputs.into_iter().chain(commuting).chain(backend).collect()
    }

    /// Returns the number of edges of each `Vec` in the graph's input.
    #[inline]
    pub(crate) fn inputs_value(&self) -> usize {
        self.inputs.unwrap_or(1)
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
            Wait::Auto => Waiting::auto(plan.waiters_max()),
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
}

#[cfg(test)]
mod tests;
