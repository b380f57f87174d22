//! The model of aliases (M4), explored state by state with stateright.
//!
//! `classes` has the calls in every order, with handles that are dropped at any time.

mod classes;
mod scenarios;
mod table;

use selvedge_cluster::peer::ProcessId;

use crate::refs::RefId;

/// The reference with this number.
fn id(number: u64) -> RefId {
    let owner = ProcessId::HEAD.first_life();
    RefId {
        owner,
        creator: owner,
        number,
    }
}
