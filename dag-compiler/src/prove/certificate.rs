//! The check of a certificate against a plan: every lane's program is a projection of the order, and every value, party
//! and transfer stands before the steps that need it. One pass over positions; no search, and no code of the prover.

use super::{Certificate, Moment};
use crate::ir::{CollectiveId, LaneProgram, OpKind, Operation, Plan, TaskId, ValueId};
use selvedge_core::{IdMap, IdSet};

/// The positions of all steps and all completions in the order.
struct Positions<'a> {
    plan: &'a Plan,
    order: &'a [Moment],
    /// Tasks whose WRITE is a rendezvous.
    met: IdSet<TaskId>,
    steps: IdMap<Operation, usize>,
    completions: IdMap<CollectiveId, usize>,
}

impl Certificate {
    /// Checks that this order certifies the plan. O((steps + edges) log steps).
    ///
    /// # Errors
    /// The first condition that does not hold, in words.
    pub fn check(&self, plan: &Plan) -> Result<(), String> {
        let origins = plan
            .lanes
            .iter()
            .flat_map(|lane| &lane.values)
            .filter(|it| it.meets);
        let met = origins.filter_map(|it| plan.ir.maker(it.value));
        let mut positions = Positions {
            plan,
            order: &self.order,
            met: met.collect(),
            steps: IdMap::new(),
            completions: IdMap::new(),
        };
        for (at, moment) in self.order.iter().enumerate() {
            let before = match moment {
                Moment::Step(step) => positions.steps.insert(*step, at),
                Moment::Completion(collective) => positions.completions.insert(*collective, at),
            };
            if before.is_some() {
                return Err(format!("{moment:?} stands twice"));
            }
        }
        let steps: usize = plan.lanes.iter().map(|lane| lane.steps.len()).sum();
        if steps != positions.steps.len() {
            return Err(format!(
                "{} steps are ordered, the plan has {steps}",
                positions.steps.len()
            ));
        }
        for lane in &plan.lanes {
            positions.lane(lane)?;
        }
        positions.collectives()
    }
}

impl Positions<'_> {
    fn at(&self, step: Operation) -> Result<usize, String> {
        let found = self.steps.get(&step).copied();
        found.ok_or_else(|| format!("{} of task {} is not ordered", step.kind, step.task.0))
    }

    fn write(&self, task: TaskId) -> Result<usize, String> {
        let kind = OpKind::Write;
        self.at(Operation { task, kind })
    }

    /// The position of a value's WRITE; `None` for an input, which is there from the beginning.
    fn written(&self, value: ValueId) -> Result<Option<usize>, String> {
        let maker = self.plan.ir.maker(value);
        maker.map(|task| self.write(task)).transpose()
    }

    fn work(&self, task: TaskId) -> Result<usize, String> {
        let collective = self.plan.ir.task(task).and_then(|task| task.collective);
        let kind = collective.map_or(OpKind::Compute, |_| OpKind::Collective);
        self.at(Operation { task, kind })
    }

    /// Checks that a lane's program is a projection of the order, and that its transfers run in their order.
    fn lane(&self, lane: &LaneProgram) -> Result<(), String> {
        let overlap = self.plan.settings.overlap;
        let met = lane.values.iter().filter(|it| it.meets);
        let mut meets: IdSet<ValueId> = met.map(|it| it.value).collect();
        let (mut before, mut transferred) = (None, None);
        for step in &lane.steps {
            let at = self.at(*step)?;
            if before.replace(at).is_some_and(|before| before >= at) {
                let lane = lane.address.lane.0;
                return Err(format!(
                    "the program of lane {lane} is no projection of the order"
                ));
            }
            let transfer = match step.kind {
                OpKind::Read { .. } => self.receive(*step, at, &mut meets)?,
                OpKind::Collective if overlap => Some(self.completion(step.task)?),
                OpKind::Write if self.met.contains(&step.task) => Some(at),
                OpKind::Compute | OpKind::Collective | OpKind::Write => None,
            };
            if let Some(now) = transfer.filter(|_| overlap)
                && transferred.replace(now).is_some_and(|before| before > now)
            {
                let lane = lane.address.lane.0;
                return Err(format!("the transfers of lane {lane} do not run in their order"));
            }
        }
        Ok(())
    }

    /// Checks that the value of a READ is there. Returns the position of the transfer if the READ takes part in one:
    /// if its value is in `meets`, from which it is removed.
    fn receive(
        &self,
        step: Operation,
        at: usize,
        meets: &mut IdSet<ValueId>,
    ) -> Result<Option<usize>, String> {
        let ir = &self.plan.ir;
        let unknown = || format!("task {} is not in the graph", step.task.0);
        let task = ir.task(step.task).ok_or_else(unknown)?;
        let Some(value) = ir.read_by(step) else {
            return Ok(None);
        };
        let Some(written) = self.written(value)? else {
            return Ok(None);
        };
        let party = meets.remove(&value);
        let holds = match (party, self.plan.settings.overlap) {
            (true, true) => at < written && written < self.work(step.task)?,
            (true, false) => self.one_moment(at, written, value),
            (false, _) => written < at,
        };
        if !holds {
            let (value, label) = (ir.value_name(value), &task.label);
            return Err(format!(
                "{} of `{label}` stands before `{value}` is there",
                step.kind
            ));
        }
        Ok(party.then_some(written))
    }

    /// The position of the completion of a task's collective.
    fn completion(&self, task: TaskId) -> Result<usize, String> {
        let collective = self.plan.ir.task(task).and_then(|task| task.collective);
        let completed = collective.and_then(|it| self.completions.get(&it)).copied();
        completed.ok_or_else(|| "a collective that never completes".to_owned())
    }

    /// Whether everything between a WRITE and a READ belongs to the same rendezvous.
    fn one_moment(&self, read: usize, written: usize, value: ValueId) -> bool {
        let ir = &self.plan.ir;
        let maker = ir.maker(value);
        let between = self
            .order
            .get(read.min(written)..=read.max(written))
            .unwrap_or_default();
        between.iter().all(|moment| match moment {
            Moment::Step(step) if step.kind == OpKind::Write => Some(step.task) == maker,
            Moment::Step(step) => ir.read_by(*step).is_some_and(|read| ir.maker(read) == maker),
            Moment::Completion(_) => false,
        })
    }

    /// Checks that every part of a collective is there before any rank goes on: as one moment, or before its
    /// completion.
    fn collectives(&self) -> Result<(), String> {
        let mut parts: IdMap<CollectiveId, Vec<TaskId>> = IdMap::new();
        for (index, task) in self.plan.ir.tasks.iter().enumerate() {
            if let Some(collective) = task.collective {
                parts.push_to(collective, TaskId(index as u32));
            }
        }
        for (collective, tasks) in parts {
            let posted = tasks.iter().map(|task| self.work(*task));
            let posted = posted.collect::<Result<IdSet<usize>, _>>()?;
            let (first, last) = (posted.first().copied(), posted.last().copied());
            let holds = if self.plan.settings.overlap {
                let completed = self.completions.get(&collective).copied();
                let next = tasks.iter().map(|task| self.write(*task));
                let next = next.collect::<Result<IdSet<usize>, _>>()?;
                last < completed && completed < next.first().copied()
            } else {
                last.zip(first).map(|(last, first)| last - first + 1) == Some(tasks.len())
            };
            if !holds {
                return Err(format!(
                    "the parts of collective {} are not there together",
                    collective.0
                ));
            }
        }
        Ok(())
    }
}
