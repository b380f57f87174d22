//! The graphs that are measured, shared by `selvedge bench` and the criterion benches.
//!
//! - [`actors`]: the actors of the graphs.
//! - [`graphs`]: one function per shape.
//! - [`Drive`]: the interface to run a compiled shape.

pub mod actors;

pub mod graphs;

use selvedge::prelude::*;

/// The lanes of a chain's actors.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Lanes {
    /// Each actor has its own lane.
    Own,
    /// The actors share this number of lanes in equal parts.
    Shared(usize),
    /// The lanes that the compiler chooses.
    Auto,
}

/// The parameters of every shape.
#[derive(Clone, Copy, Debug)]
pub struct Setup {
    /// The placement of the actors.
    pub placement: Placement,
    /// The way in which lanes and the driver wait.
    pub wait: Wait,
    /// The bytes in one payload. Eight bytes travel as a `u64`, any other number as a byte vector.
    pub payload_bytes: usize,
    /// The number of actors, for shapes that allow a choice.
    pub actors: usize,
    /// The lanes of a chain's actors.
    pub lanes: Lanes,
    /// The executions that may be in flight at once; 1 to measure latency.
    pub inflight: usize,
    /// The events kept for a trace, per lane.
    pub trace: usize,
}

impl Setup {
    /// Creates the setup of one execution at a time through one actor, with eight bytes.
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

    /// Returns the number of lanes that `actors` actors have, without the driver's lane.
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
    /// Runs one execution and waits for its result.
    ///
    /// # Errors
    /// The execution's error, or a result that is not the expected one.
    fn once(&self) -> anyhow::Result<()>;

    /// Runs executions in a row, as many at once as the setup allows, for as long as `more` returns `true`; calls
    /// `done` after each.
    ///
    /// # Errors
    /// The errors of [`once`](Self::once).
    fn stream(&self, more: &mut dyn FnMut() -> bool, done: &mut dyn FnMut()) -> anyhow::Result<()>;
}

/// The shape's graph, and the runtime that keeps its actors. The fields are dropped in this order.
struct Compiled<In, Out> {
    graph: Graph<In, Out>,
    _runtime: Runtime,
    input: In,
    expected: Out,
}

impl<In: Clone + Sync + 'static, Out: PartialEq + Sync + 'static> Compiled<In, Out> {
    fn boxed(
        runtime: Runtime,
        graph: Graph<In, Out>,
        input: In,
        expected: Out,
    ) -> anyhow::Result<Box<dyn Drive>> {
        Ok(Box::new(Compiled {
            graph,
            _runtime: runtime,
            input,
            expected,
        }))
    }

    fn check(&self, found: &Out) -> anyhow::Result<()> {
        anyhow::ensure!(*found == self.expected, "the graph gave a wrong result");
        Ok(())
    }
}

impl<In: Clone + Sync + 'static, Out: PartialEq + Sync + 'static> Drive for Compiled<In, Out> {
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
