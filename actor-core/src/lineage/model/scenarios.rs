//! The graphs that are explored, the mutants that are found in them, and long chains.

use super::{Extra, Graph, NestedCall, death, faults};
use selvedge_cluster::peer::ProcessId;

use crate::lineage::mutant::LineageMutant;
use crate::lineage::{Lineage, LineageStep, Lost, Spec};

fn graph(calls: &[(&'static [u64], Option<u32>)], deaths: u32) -> Graph {
    Graph {
        calls: calls.to_vec(),
        nested: Vec::new(),
        deaths,
        stale: true,
        bytes_max: 100,
        extras: Vec::new(),
        mutant: LineageMutant::None,
    }
}

fn chain(deaths: u32) -> Graph {
    graph(&[(&[], Some(2)), (&[0], Some(2))], deaths)
}

/// A call that reads another one twice, once by way of a third.
fn diamond(deaths: u32) -> Graph {
    graph(&[(&[], Some(1)), (&[0], Some(1)), (&[0, 1], Some(1))], deaths)
}

/// A pure call that reads one that is not.
fn mixed(deaths: u32) -> Graph {
    graph(&[(&[], None), (&[0], Some(1))], deaths)
}

fn nested(outer: u64, inputs: &'static [u64], retries: Option<u32>, is_shown: bool) -> NestedCall {
    NestedCall {
        outer,
        inputs,
        retries,
        is_shown,
    }
}

/// A pure call that submits others.
fn outer(retries: u32, nested: &[NestedCall], deaths: u32) -> Graph {
    Graph {
        nested: nested.to_vec(),
        ..graph(&[(&[], Some(retries))], deaths)
    }
}

/// A pure call that submits two, of which one reads the other and the user gets a reference to it.
fn read_by_another(deaths: u32) -> Graph {
    let calls = [nested(0, &[], Some(2), false), nested(0, &[1], Some(2), true)];
    outer(2, &calls, deaths)
}

/// A pure call that submits one, which submits one that is not pure.
fn deep(deaths: u32) -> Graph {
    let calls = [nested(0, &[], Some(1), false), nested(1, &[], None, false)];
    outer(2, &calls, deaths)
}

fn holds(graph: &Graph) {
    assert_eq!(faults(graph), [""; 0], "{graph:?}");
}

#[test]
fn rft_02_rft_03_rft_04_what_is_lost_is_made_again_once_and_what_is_there_is_not() {
    holds(&chain(2));
    holds(&diamond(1));
    if std::env::var_os("LARGE").is_some() {
        holds(&chain(3));
        holds(&diamond(2));
    }
}

#[test]
fn rft_11_rft_13_what_may_not_run_again_is_lost_and_late_results_are_refused() {
    holds(&mixed(2));
}

#[test]
fn o4_a_call_that_runs_again_adopts_what_it_has_submitted_and_what_is_not_pure_runs_once() {
    for is_shown in [false, true] {
        for retries in [None, Some(1)] {
            holds(&outer(2, &[nested(0, &[], retries, is_shown)], 2));
        }
    }
    holds(&read_by_another(1));
    holds(&deep(1));
    if std::env::var_os("LARGE").is_some() {
        holds(&read_by_another(2));
        holds(&deep(2));
    }
}

fn with(extra: Extra, graph: Graph) -> Graph {
    let extras = vec![extra];
    Graph { extras, ..graph }
}

#[test]
fn rft_04_a_loss_that_is_told_twice_has_one_run() {
    holds(&with(Extra::TellsTwice, chain(1)));
}

#[test]
fn what_has_failed_by_itself_is_not_made_again_and_its_readers_go_on() {
    holds(&with(Extra::Fails, chain(1)));
    holds(&with(Extra::Fails, mixed(1)));
}

#[test]
fn what_was_not_begun_or_was_dropped_for_want_of_room_does_not_count() {
    holds(&with(Extra::Withdraws, chain(2)));
    holds(&with(Extra::NeverGets, chain(2)));
    holds(&with(Extra::NeverGets, mixed(1)));
    holds(&with(Extra::Drops, chain(2)));
}

/// The second call returns a reference to the value of the first one, and a third reads it.
#[test]
fn what_stands_for_a_lost_value_is_there_again_with_that() {
    let read = graph(&[(&[], Some(1)), (&[], Some(1)), (&[1], Some(1))], 1);
    holds(&with(Extra::Follows(1, 0), read));
}

#[test]
fn a_limit_of_bytes_drops_the_oldest_specs() {
    holds(&Graph {
        bytes_max: 10,
        ..chain(2)
    });
}

#[test]
fn mutants_of_the_lineage_are_found() {
    let found = |mutant, graph: Graph| faults(&Graph { mutant, ..graph });
    assert!(found(LineageMutant::TakesStale, chain(1)).contains(&"refused"));
    assert!(found(LineageMutant::ForgetsInputs, chain(1)).contains(&"ready"));
    let told_twice = with(Extra::TellsTwice, chain(1));
    assert!(found(LineageMutant::RunsTwice, told_twice).contains(&"once"));
    assert!(found(LineageMutant::RunsImpure, mixed(1)).contains(&"counted"));
    let spent = graph(&[(&[], Some(1))], 2);
    assert!(found(LineageMutant::NeverSpent, spent).contains(&"counted"));
    assert!(found(LineageMutant::ForgetsSpecs, chain(1)).contains(&"ready"));
    let shown = |retries| outer(2, &[nested(0, &[], retries, true)], 1);
    assert!(found(LineageMutant::AdoptsNothing, shown(Some(1))).contains(&"adopted"));
    assert!(found(LineageMutant::AdoptsNothing, shown(None)).contains(&"counted"));
    assert!(found(LineageMutant::AdoptsUnheld, read_by_another(1)).contains(&"kept"));
    assert!(found(LineageMutant::HoldsNothing, deep(1)).contains(&"counted"));
}

fn spec(inputs: Vec<u64>) -> Spec {
    Spec {
        inputs,
        retries: Some(4),
        bytes: 8,
    }
}

/// Every value of the chain but the last is dropped when it was read; the last one is lost.
#[test]
fn rft_02_a_lost_chain_of_100_000_calls_runs_again_inputs_first_without_recursion() {
    const LENGTH: u64 = 100_000;
    let mut lineage = Lineage::new(usize::MAX);
    for call in 0..LENGTH {
        let inputs = call.checked_sub(1).into_iter().collect();
        assert_eq!(lineage.submit(call, spec(inputs)), usize::from(call > 0));
    }
    for call in 0..LENGTH - 1 {
        assert_eq!(lineage.released(call), []);
    }
    for call in 0..LENGTH {
        let steps = lineage.made(call, 1).unwrap();
        assert!(steps.len() <= 2, "{steps:?}");
    }
    let steps = lineage.lost(LENGTH - 1, false);
    let expected = (0..LENGTH).map(|call| LineageStep::Run {
        call,
        attempt: 2,
        missing: usize::from(call > 0),
    });
    assert!(steps.into_iter().eq(expected));
    assert_eq!(lineage.lost(LENGTH - 1, false), [], "one loss has one run");
    for call in 0..LENGTH {
        assert!(lineage.made(call, 1).is_none(), "of the attempt before");
        lineage.made(call, 2).unwrap();
    }
    let forgotten = lineage.released(LENGTH - 1);
    assert_eq!((forgotten.len() as u64, lineage.len()), (LENGTH + 1, 0));
}

#[test]
fn the_oldest_specs_are_dropped_at_the_limit_and_their_loss_says_so() {
    let mut lineage = Lineage::new(16);
    for call in 0..3 {
        lineage.submit(call, spec(Vec::new()));
        lineage.made(call, 1).unwrap();
    }
    let limit = 16;
    let why = Lost::LineageDropped { limit };
    assert_eq!(lineage.lost(0, false), [LineageStep::Fail { call: 0, why }]);
    let again = LineageStep::Run {
        call: 1,
        attempt: 2,
        missing: 0,
    };
    assert_eq!(lineage.lost(1, false), [again]);
}

#[test]
fn rft_11_a_call_is_run_again_four_times_by_default_and_the_error_counts() {
    let mut lineage = Lineage::new(1000);
    lineage.submit(7, spec(Vec::new()));
    for attempt in 1..=4 {
        let again = LineageStep::Run {
            call: 7,
            attempt: attempt + 1,
            missing: 0,
        };
        assert_eq!(lineage.died(7, attempt, &death(ProcessId::HEAD), true), [again]);
        assert_eq!(
            lineage.died(7, attempt, &death(ProcessId::HEAD), true),
            [],
            "of an attempt before"
        );
    }
    // A worker that never got the call counts for nothing.
    lineage.died(7, 5, &death(ProcessId::HEAD), false);
    let (attempts, deaths) = (6, 5);
    let why = Lost::RetriesSpent { attempts, deaths };
    assert_eq!(
        lineage.died(7, 6, &death(ProcessId::HEAD), true),
        [LineageStep::Fail { call: 7, why }]
    );
}
