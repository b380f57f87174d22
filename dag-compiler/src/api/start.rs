//! Compile and start: the only way from a [`Runtime`] to a running [`Graph`].

use std::panic::Location;
use std::sync::Arc;
use std::time::Duration;

use selvedge_channels::{ChannelError, SpinBudget};
use selvedge_core::{Lease, LeaseError, Runtime, deadline_after};

use crate::api::graph::Graph;
use crate::api::options::Options;
use crate::api::over_hosts::{join_hosts, references_over_hosts};
use crate::api::prepare::{Prepared, prepare, values_with_references};
use crate::api::sealed::Sealed;
use crate::api::workers::WorkerStart;
use crate::bind::collective::refused;
use crate::bind::ports::{Inputs, Outputs};
use crate::bind::{BoundGraph, RuntimeParts, bind_graph};
use crate::diagnostic::{Code, Diagnostic};
use crate::error::CompileError;
use crate::ir::{GraphIr, Plan, SourceLocation};
use crate::load::{LoadError, Referring, programs};
use crate::plan::compile::plan;
use crate::run::actor_set::Inline;
use crate::run::driver::Driver;
use crate::run::engine::Engine;
use crate::run::lane::LaneLoop;
use crate::run::report::TaskInfo;
use crate::show::inspect;

impl Sealed for Runtime {}

/// Compiles graphs on a runtime. The trait cannot be implemented outside.
pub trait Compile: Sealed {
    /// Compiles a graph with default [`Options`]. `bind` is an ordinary function from the graph's input edges to its
    /// output edges; it runs once.
    ///
    /// # Errors
    /// [`CompileError`] with one diagnostic per mistake. It prints like an error of the Rust compiler.
    #[track_caller]
    fn compile<I: Inputs, O: Outputs>(
        &self,
        bind: impl FnOnce(I) -> O,
    ) -> Result<Graph<I::Value, O::Value>, CompileError> {
        self.compile_with(Options::new(), bind)
    }

    /// Compiles a graph with the given options.
    ///
    /// # Errors
    /// The errors of [`compile`](Self::compile).
    #[track_caller]
    fn compile_with<I: Inputs, O: Outputs>(
        &self,
        options: Options,
        bind: impl FnOnce(I) -> O,
    ) -> Result<Graph<I::Value, O::Value>, CompileError>;
}

impl Compile for Runtime {
    #[track_caller]
    fn compile_with<I: Inputs, O: Outputs>(
        &self,
        options: Options,
        bind: impl FnOnce(I) -> O,
    ) -> Result<Graph<I::Value, O::Value>, CompileError> {
        let location = SourceLocation::from(Location::caller());
        let options =
            inspect::options(options).map_err(|wrong| refuse(Code::InvalidOption, wrong, &location))?;
        if let Some(wrong) = options.out_of_bounds() {
            return Err(refuse(Code::InvalidOption, wrong, &location));
        }
        let mut bound = bind_graph::<I, O>(
            self,
            options.name.as_deref(),
            options.inputs_value(),
            options.transport,
            location.clone(),
            bind,
        );
        let inert = options.without_effect(&bound.ir, bound.lists).into_iter();
        let inert = inert.map(|text| Diagnostic::new(Code::InertOption, text, location.clone()));
        bound.mistakes.extend(inert);
        if !bound.mistakes.is_empty() {
            let error = CompileError::all(bound.mistakes);
            inspect::inspect(&Err(error.clone()));
            return Err(error);
        }
        let BoundGraph { mut ir, recipe, .. } = bound;
        foreign(self, &ir, &recipe)?;
        for actor in &mut ir.actors {
            actor.commutes |= options.commuting.iter().any(|(id, _)| *id == actor.id);
        }
        let leaves = ir.outputs.len();
        let engine = plan_and_start(self, options, ir, Arc::new(recipe))?;
        Ok(Graph::new(engine, (I::write, I::send, I::fits), O::take, leaves))
    }
}

/// Plans a bound graph and starts it.
pub(crate) fn plan_and_start(
    runtime: &Runtime,
    options: Options,
    ir: GraphIr,
    recipe: Arc<RuntimeParts>,
) -> Result<Arc<Engine>, CompileError> {
    let location = ir.compiled_at.clone();
    let planned = plan(ir, options.settings()).and_then(|plan| match refused(&plan) {
        Some(refused) => Err(CompileError::from(refused)),
        None => Ok(plan),
    });
    inspect::inspect(&planned);
    let mut plan = planned?;
    plan.settings.waiting = options.waiting(&plan);
    start(runtime, options, plan, recipe, &location)
}

fn refuse(code: Code, message: impl Into<String>, location: &SourceLocation) -> CompileError {
    CompileError::from(Diagnostic::new(code, message, location.clone()))
}

/// Refuses actors of other runtimes, each at the line where it was first bound.
fn foreign(runtime: &Runtime, ir: &GraphIr, recipe: &RuntimeParts) -> Result<(), CompileError> {
    let foreign = recipe.actors.iter().filter(|actor| !actor.same_runtime(runtime));
    let mistakes: Vec<Diagnostic> = foreign
        .map(|actor| {
            let task = ir.tasks.iter().find(|task| task.actor == actor.id());
            let location = task.map_or(&ir.compiled_at, |task| &task.bound_at);
            let known = ir.actors.iter().find(|known| known.id == actor.id());
            let name = known.map_or(actor.name(), |known| &known.name);
            let message = format!("actor `{name}` belongs to another runtime");
            Diagnostic::new(Code::ForeignActor, message, location.clone())
        })
        .collect();
    if mistakes.is_empty() {
        return Ok(());
    }
    Err(CompileError::all(mistakes))
}

fn lease_error(error: LeaseError, timeout: Duration, location: &SourceLocation) -> CompileError {
    let code = match &error {
        LeaseError::Busy { .. } => Code::ActorBusy,
        LeaseError::Dead(_) => Code::ActorDead,
        LeaseError::Foreign { .. } => Code::ForeignActor,
        _ => Code::LoadFailed,
    };
    let mut message = error.to_string();
    if let LeaseError::Silent { .. } | LeaseError::Restarting { .. } = error {
        message = format!("{message}: `Options::compile_timeout` is {timeout:?}");
    }
    refuse(code, message, location)
}

fn load_error(error: &LoadError, location: &SourceLocation) -> CompileError {
    let code = match error {
        LoadError::TooLarge | LoadError::Segment(_) | LoadError::Channel(ChannelError::Segment(_)) => {
            Code::OutOfMemory
        }
        LoadError::Inconsistent(_) | LoadError::Bug(_) => Code::Internal,
        _ => Code::LoadFailed,
    };
    refuse(code, error.to_string(), location)
}

/// Notes where the actors live now. An actor that restarted while the graph was compiled lives in another process.
fn locate(plan: &mut Plan, recipe: &RuntimeParts) {
    for actor in &mut plan.ir.actors {
        let now = recipe.actors.iter().find(|now| now.id() == actor.id);
        actor.placement = now.map_or_else(|| actor.placement.clone(), |now| now.placement().to_string());
    }
}

/// Leases the actors, builds the channels, and gives every lane its program.
fn start(
    runtime: &Runtime,
    options: Options,
    mut plan: Plan,
    recipe: Arc<RuntimeParts>,
    location: &SourceLocation,
) -> Result<Arc<Engine>, CompileError> {
    let timeout = options.compile_timeout_value();
    let deadline = deadline_after(timeout);
    let lease = runtime
        .lease(&plan.graph, &recipe.actors, deadline)
        .map_err(|error| lease_error(error, timeout, location))?;
    locate(&mut plan, &recipe);
    let referring = Referring {
        references: lease.edge_references(),
        values: values_with_references(&plan, &recipe),
    };
    if let Some(far) = references_over_hosts(&plan, &referring) {
        return Err(far.into());
    }
    let parts = prepare(&plan, &recipe, Some(&referring), Some(runtime));
    let Prepared {
        layout,
        segment,
        control,
        lanes,
        driver_lane,
        inputs,
        free_ports,
        shuttles,
    } = parts.map_err(|error| load_error(&error, location))?;
    let joined = join_hosts(&plan, &lease, &referring, &control, shuttles);
    let joint = joined.map_err(|error| load_error(&error, location))?;
    let (bell, budget) = (driver_lane.bell.clone(), SpinBudget::new(driver_lane.waiting));
    let driver_lane = awaiting(driver_lane, &lease, &options);
    let limits = (plan.settings.max_inflight as usize, options.max_buffered);
    let inline = Inline::new(lease.inline_actors(), options.timeout_value());
    let info = driver_info(location);
    let driver = Driver::new(inputs, info, driver_lane, inline, free_ports, limits);
    let workers = WorkerStart {
        plan: &plan,
        lease: &lease,
        referring: &referring,
        joint: joint.as_deref(),
        deadline,
    };
    let started = workers.start(segment.id());
    if let Err(error) = started.and_then(|()| lease.start_local(programs(&plan, lanes))) {
        lease.ending();
        control.stop();
        joint.iter().for_each(|joint| joint.stop());
        return Err(lease_error(error, timeout, location));
    }
    joint.iter().for_each(|joint| joint.begin());
    let plan = Arc::new(plan);
    let engine = Engine::new(
        plan,
        options,
        control,
        layout,
        segment,
        lease,
        joint,
        recipe,
        (bell, budget),
        driver,
    );
    watch(&engine);
    Ok(engine)
}

/// An inline async method awaits on the thread that waits for its result, so the time limit of that thread applies.
fn awaiting(mut lane: LaneLoop, lease: &Lease, options: &Options) -> LaneLoop {
    let driver = lane.driver.limited(options.timeout_value());
    lane.driver = driver.sharing(&lease.inline_driver());
    lane
}

/// The driver, in reports of what its inputs did.
fn driver_info(location: &SourceLocation) -> TaskInfo {
    TaskInfo {
        task: "the graph's input".into(),
        actor: "driver".into(),
        placement: "driver".into(),
        bound_at: location.clone(),
    }
}

/// Tells a graph about deaths and about lanes that have ended.
fn watch(engine: &Arc<Engine>) {
    let told = Arc::downgrade(engine);
    engine.lease.on_death(Box::new(move |death| {
        if let Some(engine) = told.upgrade() {
            engine.died(death);
        }
    }));
    let told = Arc::downgrade(engine);
    engine.lease.on_end(Box::new(move || {
        if let Some(engine) = told.upgrade() {
            engine.lane_ended();
        }
    }));
    if let Some(joint) = &engine.joint {
        let told = Arc::downgrade(engine);
        joint.on_failure(Box::new(move |lane, text| {
            if let Some(engine) = told.upgrade() {
                engine.failed_elsewhere(lane, text);
            }
        }));
    }
    engine.lane_ended();
}
