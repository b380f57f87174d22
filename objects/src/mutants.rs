//! The search for faults, by random histories and state by state: what the models of several folders have in common.

use std::any::Any;
use std::fmt::Debug;
use std::hash::Hash;
use std::panic::{AssertUnwindSafe, catch_unwind};

use proptest::strategy::Strategy;
use proptest::test_runner::{Config, RngAlgorithm, TestCaseError, TestError, TestRng, TestRunner};
use stateright::{Checker, HasDiscoveries, Model};

/// The fault that the first of 20 000 histories shows that panics when it is `run`: the text of the panic, which names the invariant that is
/// broken. Each search plays the histories of the search before, so chance decides nothing.
pub(crate) fn fault_of_a_history<S: Strategy>(histories: &S, run: impl Fn(S::Value)) -> Option<String> {
    let config = Config {
        cases: 20_000,
        failure_persistence: None,
        max_shrink_iters: 0,
        ..Config::default()
    };
    let seed = TestRng::deterministic_rng(RngAlgorithm::ChaCha);
    let found = TestRunner::new_with_rng(config, seed).run(histories, |history| {
        let run = catch_unwind(AssertUnwindSafe(|| run(history)));
        run.map_err(|payload| TestCaseError::fail(text(payload.as_ref())))
    });
    match found {
        Ok(()) => None,
        Err(TestError::Fail(why, _)) => Some(why.message().to_owned()),
        Err(TestError::Abort(why)) => panic!("no search: {why}"),
    }
}

/// Asserts that a mutant breaks an invariant, and that this is what a history shows first.
#[track_caller]
pub(crate) fn assert_breaks(mutant: impl Debug, invariant: &str, fault: Option<String>) {
    let Some(fault) = fault else {
        panic!("no history finds {mutant:?}")
    };
    assert!(
        fault.contains(invariant),
        "{mutant:?} breaks another one than {invariant}: {fault}"
    );
}

/// Explores the states of a model until there is enough of what does not hold. Returns the names of these properties.
pub(crate) fn explore<M>(what: &str, model: M, enough: HasDiscoveries) -> Vec<&'static str>
where
    M: Model + Send + Sync + 'static,
    M::State: Clone + Send + Sync + Debug + Hash + PartialEq + 'static,
    M::Action: Clone + Send + Sync + Debug + PartialEq + 'static,
{
    let checker = model.checker().threads(1).finish_when(enough);
    let checker = checker.spawn_bfs().join();
    println!("{what}: {} states", checker.unique_state_count());
    let discoveries = checker.discoveries();
    for (name, path) in &discoveries {
        println!("  {name}: {} steps", path.clone().into_actions().len());
    }
    let mut faults: Vec<_> = discoveries.into_keys().collect();
    faults.sort_unstable();
    faults
}

fn text(payload: &(dyn Any + Send)) -> String {
    let text = payload.downcast_ref::<&str>().map(|text| (*text).to_owned());
    let text = text.or_else(|| payload.downcast_ref::<String>().cloned());
    text.unwrap_or_else(|| "a panic without a text".to_owned())
}
