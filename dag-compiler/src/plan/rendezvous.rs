//! Rendezvous: the READs at which a reader and its writer take part in one transfer.

use selvedge_core::{ActorId, Address, IdMap, IdSet};

use crate::ir::{GraphIr, TaskIr, ValueId};

/// The values for which a reader asks for a rendezvous, each with the reader's lane.
#[derive(Default)]
struct Asked {
    /// The values that another lane makes.
    crossing: IdSet<(Address, ValueId)>,
    /// The values that the reader's lane makes itself. They stay there, so no transfer takes place.
    staying: IdSet<(Address, ValueId)>,
}

impl Asked {
    fn of(graph: &GraphIr, places: &IdMap<ActorId, Address>) -> Self {
        let place = |task: &TaskIr| places.get(&task.actor).copied();
        let mut asked = Asked::default();
        for task in graph.tasks.iter().filter(|task| !task.meets.is_empty()) {
            let Some(reader) = place(task) else { continue };
            for (_, value) in GraphIr::reads(task).filter(|(arg, _)| task.meets_at(*arg)) {
                let maker = graph.maker(value).and_then(|maker| graph.task(maker));
                match maker.and_then(place) {
                    Some(writer) if writer == reader => asked.staying.insert((reader, value)),
                    Some(_) => asked.crossing.insert((reader, value)),
                    None => false,
                };
            }
        }
        asked
    }
}

/// Returns notes about rendezvous that are asked for and ignored, one for each lane.
pub(crate) fn ignored(graph: &GraphIr) -> Vec<String> {
    let asked = Asked::of(graph, &graph.places());
    let staying: Vec<(Address, ValueId)> = asked.staying.into_iter().collect();
    let note = |of_lane: &[(Address, ValueId)]| {
        let lane = of_lane.first().map_or(0, |(reader, _)| reader.lane.0);
        let names: Vec<String> = of_lane
            .iter()
            .map(|(_, value)| graph.value_name(*value))
            .collect();
        let names = names.join(", ");
        format!("a rendezvous was asked for and is ignored on lane {lane}, which makes and reads: {names}")
    };
    staying.chunk_by(|one, next| one.0 == next.0).map(note).collect()
}

/// The READs that take part in a rendezvous. For each value and each lane other than the writer's, the lane's first
/// READ of the value takes part if any of the lane's READs of the value asks for a rendezvous. The other READs use the
/// value that the first READ has received.
pub(super) struct RendezvousReads {
    places: IdMap<ActorId, Address>,
    /// The pairs of lane and value whose first READ has not been lowered yet.
    waiting: IdSet<(Address, ValueId)>,
}

impl RendezvousReads {
    pub(super) fn of(graph: &GraphIr) -> Self {
        let places = graph.places();
        let waiting = Asked::of(graph, &places).crossing;
        RendezvousReads { places, waiting }
    }

    /// Whether the READ of `value` by `task` is the one that takes part in a rendezvous. Called in the order of tasks.
    pub(super) fn begins(&mut self, value: ValueId, task: &TaskIr) -> bool {
        if self.waiting.is_empty() {
            return false;
        }
        let reader = self.places.get(&task.actor);
        reader.is_some_and(|reader| self.waiting.remove(&(*reader, value)))
    }
}
