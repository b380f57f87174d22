//! One function per shape: spawns its actors, compiles its graph, and states the expected result.

use selvedge::prelude::*;

use super::actors::{Echo, EchoHandle, Reader, Stage};
use super::{Compiled, Drive, Lanes, Setup};
use crate::checksum::checksum;

/// The word that is sent when a payload is eight bytes.
const WORD: u64 = 0x5e1_7ed9e;

fn echoes(runtime: &Runtime, setup: &Setup, count: usize) -> anyhow::Result<Vec<EchoHandle>> {
    let lanes = match setup.lanes {
        Lanes::Shared(lanes) if setup.placement != Placement::Inline => {
            Some(lanes_of(runtime, setup.placement, lanes)?)
        }
        _ => None,
    };
    (0..count)
        .map(|index| {
            let echo = runtime.spawn::<Echo>(format!("echo{index}"), ());
            // Neighbours share a lane.
            let lane = lanes
                .as_ref()
                .and_then(|lanes| lanes.get(index * lanes.len() / count.max(1)));
            Ok(match lane {
                Some(lane) => echo.in_lane(lane)?,
                None => echo.place(setup.placement)?,
            })
        })
        .collect()
}

fn lanes_of(runtime: &Runtime, placement: Placement, count: usize) -> anyhow::Result<Vec<selvedge::Lane>> {
    let names = (0..count).map(|index| format!("lane{index}"));
    names
        .map(|name| match placement {
            Placement::Process => Ok(runtime.worker(name.clone())?.lane(name)),
            _ => Ok(runtime.lane(name)),
        })
        .collect()
}

fn source(setup: &Setup) -> Vec<u8> {
    (0..setup.payload_bytes).map(|at| at as u8).collect()
}

/// Builds a graph that passes a value through `actors` echoes, one after the other.
///
/// # Errors
/// An actor cannot be spawned, or the graph does not compile.
pub fn chain(setup: &Setup) -> anyhow::Result<Box<dyn Drive>> {
    let runtime = Runtime::new();
    let actors = echoes(&runtime, setup, setup.actors)?;
    if setup.payload_bytes == 8 {
        let bind = |x: Edge<u64>| actors.iter().fold(x, |x, actor| actor.word(&x));
        let graph = runtime.compile_with(setup.options(), bind)?;
        return Compiled::boxed(runtime, graph, WORD, WORD);
    }
    let bind = |x: Edge<Vec<u8>>| actors.iter().fold(x, |x, actor| actor.bytes(&x));
    let graph = runtime.compile_with(setup.options(), bind)?;
    let input = source(setup);
    Compiled::boxed(runtime, graph, input.clone(), input)
}

/// Spawns the echoes of [`chain`] without a graph: the driver calls each echo with the result of the one before.
///
/// # Errors
/// An actor cannot be spawned.
pub fn calls(setup: &Setup) -> anyhow::Result<Box<dyn Drive>> {
    let runtime = Runtime::new();
    let actors = echoes(&runtime, setup, setup.actors)?;
    Ok(Box::new(Calls {
        actors,
        _runtime: runtime,
        bytes: (setup.payload_bytes != 8).then(|| source(setup)),
    }))
}

/// Echoes that are called one after the other, with bytes or with a word.
struct Calls {
    actors: Vec<EchoHandle>,
    _runtime: Runtime,
    bytes: Option<Vec<u8>>,
}

impl Drive for Calls {
    fn once(&self) -> anyhow::Result<()> {
        let mut actors = self.actors.iter().map(EchoHandle::call);
        let right = match &self.bytes {
            None => actors.try_fold(WORD, |x, actor| actor.word(x).wait())? == WORD,
            Some(bytes) => actors.try_fold(bytes.clone(), |x, actor| actor.bytes(x).wait())? == *bytes,
        };
        anyhow::ensure!(right, "the calls gave a wrong result");
        Ok(())
    }

    fn stream(&self, more: &mut dyn FnMut() -> bool, done: &mut dyn FnMut()) -> anyhow::Result<()> {
        while more() {
            self.once()?;
            done();
        }
        Ok(())
    }
}

/// Builds a graph that sends a value to `actors` echoes at once; the driver gathers their results.
///
/// # Errors
/// The errors of [`chain`].
pub fn fanout(setup: &Setup) -> anyhow::Result<Box<dyn Drive>> {
    let runtime = Runtime::new();
    let actors = echoes(&runtime, setup, setup.actors)?;
    if setup.payload_bytes == 8 {
        let bind = |x: Edge<u64>| actors.iter().map(|actor| actor.word(&x)).collect::<Vec<_>>();
        let graph = runtime.compile_with(setup.options(), bind)?;
        return Compiled::boxed(runtime, graph, WORD, vec![WORD; setup.actors]);
    }
    let bind = |x: Edge<Vec<u8>>| actors.iter().map(|actor| actor.bytes(&x)).collect::<Vec<_>>();
    let graph = runtime.compile_with(setup.options(), bind)?;
    let input = source(setup);
    let expected = vec![input.clone(); setup.actors];
    Compiled::boxed(runtime, graph, input, expected)
}

/// Builds a graph that sends bytes to one actor, which reads all of them and returns their sum.
///
/// # Errors
/// The errors of [`chain`].
pub fn payload(setup: &Setup) -> anyhow::Result<Box<dyn Drive>> {
    let runtime = Runtime::new();
    let reader = runtime.spawn::<Reader>("reader", ()).place(setup.placement)?;
    let graph = runtime.compile_with(setup.options(), |x: Edge<Tensor>| reader.sum(&x))?;
    let bytes = source(setup);
    let input = Tensor::from_slice(&bytes, &[bytes.len()])?;
    Compiled::boxed(runtime, graph, input, checksum(&bytes))
}

/// Builds a graph that sends a word to one actor, which works for some 100 µs and returns it.
///
/// # Errors
/// The errors of [`chain`].
pub fn stage(setup: &Setup) -> anyhow::Result<Box<dyn Drive>> {
    let runtime = Runtime::new();
    let stage = runtime.spawn::<Stage>("stage", ()).place(setup.placement)?;
    let graph = runtime.compile_with(setup.options(), |x: Edge<u64>| stage.word(&x))?;
    Compiled::boxed(runtime, graph, WORD, WORD)
}

/// A graph of `tasks` tasks on some actors, compiled repeatedly.
pub struct Wide {
    actors: Vec<EchoHandle>,
    runtime: Runtime,
    options: Options,
    tasks: usize,
}

impl Wide {
    /// Spawns the actors.
    ///
    /// # Errors
    /// The errors of [`chain`].
    pub fn new(setup: &Setup, tasks: usize) -> anyhow::Result<Self> {
        let runtime = Runtime::new();
        let actors = echoes(&runtime, setup, setup.actors)?;
        // The graph has as many channels as tasks, so it uses the smallest slots that exist.
        let options = setup.options().buffer_bytes(1000);
        Ok(Wide {
            actors,
            runtime,
            options,
            tasks,
        })
    }

    /// Compiles from the user's function to a running graph. Each task joins its predecessor's result with that of a
    /// task a row above, on the next actor in turn: every second edge crosses lanes, and the last task depends on all
    /// others.
    ///
    /// # Errors
    /// The graph does not compile.
    pub fn compile(&self) -> anyhow::Result<Graph<u64, u64>> {
        let width = 2 * self.actors.len().max(1);
        let bind = |x: Edge<u64>| {
            let mut row: std::collections::VecDeque<Edge<u64>> =
                std::iter::repeat_n(x.clone(), width).collect();
            let mut last = x;
            for (_, actor) in (0..self.tasks).zip(self.actors.iter().cycle()) {
                let above = row.pop_front().unwrap_or_else(|| last.clone());
                last = actor.join(&last, &above);
                row.push_back(last.clone());
            }
            last
        };
        Ok(self.runtime.compile_with(self.options.clone(), bind)?)
    }
}
