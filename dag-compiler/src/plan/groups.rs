//! Groups of ranks, derived from the collectives of a graph. There is one group for each list of actors, however many
//! collectives these actors do together (COMM-18). The ranks of one group run their collectives in the one linear
//! order, so operations are matched by their number.

use selvedge_core::ActorId;

use crate::ir::{CommunicatorPlan, GraphIr, RankPlan};

/// Returns the groups, in the order of the first collective of each group.
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
        let (actor, address) = (*actor, *places.get(actor)?);
        Some(RankPlan { actor, address })
    };
    let group = |actors: &Vec<ActorId>| CommunicatorPlan {
        ranks: actors.iter().filter_map(rank).collect(),
    };
    known.iter().map(group).collect()
}
