//! The object store: values that are put, and read where they lie.

use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Arc, Mutex};
use std::time::Duration;

use selvedge::prelude::*;
use selvedge::{FetchError, ObjectPlace, PutError, StoreError, StoreOptions};
use serde::{Deserialize, Serialize};

use super::census::{mapping_of, wait_until};

const MIB: usize = 1 << 20;

/// A tensor of this many bytes, whose values tell which one it is.
fn tensor(bytes: usize, seed: u32) -> Tensor {
    let values: Vec<u32> = (0..bytes as u32 / 4)
        .map(|at| at.wrapping_mul(31) ^ seed)
        .collect();
    Tensor::from_slice(&values, &[values.len()]).unwrap()
}

fn address(tensor: &Tensor) -> usize {
    tensor.bytes().as_ptr().addr()
}

fn kill(worker: &selvedge::Worker) {
    let pid = rustix::process::Pid::from_raw(worker.pid().unwrap() as i32).unwrap();
    rustix::process::kill_process(pid, rustix::process::Signal::KILL).unwrap();
}

/// The mapping in which the fetched tensor lies, and whether it is the one that was put.
#[remote]
fn looked_at(value: Ref<Tensor>, seed: u32) -> Result<(String, bool)> {
    let fetched = value.fetch()?;
    let again = value.fetch()?;
    let is_right = *fetched == tensor(fetched.bytes().len(), seed) && Arc::ptr_eq(&fetched, &again);
    Ok((mapping_of(address(&fetched)), is_right))
}

#[remote]
fn put_here(bytes: u64, seed: u32) -> Result<Ref<Tensor>> {
    Ok(Runtime::current()?.put(tensor(bytes as usize, seed))?)
}

#[test]
fn rstore_08_a_large_value_is_read_where_it_lies_in_every_process() {
    let runtime = Runtime::new();
    let worker = runtime.worker("reader").unwrap();
    let value = tensor(MIB, 7);
    let original = address(&value);
    let put = runtime.put(value).unwrap();
    let fetched = put.fetch().unwrap();
    assert!(*fetched == tensor(MIB, 7));
    assert_ne!(address(&fetched), original);
    let mapping = mapping_of(address(&fetched));
    assert!(
        mapping.contains("r--s") && mapping.contains("memfd:selvedge"),
        "{mapping}"
    );
    assert!(Arc::ptr_eq(&fetched, &put.fetch().unwrap()));
    assert!(Arc::ptr_eq(&fetched, &put.local().unwrap()));
    let (there, is_right) = runtime
        .call(looked_at::remote(&put, 7).on(&worker))
        .wait()
        .unwrap();
    assert!(is_right);
    assert!(
        there.contains("r--s") && there.contains("memfd:selvedge"),
        "{there}"
    );
    let object = |mapping: &str| {
        mapping
            .split_whitespace()
            .skip(3)
            .take(2)
            .collect::<Vec<_>>()
            .join(" ")
    };
    assert_eq!(object(&there), object(&mapping), "one file");
}

#[test]
fn a_value_that_a_worker_has_put_outlives_it() {
    let runtime = Runtime::new();
    let worker = runtime.worker("author").unwrap();
    let (large, small) = (runtime.call(put_here::remote(MIB as u64, 3).on(&worker)), 100);
    let large = large.wait().unwrap();
    let small = runtime
        .call(put_here::remote(small, 4).on(&worker))
        .wait()
        .unwrap();
    assert_eq!(
        (large.owner().process.number(), small.owner().process.number()),
        (1, 1)
    );
    assert_eq!(
        runtime.objects().objects.len(),
        1,
        "the small one lies beside its reference"
    );
    kill(&worker);
    assert!(*large.fetch().unwrap() == tensor(MIB, 3));
    assert!(*small.fetch().unwrap() == tensor(100, 4));
    let other = runtime.worker("reader").unwrap();
    assert!(
        runtime
            .call(looked_at::remote(&large, 3).on(&other))
            .wait()
            .unwrap()
            .1
    );
}

#[remote]
fn make(bytes: u64, seed: u32) -> Tensor {
    tensor(bytes as usize, seed)
}

#[test]
fn rstore_03_rtask_09_a_large_value_of_a_submitted_call_lies_in_the_store_and_outlives_its_worker() {
    let runtime = Runtime::new();
    let worker = runtime.worker("author").unwrap();
    let large: Ref<Tensor> = runtime.submit(make::remote(MIB as u64, 3));
    let small: Ref<Tensor> = runtime.submit(make::remote(100, 4));
    assert_eq!(
        large
            .fetch_timeout(Duration::from_secs(60))
            .unwrap()
            .bytes()
            .len(),
        MIB
    );
    assert!(*small.fetch().unwrap() == tensor(100, 4));
    assert_eq!(
        runtime.objects().objects.len(),
        1,
        "the small one lies beside its reference"
    );
    kill(&worker);
    let reader = runtime.worker("reader").unwrap();
    let fetched = large.fetch().unwrap();
    let mapping = mapping_of(address(&fetched));
    assert!(mapping.contains("memfd:selvedge"), "{mapping}");
    let looked = runtime.call(looked_at::remote(&large, 3).on(&reader)).wait();
    assert!(looked.unwrap().1);
    let length: Ref<(u64, String)> = runtime.submit(length::remote(&large));
    assert_eq!(length.fetch().unwrap().0, MIB as u64);
    drop((fetched, large, length));
    wait_until(&true, || runtime.objects().objects.is_empty());
}

#[test]
fn a_large_value_of_a_submitted_call_that_finds_the_store_full_is_kept_all_the_same() {
    let runtime = Runtime::new().store(StoreOptions::new().bytes(MIB as u64 / 2));
    let _worker = runtime.worker("author").unwrap();
    let large: Ref<Tensor> = runtime.submit(make::remote(MIB as u64, 5));
    assert!(*large.fetch_timeout(Duration::from_secs(60)).unwrap() == tensor(MIB, 5));
    assert!(runtime.objects().objects.is_empty());
}

#[test]
fn rser_01_values_of_every_kind_come_back_as_they_were() {
    let runtime = Runtime::new();
    let numbers: Vec<f64> = (0..100_000).map(f64::from).collect();
    let text = "text ".repeat(10_000);
    let map: std::collections::BTreeMap<u32, String> =
        (0..5_000).map(|it| (it, format!("value {it}"))).collect();
    assert_eq!(*runtime.put(numbers.clone()).unwrap().fetch().unwrap(), numbers);
    assert_eq!(*runtime.put(text.clone()).unwrap().fetch().unwrap(), text);
    assert_eq!(*runtime.put(map.clone()).unwrap().fetch().unwrap(), map);
    assert_eq!(*runtime.put(7_u8).unwrap().fetch().unwrap(), 7);
    // Values without views leave the store as soon as their references are gone.
    wait_until(&true, || runtime.objects().used_bytes == 0);
}

#[remote]
fn both(pair: Ref<(Ref<Tensor>, Tensor)>) -> Result<bool> {
    let pair = pair.fetch()?;
    Ok(*pair.0.fetch()? == tensor(MIB, 1) && pair.1 == tensor(MIB, 2))
}

#[test]
fn rstore_01_references_in_a_stored_value_hold_what_they_refer_to() {
    let runtime = Runtime::new();
    let worker = runtime.worker("reader").unwrap();
    let inner = runtime.put(tensor(MIB, 1)).unwrap();
    let outer = runtime.put((inner, tensor(MIB, 2))).unwrap();
    assert_eq!(runtime.objects().objects.len(), 2);
    assert!(runtime.call(both::remote(&outer).on(&worker)).wait().unwrap());
    assert!(*outer.fetch().unwrap().0.fetch().unwrap() == tensor(MIB, 1));
    drop(outer);
    wait_until(&true, || runtime.objects().objects.is_empty());
}

#[test]
fn the_last_reference_gives_the_memory_back_and_the_next_object_gets_it() {
    let runtime = Runtime::new();
    let mut places = Vec::new();
    for seed in 0..4 {
        let put = runtime.put(tensor(MIB, seed)).unwrap();
        places.push(address(&put.fetch().unwrap()));
    }
    places.dedup();
    assert_eq!(places.len(), 1, "warm memory is used again");
    assert_eq!(
        (runtime.objects().used_bytes, runtime.objects().objects.len()),
        (0, 0)
    );
}

#[test]
fn rstore_14_a_view_keeps_the_memory_when_all_references_are_gone() {
    let runtime = Runtime::new();
    let put = runtime.put(tensor(MIB, 5)).unwrap();
    let view = put.fetch().unwrap();
    drop(put);
    let object = runtime.objects().objects.pop().unwrap();
    assert!(object.is_freed && object.place == ObjectPlace::Memory);
    let others: Vec<_> = (0..8)
        .map(|seed| runtime.put(tensor(MIB, seed)).unwrap())
        .collect();
    assert!(*view == tensor(MIB, 5));
    drop((view, others));
    assert_eq!(runtime.objects().used_bytes, 0);
}

#[test]
fn rser_04_tensors_in_a_container_are_views_of_one_object() {
    let runtime = Runtime::new();
    let parts: Vec<Tensor> = (0..4).map(|seed| tensor(MIB, seed)).collect();
    let put = runtime.put(("four of them".to_owned(), parts)).unwrap();
    let fetched = put.fetch().unwrap();
    let places: Vec<usize> = fetched.1.iter().map(address).collect();
    assert!(
        places
            .iter()
            .all(|place| mapping_of(*place).contains("memfd:selvedge"))
    );
    assert!(
        places.windows(2).all(|two| two[1] - two[0] == MIB),
        "side by side"
    );
    assert!((0..4).all(|seed| fetched.1[seed] == tensor(MIB, seed as u32)));
}

fn spilling(bytes: u64) -> Runtime {
    let folder = std::env::temp_dir();
    Runtime::new().store(StoreOptions::new().bytes(bytes).spill(folder))
}

#[test]
fn rstore_10_three_times_as_much_as_the_store_holds_is_spilled_and_comes_back() {
    let runtime = spilling(16 * MIB as u64);
    let worker = runtime.worker("reader").unwrap();
    let put: Vec<Ref<Tensor>> = (0..48)
        .map(|seed| runtime.put(tensor(MIB, seed)).unwrap())
        .collect();
    let report = runtime.objects();
    assert_eq!(report.objects.len(), 48);
    assert!(
        report.spilled_bytes >= 32 * MIB as u64,
        "{}",
        report.spilled_bytes
    );
    for (seed, put) in put.iter().enumerate().rev() {
        let seed = seed as u32;
        assert!(
            runtime
                .call(looked_at::remote(put, seed).on(&worker))
                .wait()
                .unwrap()
                .1,
            "{seed}"
        );
        assert!(*put.fetch().unwrap() == tensor(MIB, seed), "{seed}");
    }
    drop(put);
    wait_until(&true, || runtime.objects().objects.is_empty());
    assert_eq!(runtime.objects().spilled_bytes, 0);
}

#[test]
fn rstore_10_a_store_whose_objects_are_all_in_use_says_by_whom() {
    let runtime = spilling(4 * MIB as u64);
    let mut views = Vec::new();
    let full = loop {
        match runtime.put(tensor(MIB / 2, 1)) {
            Ok(put) => views.push(put.fetch().unwrap()),
            Err(error) => break error,
        }
        assert!(views.len() < 9);
    };
    let text = full.to_string();
    let PutError::Store(StoreError::Full(full)) = full else {
        panic!("{text}")
    };
    assert!(
        text.contains("process 1 has views of") && text.contains("StoreOptions::bytes"),
        "{text}"
    );
    assert_eq!(full.capacity_bytes, 4 * MIB as u64);
    // A fetch needs room, too.
    let view = views.pop().unwrap();
    drop(view);
    let spilled = runtime.put(tensor(MIB / 2, 2)).unwrap();
    let other = runtime.put(tensor(MIB / 2, 3)).unwrap();
    let view = other.fetch().unwrap();
    let refused = spilled.fetch().unwrap_err();
    assert!(
        matches!(
            refused,
            FetchError::Stored {
                error: StoreError::Full(_),
                ..
            }
        ),
        "{refused}"
    );
    drop(view);
    assert!(*spilled.fetch().unwrap() == tensor(MIB / 2, 2));
    let large = runtime.put(tensor(8 * MIB, 1)).unwrap_err();
    assert!(
        matches!(large, PutError::Store(StoreError::TooLarge { .. })),
        "{large}"
    );
}

#[test]
fn a_folder_that_takes_no_objects_is_a_typed_error_and_nothing_is_lost() {
    let runtime = Runtime::new().store(StoreOptions::new().bytes(2 * MIB as u64).spill("/nowhere/at/all"));
    let first = runtime.put(tensor(MIB, 1)).unwrap();
    let second = runtime.put(tensor(MIB / 2, 2)).unwrap();
    let refused = runtime.put(tensor(MIB, 3)).unwrap_err();
    assert!(
        matches!(&refused, PutError::Store(StoreError::Spill { .. })),
        "{refused}"
    );
    assert!(refused.to_string().contains("/nowhere/at/all"), "{refused}");
    assert!(*first.fetch().unwrap() == tensor(MIB, 1) && *second.fetch().unwrap() == tensor(MIB / 2, 2));
    drop(first);
    runtime.put(tensor(MIB, 3)).unwrap();
}

/// Fetches, keeps the view, and says so.
#[remote]
fn keeps_a_view(value: Ref<Tensor>) -> Result<()> {
    static KEPT: std::sync::Mutex<Vec<Arc<Tensor>>> = std::sync::Mutex::new(Vec::new());
    KEPT.lock().unwrap().push(value.fetch()?);
    Ok(())
}

#[test]
fn rtask_10_the_store_tells_who_reads_an_object_and_a_death_ends_its_pins() {
    let runtime = Runtime::new();
    let worker = runtime.worker("reader").unwrap();
    let put = runtime.put(tensor(MIB, 1)).unwrap();
    runtime
        .call(keeps_a_view::remote(&put).on(&worker))
        .wait()
        .unwrap();
    let pinned = runtime.objects().objects[0].pinned_by.clone();
    assert_eq!(pinned.len(), 1);
    drop(put);
    wait_until(&true, || runtime.objects().objects[0].is_freed);
    kill(&worker);
    wait_until(&true, || runtime.objects().used_bytes == 0);
}

#[test]
fn many_threads_and_workers_put_and_fetch_in_a_store_that_is_too_small() {
    let runtime = spilling(8 * MIB as u64);
    let workers = ["a", "b"].map(|name| runtime.worker(name).unwrap());
    std::thread::scope(|scope| {
        for thread in 0..4_u32 {
            let (runtime, worker) = (&runtime, &workers[thread as usize % 2]);
            scope.spawn(move || {
                let mut kept = Vec::new();
                for round in 0..20 {
                    let seed = thread * 100 + round;
                    let put = match round % 2 {
                        0 => runtime.put(tensor(MIB / 2, seed)).unwrap(),
                        _ => runtime
                            .call(put_here::remote(MIB as u64 / 2, seed).on(worker))
                            .wait()
                            .unwrap(),
                    };
                    kept.push((seed, put));
                    let (seed, earlier) = &kept[round as usize / 2];
                    assert!(*earlier.fetch().unwrap() == tensor(MIB / 2, *seed));
                    assert!(
                        runtime
                            .call(looked_at::remote(earlier, *seed).on(worker))
                            .wait()
                            .unwrap()
                            .1
                    );
                }
            });
        }
    });
    wait_until(&true, || runtime.objects().objects.is_empty());
    let report = runtime.objects();
    assert_eq!(
        (report.used_bytes, report.spilled_bytes, report.waiting),
        (0, 0, 0)
    );
}

#[remote]
fn length(value: Tensor) -> (u64, String) {
    (value.bytes().len() as u64, mapping_of(address(&value)))
}

#[remote]
fn length_here(#[here] value: &Tensor) -> u64 {
    value.bytes().len() as u64
}

#[test]
fn a_parameter_takes_a_stored_value_by_its_reference() {
    let runtime = Runtime::new();
    let worker = runtime.worker("reader").unwrap();
    let put = runtime.put(tensor(MIB, 1)).unwrap();
    let there = runtime.call(length::remote(&put).on(&worker)).wait().unwrap();
    assert_eq!(there.0, MIB as u64);
    assert!(there.1.contains("memfd:selvedge"), "{}", there.1);
    assert_eq!(
        runtime.call(length_here::remote(&put)).wait().unwrap(),
        MIB as u64
    );
    assert_eq!(
        runtime.submit(length::remote(&put)).fetch().unwrap().0,
        MIB as u64
    );
}

#[remote]
fn passed_on(value: Tensor) -> Tensor {
    value
}

#[remote]
fn fetched_and_passed_on(value: Ref<Tensor>) -> Result<Tensor> {
    Ok((*value.fetch()?).clone())
}

#[test]
fn a_function_that_returns_a_view_of_the_store_stops_no_worker() {
    let runtime = Runtime::new();
    let worker = runtime.worker("reader").unwrap();
    let limit = Duration::from_secs(20);
    // The drop of an answer's last copy ends the pin of the object, which is a letter to the store by the link of the answer.
    for seed in 0..10 {
        let put = runtime.put(tensor(MIB, seed)).unwrap();
        let mut taken = runtime.call(passed_on::remote(&put).on(&worker));
        assert!(taken.wait_timeout(limit).unwrap() == tensor(MIB, seed));
        let mut fetched = runtime.call(fetched_and_passed_on::remote(&put).on(&worker));
        assert!(fetched.wait_timeout(limit).unwrap() == tensor(MIB, seed));
        let submitted = runtime.submit(passed_on::remote(tensor(MIB, seed)));
        assert!(*submitted.fetch_timeout(limit).unwrap() == tensor(MIB, seed));
    }
    wait_until(&true, || runtime.objects().objects.is_empty());
}

#[remote]
async fn put_without_blocking(bytes: u64) -> Result<Ref<Tensor>> {
    Ok(Runtime::current()?.put(tensor(bytes as usize, 1))?)
}

#[test]
fn an_async_function_in_a_worker_puts_small_values_and_is_refused_large_ones() {
    let runtime = Runtime::new();
    let worker = runtime.worker("author").unwrap();
    let put = |bytes| {
        runtime
            .call(put_without_blocking::remote(bytes).on(&worker))
            .wait()
    };
    assert!(*put(100).unwrap().fetch().unwrap() == tensor(100, 1));
    let refused = put(MIB as u64).unwrap_err();
    assert!(refused.to_string().contains("cannot block"), "{refused}");
}

#[test]
fn a_put_after_the_shutdown_is_refused() {
    let runtime = Runtime::new();
    let put = runtime.put(tensor(MIB, 1)).unwrap();
    let view = put.fetch().unwrap();
    let _ = runtime.shutdown(Duration::from_secs(10));
    assert!(matches!(runtime.put(7_u8), Err(PutError::Shutdown)));
    assert!(*view == tensor(MIB, 1), "a view outlives the runtime");
}

/// The runtime of the drops below.
static OF_DROPS: Mutex<Option<Runtime>> = Mutex::new(None);
static ANSWERED_DROPS: AtomicUsize = AtomicUsize::new(0);

/// A value whose drop waits for a call of its own process.
#[derive(Clone, Serialize, Deserialize)]
struct CallsWhenDropped(u64);

impl Drop for CallsWhenDropped {
    fn drop(&mut self) {
        let runtime = OF_DROPS.lock().unwrap().clone();
        if let Some(runtime) = runtime {
            let mut call = runtime.call(number::remote(self.0).on_process(runtime.process()));
            let answer = call.wait_timeout(Duration::from_secs(5));
            ANSWERED_DROPS.fetch_add(usize::from(answer.is_ok()), Ordering::SeqCst);
        }
    }
}

#[remote]
fn number(number: u64) -> u64 {
    number
}

#[remote]
fn holds(values: Vec<Ref<CallsWhenDropped>>) -> usize {
    values.len()
}

#[test]
fn values_whose_drops_wait_for_calls_of_their_process_take_no_place_from_these() {
    let runtime = Runtime::new();
    let worker = runtime.worker("holder").unwrap();
    // More than functions of a process run at a time.
    let count = 2 * selvedge::cores().len() + 2;
    let put = |number: usize| runtime.put(CallsWhenDropped(number as u64)).unwrap();
    let values: Vec<_> = (0..count).map(put).collect();
    *OF_DROPS.lock().unwrap() = Some(runtime.clone());
    let held = runtime.call(holds::remote(values).on(&worker)).wait();
    assert_eq!(held.unwrap(), count);
    wait_until(&count, || ANSWERED_DROPS.load(Ordering::SeqCst));
    *OF_DROPS.lock().unwrap() = None;
}
