//! Models of a graph's loop, explored state by state with stateright: real lanes and the real driver over real rings,
//! in every order in which threads could run them (M6, M8). A state is the path that leads to it, repeated on a fresh
//! graph.
//!
//! Lanes compute sums, so a wrong input, or an input of another execution, gives a wrong output. Every model has
//! mutants, and it must find the fault of each. The channels' own models and loom test the behaviour within a step
//! (`channels/tests/models`).

use std::collections::BTreeMap;

use linkme::distributed_slice;
use selvedge_channels::{ChannelError, PayloadType, Waiting};
use selvedge_core::{
    ACTORS, ActorEntry, ActorId, Address, Compute, Failure, Frame, IdMap, LaneId, MethodEntry, ProcessId,
    Sharing,
};

use super::explore::{Machine, holds, is_found};
use crate::api::prepare::{Prepared, prepare};
use crate::bind::RuntimeParts;
use crate::ir::{
    ActorIr, ArgIr, BindIndex, GraphIr, Lanes, Origin, Plan, Settings, TaskId, TaskIr, ValueId, ValueIr,
};
use crate::plan::compile::plan;
use crate::run::actor_set::{ActorSet, Inline};
use crate::run::control::{Control, GraphState};
use crate::run::driver::Driver;
use crate::run::driver::leaf::{AnyLeaf, Leaf, Status};
use crate::run::lane::{LaneError, LaneLoop, LaneStep, Moved, Straight, Stretch, TaskRun};
use crate::run::report::TaskInfo;
use crate::run::table::TaskIx;

const fn method() -> MethodEntry {
    MethodEntry {
        name: "sum",
        params: &[],
        result: || PayloadType::of::<i64>(),
        parts: Vec::new,
        error: || None,
        sharing: Sharing::Exclusive,
        compute: |_, _| Err(Box::new(Failure::Internal("the model computes".into()))),
        call: |_, _, _| Err(Failure::Internal("nobody calls".into())),
    }
}

static ENTRY: ActorEntry = ActorEntry {
    name: "selvedge_compiler::model",
    instance: None,
    id: std::any::TypeId::of::<()>(),
    place: "",
    is_pinned: || false,
    checkpoint: || None,
    constructors: &[],
    concurrency: 1,
    methods: &[method()],
};

#[distributed_slice(ACTORS)]
static REGISTERED: fn() -> &'static ActorEntry = || &ENTRY;

/// The result of a task: it depends on the task and on each argument at its position.
fn sum(task: usize, args: &[i64]) -> i64 {
    args.iter()
        .fold(100 * (task as i64 + 1), |sum, arg| 3 * sum + arg)
}

fn input(execution: u64) -> i64 {
    7 + execution as i64
}

/// Runs the tasks of a lane; in the models every task is an actor.
struct Sums<'a>(&'a Plan);

impl ActorSet for Sums<'_> {
    fn compute(
        &mut self,
        _: &mut usize,
        task: ActorId,
        _: Compute,
        frame: &mut Frame<'_>,
    ) -> Result<(), Box<Failure>> {
        let task = task.0 as usize;
        let args = self.0.ir.tasks[task].args.len();
        let args = (0..args)
            .map(|at| frame.take::<i64>(at))
            .collect::<Result<Vec<_>, _>>()?;
        frame.finish(sum(task, &args))
    }

    fn is_called(&self) -> bool {
        false
    }
}

/// A graph of one input. Each task is given by its lane and the values that it reads: 0 for the input, n for task n -
/// 1.
pub(crate) fn graph(tasks: &[(u32, &[u32])], outputs: &[u32]) -> GraphIr {
    let value = |origin| ValueIr {
        origin,
        part: None,
        type_name: "i64".into(),
        signal: false,
        traits: Default::default(),
        tensors: Default::default(),
        buffer: Default::default(),
    };
    let mut graph = GraphIr {
        name: "model".into(),
        values: vec![value(Origin::Input(0))],
        inputs: vec![ValueId(0)],
        outputs: outputs.iter().map(|task| ValueId(*task)).collect(),
        ..GraphIr::default()
    };
    let mut binds: BTreeMap<u32, BindIndex> = BTreeMap::new();
    for (index, (lane, reads)) in tasks.iter().enumerate() {
        let id = ActorId(lane * 10);
        if !graph.actors.iter().any(|actor| actor.id == id) {
            graph.actors.push(ActorIr {
                id,
                name: format!("a{lane}"),
                type_name: ENTRY.name.into(),
                lane: LaneId(*lane),
                home: Address::of(ProcessId::DRIVER, LaneId(*lane)),
                placement: "thread".into(),
                device: None,
                core: None,
                concurrency: 1,
                pinned: false,
                commutes: false,
            });
        }
        let bind_index = *binds.entry(*lane).and_modify(|count| count.0 += 1).or_default();
        graph.tasks.push(TaskIr {
            actor: id,
            method: 0,
            extension: None,
            method_name: "sum".into(),
            label: format!("t{index}"),
            args: reads.iter().map(|value| ArgIr::Value(ValueId(*value))).collect(),
            groups: Vec::new(),
            meets: Vec::new(),
            collective: None,
            duration_ns: None,
            bound_at: Default::default(),
            bind_index,
        });
        graph.values.push(value(Origin::Task(TaskId(index as u32))));
    }
    graph
}

pub(crate) fn planned(graph: GraphIr, slots: u32, max_inflight: u32) -> Plan {
    let settings = Settings {
        max_inflight,
        slots,
        auto_slots: false,
        slot_bytes: 1000,
        max_bytes: 1000,
        waiting: Waiting::Park,
        trace_events: 0,
        overlap: true,
        lanes: Lanes::Spawned,
        cores: 4,
        communicator: None,
    };
    plan(graph, settings).unwrap()
}

/// The expected outputs of one execution, in order.
fn expected(plan: &Plan, execution: u64) -> Vec<i64> {
    let mut values = vec![input(execution)];
    for (index, task) in plan.ir.tasks.iter().enumerate() {
        let args: Vec<i64> = GraphIr::reads(task)
            .map(|(_, value)| values[value.index()])
            .collect();
        values.push(sum(index, &args));
    }
    plan.ir
        .outputs
        .iter()
        .map(|value| values[value.index()])
        .collect()
}

#[derive(Clone, Copy, PartialEq)]
enum Mutant {
    None,
    /// The last task of a lane, and so its wait, comes before the lane's first (E-02, E-03).
    WaitsEarly,
    /// Submissions do not check for room.
    NoLimit,
    /// Fetching returns the result of the previous execution.
    WrongRow,
    /// A dropped handle is forgotten instead of closed.
    Forgets,
    /// An execution that leaves the fast path gets no place for its result.
    Unbooked,
    /// Tear-down does not tell the lanes.
    Silent,
}

struct Loop {
    plan: Plan,
    executions: u64,
    /// Whether handles may be dropped; `tears` is whether the graph may be torn down.
    drops: bool,
    tears: bool,
    /// Whether executions may take the fast path while the driver is held.
    runs: bool,
    /// True if lanes do tasks in straight lines, as they do in production; else they go state by state, so that others
    /// run in between.
    straight: bool,
    mutant: Mutant,
}

#[derive(Clone, Copy, Debug, PartialEq, Hash)]
enum Action {
    Submit,
    Pump,
    /// Submits and holds the driver. No other action uses the driver until the execution has ended or is booked.
    Run,
    Through,
    Book,
    Lane(usize),
    Get(u64),
    Drop(u64),
    TearDown,
}

#[derive(Clone, Copy, PartialEq)]
enum HandleState {
    Open,
    Done,
}

struct World {
    control: Control,
    lanes: Vec<LaneLoop>,
    ended: Vec<bool>,
    driver: Driver,
    handles: Vec<HandleState>,
    /// The execution for which the driver is held.
    sent: Option<u64>,
    torn: bool,
}

fn info() -> TaskInfo {
    TaskInfo {
        task: "input".into(),
        actor: "driver".into(),
        placement: "driver".into(),
        bound_at: Default::default(),
    }
}

impl Loop {
    fn leaves(&self) -> std::ops::Range<usize> {
        0..self.plan.ir.outputs.len()
    }

    fn submit(&self, world: &mut World) -> Result<(), &'static str> {
        if world.torn || world.handles.len() as u64 == self.executions {
            return Ok(());
        }
        let room = world.driver.room().map_err(|_| "room is an error")?;
        if room.is_err() && self.mutant != Mutant::NoLimit {
            return Ok(());
        }
        self.stage(world)?;
        let number = world.handles.len() as u64;
        let given = world
            .driver
            .publish_inputs()
            .map_err(|_| "a submission is an error")?;
        world.driver.book(given);
        self.given(world, number, given)
    }

    fn stage(&self, world: &mut World) -> Result<(), &'static str> {
        let number = world.handles.len() as u64;
        for outlet in world
            .driver
            .inputs
            .iter_mut()
            .filter_map(|port| port.whole.as_mut())
        {
            let typed = outlet.typed_mut::<i64>();
            typed.ok_or("an input of another type")?.stage(input(number));
        }
        Ok(())
    }

    fn given(&self, world: &mut World, number: u64, given: u64) -> Result<(), &'static str> {
        if given != number {
            return Err("an execution has another number than its turn");
        }
        world.handles.push(HandleState::Open);
        let inflight = world.handles.len() as u64 - world.driver.books.finished();
        if inflight > u64::from(self.plan.settings.max_inflight) {
            return Err("more executions are unfinished than allowed");
        }
        Ok(())
    }

    fn run(&self, world: &mut World) -> Result<(), &'static str> {
        let done = world.torn || world.handles.len() as u64 == self.executions;
        if done || !world.driver.is_idle() || !world.driver.has_room() {
            return Ok(());
        }
        self.stage(world)?;
        let number = world.handles.len() as u64;
        let given = world
            .driver
            .publish_inputs()
            .map_err(|_| "a submission is an error")?;
        world.sent = Some(number);
        self.given(world, number, given)
    }

    fn through(&self, world: &mut World) -> Result<(), &'static str> {
        let Some(execution) = world.sent else {
            return Ok(());
        };
        if let Some(taken) = world
            .driver
            .take_at_once(execution, &[], |it| Ok(vec![it.next::<i64>()?]))
        {
            if taken.ok() != Some(expected(&self.plan, execution)) {
                return Err("a result is not that of its execution");
            }
            world.sent = None;
            world.handles[execution as usize] = HandleState::Done;
        }
        Ok(())
    }

    fn book(&self, world: &mut World) {
        if let Some(execution) = world.sent.take()
            && self.mutant != Mutant::Unbooked
        {
            world.driver.book(execution);
        }
    }

    fn get(&self, world: &mut World, execution: u64) -> Result<(), &'static str> {
        let asked = if self.mutant == Mutant::WrongRow {
            execution.saturating_sub(1)
        } else {
            execution
        };
        // Taken before it is collected, if possible; in the states after a pump it has been collected.
        if let Some(taken) = world
            .driver
            .take_at_once(asked, &[], |it| Ok(vec![it.next::<i64>()?]))
        {
            if taken.ok() != Some(expected(&self.plan, execution)) {
                return Err("a result taken at once is not that of its execution");
            }
            world.handles[execution as usize] = HandleState::Done;
            if world.driver.close_taken(execution) {
                return Err("an execution whose result was taken is unfinished");
            }
            return Ok(());
        }
        match world.driver.status(asked, &self.leaves()) {
            Status::Pending if world.torn => {}
            Status::Pending => return Ok(()),
            Status::Gone => return Err("a result that nobody has taken is gone"),
            Status::Fault(_) => return Err("a result is a fault that nobody made"),
            Status::Value => {
                let leaves = world.driver.lane.leaves.iter_mut();
                let taken =
                    leaves.map(|leaf| leaf.as_any_mut().downcast_mut::<Leaf<i64>>()?.take(asked)?.ok());
                let taken: Option<Vec<i64>> = taken.collect();
                if taken != Some(expected(&self.plan, execution)) {
                    return Err("a result is not that of its execution");
                }
            }
        }
        self.close(world, execution);
        Ok(())
    }

    fn close(&self, world: &mut World, execution: u64) {
        world.handles[execution as usize] = HandleState::Done;
        if world.driver.close(execution, &self.leaves()) {
            world.control.cancel(execution);
        }
    }
}

/// The parts of a graph whose values are all numbers.
pub(crate) fn recipe(plan: &Plan) -> RuntimeParts {
    let leaf: fn(usize) -> Box<dyn AnyLeaf> = |room| Box::new(Leaf::<i64>::with_capacity(room));
    RuntimeParts {
        _functions: Vec::new(),
        payloads: vec![PayloadType::of::<i64>(); plan.ir.values.len()],
        actors: Vec::new(),
        splitters: IdMap::new(),
        constants: IdMap::new(),
        leaves: vec![leaf; plan.ir.outputs.len()],
        lengths: Vec::new(),
    }
}

/// The tasks of a step, each as a step of its own.
fn one_by_one(step: LaneStep) -> Vec<LaneStep> {
    let LaneStep::Run(stretch) = step else {
        return vec![step];
    };
    let tasks = stretch.first.0..stretch.first.0 + stretch.len;
    let one = |task| Stretch {
        first: TaskIx(task),
        len: 1,
    };
    tasks.map(|task| LaneStep::Run(one(task))).collect()
}

impl Machine for Loop {
    type World = World;
    type Action = Action;

    fn fresh(&self) -> World {
        let recipe = recipe(&self.plan);
        let Prepared {
            control,
            mut lanes,
            driver_lane,
            inputs,
            free_ports,
            ..
        } = prepare(&self.plan, &recipe, None, None).unwrap();
        for lane in &mut lanes {
            if self.straight {
                // The lane also does the next execution in one go if its input has arrived.
                lane.spins = true;
            }
            for task in lane.tasks.iter_mut() {
                task.actor = ActorId(task.id.0);
                task.straight = task.straight.filter(|_| self.straight);
            }
            if self.mutant == Mutant::WaitsEarly {
                lane.steps = lane.steps.iter().copied().flat_map(one_by_one).collect();
                lane.steps.rotate_right(1);
            }
        }
        let limits = (self.plan.settings.max_inflight as usize, 1000);
        let driver = Driver::new(
            inputs,
            info(),
            driver_lane,
            Inline::new(Vec::new(), None),
            free_ports,
            limits,
        );
        World {
            control,
            ended: vec![false; lanes.len()],
            lanes,
            driver,
            handles: Vec::new(),
            sent: None,
            torn: false,
        }
    }

    fn actions(&self, world: &World) -> Vec<Action> {
        let mut actions: Vec<Action> = (0..world.lanes.len()).map(Action::Lane).collect();
        let in_hand = world.sent.is_some();
        if in_hand {
            actions.extend([Action::Through, Action::Book]);
        } else {
            actions.extend([Action::Submit, Action::Pump]);
        }
        if self.runs && !in_hand {
            actions.push(Action::Run);
        }
        for (execution, handle) in (0u64..).zip(&world.handles) {
            if *handle == HandleState::Open && !in_hand {
                actions.push(Action::Get(execution));
                if self.drops {
                    actions.push(Action::Drop(execution));
                }
            }
        }
        if self.tears {
            actions.push(Action::TearDown);
        }
        actions
    }

    fn step(&self, world: &mut World, action: Action) -> Result<(), &'static str> {
        match action {
            Action::Submit => self.submit(world),
            Action::Run => self.run(world),
            Action::Through => self.through(world),
            Action::Book => {
                self.book(world);
                Ok(())
            }
            Action::Pump => match world.driver.pump() {
                Ok(_) | Err(LaneError::Channel(ChannelError::Closed)) => Ok(()),
                Err(_) => Err("the driver's lane is an error"),
            },
            Action::Lane(lane) if world.ended[lane] => Ok(()),
            Action::Lane(lane) => match world.lanes[lane].step(&mut Sums(&self.plan)) {
                Ok(Moved::Advanced | Moved::Blocked) => Ok(()),
                Ok(Moved::Ended) => {
                    world.lanes[lane].release();
                    world.ended[lane] = true;
                    if world.torn {
                        Ok(())
                    } else {
                        Err("a lane ends though the graph runs")
                    }
                }
                Err(_) => Err("a lane is an error"),
            },
            Action::Get(execution) => self.get(world, execution),
            Action::Drop(execution) => {
                if self.mutant == Mutant::Forgets {
                    world.handles[execution as usize] = HandleState::Done;
                } else {
                    self.close(world, execution);
                }
                Ok(())
            }
            Action::TearDown => {
                world.torn = true;
                if self.mutant != Mutant::Silent {
                    world.control.stop();
                }
                Ok(())
            }
        }
    }

    fn seen(&self, world: &World) -> Vec<u64> {
        let mut seen = vec![
            u64::from(world.torn),
            world.sent.map_or(0, |execution| execution + 1),
            u64::from(world.control.state() == GraphState::Running),
            world.driver.books.finished(),
        ];
        seen.extend(world.driver.seen());
        for (lane, ended) in world.lanes.iter().zip(&world.ended) {
            seen.extend(lane.seen());
            seen.push(u64::from(*ended));
        }
        for (execution, handle) in (0u64..).zip(&world.handles) {
            let status = match world.driver.status(execution, &self.leaves()) {
                Status::Pending => 0,
                Status::Value => 1,
                Status::Fault(_) => 2,
                Status::Gone => 3,
            };
            let cancelled = u64::from(world.control.is_cancelled(execution));
            seen.push(u64::from(*handle == HandleState::Open) | status << 1 | cancelled << 8);
        }
        seen
    }

    fn rest(&self, world: &World) -> Result<(), &'static str> {
        if world.handles.contains(&HandleState::Open) {
            return Err("somebody waits for a result for ever");
        }
        if world.torn {
            let over = world.ended.iter().all(|ended| *ended);
            return if over {
                Ok(())
            } else {
                Err("a lane outlives the graph")
            };
        }
        if (world.handles.len() as u64) < self.executions {
            return Err("nobody can submit any more");
        }
        if world.driver.held() > 0 {
            return Err("what nobody holds is kept");
        }
        Ok(())
    }
}

fn machine(plan: Plan, executions: u64) -> Loop {
    Loop {
        plan,
        executions,
        drops: false,
        tears: false,
        runs: false,
        straight: false,
        mutant: Mutant::None,
    }
}

/// The lengths of a lane's stretches, and the tasks that go straight from one argument to one result.
fn stretches(graph: GraphIr, lane: u32) -> (Vec<usize>, Vec<bool>) {
    let model = Loop {
        straight: true,
        ..machine(planned(graph, 1, 1), 1)
    };
    let world = model.fresh();
    let lane = world.lanes.iter().find(|it| it.lane == LaneId(lane)).unwrap();
    let len = |step: &LaneStep| match step {
        LaneStep::Run(stretch) => stretch.len,
        _ => 0,
    };
    let one = |task: &TaskRun| matches!(task.straight, Some(Straight::One(_)));
    (
        lane.steps.iter().map(len).collect(),
        lane.tasks.iter().map(one).collect(),
    )
}

#[test]
fn tasks_of_one_argument_and_one_result_go_straight_from_one_to_the_other() {
    let chain = graph(&[(1, &[0]), (1, &[1]), (1, &[2]), (1, &[3, 3]), (1, &[4])], &[5]);
    let one = [true, true, true, false, true];
    assert_eq!(
        stretches(chain, 1),
        (vec![5], one.to_vec()),
        "not with two arguments"
    );
    let both = graph(&[(1, &[0]), (1, &[1]), (2, &[1])], &[2, 3]);
    assert_eq!(
        stretches(both.clone(), 1),
        (vec![2], vec![true; 2]),
        "wherever it goes"
    );
    assert_eq!(stretches(both, 2), (vec![1], vec![true]));
    let between = graph(&[(1, &[0]), (2, &[1]), (1, &[2]), (1, &[3])], &[4]);
    assert_eq!(
        stretches(between, 1),
        (vec![3], vec![true; 3]),
        "wherever it comes from"
    );
}

#[test]
fn task_10_a_closed_channel_ends_the_loop_and_is_no_failure() {
    let model = machine(planned(graph(&[(1, &[0]), (2, &[1])], &[2]), 2, 2), 2);
    let begun = || {
        let mut world = model.fresh();
        world.lanes.sort_by_key(|lane| lane.lane);
        world
    };
    // Submits an input, then runs lane number `lane` as far as it goes.
    let run = |world: &mut World, lane: usize| {
        model.submit(world).unwrap();
        loop {
            match world.lanes[lane].step(&mut Sums(&model.plan)).unwrap() {
                Moved::Advanced => {}
                moved => return (moved, world.lanes[lane].execution(), world.control.state()),
            }
        }
    };
    // READ: the lane reads the messages that were written before it sees the end.
    let mut world = begun();
    assert_eq!(run(&mut world, 0), (Moved::Blocked, 1, GraphState::Running));
    world.lanes[0].release();
    assert_eq!(run(&mut world, 1), (Moved::Ended, 1, GraphState::Running));
    // WRITE.
    let mut world = begun();
    assert_eq!(run(&mut world, 0), (Moved::Blocked, 1, GraphState::Running));
    let outlets = world.lanes[0].tasks[0].outlets.iter_mut();
    outlets.flatten().for_each(|outlet| outlet.close());
    assert_eq!(run(&mut world, 0), (Moved::Ended, 1, GraphState::Running));
}

#[test]
fn task_11_a_channel_that_is_closed_while_the_graph_runs_is_told_with_task_and_lane() {
    let model = machine(planned(graph(&[(1, &[0]), (2, &[1])], &[2]), 2, 2), 2);
    let mut world = model.fresh();
    world.lanes.sort_by_key(|lane| lane.lane);
    world.lanes[0].release();
    while world.lanes[1].step(&mut Sums(&model.plan)).unwrap() != Moved::Ended {}
    assert_eq!(world.control.state(), GraphState::Running);
    world.lanes[1].cut_off();
    let (lane, text) = world.control.failure().unwrap();
    assert_eq!((lane, text.as_str()), (LaneId(2), "`t1`: the channel is closed"));
}

#[test]
fn task_11_a_failure_is_never_seen_without_its_reason() {
    let model = machine(planned(graph(&[(1, &[0]), (2, &[1])], &[2]), 2, 2), 2);
    for _ in 0..200 {
        let control = model.fresh().control;
        std::thread::scope(|threads| {
            for lane in [LaneId(1), LaneId(2)] {
                let control = &control;
                threads.spawn(move || control.fail(lane, &format!("the reason of lane {}", lane.0)));
            }
            while control.state() != GraphState::Failed {
                std::hint::spin_loop();
            }
            let (lane, text) = control.failure().unwrap();
            assert_eq!(text, format!("the reason of lane {}", lane.0));
        });
    }
}

#[test]
fn task_11_the_driver_tells_of_a_channel_that_is_closed_while_the_graph_runs() {
    // The second task is inline: the driver's own lane reads the values that the first lane writes.
    let model = machine(planned(graph(&[(1, &[0]), (0, &[1])], &[2]), 2, 2), 2);
    let mut world = model.fresh();
    model.submit(&mut world).unwrap();
    world.lanes[0].release();
    let broken = world.driver.pump().unwrap_err();
    assert!(matches!(broken, LaneError::Channel(ChannelError::Closed)));
    // After the graph's end, a closed channel is no error.
    let mut world = model.fresh();
    model.submit(&mut world).unwrap();
    world.control.stop();
    world.lanes[0].release();
    assert!(!world.driver.pump().unwrap());
}

/// The number of executions that a model runs; `EXECUTIONS=3` takes some minutes in a debug build.
fn executions() -> u64 {
    std::env::var("EXECUTIONS").map_or(2, |text| text.parse().unwrap())
}

/// Graphs that deadlock in other systems: there and back over another lane, an exchange, a value read by two tasks of a
/// lane of which one needs the other, a diamond, and a pipeline of one forward and one backward.
fn shapes() -> Vec<GraphIr> {
    vec![
        graph(&[(1, &[0]), (2, &[1]), (1, &[2])], &[3]),
        graph(&[(1, &[0]), (2, &[0]), (1, &[2]), (2, &[1])], &[3, 4]),
        graph(&[(2, &[0]), (1, &[1]), (1, &[1, 2])], &[3]),
        graph(&[(1, &[0]), (2, &[1]), (3, &[1]), (1, &[2, 3])], &[4]),
        graph(&[(1, &[0]), (2, &[1]), (2, &[2]), (1, &[3])], &[4]),
    ]
}

#[test]
fn m6_every_order_of_lanes_gives_the_right_results_and_comes_to_an_end() {
    for (index, graph) in shapes().into_iter().enumerate() {
        for (slots, straight, least) in [(1, false, 20), (2, false, 20), (1, true, 10), (2, true, 10)] {
            let mut model = machine(planned(graph.clone(), slots, 2), executions());
            model.straight = straight;
            let states = holds(model);
            assert!(states > least, "shape {index}: {states} states");
        }
    }
}

#[test]
fn m6_a_wait_that_comes_too_early_is_found() {
    for shape in [0, 2] {
        let mut mutant = machine(planned(shapes().swap_remove(shape), 2, 2), 2);
        mutant.mutant = Mutant::WaitsEarly;
        is_found(
            mutant,
            &[
                "somebody waits for a result for ever",
                "nobody can submit any more",
            ],
        );
    }
}

#[test]
fn m8_results_are_fetched_dropped_and_torn_down_in_any_order() {
    for (drops, tears) in [(true, false), (false, true), (true, true)] {
        for inflight in [1, 2] {
            let graph = graph(&[(1, &[0]), (2, &[1])], &[1, 2]);
            let mut model = machine(planned(graph, inflight, inflight), executions());
            (model.drops, model.tears) = (drops, tears);
            holds(model);
        }
    }
}

#[test]
fn m8_an_execution_runs_through_or_is_given_a_place_whatever_comes_in_between() {
    for (drops, tears) in [(false, false), (true, false), (true, true)] {
        for inflight in [1, 2] {
            let graph = graph(&[(1, &[0]), (2, &[1])], &[2]);
            let mut model = machine(planned(graph, inflight, inflight), executions());
            (model.drops, model.tears, model.runs) = (drops, tears, true);
            let without = holds(Loop {
                runs: false,
                plan: model.plan.clone(),
                ..model
            });
            assert!(holds(model) > without, "it ran through nowhere");
        }
    }
}

#[test]
fn m8_mutants_are_found() {
    let with = |mutant, drops, tears| {
        let graph = graph(&[(1, &[0]), (2, &[1])], &[2]);
        Loop {
            drops,
            tears,
            mutant,
            ..machine(planned(graph, 2, 1), 3)
        }
    };
    is_found(
        with(Mutant::NoLimit, false, false),
        &["more executions are unfinished than allowed"],
    );
    is_found(
        with(Mutant::WrongRow, false, false),
        &[
            "a result is not that of its execution",
            "a result that nobody has taken is gone",
        ],
    );
    is_found(with(Mutant::Forgets, true, false), &["what nobody holds is kept"]);
    let unbooked = Loop {
        runs: true,
        ..with(Mutant::Unbooked, false, false)
    };
    is_found(
        unbooked,
        &[
            "a result that nobody has taken is gone",
            "nobody can submit any more",
        ],
    );
    is_found(
        with(Mutant::Silent, false, true),
        &[
            "a lane outlives the graph",
            "somebody waits for a result for ever",
        ],
    );
}
