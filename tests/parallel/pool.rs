//! Pools: who is free, who is dead, and pools in other processes.

use std::time::{Duration, Instant};

use selvedge::parallel::{MapError, Pool, PoolError};
use selvedge::prelude::*;

use crate::{dies, pool_of, whereabouts};

const SOON: Duration = Duration::from_millis(20);
const LATE: Duration = Duration::from_secs(20);

#[test]
fn jpar_17_workers_are_taken_and_come_back() {
    let (runtime, workers, pool) = pool_of(2);
    assert!(pool.is_ready().unwrap());
    let (one, other) = (pool.take().unwrap(), pool.take().unwrap());
    let mut taken = [one.process(), other.process()];
    taken.sort_unstable();
    assert_eq!(taken[..], [workers[0].process(), workers[1].process()]);
    assert!(!pool.is_ready().unwrap());
    for busy in [pool.take_timeout(SOON).map(drop), pool.ready_timeout(SOON)] {
        let busy = busy.unwrap_err();
        assert!(matches!(busy, PoolError::Busy { workers: 2, .. }), "{busy}");
    }
    drop(one);
    pool.ready_timeout(LATE).unwrap();
    assert_eq!(pool.take().unwrap().process(), workers[0].process());
    drop(other);
    let one = pool.take().unwrap();
    let (removed, place) = (one.process(), usize::from(one.process() == workers[1].process()));
    one.remove();
    assert_eq!(
        (pool.workers().unwrap(), pool.take().unwrap().process() == removed),
        (1, false)
    );
    pool.add(&workers[place]).unwrap();
    assert_eq!(pool.workers().unwrap(), 2);
    let third = runtime.worker("third").unwrap();
    pool.add(&third).unwrap();
    pool.add(&third).unwrap();
    assert_eq!(pool.workers().unwrap(), 3);
    let taken: Vec<_> = (0..3).map(|_| pool.take().unwrap()).collect();
    assert!(taken.iter().any(|worker| worker.process() == third.process()));
    assert!(pool.take_timeout(SOON).is_err(), "it was added once");
}

#[test]
fn a_pool_of_a_runtime_that_was_shut_down_says_so() {
    let (runtime, _workers, pool) = pool_of(1);
    let _ = runtime.shutdown(LATE);
    let texts = [
        pool.take().unwrap_err().to_string(),
        pool.map(remote_fn!(always), 0..2)
            .collect()
            .unwrap_err()
            .to_string(),
        pool.range(0..2)
            .start(remote_fn!(nothing))
            .unwrap_err()
            .to_string(),
    ];
    for text in texts {
        assert!(text.contains("the runtime was shut down"), "{text}");
    }
}

#[remote]
fn always(item: u64) -> u64 {
    item
}

#[remote]
fn nothing(_: std::ops::Range<u64>) {}

#[test]
fn jpar_17_dead_workers_are_skipped_and_a_pool_of_none_says_so() {
    let (runtime, mut workers, pool) = pool_of(2);
    let dead = workers.remove(0);
    dead.end(LATE).unwrap();
    assert_eq!(pool.workers().unwrap(), 1);
    for _ in 0..3 {
        assert_eq!(pool.take().unwrap().process(), workers[0].process());
    }
    let call = runtime.call(dies::remote().on(&workers[0]));
    assert!(call.wait().is_err());
    let none = pool.take().unwrap_err();
    assert!(matches!(none, PoolError::NoWorker), "{none}");
    assert!(
        none.to_string().starts_with("no worker of the pool lives"),
        "{none}"
    );
    assert!(matches!(runtime.pool_of(&[]), Err(PoolError::NoWorker)));
}

#[test]
fn a_pool_has_no_workers_of_another_runtime() {
    let (runtime, workers, pool) = pool_of(1);
    let others = Runtime::new();
    let other = others.worker("other").unwrap();
    let both = [workers[0].clone(), other.clone()];
    for refused in [pool.add(&other), runtime.pool_of(&both).map(drop)] {
        let error = refused.unwrap_err();
        assert!(
            matches!(&error, PoolError::OtherRuntime { worker } if worker == "other"),
            "{error}"
        );
    }
    assert_eq!(pool.workers().unwrap(), 1);
    let found = pool.map(remote_fn!(always), [1, 2]).collect().unwrap();
    assert_eq!(found, [1, 2]);
}

#[remote]
fn naps(millis: u64) {
    std::thread::sleep(Duration::from_millis(millis));
}

#[test]
fn jpar_17_the_death_of_the_last_worker_ends_all_waits_for_one() {
    let (runtime, workers, pool) = pool_of(1);
    let nap = || {
        let map = pool.map(remote_fn!(naps), [120_000]).deadline(LATE);
        map.collect().unwrap_err()
    };
    std::thread::scope(|scope| {
        let works = scope.spawn(nap);
        while pool.is_ready().unwrap() {
            std::thread::yield_now();
        }
        let takes: Vec<_> = (0..3)
            .map(|_| scope.spawn(|| pool.take_timeout(LATE).unwrap_err()))
            .collect();
        let ready = scope.spawn(|| pool.ready_timeout(LATE).unwrap_err());
        let maps = [scope.spawn(nap), scope.spawn(nap)];
        // Who does not wait yet finds that no worker lives; so the length of the pause decides nothing.
        std::thread::sleep(SOON);
        assert!(runtime.call(dies::remote().on(&workers[0])).wait().is_err());
        let started = Instant::now();
        for error in takes.into_iter().chain([ready]).map(|wait| wait.join().unwrap()) {
            assert!(matches!(error, PoolError::NoWorker), "{error}");
        }
        for error in maps.map(|map| map.join().unwrap()) {
            assert!(matches!(error, MapError::Pool(PoolError::NoWorker)), "{error}");
        }
        assert!(started.elapsed() < LATE / 2, "the deaths woke them");
        let error = works.join().unwrap();
        assert!(matches!(error, MapError::Item { item: 0, .. }), "{error}");
    });
    assert!(!pool.is_ready().unwrap());
    let another = runtime.worker("another").unwrap();
    pool.add(&another).unwrap();
    assert!(pool.is_ready().unwrap());
    assert_eq!(pool.take().unwrap().process(), another.process());
}

#[test]
fn jpar_13_a_pool_has_workers_and_this_process_only_if_there_are_none() {
    let runtime = Runtime::new();
    let alone = runtime.pool().unwrap();
    assert_eq!(
        alone.map(remote_fn!(whereabouts), [0, 1]).collect().unwrap(),
        [1, 1]
    );
    let _workers = [runtime.worker("one").unwrap(), runtime.worker("two").unwrap()];
    let pool = runtime.pool().unwrap();
    let places = pool.map(remote_fn!(whereabouts), 0..20).collect().unwrap();
    assert!(places.iter().all(|process| *process > 1), "{places:?}");
}

#[remote]
fn maps(pool: Pool, items: u64) -> Result<Vec<u32>> {
    Ok(pool.map(remote_fn!(whereabouts), 0..items).collect()?)
}

#[remote]
fn takes_and_dies(pool: Pool) -> Result<()> {
    let _taken = pool.take()?;
    std::process::abort()
}

#[test]
fn jpar_18_a_pool_is_used_from_any_process() {
    let (runtime, workers, pool) = pool_of(3);
    let numbers: Vec<u32> = workers.iter().map(|worker| worker.process().number()).collect();
    let taken = pool.take().unwrap();
    let places = runtime
        .call(maps::remote(&pool, 12).on(&workers[0]))
        .wait()
        .unwrap();
    assert_eq!(places.len(), 12);
    for place in places {
        assert!(numbers.contains(&place) && place != taken.process().number());
    }
    drop(taken);
    assert_eq!(pool.workers().unwrap(), 3);
}

#[test]
fn jpar_18_a_worker_comes_back_from_a_process_that_dies() {
    let (runtime, mut workers, _) = pool_of(2);
    let pool = runtime.pool_of(&workers[..1]).unwrap();
    let taker = workers.remove(1);
    let call = runtime.call(takes_and_dies::remote(&pool).on(&taker));
    assert!(call.wait().is_err());
    assert_eq!(pool.take_timeout(LATE).unwrap().process(), workers[0].process());
}
