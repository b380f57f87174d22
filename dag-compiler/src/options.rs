//! What a graph may be told when it is compiled.

use std::collections::BTreeSet;
use std::time::Duration;

use selvedge_channels::Waiting;
use selvedge_core::{ActorId, ActorRef};

use crate::ir::{Lanes, Plan, Settings};
use crate::transport::Transport;

/// What `execute` does when as many executions are unfinished as allowed.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum OnFull {
    /// Waits for room, at most `submit_timeout`.
    #[default]
    Block,
    /// Refuses with `ExecError::CapacityExceeded`, or `ExecError::InputsUnread` where fewer are unfinished and an input has no room.
    Fail,
    /// Cancels the oldest unfinished execution, then waits for its slot.
    DropOldest,
}

/// How lanes and callers wait.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Wait {
    /// Spins, then parks, where every lane can have a core of its own: 100 µs, and up to 1 ms where the last wait took about as
    /// long. A thread that the scheduler has put on the core of the one it waits for parks at once, and a lane's thread moves to
    /// another core. With more lanes than cores, lets others have the core a few times, then parks.
    #[default]
    Auto,
    /// Never parks: lowest latency, one core per lane.
    Spin,
    /// Parks at once.
    Park,
}

/// How many messages of one channel may be under way.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Slots {
    /// `max_inflight`, so that a legal submission never waits for a slot.
    #[default]
    Inflight,
    /// So many.
    Fixed(usize),
    /// The fewest with which the graph reaches the throughput that `max_inflight` of them allow, by measured or declared
    /// durations.
    Auto,
}

impl From<usize> for Slots {
    fn from(slots: usize) -> Self {
        Slots::Fixed(slots)
    }
}

/// Options of a graph; a builder with a default for everything.
#[derive(Clone, Debug)]
#[must_use]
pub struct Options {
    name: Option<String>,
    max_inflight: usize,
    max_buffered: usize,
    slots: Slots,
    lanes: Lanes,
    overlap: bool,
    transport: Transport,
    communicator: Option<String>,
    commuting: Vec<ActorId>,
    buffer_bytes: usize,
    max_payload_bytes: usize,
    timeout: Option<Duration>,
    submit_timeout: Option<Duration>,
    compile_timeout: Duration,
    teardown_timeout: Duration,
    wait: Wait,
    on_full: OnFull,
    inputs: usize,
    trace: usize,
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
            inputs: 1,
            trace: 0,
        }
    }
}

/// Longer than any program waits, and short enough to be added to an `Instant`: what is longer is without end.
const TIMEOUT_MAX: Duration = Duration::from_secs(100 * 365 * 24 * 3600);

/// What a tear-down waits at least: many times what a lane that computes nothing needs to hear of the end and to answer, with every
/// core busy. Who is killed for less has done nothing wrong.
const TEARDOWN_MIN: Duration = Duration::from_secs(1);

const TEARDOWN: &str = "SELVEDGE_TEARDOWN_TIMEOUT_MS";

/// Bounds of [`Options::slots`] and [`Options::buffer_bytes`], and of what single edges ask for.
pub(crate) const SLOTS_MAX: usize = 1 << 20;
pub(crate) const BUFFER_BYTES_MIN: usize = 1000;
pub(crate) const BUFFER_BYTES_MAX: usize = 1 << 40;

/// What is wrong with an option out of bounds, in words.
pub(crate) fn beyond((name, value, least, most): Bound) -> Option<String> {
    let wrong = value < least || value > most;
    wrong.then(|| format!("option `{name}` is {value}; it must lie between {least} and {most}"))
}

/// A limit's name, its value, and its bounds.
pub(crate) type Bound = (&'static str, usize, usize, usize);

impl Options {
    /// The defaults.
    pub fn new() -> Self {
        Options::default()
    }

    /// The defaults, overridden by the environment:
    ///
    /// | variable | option |
    /// |---|---|
    /// | `SELVEDGE_MAX_INFLIGHT`, `SELVEDGE_MAX_BUFFERED`, `SELVEDGE_BUFFER_BYTES`, `SELVEDGE_MAX_PAYLOAD_BYTES` | of the same name |
    /// | `SELVEDGE_TIMEOUT_MS`, `SELVEDGE_SUBMIT_TIMEOUT_MS` | the time-outs; `-1`, `off` and `false` are without end, `0` looks once |
    /// | `SELVEDGE_TEARDOWN_TIMEOUT_MS` | of the same name; a tear-down always has an end |
    /// | `SELVEDGE_TRACE` | events per lane; `0` and `false` are off |
    ///
    /// # Errors
    /// The name and text of a variable that is not a number, or out of its range.
    pub fn from_env() -> Result<Self, String> {
        Options::from_lookup(|name| Some(std::env::var_os(name)?.to_string_lossy().into_owned()))
    }

    /// As [`from_env`](Self::from_env), from any source of variables.
    ///
    /// # Errors
    /// As [`from_env`](Self::from_env).
    pub fn from_lookup(lookup: impl Fn(&str) -> Option<String>) -> Result<Self, String> {
        let number = |name: &str, off: i64| -> Result<Option<i64>, String> {
            match lookup(name).as_deref().map(str::trim) {
                None | Some("") => Ok(None),
                Some("false" | "off") => Ok(Some(off)),
                Some(text) => text
                    .parse()
                    .map(Some)
                    .map_err(|_| format!("{name} is `{text}`, which is not a number")),
            }
        };
        let size = |name: &str, default: usize| -> Result<usize, String> {
            let Some(value) = number(name, 0)? else {
                return Ok(default);
            };
            usize::try_from(value).map_err(|_| format!("{name} is {value}, which is negative"))
        };
        let time = |name: &str, default: Option<Duration>| -> Result<Option<Duration>, String> {
            match number(name, -1)? {
                None => Ok(default),
                Some(-1) => Ok(None),
                Some(ms) => match u64::try_from(ms) {
                    Ok(ms) => Ok(Some(Duration::from_millis(ms))),
                    Err(_) => Err(format!(
                        "{name} is {ms}, which is no time: give milliseconds, or `off` for without end"
                    )),
                },
            }
        };
        let base = Options::new();
        Ok(Options {
            max_inflight: size("SELVEDGE_MAX_INFLIGHT", base.max_inflight)?,
            max_buffered: size("SELVEDGE_MAX_BUFFERED", base.max_buffered)?,
            buffer_bytes: size("SELVEDGE_BUFFER_BYTES", base.buffer_bytes)?,
            max_payload_bytes: size("SELVEDGE_MAX_PAYLOAD_BYTES", base.max_payload_bytes)?,
            trace: size("SELVEDGE_TRACE", base.trace)?,
            timeout: time("SELVEDGE_TIMEOUT_MS", base.timeout)?,
            submit_timeout: time("SELVEDGE_SUBMIT_TIMEOUT_MS", base.submit_timeout)?,
            teardown_timeout: time(TEARDOWN, Some(base.teardown_timeout))?.ok_or_else(|| {
                format!("{TEARDOWN} is without end, and a tear-down has one: give milliseconds")
            })?,
            ..base
        })
    }

    /// The graph's name in errors; default: file and line of the compile call.
    pub fn named(mut self, name: impl Into<String>) -> Self {
        self.name = Some(name.into());
        self
    }

    /// Unfinished executions at most; default 10, at least 1.
    pub fn max_inflight(mut self, executions: usize) -> Self {
        self.max_inflight = executions;
        self
    }

    /// Finished results that wait to be fetched, at most; default 1000, at least 1.
    pub fn max_buffered(mut self, results: usize) -> Self {
        self.max_buffered = results;
        self
    }

    /// Messages of one channel that may be under way: a number, or [`Slots::Auto`]; default [`Slots::Inflight`]. Fewer save
    /// memory and bound how far a fast stage runs ahead. A plain value of up to 64 bytes is no longer under way as soon as its reader
    /// has seen it.
    pub fn slots(mut self, slots: impl Into<Slots>) -> Self {
        self.slots = slots.into();
        self
    }

    /// How lanes are chosen; default [`Lanes::Spawned`].
    pub fn lanes(mut self, lanes: Lanes) -> Self {
        self.lanes = lanes;
        self
    }

    /// Whether receives of a rendezvous are posted before they are needed, so that a transfer runs beside other work; on by
    /// default.
    pub fn overlap(mut self, overlap: bool) -> Self {
        self.overlap = overlap;
        self
    }

    /// How edges cross that ask for nothing themselves; default [`Transport::Auto`].
    pub fn transport(mut self, transport: Transport) -> Self {
        self.transport = transport;
        self
    }

    /// Says that the methods of an actor may run in any order within an execution: bind order does not hold them then.
    /// Executions keep their order.
    pub fn commuting(mut self, actor: &ActorRef) -> Self {
        self.commuting.push(actor.id());
        self
    }

    /// Bytes of a slot of a channel between processes before it grows; default 64 KiB, at least 1000.
    pub fn buffer_bytes(mut self, bytes: usize) -> Self {
        self.buffer_bytes = bytes;
        self
    }

    /// The largest payload between processes; default 1 GiB. A larger one is an error of its task.
    pub fn max_payload_bytes(mut self, bytes: usize) -> Self {
        self.max_payload_bytes = bytes;
        self
    }

    /// How long `wait`, `run` and `.await` wait for a result; default 10 s; `None` is without end.
    pub fn timeout(mut self, timeout: impl Into<Option<Duration>>) -> Self {
        self.timeout = timeout.into();
        self
    }

    /// How long `execute` waits for room; default 10 s; `None` is without end.
    pub fn submit_timeout(mut self, timeout: impl Into<Option<Duration>>) -> Self {
        self.submit_timeout = timeout.into();
        self
    }

    /// How long compiling waits for actors that another graph gives back or that restart, and for worker processes to load their
    /// programs, all of them at once; default 60 s.
    pub fn compile_timeout(mut self, timeout: Duration) -> Self {
        self.compile_timeout = timeout;
        self
    }

    /// How long tear-down waits for lanes to end, methods that compute among them; default 5 s, and less than 1 s counts as 1 s: a
    /// lane that computes nothing ends as soon as it has heard of the tear-down, and is left that time for it. Worker processes
    /// whose lanes do not end are killed then, and threads are given up, with their actors.
    pub fn teardown_timeout(mut self, timeout: Duration) -> Self {
        self.teardown_timeout = timeout;
        self
    }

    /// How lanes and callers wait; default [`Wait::Auto`].
    pub fn wait(mut self, wait: Wait) -> Self {
        self.wait = wait;
        self
    }

    /// What `execute` does when full; default [`OnFull::Block`].
    pub fn on_full(mut self, on_full: OnFull) -> Self {
        self.on_full = on_full;
        self
    }

    /// How many edges a graph whose input is a `Vec` of edges has.
    pub fn inputs(mut self, edges: usize) -> Self {
        self.inputs = edges;
        self
    }

    /// Keeps the last so many operations of every lane for `Graph::trace`, or more: the READs, COMPUTE and WRITE of a task that ran in
    /// one go count as one. 64 bytes each in the graph's segment. Default 0, off.
    pub fn trace(mut self, events: usize) -> Self {
        self.trace = events;
        self
    }

    /// The first option out of bounds, in words.
    pub(crate) fn out_of_bounds(&self) -> Option<String> {
        let slots = self.slots_value();
        let bounds: [Bound; 6] = [
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

    /// How the graph's lanes wait, the driver's among them.
    pub(crate) fn waiting(&self, plan: &Plan) -> Waiting {
        let kept: Vec<u32> = plan
            .lanes
            .iter()
            .filter_map(|it| plan.ir.core_of(it.lane))
            .collect();
        let distinct: BTreeSet<u32> = kept.iter().copied().collect();
        match self.wait {
            // Lanes that keep to one core take turns on it.
            Wait::Auto if distinct.len() < kept.len() => Waiting::auto(usize::MAX),
            Wait::Auto => Waiting::auto(plan.lanes.len()),
            Wait::Spin => Waiting::Spin,
            Wait::Park => Waiting::Park,
        }
    }

    /// The numbers that processes need, as far as they are known before the lanes are.
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

    /// What was asked for, else what the process's environment asks for.
    fn communicator_value(&self) -> Option<String> {
        let asked = std::env::var("SELVEDGE_COMMUNICATOR").ok();
        self.communicator
            .clone()
            .or(asked.filter(|name| !name.is_empty()))
    }

    pub(crate) fn trace_value(&self) -> usize {
        self.trace
    }

    /// The backend of the graph's collectives: `shm`, `nccl` (feature `cuda`), or the name under which one was made known with
    /// `selvedge::communicator_backend!`. Otherwise the one that the environment's `SELVEDGE_COMMUNICATOR` names, else `shm`.
    pub fn communicator(mut self, backend: impl Into<String>) -> Self {
        self.communicator = Some(backend.into());
        self
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

#[cfg(test)]
mod tests;
