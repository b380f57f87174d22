//! Plans that a process cannot load.

use selvedge_core::{Address, EdgePeers, EdgeReferences, LaneId, ProcessId, Runtime};

use super::{LoadError, Referring};
use crate::api::prepare::prepare;
use crate::ir::ValueId;
use crate::run::model::{graph, planned, recipe};

#[test]
fn an_edge_with_references_to_a_process_that_is_gone_is_an_error_with_the_names_of_its_actors() {
    let gone = ProcessId(2);
    let mut graph = graph(&[(1, &[0]), (2, &[1]), (1, &[2])], &[3]);
    graph.actors[1].home = Address::of(gone, LaneId(2));
    let plan = planned(graph, 1, 1);
    let runtime = Runtime::new();
    let values = (0..4).map(ValueId).collect();
    let mut referring = Referring {
        references: EdgeReferences::of(&runtime, EdgePeers::default()),
        values,
    };
    let refused = prepare(&plan, &recipe(&plan), Some(&referring), None)
        .err()
        .unwrap();
    assert!(matches!(refused, LoadError::NoProcess(_)), "{refused}");
    let (text, name) = (refused.to_string(), &plan.ir.actors[1].name);
    assert!(
        text.contains(&format!("the worker process of `{name}`, which has ended")),
        "{text}"
    );
    assert!(
        !text.contains(&gone.to_string()),
        "a number means nothing to the user: {text}"
    );
    // Without references in its values, the edge needs no process to count them.
    referring.values.clear();
    assert!(prepare(&plan, &recipe(&plan), Some(&referring), None).is_ok());
}
