//! `Runtime::submit`, and waits for values that stay where they are.

use std::collections::BTreeMap;

use selvedge::prelude::*;
use selvedge::{FetchError, SetError};

use super::gate::{Gate, wait_at};

#[remote]
fn pid() -> u32 {
    std::process::id()
}

/// Other functions have other threads.
#[remote]
async fn later(gate: &str, x: u64) -> u64 {
    wait_at(gate);
    x
}

#[remote]
fn plus(x: u64, y: u64) -> u64 {
    x + y
}

#[remote]
async fn minus(x: u64, y: u64) -> Result<u64> {
    x.checked_sub(y).ok_or_else(|| "below zero".into())
}

/// A value that serde does not know.
struct Model(u64);

#[remote]
fn load(scale: u64) -> Model {
    Model(scale)
}

#[remote]
async fn load_later(gate: &str) -> Model {
    wait_at(gate);
    Model(1)
}

#[remote]
fn infer(#[here] model: &Model, x: u64) -> u64 {
    model.0 * x
}

/// Waits for the model, and gives its thread to others meanwhile.
#[remote]
fn wait_for(model: Ref<Model>) -> Result<bool> {
    model.ready()?;
    Ok(model.is_ready()?)
}

#[remote]
async fn await_it(model: Ref<Model>) -> Result<()> {
    Ok(model.until_ready().await?)
}

#[test]
fn submitted_functions_take_the_workers_in_turn() {
    let runtime = Runtime::new();
    let workers = ["a", "b", "c"].map(|name| runtime.worker(name).unwrap());
    let pids: Vec<Ref<u32>> = (0..6).map(|_| runtime.submit(pid::remote())).collect();
    let mut runs: BTreeMap<u32, usize> = BTreeMap::new();
    for pid in pids {
        *runs.entry(*pid.fetch().unwrap()).or_default() += 1;
    }
    let expected = workers.iter().map(|worker| (worker.pid().unwrap(), 2)).collect();
    assert_eq!(runs, expected);
    let here = Runtime::new();
    assert_eq!(*here.submit(pid::remote()).fetch().unwrap(), std::process::id());
}

#[test]
fn a_chain_of_submitted_functions_waits_without_threads() {
    let runtime = Runtime::new();
    let _workers = ["a", "b"].map(|name| runtime.worker(name).unwrap());
    let gate = Gate::closed("chain");
    let first: Ref<u64> = runtime.submit(later::remote(&gate.path, 1));
    let mut last = first.clone();
    for i in 0..400 {
        last = match i % 4 {
            3 => runtime.submit(minus::remote(&last, 1)),
            _ => runtime.submit(plus::remote(&last, &first)),
        };
    }
    // Both workers have a thread for this one.
    for _ in 0..2 {
        assert_eq!(*runtime.submit(plus::remote(20, 1)).fetch().unwrap(), 21);
    }
    assert!(!last.is_ready().unwrap());
    drop(gate);
    assert_eq!(*last.fetch().unwrap(), 201);
    assert!(first.is_ready().unwrap());
}

#[test]
fn a_failure_passes_through_submitted_functions() {
    let runtime = Runtime::new();
    let _workers = ["a", "b"].map(|name| runtime.worker(name).unwrap());
    let failed: Ref<u64> = runtime.submit(minus::remote(1, 2));
    let after: Ref<u64> = runtime.submit(plus::remote(1, &failed));
    let error = after.fetch().unwrap_err();
    assert!(matches!(error, FetchError::Failed { .. }), "{error}");
    assert!(error.to_string().contains("below zero"), "{error}");
}

#[test]
fn an_error_names_the_function_that_failed_first_its_process_and_the_reason_once_each() {
    let runtime = Runtime::new();
    let [a, b] = ["a", "b"].map(|name| runtime.worker(name).unwrap());
    let failed: Ref<u64> = a.keep(minus::remote(1, 2));
    let after: Ref<u64> = b.keep(plus::remote(1, &failed));
    let fetched = after.fetch().unwrap_err();
    let called = runtime.call(plus::remote(1, &after).on(&a)).wait().unwrap_err();
    let texts = [
        fetched.to_string(),
        format!("{fetched:?}"),
        called.to_string(),
        format!("{called:?}"),
    ];
    for text in texts {
        let first = format!("minus` on worker `a` ({}) failed: below zero", a.process());
        let second = format!("plus` on worker `b` ({}) failed: ", b.process());
        for part in [first.as_str(), second.as_str(), "minus", "below zero"] {
            assert_eq!(text.matches(part).count(), 1, "{part}: {text}");
        }
    }
}

#[test]
fn a_submitted_function_with_a_value_goes_to_the_value() {
    let runtime = Runtime::new();
    let workers = ["a", "b"].map(|name| runtime.worker(name).unwrap());
    for worker in &workers {
        let model: Ref<Model> = worker.keep(load::remote(3));
        let six: Ref<u64> = runtime.submit(infer::remote(&model, 2));
        let twelve: Ref<u64> = runtime.submit(infer::remote(&model, &six).on(worker));
        // The driver owns what was submitted, wherever the function has run.
        assert_eq!(six.owner().process.number(), 1);
        assert_eq!(*twelve.fetch().unwrap(), 18);
    }
}

#[test]
fn jrem_04_a_wait_for_a_value_leaves_it_where_it_is() {
    let runtime = Runtime::new();
    let [a, b] = ["a", "b"].map(|name| runtime.worker(name).unwrap());
    let gate = Gate::closed("ready");
    let model: Ref<Model> = a.keep(load_later::remote(&gate.path));
    let waits: Vec<_> = [&b, &b, &a, &a]
        .map(|worker| runtime.call(wait_for::remote(&model).on(worker)))
        .into_iter()
        .collect();
    let awaits = runtime.call(await_it::remote(&model).on(&b));
    assert!(!model.is_ready().unwrap());
    drop(gate);
    for wait in waits {
        assert!(wait.wait().unwrap());
    }
    awaits.wait().unwrap();
    model.ready().unwrap();
    assert!(model.is_ready().unwrap());
    model.release();
}

/// Sets the value, unless another process has set it before.
#[remote]
fn offer(place: Ref<u64>, x: u64) -> bool {
    match place.set(x) {
        Ok(()) => true,
        Err(SetError::AlreadySet { .. }) => false,
        Err(other) => panic!("{other}"),
    }
}

#[test]
fn jrem_14_one_of_many_sets_the_value_and_calls_wait_for_it() {
    let runtime = Runtime::new();
    let [a, b] = ["a", "b"].map(|name| runtime.worker(name).unwrap());
    for place in [a.unset::<u64>(), runtime.unset()] {
        let waiting: Vec<_> = [&a, &b]
            .map(|worker| runtime.call(plus::remote(&place, 1000).on(worker)))
            .into_iter()
            .collect();
        assert!(!place.is_ready().unwrap());
        let offers: Vec<_> = (0..20)
            .map(|x| {
                let worker = if x % 2 == 0 { &a } else { &b };
                runtime.call(offer::remote(&place, x).on(worker))
            })
            .collect();
        let taken: Vec<u64> = (0..)
            .zip(offers)
            .filter_map(|(x, offer)| offer.wait().unwrap().then_some(x))
            .collect();
        let [first] = taken[..] else { panic!("{taken:?}") };
        assert!(matches!(place.set(77), Err(SetError::AlreadySet { .. })));
        assert_eq!(*place.fetch().unwrap(), first);
        for call in waiting {
            assert_eq!(call.wait().unwrap(), first + 1000);
        }
    }
}
