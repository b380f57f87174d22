//! The check of a certificate against a plan: every lane's program is a projection of the order, and every value, party
//! and transfer stands before the steps that need it. One pass over positions; no search, and no code of the prover.

use std::collections::{BTreeMap, BTreeSet};

use super::{Certificate, Moment};
use crate::ir::{CollectiveId, LaneProgram, OpKind, Operation, Plan, TaskId, ValueId};

/// The positions of all steps and all completions in the order.
struct Positions<'a> {
    plan: &'a Plan,
    order: &'a [Moment],
    /// Tasks whose WRITE is a rendezvous.
    met: BTreeSet<TaskId>,
    steps: BTreeMap<Operation, usize>,
    completions: BTreeMap<CollectiveId, usize>,
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
            steps: BTreeMap::new(),
            completions: BTreeMap::new(),
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

    /// The position of a value's WRITE; `None` for an input, which is there from the beginning.
    fn written(&self, value: ValueId) -> Result<Option<usize>, String> {
        let write = |task| {
            self.at(Operation {
                task,
                kind: OpKind::Write,
            })
        };
        self.plan.ir.maker(value).map(write).transpose()
    }

    fn work(&self, task: TaskId) -> Result<usize, String> {
        let collective = self
            .plan
            .ir
            .task(task)
            .is_some_and(|task| task.collective.is_some());
        let kind = if collective {
            OpKind::Collective
        } else {
            OpKind::Compute
        };
        self.at(Operation { task, kind })
    }

    fn lane(&self, lane: &LaneProgram) -> Result<(), String> {
        let overlap = self.plan.settings.overlap;
        let mut meets: BTreeSet<ValueId> = lane
            .values
            .iter()
            .filter(|it| it.meets)
            .map(|it| it.value)
            .collect();
        let mut before = None;
        let mut transferred = None;
        for step in &lane.steps {
            let at = self.at(*step)?;
            if before.replace(at).is_some_and(|before| before >= at) {
                return Err(format!(
                    "the program of lane {} is no projection of the order",
                    lane.lane.0
                ));
            }
            let Some(task) = self.plan.ir.task(step.task) else {
                return Err(format!("task {} is not in the graph", step.task.0));
            };
            let late = |value| {
                let value = self.plan.ir.value_name(value);
                Err(format!(
                    "{} of `{}` stands before `{value}` is there",
                    step.kind, task.label
                ))
            };
            let mut transfer = None;
            match step.kind {
                OpKind::Read { .. } => {
                    let Some(value) = self.plan.ir.read_by(*step) else {
                        continue;
                    };
                    let Some(written) = self.written(value)? else {
                        continue;
                    };
                    let party = meets.remove(&value);
                    let holds = match (party, overlap) {
                        (true, true) => at < written && written < self.work(step.task)?,
                        (true, false) => self.one_moment(at, written, value),
                        (false, _) => written < at,
                    };
                    if !holds {
                        return late(value);
                    }
                    transfer = party.then_some(written);
                }
                OpKind::Collective if overlap => {
                    let collective = task.collective.and_then(|it| self.completions.get(&it)).copied();
                    transfer = Some(collective.ok_or("a collective that never completes")?);
                }
                OpKind::Write if self.met.contains(&step.task) => transfer = Some(at),
                OpKind::Compute | OpKind::Collective | OpKind::Write => {}
            }
            if let Some(now) = transfer.filter(|_| overlap)
                && transferred.replace(now).is_some_and(|before| before > now)
            {
                return Err(format!(
                    "the transfers of lane {} do not run in their order",
                    lane.lane.0
                ));
            }
        }
        Ok(())
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
        let mut parts: BTreeMap<CollectiveId, Vec<TaskId>> = BTreeMap::new();
        for (index, task) in self.plan.ir.tasks.iter().enumerate() {
            if let Some(collective) = task.collective {
                parts.entry(collective).or_default().push(TaskId(index as u32));
            }
        }
        for (collective, tasks) in parts {
            let posted = tasks
                .iter()
                .map(|task| self.work(*task))
                .collect::<Result<Vec<_>, _>>()?;
            let last = posted.iter().copied().max().unwrap_or_default();
            let first = posted.iter().copied().min().unwrap_or_default();
            let holds = if self.plan.settings.overlap {
                let completed = self.completions.get(&collective).copied().unwrap_or_default();
                let written = |task: &TaskId| {
                    self.at(Operation {
                        task: *task,
                        kind: OpKind::Write,
                    })
                };
                let next = tasks.iter().map(written).collect::<Result<Vec<_>, _>>()?;
                last < completed && next.iter().all(|write| completed < *write)
            } else {
                last - first + 1 == tasks.len()
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
