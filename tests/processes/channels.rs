//! No resource remains after remote channels whose processes were killed.

use crate::actors::warm_up;
use crate::alone::alone;
use crate::census;
use crate::killing::kill;
use selvedge::prelude::*;

/// Takes a value, says so, and neither acknowledges it nor returns.
#[remote]
fn take_and_hang(jobs: RemoteChannel<Vec<u8>>, begun: RemoteChannel<()>) -> Result<()> {
    let mut jobs = jobs.iter();
    let _job = jobs.next().ok_or("closed")??;
    begun.put(())?;
    loop {
        std::thread::park();
    }
}

#[test]
fn channels_whose_takers_and_homes_were_killed_leave_nothing() -> Result<()> {
    alone(|| {
        warm_up();
        let before = census::settled(census::Census::take);
        for _ in 0..5 {
            let runtime = Runtime::new();
            let (home, taker) = (runtime.worker("home")?, runtime.worker("taker")?);
            let begun = runtime.channel(1)?;
            let (there, here) = (home.channel(4)?, runtime.channel(4)?);
            for jobs in [&there, &here] {
                (0..3).try_for_each(|_| jobs.put(vec![7; 100_000]))?;
                runtime.cast(take_and_hang::remote(jobs, &begun).on(&taker))?;
                begun.take()?;
            }
            kill(taker.pid().ok_or("no process")?);
            for jobs in [&there, &here] {
                (0..3).try_for_each(|_| jobs.take().map(drop))?;
            }
            let waiting = std::thread::spawn(move || there.take().map(drop));
            kill(home.pid().ok_or("no process")?);
            assert!(waiting.join().unwrap().is_err());
            here.put(Vec::new())?;
        }
        let after = census::wait_until(&before, census::Census::take);
        assert_eq!(after, before);
        Ok(())
    })
}
