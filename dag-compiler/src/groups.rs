//! Groups of ranks, from the collectives of a graph: one for each list of actors, however many collectives they do
//! (COMM-18). Ranks of one group do their collectives in the order of the one linear order, so that operations are matched by
//! their number.

use selvedge_core::ActorId;

use crate::ir::{CommunicatorPlan, GraphIr, RankPlan};

/// The groups, in the order in which collectives first ask for them.
pub(crate) fn groups(graph: &GraphIr) -> Vec<CommunicatorPlan> {
    let places = graph.places();
    let mut known: Vec<Vec<ActorId>> = Vec::new();
    for collective in &graph.collectives {
        let actors = graph.ranks(collective);
        if !known.contains(&actors) {
            known.push(actors);
        }
    }
    let rank = |actor: &ActorId| {
        let (process, lane) = places.get(actor).copied()?;
        Some(RankPlan {
            actor: *actor,
            lane,
            process,
        })
    };
    let group = |actors: &Vec<ActorId>| CommunicatorPlan {
        ranks: actors.iter().filter_map(rank).collect(),
    };
    known.iter().map(group).collect()
}
