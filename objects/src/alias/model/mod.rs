//! The models of aliases (M4), explored state by state with stateright.
//!
//! `classes` has the calls of one owner in every order, with handles that are dropped at any time. `owners` has aliases over
//! several owners, whose messages overtake each other.

mod classes;
mod owners;
mod scenarios;
mod table;

use selvedge_cluster::peer::{Incarnation, Peer, ProcessId};
use stateright::{Checker, Model};

use crate::refs::RefId;

fn peer(process: u32) -> Peer {
    Peer {
        process: ProcessId::new(process).unwrap(),
        incarnation: Incarnation(1),
    }
}

/// Reference `number` of the owner with this number.
fn reference(owner: u32, number: u64) -> RefId {
    RefId {
        owner: peer(owner),
        creator: peer(owner),
        number,
    }
}

/// Explores all states. Returns the names of the properties that do not hold.
fn faults<M>(name: &str, model: M) -> Vec<&'static str>
where
    M: Model + Send + Sync + 'static,
    M::State: Clone + Send + Sync + std::fmt::Debug + std::hash::Hash + PartialEq + 'static,
    M::Action: Clone + Send + Sync + std::fmt::Debug + PartialEq + 'static,
{
    let checker = model.checker().threads(1).spawn_bfs().join();
    println!("{name}: {} states", checker.unique_state_count());
    let discoveries = checker.discoveries();
    for (name, path) in &discoveries {
        println!("  {name}: {} steps", path.clone().into_actions().len());
    }
    let mut faults: Vec<_> = discoveries.into_keys().collect();
    faults.sort_unstable();
    faults
}
