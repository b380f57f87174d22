//! A lane: its values, its tasks and its steps.

use std::sync::Arc;

use selvedge_collectives::Group;
use selvedge_core::{AsyncDriver, LaneId};

use super::ends::Rings;
use super::index::Places;
use super::ranks::LaneRanks;
use super::steps::{follow, steps};
use super::{LoadError, LoadSite};
use crate::ir::LaneProgram;
use crate::run::control::LaneWants;
use crate::run::lane::{LaneCursor, LaneLoop, LaneValues, TaskRun};
use crate::run::table::{Table, TaskIx};
use crate::run::trace::Recorder;

impl LoadSite<'_> {
    pub(super) fn lane(
        &self,
        program: &LaneProgram,
        places: &mut Places,
        rings: &mut Rings,
        groups: &[Group],
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
            waiting: self.plan.settings.waiting,
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
