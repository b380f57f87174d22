//! Random graphs in which every edge between lanes is a rendezvous, and tampered plans of them.

use std::collections::BTreeMap;

use selvedge_compiler::ir::{CollectiveId, GraphIr, Plan, ValueId};
use selvedge_compiler::prove::{Refutation, prove};
use selvedge_core::ActorId;

use crate::machine::Random;
use crate::text::Sketch;

/// The number of lanes, besides the writer's, that may read a value.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Readers {
    One,
    Several,
}

/// A graph under construction, and the lanes that read each value.
struct Drawing {
    sketch: Sketch,
    readers: Readers,
    actors: Vec<ActorId>,
    /// By value: the writer's lane; `None` for the input.
    written: Vec<Option<u32>>,
    read: BTreeMap<ValueId, u32>,
}

impl Drawing {
    fn lane(&self, actor: ActorId) -> u32 {
        self.sketch.graph.actors[actor.0 as usize].lane.0
    }

    /// Draws a value that an actor may read from the known ones; prefers one of another lane.
    fn argument(&mut self, actor: ActorId, known: usize, random: &mut Random) -> ValueId {
        let lane = self.lane(actor);
        let drawn = [(); 3].map(|()| random.below(known));
        let far = |value: &usize| self.written[*value].is_some_and(|writer| writer != lane);
        let across = drawn.into_iter().find(far);
        let value = ValueId(across.unwrap_or(drawn[0]) as u32);
        let taken = across.is_some() && *self.read.entry(value).or_insert(lane) != lane;
        if taken && self.readers == Readers::One {
            return ValueId(0);
        }
        value
    }

    /// Adds a task for each of these actors, with arguments among the values that existed before.
    fn tasks(&mut self, ranks: &[ActorId], collective: Option<CollectiveId>, random: &mut Random) {
        let known = self.written.len();
        for actor in ranks {
            let count = 1 + random.below(2);
            let args: Vec<_> = (0..count)
                .map(|_| Some(self.argument(*actor, known, random)))
                .collect();
            self.sketch.task(*actor, "f", &args, known);
            let task = self.sketch.graph.tasks.last_mut().unwrap();
            task.collective = collective;
            task.meets = (0..count as u32).collect();
            self.written.push(Some(self.lane(*actor)));
        }
    }

    /// Draws actors, at most one of each lane.
    fn group(&self, random: &mut Random) -> Vec<ActorId> {
        let mut lanes = Vec::new();
        let mut ranks = Vec::new();
        for actor in &self.actors {
            let lane = self.lane(*actor);
            if !lanes.contains(&lane) && random.below(2) == 0 {
                lanes.push(lane);
                ranks.push(*actor);
            }
        }
        ranks
    }
}

/// A random graph over 2 to 4 lanes, of up to some 10 tasks, some of them ranks of collectives; every value that goes
/// from lane to lane is a rendezvous.
pub fn random_graph(readers: Readers, random: &mut Random) -> GraphIr {
    let mut sketch = Sketch::new();
    let mut actors = Vec::new();
    for lane in 1..=2 + random.below(3) as u32 {
        for _ in 0..1 + random.below(2) {
            let index = actors.len();
            actors.push(sketch.actor(&format!("a{index}"), lane, 0));
            sketch.graph.actors[index].commutes = random.below(2) == 0;
        }
    }
    sketch.input();
    let mut drawing = Drawing {
        sketch,
        readers,
        actors,
        written: vec![None],
        read: BTreeMap::new(),
    };
    let tasks = 4 + random.below(7);
    let mut collectives = 0;
    while drawing.sketch.graph.tasks.len() < tasks {
        let group = if random.below(5) == 0 {
            drawing.group(random)
        } else {
            Vec::new()
        };
        if group.len() > 1 {
            drawing.tasks(&group, Some(CollectiveId(collectives)), random);
            collectives += 1;
        } else {
            let actor = drawing.actors[random.below(drawing.actors.len())];
            drawing.tasks(&[actor], None, random);
        }
    }
    drawing.sketch.finish()
}

fn is_well_formed(plan: &Plan) -> bool {
    !matches!(prove(plan), Err(Refutation::Malformed(_)))
}

/// Changes a lane's program once so that it stays well-formed, if such a change is found: exchanges two steps, moves
/// one, or moves all steps of a task.
pub fn tamper(plan: &mut Plan, random: &mut Random) {
    for _ in 0..20 {
        let mut changed = plan.clone();
        let lane = random.below(changed.lanes.len());
        let steps = &mut changed.lanes[lane].steps;
        if steps.len() < 2 {
            continue;
        }
        let (from, to) = (random.below(steps.len()), random.below(steps.len()));
        match random.below(3) {
            0 => steps.swap(from, to),
            1 => {
                let step = steps.remove(from);
                steps.insert(to, step);
            }
            _ => {
                let task = steps[from].task;
                let (moved, mut left): (Vec<_>, Vec<_>) =
                    steps.iter().copied().partition(|step| step.task == task);
                let to = to.min(left.len());
                left.splice(to..to, moved);
                *steps = left;
            }
        }
        if changed != *plan && is_well_formed(&changed) {
            *plan = changed;
            return;
        }
    }
}
