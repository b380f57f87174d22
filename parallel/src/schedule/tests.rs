//! The schedule, with this process as the only worker.
#![allow(clippy::unwrap_used)]

use selvedge_macros::remote_below_graphs as remote;

use super::taken::TURN;
use super::*;

#[remote]
fn itself(number: u64) -> u64 {
    number
}

/// A call as a piece.
fn piece(runtime: &Runtime, number: u64, due: Option<Instant>) -> Piece<u64, u64> {
    let batch = CallBatch::one(runtime, itself::remote(number)).unwrap();
    Piece::new(batch, number, due)
}

#[test]
fn a_worker_that_is_taken_again_gets_a_place_that_is_there() {
    let runtime = Runtime::new();
    let pool = Pool::here(&runtime).unwrap();
    let mut schedule = Schedule::new(&pool, runtime.clone(), None);
    let mut numbers = 0..100;
    let mut source = || Ok(numbers.next().map(|number| piece(&runtime, number, None)));
    let (mut values, mut turns) = (Vec::new(), 0);
    while let Some(done) = schedule.next(&mut source).unwrap() {
        values.push(done.outcomes.unwrap().remove(0).unwrap());
        assert_eq!(schedule.taken.places.len(), 1, "the workers of the pool");
        for taken in schedule.taken.places.iter_mut().flatten() {
            // The turn is over: the worker goes back to the pool before the next piece.
            taken.since = taken.since.checked_sub(TURN).unwrap();
            turns += 1;
        }
    }
    assert_eq!(values, (0..100).collect::<Vec<_>>());
    assert_eq!(turns, 100);
}

#[test]
fn what_is_to_be_done_again_is_done_in_the_order_in_which_it_became_due() {
    let runtime = Runtime::new();
    let pool = Pool::here(&runtime).unwrap();
    let mut schedule = Schedule::new(&pool, runtime.clone(), None);
    let now = Instant::now();
    let ago = |millis| Some(now.checked_sub(Duration::from_millis(millis)).unwrap());
    for (number, due) in [(3, ago(1)), (1, ago(3)), (0, None), (2, ago(2))] {
        schedule.push(piece(&runtime, number, due));
    }
    let mut last = Some(piece(&runtime, 4, None));
    let mut source = || Ok(last.take());
    let mut numbers = Vec::new();
    while let Some(done) = schedule.next(&mut source).unwrap() {
        numbers.push(done.meaning);
    }
    assert_eq!(numbers, [0, 1, 2, 3, 4]);
}

/// Work whose only worker others have taken after its first piece, and that waits a millisecond at a time.
fn begun_without_worker<'a>(pool: &'a Pool, runtime: &Runtime) -> (Schedule<'a, u64, u64>, PoolWorker) {
    let mut schedule = Schedule::new(pool, runtime.clone(), None);
    schedule.patience = Duration::from_millis(1);
    let mut first = Some(piece(runtime, 0, None));
    let done = schedule.next(&mut || Ok(first.take())).unwrap();
    assert_eq!(done.map(|done| done.meaning), Some(0));
    schedule.taken.give_back();
    (schedule, pool.take().unwrap())
}

#[test]
fn work_that_has_begun_waits_for_a_worker_that_others_have() {
    let runtime = Runtime::new();
    let pool = Pool::here(&runtime).unwrap();
    let (mut schedule, other) = begun_without_worker(&pool, &runtime);
    let mut second = Some(piece(&runtime, 1, None));
    // Far longer than the work's patience; how long exactly decides nothing.
    let giver = std::thread::spawn(move || {
        std::thread::sleep(Duration::from_millis(50));
        drop(other);
    });
    let done = schedule.next(&mut || Ok(second.take())).unwrap();
    assert_eq!(done.map(|done| done.meaning), Some(1));
    giver.join().unwrap();
}

#[test]
fn work_that_has_begun_waits_for_a_worker_until_its_deadline() {
    let runtime = Runtime::new();
    let pool = Pool::here(&runtime).unwrap();
    let (mut schedule, _other) = begun_without_worker(&pool, &runtime);
    let deadline = Duration::from_millis(50);
    schedule.deadline = Some((deadline, Instant::now() + deadline));
    let mut second = Some(piece(&runtime, 1, None));
    let error = schedule.next(&mut || Ok(second.take())).map(drop).unwrap_err();
    assert!(
        matches!(error, MapError::Deadline(limit) if limit == deadline),
        "{error}"
    );
}

#[test]
fn work_that_has_not_begun_ends_when_no_worker_is_free() {
    let runtime = Runtime::new();
    let pool = Pool::here(&runtime).unwrap();
    let _other = pool.take().unwrap();
    let mut schedule = Schedule::new(&pool, runtime.clone(), None);
    schedule.patience = Duration::from_millis(1);
    let mut first = Some(piece(&runtime, 0, None));
    let error = schedule.next(&mut || Ok(first.take())).map(drop).unwrap_err();
    assert!(
        matches!(error, MapError::Pool(PoolError::Busy { workers: 1, .. })),
        "{error}"
    );
}
