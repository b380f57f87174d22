//! The search for faults by random histories: what the models of several folders have in common.

use std::panic::{AssertUnwindSafe, catch_unwind};

use proptest::strategy::Strategy;
use proptest::test_runner::{Config, RngAlgorithm, TestCaseError, TestRng, TestRunner};

/// Whether one of 20 000 histories, when it is `run`, panics. Each search plays the histories of the search before, so chance decides nothing.
pub(crate) fn a_history_panics<S: Strategy>(histories: &S, run: impl Fn(S::Value)) -> bool {
    let config = Config {
        cases: 20_000,
        failure_persistence: None,
        max_shrink_iters: 0,
        ..Config::default()
    };
    let seed = TestRng::deterministic_rng(RngAlgorithm::ChaCha);
    let found = TestRunner::new_with_rng(config, seed).run(histories, |history| {
        let run = catch_unwind(AssertUnwindSafe(|| run(history)));
        run.map_err(|_| TestCaseError::fail("found"))
    });
    found.is_err()
}
