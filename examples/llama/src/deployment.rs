//! A running model: actors for all shares of it, and the graph over them.

use std::path::Path;
use std::time::Duration;

use selvedge::prelude::*;
use selvedge::{ActorRef, CallError, Profile, Teardown, Worker, cores};

use crate::config::Config;
use crate::error::LoadError;
use crate::folder::Folder;
use crate::graph::{grid, pipeline};
use crate::layer::Room;
use crate::share::Share;
use crate::stage::{Stage, StageHandle};
use crate::step::{Batch, Sampled};

const GIB: f64 = (1_u64 << 30) as f64;

/// Returns the bytes of the caches of all shares when they are full.
fn cache_bytes(config: &Config, slots: usize, positions: usize) -> u128 {
    let of_position = 2 * config.layers * config.key_value_heads * config.head_size * size_of::<f32>();
    slots as u128 * positions as u128 * of_position as u128
}

/// Returns the bytes of memory and swap.
fn machine_bytes() -> u128 {
    let info = rustix::system::sysinfo();
    (u128::from(info.totalram) + u128::from(info.totalswap)) * u128::from(info.mem_unit)
}

/// The cuts of a model and the placement of its parts.
#[derive(Clone, Debug)]
pub struct Layout {
    /// The number of stages that the layers are cut into; default 1.
    pub pipeline: usize,
    /// The number of ranks that share a layer; default 1.
    pub tensor: usize,
    /// The placement of every share; default [`Placement::Process`].
    pub placement: Placement,
    /// The workers of the shares, stage by stage and rank by rank, in turn; the default, none, follows `placement`. The
    /// ranks of a stage must be on one host; stages may be on several, which all have the model's folder.
    pub workers: Vec<Worker>,
    /// The number of sequences held at once; default 1. Their keys and values must fit into the machine's memory when
    /// all sequences have the maximum length.
    pub slots: usize,
    /// The longest sequence; `None`, the default, is the length that the model was made for.
    pub positions: Option<usize>,
    /// The most steps in flight; `None`, the default, is two for every stage.
    pub inflight: Option<usize>,
    /// The time that a step may take before `wait` gives up, and the time that it may wait to be submitted; default 120
    /// s. A long prompt in a large model is slow; [`Part::pieces`](crate::step::Part::pieces) cuts it into several
    /// steps. A death is noticed at once, whatever this limit is.
    pub step_time: Duration,
    /// The wait policy of lanes and callers; default [`Wait::Auto`]. [`Wait::Spin`] has the lowest latency if every
    /// share has a core of its own besides the caller's.
    pub wait: Wait,
    /// True if every share stays on a core of its own, in turn; default false. Meant for pipelines that are kept full
    /// on a machine of their own. Inline shares stay on the caller's core.
    pub pinned: bool,
    /// The events that every lane keeps for the trace of [`Deployment::graph`]; default 0.
    pub trace: usize,
}

impl Default for Layout {
    fn default() -> Self {
        Layout {
            pipeline: 1,
            tensor: 1,
            placement: Placement::Process,
            workers: Vec::new(),
            slots: 1,
            positions: None,
            inflight: None,
            step_time: Duration::from_secs(120),
            wait: Wait::Auto,
            pinned: false,
            trace: 0,
        }
    }
}

impl Layout {
    /// Returns all shares, stage by stage.
    fn shares(&self) -> impl Iterator<Item = Share> {
        let (stages, ranks) = (self.pipeline, self.tensor);
        (0..stages).flat_map(move |stage| {
            (0..ranks).map(move |rank| Share {
                stage,
                stages,
                rank,
                ranks,
            })
        })
    }

    fn room(&self, config: &Config) -> Result<Room, LoadError> {
        let positions = self.positions.unwrap_or(config.positions);
        let wrong = |message| Err(LoadError::Room { message });
        if positions == 0 || positions > config.positions {
            let most = config.positions;
            return wrong(format!(
                "{positions} positions were asked for; the model has 1 to {most}"
            ));
        }
        if self.slots == 0 || u32::try_from(self.slots).is_err() {
            return wrong(format!(
                "{} slots were asked for; at least 1 is needed",
                self.slots
            ));
        }
        let slots = self.slots;
        let (needed, has) = (cache_bytes(config, slots, positions), machine_bytes());
        if needed > has {
            return wrong(format!(
                "{slots} slots of {positions} positions need {:.0} GiB for keys and values, and this machine has {:.0} GiB: \
                 ask for fewer slots or positions",
                needed as f64 / GIB,
                has as f64 / GIB
            ));
        }
        Ok(Room { slots, positions })
    }

    fn options(&self) -> Options {
        Options::new()
            .named("llama")
            .max_inflight(self.inflight.unwrap_or(2 * self.pipeline))
            .timeout(self.step_time)
            .submit_timeout(self.step_time)
            .wait(self.wait)
            .trace(self.trace)
    }
}

/// A running model. Dropping it ends its actors and their processes; steps in flight return an error.
///
/// When one of its actors dies, every step in flight and every later one returns [`ExecError::ActorDied`]: drop the
/// deployment and load another.
///
/// ```no_run
/// use selvedge::prelude::*;
/// use selvedge_llama::deployment::{Deployment, Layout};
/// use selvedge_llama::step::{Batch, Part, Sampling};
///
/// # fn main() -> Result<()> {
/// let runtime = Runtime::new();
/// let model = Deployment::load(&runtime, "model", &Layout { pipeline: 2, slots: 4, ..Layout::default() })?;
/// let sampling = Some(Sampling { temperature: 0.0, top_p: 1.0, seed: 0 });
/// let prompt = Part { slot: 0, start: 0, tokens: vec![1, 2, 3], sampling };
/// let first = model.step(Batch { parts: vec![prompt] }).wait()?;          // one token for each part that asked for one
/// let next = Part { slot: 0, start: 3, tokens: vec![first[0].token], sampling };
/// let second = model.step(Batch { parts: vec![next] });                   // an `Execution`: wait, await, or submit others
/// println!("{:?} {:?}", first, second.wait()?);
/// # Ok(())
/// # }
/// ```
pub struct Deployment {
    // Declared before the actors, so that the graph is torn down before they are killed.
    graph: Graph<Batch, Vec<Sampled>>,
    shares: Spawned,
    config: Config,
    room: Room,
    /// The actor among `shares` that has the head.
    last: StageHandle,
}

impl Deployment {
    /// Checks the whole folder, spawns an actor for every share of the model, and compiles the graph.
    ///
    /// # Errors
    /// [`LoadError`]; all spawned actors have been killed.
    pub fn load(runtime: &Runtime, folder: impl AsRef<Path>, layout: &Layout) -> Result<Self, LoadError> {
        Deployment::load_with(runtime, folder, layout, |_, _| ())
    }

    /// Loads a model like [`load`](Self::load), and calls `progress` before the first share and after each one with the
    /// number of loaded shares and the number of all shares.
    ///
    /// # Errors
    /// The errors of [`load`](Self::load).
    pub fn load_with(
        runtime: &Runtime,
        folder: impl AsRef<Path>,
        layout: &Layout,
        mut progress: impl FnMut(usize, usize),
    ) -> Result<Self, LoadError> {
        let folder = Folder::open(folder)?;
        let probe = Share {
            stage: 0,
            stages: layout.pipeline,
            rank: 0,
            ranks: layout.tensor,
        };
        folder.check(&probe)?;
        let room = layout.room(&folder.config)?;
        let mut shares = Spawned(Vec::new());
        let all = layout.pipeline * layout.tensor;
        let cores = if layout.pinned { cores() } else { Vec::new() };
        progress(0, all);
        for share in layout.shares() {
            let number = share.stage * layout.tensor + share.rank;
            let core = cores.iter().cycle().nth(number).copied();
            let place = match layout.workers.iter().cycle().nth(number) {
                Some(worker) => Place::Worker(worker),
                None => Place::Own(layout.placement),
            };
            shares.0.push(spawn(runtime, &folder, share, room, place, core)?);
            progress(shares.0.len(), all);
        }
        let graph = compile(runtime, layout, &folder.config, &shares.0)?;
        let Some(last) = shares.0.iter().rev().nth(layout.tensor - 1).cloned() else {
            return Err(LoadError::Room {
                message: "a model without shares".into(),
            });
        };
        Ok(Deployment {
            graph,
            shares,
            config: folder.config,
            room,
            last,
        })
    }

    /// Submits a step. Its parts must be of different slots, and the parts of a sequence must be submitted in order;
    /// steps of different sequences may be in flight at once and fill the pipeline. The result has a token for each
    /// part that asked for one, in the order of the parts.
    ///
    /// Dropping the execution cancels it; the sequences in the slots of its parts must then start again.
    pub fn step(&self, batch: Batch) -> Execution<Vec<Sampled>> {
        self.graph.execute(batch)
    }

    /// Returns the logits of the last token of each part that asked for sampling, in the latest finished step: `[parts,
    /// vocabulary]`. For tests.
    ///
    /// # Errors
    /// [`CallError`].
    pub fn logits(&self) -> Result<Tensor, CallError> {
        self.last.call().logits().wait()
    }

    /// Returns the shape of the model.
    #[must_use]
    pub fn config(&self) -> &Config {
        &self.config
    }

    /// Returns the number of sequences and their maximum length.
    #[must_use]
    pub fn room(&self) -> Room {
        self.room
    }

    /// Returns the graph, with its trace, plan and counters.
    #[must_use]
    pub fn graph(&self) -> &Graph<Batch, Vec<Sampled>> {
        &self.graph
    }

    /// Returns the durations of all tasks that are still in the rings of [`Layout::trace`].
    #[must_use]
    pub fn profile(&self) -> Profile {
        Profile::of(&self.graph.trace())
    }

    /// Returns the actors, stage by stage, and rank by rank within a stage.
    pub fn actors(&self) -> impl Iterator<Item = &ActorRef> {
        self.shares.0.iter().map(StageHandle::actor)
    }

    /// Returns the bytes of weights that each actor has read.
    ///
    /// # Errors
    /// [`CallError`].
    pub fn weight_bytes(&self) -> Result<Vec<u64>, CallError> {
        self.shares
            .0
            .iter()
            .map(|share| share.call().weight_bytes().wait())
            .collect()
    }

    /// Splits the deployment into its graph and its actors, for callers that manage both: a batcher takes the graph,
    /// and the caller kills the actors.
    #[must_use]
    pub fn into_parts(mut self) -> (Graph<Batch, Vec<Sampled>>, Vec<ActorRef>) {
        let shares = std::mem::take(&mut self.shares.0);
        (
            self.graph,
            shares.iter().map(|share| share.actor().clone()).collect(),
        )
    }

    /// Ends the graph and the actors; steps in flight return an error. Dropping the deployment does the same.
    pub fn teardown(&self) -> Teardown {
        let report = self.graph.teardown();
        self.actors().for_each(ActorRef::kill);
        report
    }
}

/// Actors that are killed when this list is dropped, so that a load that fails half-way leaves no actor behind.
struct Spawned(Vec<StageHandle>);

impl Drop for Spawned {
    fn drop(&mut self) {
        self.0.iter().for_each(|share| share.actor().kill());
    }
}

/// The place of one share.
enum Place<'a> {
    Own(Placement),
    Worker(&'a Worker),
}

fn spawn(
    runtime: &Runtime,
    folder: &Folder,
    share: Share,
    room: Room,
    place: Place<'_>,
    core: Option<u32>,
) -> Result<StageHandle, LoadError> {
    let name = match share.ranks {
        1 => format!("stage {}", share.stage),
        _ => format!("stage {} rank {}", share.stage, share.rank),
    };
    let mut spawn = runtime.spawn::<Stage>(name, (folder.path.clone(), share, room));
    if let Some(core) = core.filter(|_| !matches!(place, Place::Own(Placement::Inline))) {
        spawn = spawn.on_core(core);
    }
    Ok(match place {
        // Candle's thread pool would compete with the lanes for the cores.
        Place::Own(Placement::Process) => spawn.env("RAYON_NUM_THREADS", "1").in_process(),
        Place::Own(other) => spawn.place(other),
        Place::Worker(worker) => spawn.in_worker(worker),
    }?)
}

fn compile(
    runtime: &Runtime,
    layout: &Layout,
    config: &Config,
    shares: &[StageHandle],
) -> Result<Graph<Batch, Vec<Sampled>>, LoadError> {
    let graph = runtime.compile_with(layout.options(), |batch: Edge<Batch>| match layout.tensor {
        1 => pipeline(shares, &batch),
        ranks => grid(shares, ranks, config, &batch),
    })?;
    Ok(graph)
}
