//! Named references: what a job has made outlives it, and other jobs find it.

use std::sync::atomic::{AtomicU64, AtomicUsize, Ordering};

use selvedge::NameError;
use selvedge::prelude::*;

use crate::census::wait_until;
use crate::jobs::{Head, joined, leaves_nothing, until_the_test_ends};
use crate::{Elsewhere, alone, beside_others};

static DROPPED: AtomicUsize = AtomicUsize::new(0);

#[derive(Default)]
pub(crate) struct Counter(AtomicU64);

impl Drop for Counter {
    fn drop(&mut self) {
        DROPPED.fetch_add(1, Ordering::SeqCst);
    }
}

#[remote]
pub(crate) fn counter() -> Counter {
    Counter::default()
}

#[remote]
pub(crate) fn count(#[here] counter: &Counter, by: u64) -> u64 {
    counter.0.fetch_add(by, Ordering::SeqCst) + by
}

/// The counters that were dropped in this process, and the objects of which it is the owner.
#[remote]
pub(crate) fn left() -> (usize, usize) {
    let owned = Runtime::current().unwrap().references().owned;
    (DROPPED.load(Ordering::SeqCst), owned)
}

/// Finds the counter by its name, and counts.
#[remote]
fn count_by_name(name: String) -> Result<u64> {
    let runtime = Runtime::current()?;
    let counter = runtime.named::<Counter>(&name)?;
    Ok(runtime.call(count::remote(&counter, 1)).wait()?)
}

#[test]
fn rft_08_a_counter_with_a_name_outlives_its_killed_job_and_the_next_job_goes_on_counting() -> Result<()> {
    let _beside = beside_others();
    let head = Head::new();
    let child = head.runtime.worker("child")?;
    let far = head.runtime.add(Elsewhere(&["b"]))?.remove(0);
    let mut first = head.job_at("named::a_job_that_names_its_counter");
    first.says("counted to 3");
    first.child.kill()?;
    wait_until(&true, || head.runtime.names().unwrap().len() == 1);
    let job = head.connect();
    let found = job.named::<Counter>("counter")?;
    assert_eq!(found.owner().process, far.process());
    assert_eq!(job.call(count::remote(&found, 0)).wait()?, 3);
    assert_eq!(job.call(count_by_name::remote("counter").on(&child)).wait()?, 4);
    assert_eq!(
        head.runtime
            .call(count_by_name::remote("counter").on(&far))
            .wait()?,
        5
    );
    let error = job.named::<u64>("counter").unwrap_err();
    assert!(matches!(error, NameError::WrongType { .. }), "{error}");
    job.unname("counter")?;
    assert!(matches!(
        head.runtime.named::<Counter>("counter"),
        Err(NameError::Unknown { .. })
    ));
    assert_eq!(
        job.call(count::remote(&found, 1)).wait()?,
        6,
        "the reference holds it still"
    );
    assert_eq!(job.call(left::remote().on(&far)).wait()?, (0, 1));
    drop(found);
    wait_until(&(1, 0), || job.call(left::remote().on(&far)).wait().unwrap());
    Ok(())
}

#[test]
#[ignore = "a job of another test"]
fn a_job_that_names_its_counter() {
    let job = joined();
    // The last process is the worker of the other host.
    let far = job.processes().pop().unwrap().process();
    let counter = job.keep(counter::remote().on_process(far));
    job.name("counter", &counter).unwrap();
    for _ in 0..3 {
        job.call(count::remote(&counter, 1)).wait().unwrap();
    }
    println!(
        "counted to {}",
        job.call(count::remote(&counter, 0)).wait().unwrap()
    );
    until_the_test_ends();
    drop(counter);
}

#[test]
fn rft_08_two_jobs_that_give_a_name_at_once_and_the_death_of_the_owner_and_of_the_head_are_told() -> Result<()>
{
    let _beside = beside_others();
    let head = Head::new();
    let far = head.runtime.add(Elsewhere(&["b"]))?.remove(0);
    let jobs = [head.connect(), head.connect()];
    let counters = jobs
        .each_ref()
        .map(|job| job.keep(counter::remote().on_process(far.process())));
    for _ in 0..10 {
        let named = std::thread::scope(|scope| {
            let both = [0, 1].map(|at| {
                let (job, counter) = (&jobs[at], &counters[at]);
                scope.spawn(move || job.name("one", counter))
            });
            both.map(|it| it.join().unwrap())
        });
        let winner = named.iter().position(std::result::Result::is_ok).unwrap();
        let Err(NameError::Taken { by, .. }) = &named[1 - winner] else {
            panic!("{named:?}")
        };
        assert_eq!(by.process(), jobs[winner].process());
        assert_eq!(head.runtime.named::<Counter>("one")?.id(), counters[winner].id());
        jobs[1 - winner].unname("one")?;
    }
    jobs[0].name("one", &counters[0])?;
    let pid = rustix::process::Pid::from_raw(far.pid().unwrap() as i32).unwrap();
    rustix::process::kill_process(pid, rustix::process::Signal::KILL)?;
    wait_until(&0, || head.runtime.names().unwrap().len());
    for runtime in [&head.runtime, &jobs[0], &jobs[1]] {
        let error = runtime.named::<Counter>("one").unwrap_err();
        assert!(
            matches!(&error, NameError::OwnerDead { owner, .. } if owner.process() == far.process()),
            "{error}"
        );
    }
    // The handle of a worker holds its runtime.
    drop((far, head));
    let error = jobs[0].named::<Counter>("one").unwrap_err();
    assert!(
        matches!(error, NameError::NoHead | NameError::Shutdown),
        "{error}"
    );
    Ok(())
}

#[test]
fn rft_08_jobs_that_name_what_they_keep_leave_nothing_once_the_names_are_gone() -> Result<()> {
    let _alone = alone();
    let head = Head::new();
    let child = head.runtime.worker("child")?;
    let work = || {
        let job = head.connect();
        let kept = job.keep(counter::remote().on(&child));
        job.name("kept", &kept)?;
        let result = job.put(vec![1_u8; 1_000])?;
        job.name("put", &result)?;
        drop((kept, result));
        drop(job);
        assert_eq!(head.connect().named::<Vec<u8>>("put")?.fetch()?.len(), 1_000);
        assert_eq!(
            head.runtime
                .call(count_by_name::remote("kept").on(&child))
                .wait()?,
            1
        );
        for name in head.runtime.names()? {
            head.runtime.unname(&name.name)?;
        }
        wait_until(&(0, 0), || {
            let (_, owned) = head.runtime.call(left::remote().on(&child)).wait().unwrap();
            (owned, head.runtime.references().owned)
        });
        Ok::<(), selvedge::BoxError>(())
    };
    leaves_nothing(work)
}
