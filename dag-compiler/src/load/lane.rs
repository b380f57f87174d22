//! A lane: its values, its tasks and its steps, and the lists that are assembled from several arguments.

use std::sync::Arc;

use selvedge_channels::{Inlet, Local};
use selvedge_collectives::Group;
use selvedge_core::{AsyncDriver, IdMap, LaneId, ListLevel, MethodEntry, ValueIx};

use super::ends::Rings;
use super::index::Places;
use super::ranks::LaneRanks;
use super::{LoadError, LoadSite};
use crate::ir::{self, LaneProgram, OpKind, Operation, TaskIr};
use crate::run::control::LaneWants;
use crate::run::lane::{GatherRun, LaneCursor, LaneLoop, LaneStep, LaneValues, Stretch, TaskRun};
use crate::run::table::{Table, TaskIx};
use crate::run::trace::Recorder;

impl LoadSite<'_> {
    pub(super) fn lane(
        &self,
        program: &LaneProgram,
        places: &mut Places,
        rings: &mut Rings,
        groups: &IdMap<usize, Group>,
    ) -> Result<LaneLoop, LoadError> {
        let mut values = LaneValues::with_capacity(program.values.len());
        for (index, value) in program.values.iter().enumerate() {
            let inlet = self.inlet(program, index, rings)?;
            let at = values.push(self.payload(value.value)?.value(inlet, value.reads)?);
            self.brought_on_the_way(program, value.value, values.last_mut())?;
            if let Some(place) = places.values.get_mut(value.value.index()) {
                *place = Some(at);
            }
        }
        let works = program.steps.iter().filter(|step| step.kind.is_work());
        let mut tasks: Table<TaskIx, TaskRun> = Table::with_capacity(works.count());
        let mut ranks = LaneRanks::default();
        for operation in &program.steps {
            if places.task_mut(operation.task)?.is_none() {
                let mut task = self.task(operation.task, places, &mut values, rings)?;
                if let Some(ir) = self.plan.ir.task(operation.task) {
                    task.collective = self.collective(ir, groups, &mut ranks)?;
                }
                *places.task_mut(operation.task)? = Some(tasks.push(task));
            }
        }
        let spans = self
            .layout
            .lanes
            .get(&program.address.lane)
            .ok_or(LoadError::Inconsistent("a lane without memory"))?;
        let progress = self.control.progress_line(program.address.lane);
        let is_poster = |(index, task): (usize, &TaskRun)| task.overlaps().then_some(TaskIx(index));
        let posters = tasks.iter().enumerate().filter_map(is_poster).collect();
        let steps = steps(&program.steps, &places.tasks)?;
        follow(&steps, &mut tasks)?;
        Ok(LaneLoop {
            lane: program.address.lane,
            values,
            ranks: ranks.runs,
            steps,
            tasks,
            ports: Vec::new(),
            leaves: Vec::new(),
            control: self.control.clone(),
            bell: self.bell(program.address.lane)?,
            progress: progress.ok_or(LoadError::Inconsistent("a lane without a progress line"))?,
            waiting: self.control.waiting(self.plan.settings.waiting),
            spins: false,
            recorder: Recorder::new(self.region(&spans.trace)?),
            driver: self.driver(program.address.lane)?,
            wants: self.wants(program.address.lane)?,
            posters,
            posted: 0,
            state: LaneCursor::default(),
        })
    }

    /// The driver of a lane's async methods.
    fn driver(&self, lane: LaneId) -> Result<AsyncDriver, LoadError> {
        Ok(AsyncDriver::with_wanted(Box::new(self.wanted(lane)?)))
    }

    /// The check whether the results of a lane's executions are still wanted.
    pub(super) fn wants(&self, lane: LaneId) -> Result<Arc<LaneWants>, LoadError> {
        Ok(Arc::new(self.wanted(lane)?))
    }

    fn wanted(&self, lane: LaneId) -> Result<LaneWants, LoadError> {
        let wanted = self.control.wanted(lane);
        wanted.ok_or(LoadError::Inconsistent("a lane without a progress line"))
    }
}

/// Converts a lane's operations to steps. All READs of a task become one wait right before its work: channels have
/// slots, so no writer waits for a READ, and a later wait holds up less. Tasks whose WRITE comes right after their work
/// form stretches.
pub(super) fn steps(operations: &[Operation], tasks: &[Option<TaskIx>]) -> Result<Vec<LaneStep>, LoadError> {
    let mut steps: Vec<LaneStep> = Vec::new();
    for operation in operations {
        let task = tasks.get(operation.task.index()).copied().flatten();
        let task = task.ok_or(LoadError::Inconsistent("an operation of an unknown task"))?;
        match operation.kind {
            OpKind::Read { .. } => {}
            OpKind::Compute | OpKind::Collective => steps.push(LaneStep::Begin(task)),
            OpKind::Write if steps.last() == Some(&LaneStep::Begin(task)) => {
                steps.pop();
                run(&mut steps, task);
            }
            OpKind::Write => steps.push(LaneStep::Finish(task)),
        }
    }
    Ok(steps)
}

/// Adds a whole task to the stretch at the end of the steps, or begins a stretch.
fn run(steps: &mut Vec<LaneStep>, task: TaskIx) {
    match steps.last_mut() {
        Some(LaneStep::Run(stretch)) if stretch.first.0 + stretch.len == task.0 => stretch.len += 1,
        _ => steps.push(LaneStep::Run(Stretch { first: task, len: 1 })),
    }
}

/// Tells each task of a stretch which task comes before it.
pub(super) fn follow(steps: &[LaneStep], tasks: &mut Table<TaskIx, TaskRun>) -> Result<(), LoadError> {
    for step in steps {
        let LaneStep::Run(stretch) = *step else { continue };
        let mut before = None;
        for task in tasks.range_mut(stretch.first, stretch.len)? {
            if let Some(straight) = &mut task.straight {
                straight.come_after(before);
            }
            before = task.straight;
        }
    }
    Ok(())
}

/// The positions of a task's parameters among the lane's values, and the lists among them, inner lists first.
pub(super) fn lists(
    task: &TaskIr,
    method: Option<&MethodEntry>,
    args: &[ValueIx],
    values: &mut LaneValues,
) -> Result<(Vec<ValueIx>, Vec<GatherRun>), LoadError> {
    let mut gathers = Vec::new();
    let Some(method) = method.filter(|_| !task.groups.is_empty()) else {
        return Ok((args.to_vec(), gathers));
    };
    let mut args = args.iter().copied();
    let mut params = Vec::with_capacity(task.groups.len());
    for (group, param) in task.groups.iter().zip(method.params) {
        params.push(parameter(
            group,
            &(param.lists)(),
            &mut args,
            values,
            &mut gathers,
        )?);
    }
    Ok((params, gathers))
}

fn parameter(
    group: &ir::ArgGroup,
    levels: &[ListLevel],
    args: &mut dyn Iterator<Item = ValueIx>,
    values: &mut LaneValues,
    gathers: &mut Vec<GatherRun>,
) -> Result<ValueIx, LoadError> {
    let members = match group {
        ir::ArgGroup::One => return args.next().ok_or(LoadError::Inconsistent("too few arguments")),
        ir::ArgGroup::List(members) => members,
    };
    let (level, inner) = levels
        .split_first()
        .ok_or(LoadError::Inconsistent("a list for what is none"))?;
    let mut found = Vec::with_capacity(members.len());
    for member in members {
        found.push(parameter(member, inner, args, values, gathers)?);
    }
    let into = values.push(level.list.value(Inlet::Local(Local), 1)?);
    gathers.push(GatherRun {
        gather: level.gather,
        members: found,
        into,
    });
    Ok(into)
}
