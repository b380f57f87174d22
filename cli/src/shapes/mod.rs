//! The graphs that are measured, shared by `selvedge bench` and the criterion benches.
//!
//! - [`actors`]: what they are made of.
//! - [`graphs`]: one function a shape.
//! - [`Drive`]: how a compiled shape is run.

pub mod actors;

pub mod graphs;

use selvedge::prelude::*;

/// Which lanes the actors of a chain have.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Lanes {
    /// Each its own.
    Own,
    /// So many, which they share in equal parts.
    Shared(usize),
    /// As the compiler chooses.
    Auto,
}

/// What every shape is built with.
#[derive(Clone, Copy, Debug)]
pub struct Setup {
    /// Where the actors run.
    pub placement: Placement,
    /// How lanes and the driver wait.
    pub wait: Wait,
    /// Bytes in one payload. Eight travel as a `u64`, anything else as bytes.
    pub payload_bytes: usize,
    /// How many actors the shape has, where it has a choice.
    pub actors: usize,
    /// The lanes of a chain's actors.
    pub lanes: Lanes,
    /// Executions that may be under way at once; 1 for latency.
    pub inflight: usize,
    /// Events kept for a trace, by lane.
    pub trace: usize,
}

impl Setup {
    /// One execution at a time through one actor, eight bytes.
    pub fn new(placement: Placement, wait: Wait) -> Self {
        Setup {
            placement,
            wait,
            payload_bytes: 8,
            actors: 1,
            lanes: Lanes::Own,
            inflight: 1,
            trace: 0,
        }
    }

    fn options(&self) -> Options {
        let options = Options::new()
            .max_inflight(self.inflight)
            .wait(self.wait)
            .trace(self.trace);
        match self.lanes {
            Lanes::Auto => options.lanes(selvedge::Lanes::Auto),
            Lanes::Own | Lanes::Shared(_) => options,
        }
    }

    /// How many lanes so many actors have, beside the driver's.
    pub fn lanes_of(&self, actors: usize) -> usize {
        let cores = std::thread::available_parallelism().map_or(1, usize::from);
        match (self.placement, self.lanes) {
            (Placement::Thread, Lanes::Auto) => actors.min(cores.saturating_sub(1).max(1)),
            (_, Lanes::Own | Lanes::Auto) => actors,
            (_, Lanes::Shared(lanes)) => lanes.min(actors),
        }
    }
}

/// A compiled shape with an input to run it on and the result that must come back.
pub trait Drive: Sync {
    /// One execution, awaited.
    ///
    /// # Errors
    /// The execution's error, or a result that is not the expected one.
    fn once(&self) -> anyhow::Result<()>;

    /// Executions in a row, as many at once as the setup allows, for as long as `more` says; `done` hears of each.
    ///
    /// # Errors
    /// As [`once`](Self::once).
    fn stream(&self, more: &mut dyn FnMut() -> bool, done: &mut dyn FnMut()) -> anyhow::Result<()>;
}

/// The shape's graph, and the runtime that keeps its actors. Fields are dropped in this order.
struct Compiled<In, Out> {
    graph: Graph<In, Out>,
    _runtime: Runtime,
    input: In,
    expected: Out,
}

impl<In: Clone + 'static, Out: PartialEq> Compiled<In, Out> {
    fn check(&self, found: &Out) -> anyhow::Result<()> {
        anyhow::ensure!(*found == self.expected, "the graph gave a wrong result");
        Ok(())
    }
}

impl<In: Clone + Sync + 'static, Out: PartialEq + Sync> Drive for Compiled<In, Out> {
    fn once(&self) -> anyhow::Result<()> {
        let found = self.graph.run(self.input.clone())?;
        self.check(&found)
    }

    fn stream(&self, more: &mut dyn FnMut() -> bool, done: &mut dyn FnMut()) -> anyhow::Result<()> {
        let inputs = std::iter::from_fn(|| more().then(|| self.input.clone()));
        for found in self.graph.map(inputs) {
            self.check(&found?)?;
            done();
        }
        Ok(())
    }
}
