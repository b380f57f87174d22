//! Globals.

use std::sync::atomic::{AtomicUsize, Ordering};

use selvedge::parallel::{Global, GlobalError, GlobalInfo};
use selvedge::prelude::*;
use selvedge::{Worker, remote};
use serde::{Deserialize, Serialize};

use crate::census::wait_until;
use crate::pool_of;

#[remote]
fn sum_of(#[global] matrix: &[f64], factor: f64) -> f64 {
    matrix.iter().sum::<f64>() * factor
}

#[remote]
async fn shared_sum(#[global] matrix: std::sync::Arc<Vec<f64>>) -> f64 {
    matrix.iter().sum()
}

/// The bytes that all links of a runtime have sent.
fn sent(runtime: &Runtime) -> u64 {
    runtime.traffic().iter().map(|link| link.counts.bytes_sent).sum()
}

const BYTES: u64 = 80_000;

#[test]
fn jdata_02_jdata_05_a_value_is_sent_with_a_call_to_a_worker_that_lacks_it_and_then_no_more() {
    let (runtime, workers, _pool) = pool_of(2);
    let matrix = runtime.global("matrix");
    let call = |worker: &Worker| {
        runtime
            .call(sum_of::remote(&matrix, 2.0).on(worker))
            .wait()
            .unwrap()
    };
    let moved = |work: &dyn Fn()| {
        let before = sent(&runtime);
        work();
        sent(&runtime) - before
    };
    matrix.set(vec![1.0; 10_000]).unwrap();
    // One call of each worker, so that what the first call makes is there.
    runtime.everywhere(crate::whereabouts::remote(0)).unwrap();
    assert!(
        moved(&|| matrix.set(vec![2.0; 10_000]).unwrap()) < 1000,
        "a set sends nothing"
    );
    let first = moved(&|| assert_eq!(call(&workers[0]), 40_000.0));
    assert!((BYTES..BYTES + 2000).contains(&first), "{first}");
    let again = moved(&|| (0..10).for_each(|_| assert_eq!(call(&workers[0]), 40_000.0)));
    assert!(again < BYTES / 4, "{again} in ten calls");
    let other = moved(&|| assert_eq!(call(&workers[1]), 40_000.0));
    assert!((BYTES..BYTES + 2000).contains(&other), "{other}");

    // Workers are not kept equal: nobody has asked the second one since.
    matrix.set(vec![3.0; 10_000]).unwrap();
    assert_eq!(call(&workers[0]), 60_000.0);
    let versions = workers.each_ref_version(&runtime);
    assert_eq!(versions, [3, 2]);
    assert_eq!(call(&workers[1]), 60_000.0);
    let in_place = runtime.call(sum_of::remote(&matrix, 1.0).on_process(runtime.process()));
    assert_eq!(moved(&|| assert_eq!(matrix.get().unwrap().len(), 10_000)), 0);
    assert_eq!(in_place.wait().unwrap(), 30_000.0);
    let shared = runtime.call(shared_sum::remote(&matrix).on(&workers[0]));
    assert_eq!(shared.wait().unwrap(), 30_000.0);
}

trait Versions {
    fn each_ref_version(&self, runtime: &Runtime) -> Vec<u64>;
}

impl Versions for Vec<Worker> {
    /// The version of the first global of each worker.
    fn each_ref_version(&self, runtime: &Runtime) -> Vec<u64> {
        self.iter()
            .map(|worker| runtime.globals(worker).unwrap()[0].version)
            .collect()
    }
}

#[test]
fn jdata_03_a_global_is_made_by_name_and_survives_the_call() {
    let (runtime, workers, _pool) = pool_of(1);
    let a = runtime.global("A");
    let empty = runtime
        .call(sum_of::remote(&a, 1.0).on(&workers[0]))
        .wait()
        .unwrap_err();
    assert!(
        empty.to_string().contains("the global `A` has no value"),
        "{empty}"
    );
    a.set(vec![1.0, 2.0]).unwrap();
    assert_eq!(runtime.globals(&workers[0]).unwrap(), []);
    assert_eq!(
        runtime
            .call(sum_of::remote(&a, 1.0).on(&workers[0]))
            .wait()
            .unwrap(),
        3.0
    );
    let [GlobalInfo { name, version: 1, .. }] = &runtime.globals(&workers[0]).unwrap()[..] else {
        panic!("one global")
    };
    assert_eq!(name, "A");
    let sets = remote_fn!(|a: Global<Vec<f64>>| -> String {
        a.set(Vec::new()).unwrap_err().to_string() + &a.clear().unwrap_err().to_string()
    });
    let refused = runtime.call(sets.remote(&a).on(&workers[0])).wait().unwrap();
    assert_eq!(
        refused.matches("the process that has made it").count(),
        2,
        "{refused}"
    );
}

#[test]
fn jdata_04_a_constant_refuses_a_second_value() {
    let (runtime, workers, _pool) = pool_of(1);
    let constant = runtime.global("constant");
    constant.set_const(vec![1.0]).unwrap();
    for refused in [
        constant.set(vec![2.0]),
        constant.set_const(vec![2.0]),
        constant.clear(),
    ] {
        assert!(matches!(refused, Err(GlobalError::Constant { name }) if name == "constant"));
    }
    assert_eq!(
        runtime
            .call(sum_of::remote(&constant, 1.0).on(&workers[0]))
            .wait()
            .unwrap(),
        1.0
    );
}

#[test]
fn jdata_06_jdata_08_copies_are_listed_with_their_sizes_until_they_are_cleared() {
    let (runtime, mut workers, _pool) = pool_of(2);
    let (a, b) = (runtime.global("a"), runtime.global("b"));
    a.set(vec![0.0; 1000]).unwrap();
    b.set(vec![0.0; 10]).unwrap();
    for global in [&b, &a] {
        runtime
            .call(sum_of::remote(global, 1.0).on(&workers[0]))
            .wait()
            .unwrap();
    }
    let infos = runtime.globals(&workers[0]).unwrap();
    let sizes: Vec<_> = infos
        .iter()
        .map(|info| (info.name.as_str(), info.size_bytes / 80))
        .collect();
    assert_eq!(sizes, [("a", 100), ("b", 1)]);
    let objects = || {
        runtime
            .call(objects_there::remote().on(&workers[0]))
            .wait()
            .unwrap()
    };
    let with_both = objects();
    a.clear().unwrap();
    let names = |worker: &Worker| -> Vec<String> {
        let infos = runtime.globals(worker).unwrap().into_iter();
        infos.map(|info| info.name).collect()
    };
    assert_eq!(names(&workers[0]), ["b"]);
    assert_eq!(
        wait_until(&(with_both - 1), objects),
        with_both - 1,
        "the reference is dropped"
    );
    assert!(matches!(a.get(), Err(GlobalError::Empty { .. })));
    a.set(vec![1.0]).unwrap();
    assert_eq!(
        runtime
            .call(sum_of::remote(&a, 1.0).on(&workers[0]))
            .wait()
            .unwrap(),
        1.0
    );
    // The drop of the maker's last handle clears as well, and a worker that is dead is no error.
    drop(b);
    assert_eq!(wait_until(&vec!["a".to_owned()], || names(&workers[0])), ["a"]);
    assert!(
        runtime
            .call(crate::dies::remote().on(&workers.remove(1)))
            .wait()
            .is_err()
    );
    a.clear().unwrap();
    assert_eq!(names(&workers[0]), Vec::<String>::new());
}

/// The references that this process holds.
#[remote]
fn objects_there() -> usize {
    Runtime::current().unwrap().references().held
}

#[test]
fn jdata_07_a_captured_local_leaves_nothing_behind() {
    let (runtime, workers, _pool) = pool_of(1);
    let before = runtime
        .call(objects_there::remote().on(&workers[0]))
        .wait()
        .unwrap();
    let local = vec![1.0; 1000];
    let sums = remote_fn!([local: Vec<f64>] |factor: f64| -> f64 { local.iter().sum::<f64>() * factor });
    assert_eq!(
        runtime.call(sums.remote(2.0).on(&workers[0])).wait().unwrap(),
        2000.0
    );
    assert_eq!(runtime.globals(&workers[0]).unwrap(), []);
    let after = runtime
        .call(objects_there::remote().on(&workers[0]))
        .wait()
        .unwrap();
    assert_eq!(after, before);
}

/// The values that this process has decoded.
static DECODED: AtomicUsize = AtomicUsize::new(0);

/// A value that counts its arrivals.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(from = "Vec<u8>")]
struct Counted(Vec<u8>);

impl From<Vec<u8>> for Counted {
    fn from(bytes: Vec<u8>) -> Self {
        // The trial of the type decodes short values.
        DECODED.fetch_add(usize::from(bytes.len() == 50_000), Ordering::SeqCst);
        Counted(bytes)
    }
}

#[remote]
fn decoded() -> usize {
    DECODED.load(Ordering::SeqCst)
}

#[test]
fn jpar_19_captured_data_moves_once_to_each_worker_of_a_map_until_it_is_cleared() {
    let (runtime, workers, pool) = pool_of(2);
    let data = runtime.global("captured");
    data.set(Counted(vec![7; 50_000])).unwrap();
    let captured = &data;
    let looks_up = remote_fn!([captured: Global<Counted>] |at: usize| -> Result<u8> {
        Ok(captured.get()?.0[at])
    });
    let before = sent(&runtime);
    for batch in [1, 10] {
        let found = pool.map(looks_up.clone(), 0..200).batch(batch).collect().unwrap();
        assert_eq!(found, [7; 200]);
    }
    let bytes = sent(&runtime) - before;
    assert!((50_000..250_000).contains(&bytes), "{bytes} in 400 calls");
    for worker in &workers {
        let copies = runtime.call(decoded::remote().on(worker)).wait().unwrap();
        assert!(copies <= 1, "{copies}");
    }
    data.clear().unwrap();
    assert!(
        workers
            .iter()
            .all(|worker| runtime.globals(worker).unwrap().is_empty())
    );
}

#[test]
fn a_worker_that_is_new_gets_the_value_and_one_that_dies_while_it_has_one_is_forgotten() {
    let (runtime, mut workers, _pool) = pool_of(1);
    let global = runtime.global("global");
    global.set(vec![1.0, 2.0]).unwrap();
    let call = |worker: &Worker| runtime.call(sum_of::remote(&global, 1.0).on(worker)).wait();
    let before = runtime.references().owned;
    assert_eq!(call(&workers[0]).unwrap(), 3.0);
    assert!(
        runtime
            .call(crate::dies::remote().on(&workers.remove(0)))
            .wait()
            .is_err()
    );
    let second = runtime.worker("second").unwrap();
    assert_eq!(call(&second).unwrap(), 3.0);
    drop(global);
    assert_eq!(
        wait_until(&(before - 1), || runtime.references().owned),
        before - 1
    );
}

#[remote]
fn makes_global() -> Result<Global<Vec<f64>>> {
    let global = Runtime::current()?.global("of a worker");
    global.set(vec![1.0, 2.0])?;
    Ok(global)
}

#[remote]
fn handle_of(#[here] global: &Global<Vec<f64>>) -> Global<Vec<f64>> {
    global.clone()
}

#[remote]
fn clears(#[here] global: &Global<Vec<f64>>) -> Result<()> {
    Ok(global.clear()?)
}

#[test]
fn a_global_of_a_worker_is_passed_on_and_cleared_everywhere() {
    let (runtime, workers, _pool) = pool_of(2);
    let kept = runtime.keep(makes_global::remote().on(&workers[0]));
    let handle = runtime.call(handle_of::remote(&kept)).wait().unwrap();
    let call = runtime.call(sum_of::remote(&handle, 1.0).on(&workers[1]));
    assert_eq!(call.wait().unwrap(), 3.0);
    let names = || -> Vec<String> {
        let infos = runtime.globals(&workers[1]).unwrap().into_iter();
        infos.map(|info| info.name).collect()
    };
    assert_eq!(names(), ["of a worker"]);
    runtime.call(clears::remote(&kept)).wait().unwrap();
    assert_eq!(names(), Vec::<String>::new());
}

#[test]
fn a_global_of_a_worker_leaves_no_copies_when_its_last_handle_is_dropped() {
    let (runtime, workers, _pool) = pool_of(2);
    let kept = runtime.keep(makes_global::remote().on(&workers[0]));
    let handle = runtime.call(handle_of::remote(&kept)).wait().unwrap();
    let call = runtime.call(sum_of::remote(&handle, 1.0).on(&workers[1]));
    assert_eq!(call.wait().unwrap(), 3.0);
    let copies = || runtime.globals(&workers[1]).unwrap().len();
    assert_eq!(copies(), 1);
    drop(kept);
    assert_eq!(wait_until(&0, copies), 0);
}

#[remote]
fn keeps_handle(global: Global<Vec<f64>>) -> Global<Vec<f64>> {
    global
}

#[remote]
fn sum_here(#[here] global: &Global<Vec<f64>>) -> Result<f64> {
    Ok(global.get()?.iter().sum())
}

#[test]
fn a_handle_that_is_used_after_the_value_was_cleared_leaves_no_copy() {
    let (runtime, workers, _pool) = pool_of(1);
    let global = runtime.global("cleared");
    global.set(vec![1.0, 2.0]).unwrap();
    let late = runtime.keep(keeps_handle::remote(&global).on(&workers[0]));
    late.ready_timeout(std::time::Duration::from_secs(60)).unwrap();
    let names = || -> Vec<(String, u64)> {
        let infos = runtime.globals(&workers[0]).unwrap().into_iter();
        infos.map(|info| (info.name, info.version)).collect()
    };
    let sum = || runtime.call(sum_here::remote(&late)).wait().unwrap();
    global.clear().unwrap();
    assert_eq!((sum(), names()), (3.0, vec![]));

    global.set(vec![5.0]).unwrap();
    let call = runtime.call(sum_of::remote(&global, 1.0).on(&workers[0]));
    assert_eq!(call.wait().unwrap(), 5.0, "a new value is kept again");
    assert_eq!(names(), [("cleared".to_owned(), 2)]);
    let other = runtime.global::<Vec<f64>>("cleared");
    drop(other);
    assert_eq!((sum(), names()), (3.0, vec![("cleared".to_owned(), 2)]));
    drop(global);
    wait_until(&vec![], names);
    assert_eq!((sum(), names()), (3.0, vec![]));
}
