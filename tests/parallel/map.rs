//! Maps.

use std::cell::Cell;
use std::collections::HashMap;
use std::rc::Rc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::Duration;

use selvedge::parallel::MapError;
use selvedge::prelude::*;
use selvedge::{CallError, RemoteError};
use serde::{Deserialize, Serialize};

use crate::census::wait_until;
use crate::{add_line, fresh_file, lines, pool_of, whereabouts};

#[remote]
fn square(x: u64) -> u64 {
    x * x
}

#[remote]
fn joins(text: String, number: u32) -> String {
    format!("{text}{number}")
}

#[derive(Debug, PartialEq, Serialize, Deserialize, thiserror::Error)]
#[error("{0} is odd")]
struct Odd(u64);

#[remote]
fn halves(x: u64) -> Result<u64, Odd> {
    match x % 2 {
        0 => Ok(x / 2),
        _ => Err(Odd(x)),
    }
}

#[test]
fn jpar_11_values_come_in_the_order_of_the_items_and_collections_go_together() {
    let (_runtime, _workers, pool) = pool_of(2);
    for batch in [1, 7, 64, 1000] {
        let values = pool
            .map(remote_fn!(square), 0..100)
            .batch(batch)
            .collect()
            .unwrap();
        assert_eq!(values, (0..100).map(|x| x * x).collect::<Vec<_>>());
    }
    let none = pool.map(remote_fn!(square), Vec::new()).collect().unwrap();
    assert_eq!(none, Vec::<u64>::new());
    let words = ["a", "b", "c"].map(String::from);
    let joined = pool
        .map_tuples(remote_fn!(joins), words.into_iter().zip(1_u32..))
        .batch(2);
    assert_eq!(joined.collect().unwrap(), ["a1", "b2", "c3"]);
}

/// The processes that run the items of a map over all workers, which this process makes.
#[remote]
fn whereabouts_of_all(items: u64) -> Result<Vec<u32>> {
    let runtime = Runtime::current()?;
    Ok(runtime
        .pool()?
        .map(remote_fn!(whereabouts), 0..items)
        .batch(1)
        .collect()?)
}

#[test]
fn a_pool_that_a_worker_makes_has_all_workers() {
    let runtime = Runtime::new();
    let workers = ["a", "b"].map(|name| runtime.worker(name).unwrap());
    let numbers = workers.each_ref().map(|worker| worker.process().number());
    // A worker may not have heard of the other one yet.
    assert!(wait_until(&true, || {
        let found = runtime
            .call(whereabouts_of_all::remote(20).on(&workers[0]))
            .wait()
            .unwrap();
        assert!(found.iter().all(|number| numbers.contains(number)), "{found:?}");
        numbers.iter().all(|number| found.contains(number))
    }));
}

#[test]
fn jpar_12_a_free_worker_gets_the_next_item() {
    let (_runtime, workers, pool) = pool_of(2);
    let file = fresh_file("gate");
    let path = &file;
    // The first item lasts until all others are done, which one worker has to do then.
    let waits = remote_fn!([path: String] |item: u64| -> u32 {
        if item == 0 {
            while lines(&path).len() < 9 { std::thread::sleep(Duration::from_millis(1)); }
        } else {
            add_line(&path, "done");
        }
        whereabouts(item)
    });
    let places = pool.map(waits, 0..10).collect().unwrap();
    let numbers: Vec<u32> = workers.iter().map(|worker| worker.process().number()).collect();
    assert!(numbers.contains(&places[0]));
    assert!(
        places[1..]
            .iter()
            .all(|place| *place == places[1] && *place != places[0]),
        "{places:?}"
    );
    std::fs::remove_file(path).unwrap();
}

#[test]
fn jpar_14_here_means_in_this_process() {
    let (_runtime, _workers, pool) = pool_of(2);
    let places = pool
        .map(remote_fn!(whereabouts), 0..10)
        .batch(3)
        .here()
        .collect()
        .unwrap();
    assert_eq!(places, [1; 10]);
}

#[test]
fn jpar_15_the_first_error_ends_the_work_or_stands_among_the_values() {
    let (_runtime, _workers, pool) = pool_of(2);
    for batch in [1, 3] {
        let error = pool
            .map(remote_fn!(halves), [2, 4, 5, 6, 8])
            .batch(batch)
            .collect()
            .unwrap_err();
        assert_eq!(error.downcast_ref::<Odd>(), Some(&Odd(5)));
        assert!(matches!(error, MapError::Item { item: 2, .. }), "{error}");
        let results = pool
            .map(remote_fn!(halves), [2, 4, 5, 6, 8])
            .batch(batch)
            .results()
            .unwrap();
        let values: Vec<u64> = results.into_iter().map(|result| result.unwrap_or(99)).collect();
        assert_eq!(values, [1, 2, 99, 3, 4]);
    }
    let file = fresh_file("stops");
    let path = &file;
    let notes = remote_fn!([path: String] |item: u64| -> Result<()> {
        add_line(&path, &item.to_string());
        if item == 3 { Err("three")? }
        Ok(())
    });
    assert!(pool.map(notes, 0..1000).batch(10).collect().is_err());
    let begun = lines(path);
    assert!(begun.len() < 500 && !begun.contains(&"4".to_owned()), "{begun:?}");
    std::fs::remove_file(path).unwrap();
}

/// The number of calls of each item so far, by the lines of a file.
fn tries(path: &str) -> HashMap<String, usize> {
    let mut tries = HashMap::new();
    for line in lines(path) {
        *tries.entry(line).or_default() += 1;
    }
    tries
}

#[test]
fn jpar_16_an_item_is_tried_again_as_often_as_there_are_pauses() {
    let (_runtime, _workers, pool) = pool_of(2);
    let file = fresh_file("tries");
    let path = &file;
    let third_time = remote_fn!([path: String] |item: u64| -> Result<u64> {
        add_line(&path, &item.to_string());
        let tries = lines(&path).iter().filter(|line| **line == item.to_string()).count();
        if item.is_multiple_of(5) && tries < 3 { Err("not yet")? }
        Ok(item)
    });
    let pauses = || [Duration::ZERO, Duration::from_millis(1)];
    let values = pool
        .map(third_time.clone(), 0..20)
        .batch(4)
        .retry_after(pauses())
        .collect()
        .unwrap();
    assert_eq!(values, (0..20).collect::<Vec<_>>());
    let tries = tries(path);
    for item in 0_u64..20 {
        assert_eq!(
            tries[&item.to_string()],
            if item.is_multiple_of(5) { 3 } else { 1 },
            "{item}"
        );
    }
    std::fs::remove_file(path).unwrap();
    let once = pool.map(third_time.clone(), [5]).retry_after([Duration::ZERO]);
    assert!(once.collect().is_err(), "it was tried twice");
    std::fs::remove_file(path).unwrap();
    let never = pool
        .map(third_time, [5])
        .retry_after(pauses())
        .retry_if(|error| !error.to_string().contains("not yet"));
    let results = never.results().unwrap();
    assert!(results[0].is_err());
    assert_eq!(lines(path).len(), 1);
    std::fs::remove_file(path).unwrap();
}

#[test]
fn which_errors_are_tried_again_is_said_before_or_after_the_pauses() {
    let (_runtime, _workers, pool) = pool_of(1);
    let refused = remote_fn!(|item: u64| -> Result<u64> { Err(format!("no {item}"))? });
    let asked = |check_first: bool| {
        let count = Rc::new(Cell::new(0));
        let counted = Rc::clone(&count);
        let check = move |_: &CallError| {
            counted.set(counted.get() + 1);
            false
        };
        let map = pool.map(refused.clone(), [5]);
        let map = match check_first {
            true => map.retry_if(check).retry_after([Duration::ZERO]),
            false => map.retry_after([Duration::ZERO]).retry_if(check),
        };
        assert!(map.collect().is_err());
        count.get()
    };
    assert_eq!((asked(true), asked(false)), (1, 1));
}

#[test]
fn jpar_16_the_batch_of_a_worker_that_dies_runs_elsewhere_and_the_order_stays() {
    let (_runtime, _workers, pool) = pool_of(3);
    let file = fresh_file("deaths");
    let path = &file;
    let dies_once = remote_fn!([path: String] |item: u64| -> u64 {
        add_line(&path, &item.to_string());
        if item == 17 && lines(&path).iter().filter(|line| *line == "17").count() == 1 {
            std::process::abort();
        }
        item
    });
    let values = pool.map(dies_once, 0..40).batch(5).collect().unwrap();
    assert_eq!(values, (0..40).collect::<Vec<_>>());
    let tries = tries(path);
    for item in 0..40 {
        let tries = tries[&item.to_string()];
        // A batch that the worker had ahead may have begun.
        let expected = if (15..18).contains(&item) { 2..=2 } else { 1..=2 };
        assert!(expected.contains(&tries), "{item}: {tries}");
    }
    assert_eq!(pool.workers().unwrap(), 2);
    std::fs::remove_file(path).unwrap();
}

#[remote]
fn always_dies(item: u64) -> u64 {
    if item == 2 {
        std::process::abort();
    }
    item
}

#[test]
fn jpar_16_an_item_of_which_every_worker_dies_is_an_error() {
    let (_runtime, _workers, pool) = pool_of(4);
    let error = pool.map(remote_fn!(always_dies), 0..4).collect().unwrap_err();
    let MapError::Item { item: 2, error } = error else {
        panic!("{error}")
    };
    assert!(
        matches!(error.remote(), Some(RemoteError::Died { .. })),
        "{error}"
    );
    assert_eq!(pool.workers().unwrap(), 1, "three workers have died of it");
    let (_runtime, _workers, pool) = pool_of(2);
    let error = pool.map(remote_fn!(always_dies), 0..4).collect().unwrap_err();
    let MapError::Item { item: 2, error } = error else {
        panic!("{error}")
    };
    assert!(
        matches!(error.remote(), Some(RemoteError::Died { .. })),
        "both workers have died of it, and no other is left: {error}"
    );
    let error = pool.map(remote_fn!(always_dies), 0..2).collect().unwrap_err();
    assert!(
        error.to_string().starts_with("no worker of the pool lives"),
        "{error}"
    );
}

#[test]
fn jpar_15_a_batch_that_fails_as_a_whole_is_an_error_of_its_items_and_the_others_go_on() {
    let (_runtime, _workers, pool) = pool_of(4);
    let results = pool
        .map(remote_fn!(always_dies), 0..20)
        .batch(2)
        .results()
        .unwrap();
    assert_eq!(results.len(), 20);
    for (item, result) in (0..).zip(results) {
        match result {
            Ok(value) => assert!(value == item && ![2, 3].contains(&item), "{item}"),
            Err(error) => {
                assert!([2, 3].contains(&item), "{item}: {error}");
                assert!(
                    matches!(error.remote(), Some(RemoteError::Died { .. })),
                    "{error}"
                );
                assert!(error.to_string().contains("always_dies"), "{error}");
            }
        }
    }
    let (_runtime, _workers, pool) = pool_of(4);
    let error = pool
        .map(remote_fn!(always_dies), 0..20)
        .batch(2)
        .collect()
        .unwrap_err();
    assert!(matches!(error, MapError::Item { item: 2, .. }), "{error}");
}

/// Works until nobody wants it any more.
fn until_cancelled() {
    let wanted = selvedge::cancellation();
    while !wanted.is_cancelled() {
        std::thread::sleep(Duration::from_millis(1));
    }
}

#[test]
fn a_map_and_a_loop_end_at_their_deadline_and_give_their_workers_back() {
    const LATE: Duration = Duration::from_secs(60);
    let (_runtime, _workers, pool) = pool_of(2);
    let forever = remote_fn!(|item: u64| -> u64 {
        until_cancelled();
        item
    });
    let short = Duration::from_millis(100);
    let begun = std::time::Instant::now();
    for error in [
        pool.map(forever.clone(), 0..10)
            .deadline(short)
            .collect()
            .unwrap_err(),
        pool.map(forever.clone(), 0..10)
            .batch(3)
            .deadline(short)
            .results()
            .unwrap_err(),
    ] {
        assert!(
            matches!(error, MapError::Deadline(time) if time == short),
            "{error}"
        );
        assert!(error.to_string().contains("100ms"), "{error}");
    }
    let loops = remote_fn!(|chunk: std::ops::Range<u64>| -> u64 {
        until_cancelled();
        chunk.start
    });
    let error = pool
        .range(0..10)
        .deadline(short)
        .reduce(loops, |one, _| one)
        .unwrap_err();
    assert!(matches!(error, MapError::Deadline(_)), "{error}");
    let ends = remote_fn!(|_chunk: std::ops::Range<u64>| { until_cancelled() });
    let error = pool
        .range(0..10)
        .deadline(short)
        .start(ends)
        .unwrap()
        .wait()
        .unwrap_err();
    assert!(error.to_string().contains("deadline of 100ms"), "{error}");
    // Nobody waits for a worker longer than that, either.
    let both = [pool.take().unwrap(), pool.take().unwrap()];
    let error = pool
        .map(remote_fn!(square), 0..4)
        .deadline(short)
        .collect()
        .unwrap_err();
    assert!(matches!(error, MapError::Deadline(_)), "{error}");
    assert!(begun.elapsed() < LATE, "nothing was waited for to its end");
    drop(both);
    let values = pool
        .map(remote_fn!(square), 0..4)
        .deadline(Duration::MAX)
        .collect()
        .unwrap();
    assert_eq!(values, [0, 1, 4, 9]);
}

#[remote]
fn makes_a_channel(item: u64) -> Result<RemoteChannel<u64>> {
    let channel = Runtime::current()?.channel(1)?;
    channel.put(item)?;
    Ok(channel)
}

#[test]
fn an_item_that_is_due_again_waits_for_a_worker_and_an_empty_map_for_none() {
    let (_runtime, _workers, pool) = pool_of(1);
    let once = AtomicUsize::new(0);
    let values = pool
        .map(remote_fn!(halves), [1, 2, 3, 4])
        .retry_after([Duration::ZERO])
        .retry_if(move |_| once.fetch_add(1, Ordering::SeqCst) == 0);
    let values: Vec<_> = values
        .results()
        .unwrap()
        .into_iter()
        .map(|result| result.ok())
        .collect();
    assert_eq!(values, [None, Some(1), None, Some(2)]);
    let taken = pool.take().unwrap();
    assert_eq!(
        pool.map(remote_fn!(square), []).collect().unwrap(),
        Vec::<u64>::new()
    );
    drop(taken);
    let never = pool
        .map(remote_fn!(halves), [1])
        .retry_after([Duration::MAX])
        .retry_if(|_| false);
    assert!(never.collect().is_err());
}

#[test]
fn two_maps_share_the_workers_of_a_pool() {
    let (_runtime, _workers, pool) = pool_of(1);
    let path = &fresh_file("shared");
    let waits = remote_fn!([path: String] |item: u64| -> bool {
        add_line(&path, &item.to_string());
        let late = std::time::Instant::now() + Duration::from_millis(20);
        while std::time::Instant::now() < late { std::thread::yield_now(); }
        lines(&path).iter().any(|line| line == "100")
    });
    std::thread::scope(|scope| {
        let long = scope.spawn(|| pool.map(waits.clone(), 0..60).collect().unwrap());
        while lines(path).is_empty() {
            std::thread::yield_now();
        }
        pool.map(waits.clone(), [100]).collect().unwrap();
        assert!(
            long.join().unwrap().contains(&true),
            "the other map had its item done meanwhile"
        );
    });
    std::fs::remove_file(path).unwrap();
}

#[test]
fn values_with_references_are_made_one_by_one() {
    let (_runtime, _workers, pool) = pool_of(2);
    let channels = pool
        .map(remote_fn!(makes_a_channel), 0..10)
        .batch(1)
        .collect()
        .unwrap();
    let values: Vec<u64> = channels.iter().map(|channel| channel.take().unwrap()).collect();
    assert_eq!(values, (0..10).collect::<Vec<_>>());
}

#[test]
fn jpar_20_workers_go_back_to_the_pool_also_when_calls_fail() {
    let (_runtime, _workers, pool) = pool_of(2);
    for _ in 0..5 {
        assert!(pool.map(remote_fn!(halves), 1..9).batch(2).collect().is_err());
    }
    let both = [pool.take().unwrap(), pool.take().unwrap()];
    assert_ne!(both[0].process(), both[1].process());
}

#[remote]
async fn later(x: u64) -> u64 {
    x + 1
}

#[remote]
fn length(tensor: &Tensor) -> usize {
    tensor.bytes().len()
}

#[test]
fn async_functions_references_and_tensors_are_items_too() {
    let (runtime, _workers, pool) = pool_of(2);
    let values = pool.map(remote_fn!(later), 0..10).batch(4).collect().unwrap();
    assert_eq!(values, (1..11).collect::<Vec<_>>());
    let tensors = (1..20_usize).map(|len| Tensor::zeros::<u64>(&[len * 1000]).unwrap());
    let lengths = pool.map(remote_fn!(length), tensors).batch(4).collect().unwrap();
    assert_eq!(lengths, (1..20).map(|len| len * 8000).collect::<Vec<_>>());
    let kept = runtime.keep(square::remote(3));
    let adds = remote_fn!([kept: u64] |x: u64| -> u64 { kept + x });
    assert_eq!(
        pool.map(adds, 0..6).batch(3).collect().unwrap(),
        [9, 10, 11, 12, 13, 14]
    );
}

#[test]
fn a_map_in_a_function_ends_with_its_call() {
    let (runtime, workers, _pool) = pool_of(2);
    let pool = runtime.pool_of(&workers[1..]).unwrap();
    let other = &pool;
    let path = &fresh_file("ended");
    let maps = remote_fn!([other: selvedge::parallel::Pool, path: String] |_item: u64| -> Result<()> {
        let pause = [Duration::from_secs(60)];
        let mapped = other.map(remote_fn!(halves), [1]).retry_after(pause).collect();
        add_line(&path, "ended");
        mapped?;
        Ok(())
    });
    let call = runtime.call(
        maps.remote(0)
            .on(&workers[0])
            .deadline(Duration::from_millis(100)),
    );
    assert!(matches!(
        call.wait().unwrap_err().remote(),
        Some(RemoteError::Deadline(_))
    ));
    let late = std::time::Instant::now() + Duration::from_secs(20);
    while lines(path).is_empty() && std::time::Instant::now() < late {
        std::thread::yield_now();
    }
    assert_eq!(lines(path), ["ended"], "long before its pause is over");
    assert!(pool.take_timeout(Duration::from_secs(20)).is_ok());
    std::fs::remove_file(path).unwrap();
}

/// The items that this process works at.
static AT_WORK: AtomicUsize = AtomicUsize::new(0);

/// Whether no other item was worked at meanwhile.
#[remote]
fn is_alone(_item: u64) -> bool {
    let before = AT_WORK.fetch_add(1, Ordering::SeqCst);
    (0..100).for_each(|_| std::thread::yield_now());
    let after = AT_WORK.fetch_sub(1, Ordering::SeqCst);
    before == 0 && after == 1
}

#[test]
fn jpar_17_a_worker_does_one_piece_after_the_other_also_if_it_has_one_ahead() {
    let (_runtime, _workers, pool) = pool_of(1);
    for batch in [2, 3] {
        let alone = pool
            .map(remote_fn!(is_alone), 0..300)
            .batch(batch)
            .collect()
            .unwrap();
        assert!(alone.iter().all(|alone| *alone));
    }
    let alone = pool.map(remote_fn!(is_alone), 0..300).collect().unwrap();
    assert!(alone.iter().all(|alone| *alone));
}
