//! Remote channels between real processes.

use std::collections::BTreeSet;
use std::sync::Arc;
use std::time::Duration;

use futures_util::StreamExt;
use selvedge::RemoteChannelError as Error;
use selvedge::prelude::*;

/// A wait that ends only if something is wrong.
const LATE: Duration = Duration::from_secs(60);

pub(super) fn kill(pid: u32) {
    let pid = rustix::process::Pid::from_raw(pid as i32).unwrap();
    rustix::process::kill_process(pid, rustix::process::Signal::KILL).unwrap();
}

#[remote]
fn put_all(channel: RemoteChannel<u64>, values: Vec<u64>) -> Result<()> {
    for value in values {
        channel.put(value)?;
    }
    Ok(())
}

#[remote]
fn take_some(channel: RemoteChannel<u64>, count: usize) -> Result<Vec<u64>> {
    Ok((0..count).map(|_| channel.take()).collect::<Result<_, _>>()?)
}

#[remote]
fn passed_on(channel: RemoteChannel<u64>) -> RemoteChannel<u64> {
    channel
}

#[remote]
fn make(capacity: usize) -> Result<RemoteChannel<u64>> {
    Ok(Runtime::current()?.channel(capacity)?)
}

#[test]
fn jchan_09_jchan_10_any_process_that_holds_a_channel_puts_and_takes() {
    let runtime = Runtime::new();
    let workers = ["a", "b", "c"].map(|name| runtime.worker(name).unwrap());
    // At a worker, in this process, and made by a function.
    let made = runtime
        .call(make::remote(8_usize).on(&workers[2]))
        .wait()
        .unwrap();
    let channels = [workers[0].channel(8).unwrap(), runtime.channel(8).unwrap(), made];
    for channel in &channels {
        for (at, worker) in workers.iter().enumerate() {
            let back = runtime
                .call(passed_on::remote(channel).on(worker))
                .wait()
                .unwrap();
            assert_eq!((back.id(), back.home()), (channel.id(), channel.home()));
            runtime
                .call(put_all::remote(&back, [at as u64]).on(worker))
                .wait()
                .unwrap();
        }
        channel.put(3).unwrap();
        for (at, worker) in workers.iter().enumerate() {
            let taken = runtime
                .call(take_some::remote(channel, 1_usize).on(worker))
                .wait()
                .unwrap();
            assert_eq!(taken, [at as u64]);
        }
        assert_eq!(channel.take().unwrap(), 3);
    }
    let homes: BTreeSet<_> = channels
        .iter()
        .map(|channel| channel.home().process.number())
        .collect();
    assert_eq!(homes.len(), 3);
}

#[test]
fn jchan_04_a_channel_lives_in_the_process_of_the_runtime_that_makes_it() {
    let runtime = Runtime::new();
    let worker = runtime.worker("w").unwrap();
    let here = runtime.channel::<u64>(1).unwrap();
    let made = runtime.call(make::remote(1_usize).on(&worker)).wait().unwrap();
    let there = worker.channel::<u64>(1).unwrap();
    assert_eq!(here.home().process.number(), 1);
    assert_eq!((made.home(), made.home() == here.home()), (there.home(), false));
}

#[test]
fn jchan_17_another_process_may_take_the_value_that_was_ready() {
    let runtime = Runtime::new();
    let worker = runtime.worker("w").unwrap();
    let channel = runtime.channel(1).unwrap();
    channel.put(1).unwrap();
    let is_ready = channel.is_ready().unwrap();
    let taken = runtime
        .call(take_some::remote(&channel, 1_usize).on(&worker))
        .wait();
    assert_eq!(
        (is_ready, taken.unwrap(), channel.is_ready().unwrap()),
        (true, vec![1], false)
    );
}

#[test]
fn jchan_05_jchan_12_all_operations_reach_a_channel_in_another_process() {
    let runtime = Runtime::new();
    let worker = runtime.worker("w").unwrap();
    let channel: RemoteChannel<String> = worker.channel(2).unwrap();
    assert!(!channel.is_ready().unwrap());
    let waiting = std::thread::spawn({
        let channel = channel.clone();
        move || (channel.ready_timeout(LATE), channel.peek_timeout(LATE))
    });
    channel.put("one".to_owned()).unwrap();
    channel.put_timeout("two".to_owned(), LATE).unwrap();
    let (ready, peeked) = waiting.join().unwrap();
    ready.unwrap();
    assert_eq!(peeked.unwrap(), "one", "a peek removes nothing");
    assert!(channel.is_ready().unwrap());
    assert_eq!(
        (channel.take().unwrap(), channel.take_timeout(LATE).unwrap()),
        ("one".to_owned(), "two".to_owned())
    );
    assert!(!channel.is_ready().unwrap());
    assert!(matches!(channel.snapshot(), Err(Error::NotHere { .. })));
    channel.close().unwrap();
    let refused = channel.put("late".to_owned()).unwrap_err();
    assert!(refused.error.is_closed());
    assert_eq!(refused.value.as_deref(), Some("late"), "it comes back");
}

#[test]
fn jchan_11_a_full_channel_makes_putters_wait_and_an_empty_one_takers() {
    let runtime = Runtime::new();
    let [a, b] = ["a", "b"].map(|name| runtime.worker(name).unwrap());
    let channel: RemoteChannel<u64> = a.channel(1).unwrap();
    let taken = runtime.call(take_some::remote(&channel, 100_usize).on(&b));
    let values: Vec<u64> = (0..100).collect();
    runtime
        .call(put_all::remote(&channel, &values).on(&a))
        .wait()
        .unwrap();
    assert_eq!(taken.wait().unwrap(), values);
    channel.put(1).unwrap();
    let short = Duration::from_millis(1);
    assert!(matches!(
        channel.put_timeout(2, short).map_err(Error::from),
        Err(Error::Timeout { .. })
    ));
    assert_eq!(channel.take().unwrap(), 1);
    assert!(
        matches!(channel.take_timeout(short), Err(Error::Timeout { .. })),
        "the put was cancelled"
    );
}

/// Puts `count` values that begin with `putter`.
#[remote]
fn put_series(channel: RemoteChannel<(u64, u64)>, putter: u64, count: u64) -> Result<()> {
    (0..count).try_for_each(|at| channel.put((putter, at)))?;
    Ok(())
}

#[remote]
fn take_all(channel: RemoteChannel<(u64, u64)>) -> Result<Vec<(u64, u64)>> {
    Ok(channel.iter().collect::<Result<_, _>>()?)
}

#[test]
fn jchan_11_values_of_many_putters_reach_many_takers_once_and_in_their_order() {
    let runtime = Runtime::new();
    let workers = ["a", "b", "c"].map(|name| runtime.worker(name).unwrap());
    for channel in [workers[0].channel(3).unwrap(), runtime.channel(0).unwrap()] {
        let takes: Vec<_> = (0..6)
            .map(|at| runtime.call(take_all::remote(&channel).on(&workers[at % 3])))
            .collect();
        let puts: Vec<_> = (0..6)
            .map(|at| runtime.call(put_series::remote(&channel, at as u64, 50_u64).on(&workers[at % 3])))
            .collect();
        for put in puts {
            put.wait().unwrap();
        }
        channel.close().unwrap();
        let mut all = Vec::new();
        for take in takes {
            let taken = take.wait().unwrap();
            for putter in 0..6 {
                let series = taken.iter().filter(|(by, _)| *by == putter);
                assert!(series.is_sorted(), "{taken:?}");
            }
            all.extend(taken);
        }
        all.sort_unstable();
        let expected: Vec<_> = (0..6)
            .flat_map(|putter| (0..50).map(move |at| (putter, at)))
            .collect();
        assert_eq!(all, expected);
    }
}

#[remote]
fn work(jobs: RemoteChannel<u64>, results: RemoteChannel<u64>) -> Result<()> {
    for job in jobs.iter() {
        results.put(job?)?;
    }
    Ok(())
}

#[test]
fn jchan_16_every_job_is_done_although_a_worker_is_killed_in_the_middle() {
    let runtime = Runtime::new();
    let [home, killed, other] = ["home", "killed", "other"].map(|name| runtime.worker(name).unwrap());
    let (jobs, results) = (home.channel(200).unwrap(), runtime.channel(200).unwrap());
    (0..200).for_each(|job| jobs.put(job).unwrap());
    jobs.close().unwrap();
    runtime.cast(work::remote(&jobs, &results).on(&killed)).unwrap();
    let mut done: Vec<u64> = (0..20).map(|_| results.take().unwrap()).collect();
    kill(killed.pid().unwrap());
    runtime
        .call(work::remote(&jobs, &results).on(&other))
        .wait()
        .unwrap();
    while results.is_ready().unwrap() {
        done.push(results.take().unwrap());
    }
    done.sort_unstable();
    let twice = done.windows(2).filter(|pair| pair[0] == pair[1]).count();
    assert!(twice <= 1, "only the job that was not acknowledged: {done:?}");
    done.dedup();
    assert_eq!(done, (0..200).collect::<Vec<_>>());
}

#[remote]
fn sum_all(channel: RemoteChannel<u64>) -> Result<u64> {
    let mut sum = 0;
    for value in channel.iter() {
        sum += value?;
    }
    Ok(sum)
}

#[test]
fn jchan_13_a_closed_channel_drains_and_ends_every_loop() {
    let runtime = Runtime::new();
    let workers = ["a", "b"].map(|name| runtime.worker(name).unwrap());
    let channel: RemoteChannel<u64> = workers[0].channel(64).unwrap();
    let sums = workers
        .each_ref()
        .map(|worker| runtime.call(sum_all::remote(&channel).on(worker)));
    for value in 1..=50 {
        channel.put(value).unwrap();
    }
    channel.close().unwrap();
    let sums = sums.map(|sum| sum.wait().unwrap());
    assert_eq!(sums[0] + sums[1], 50 * 51 / 2);
    let refused = channel.put(1).unwrap_err();
    assert!(refused.error.is_closed() && refused.value == Some(1));
    for error in [
        channel.take().map(drop),
        channel.peek().map(drop),
        channel.ready(),
    ] {
        assert!(error.unwrap_err().is_closed());
    }
    assert_eq!(channel.iter().count(), 0);
}

#[test]
fn jchan_14_an_unbuffered_put_waits_for_a_taker_in_another_process() {
    let runtime = Runtime::new();
    let worker = runtime.worker("w").unwrap();
    for channel in [runtime.channel::<u64>(0).unwrap(), worker.channel(0).unwrap()] {
        let short = Duration::from_millis(1);
        assert!(matches!(
            channel.put_timeout(9, short).map_err(Error::from),
            Err(Error::Timeout { .. })
        ));
        let taken = runtime.call(take_some::remote(&channel, 2_usize).on(&worker));
        channel.put(1).unwrap();
        channel.put(2).unwrap();
        assert_eq!(taken.wait().unwrap(), [1, 2], "the first put was cancelled");
    }
}

#[test]
fn a_put_is_two_frames_a_take_three_and_a_step_of_a_loop_no_more() {
    let runtime = Runtime::new();
    let worker = runtime.worker("w").unwrap();
    let channel = worker.channel::<u64>(8).unwrap();
    let frames = || {
        let of_channels = |entry: &selvedge::LinkTraffic| entry.service == "channels";
        let traffic = runtime.traffic().into_iter().filter(of_channels);
        let counts = traffic.map(|entry| entry.counts.frames_sent + entry.counts.frames_received);
        counts.sum::<u64>()
    };
    assert_eq!(frames(), 1, "its making");
    channel.put(1).unwrap();
    assert_eq!(frames(), 3);
    channel.take().unwrap();
    assert_eq!(frames(), 6);
    (0..4).for_each(|value| channel.put(value).unwrap());
    assert_eq!(channel.iter().take(4).filter(Result::is_ok).count(), 4);
    let expected = 6 + 4 * 2 + 4 * 3;
    assert_eq!(
        frames(),
        expected,
        "the end of the loop gives the last value back"
    );
    assert_eq!(channel.take().unwrap(), 3);
}

#[test]
fn jchan_08_a_snapshot_is_a_copy_of_what_is_stored() {
    let runtime = Runtime::new();
    let channel = runtime.channel::<String>(2).unwrap();
    channel.put("one".to_owned()).unwrap();
    channel.put("two".to_owned()).unwrap();
    assert_eq!(channel.snapshot().unwrap(), ["one", "two"]);
    assert_eq!(channel.take().unwrap(), "one");
    assert_eq!(channel.snapshot().unwrap(), ["two"]);
}

#[test]
fn jloc_02_a_value_moves_within_a_process_and_is_copied_between_processes() {
    let runtime = Runtime::new();
    let worker = runtime.worker("w").unwrap();
    let value = Arc::new("one object".to_owned());
    let here: RemoteChannel<Arc<String>> = runtime.channel(3).unwrap();
    let there: RemoteChannel<Arc<String>> = worker.channel(3).unwrap();
    let distinct = |channel: &RemoteChannel<Arc<String>>| {
        (0..3).for_each(|_| channel.put(Arc::clone(&value)).unwrap());
        let taken: Vec<_> = (0..3).map(|_| channel.take().unwrap()).collect();
        assert!(taken.iter().all(|it| **it == *value));
        let addresses: BTreeSet<_> = taken.iter().map(|it| Arc::as_ptr(it).addr()).collect();
        (addresses.len(), addresses.contains(&Arc::as_ptr(&value).addr()))
    };
    assert_eq!(distinct(&here), (1, true));
    assert_eq!(distinct(&there), (3, false));
    assert_eq!(Arc::strong_count(&value), 1, "nothing is left in the channel");
    // Within a process nothing is sent.
    let runtime = Runtime::new();
    let channel = runtime.channel::<u64>(1).unwrap();
    channel.put(1).unwrap();
    assert_eq!((channel.take().unwrap(), runtime.traffic()), (1, Vec::new()));
}

#[remote]
fn range(n: u64) -> Vec<u64> {
    (0..n).collect()
}

#[remote]
fn sum_of_taken(channel: RemoteChannel<(Ref<Vec<u64>>, RemoteChannel<u64>)>) -> Result<()> {
    let (numbers, answer) = channel.take()?;
    Ok(answer.put(numbers.fetch()?.iter().sum())?)
}

#[test]
fn values_hold_references_and_channels() {
    let runtime = Runtime::new();
    let [a, b] = ["a", "b"].map(|name| runtime.worker(name).unwrap());
    for home in [a.channel(1).unwrap(), runtime.channel(1).unwrap()] {
        let answer: RemoteChannel<u64> = runtime.channel(1).unwrap();
        let numbers: Ref<Vec<u64>> = a.keep(range::remote(100));
        let done = runtime.call(sum_of_taken::remote(&home).on(&b));
        home.put((numbers, answer.clone())).unwrap();
        assert_eq!(answer.take().unwrap(), 4950);
        done.wait().unwrap();
    }
}

/// Takes a value, says so, and does not acknowledge it.
#[remote]
fn take_and_hang(jobs: RemoteChannel<u64>, begun: RemoteChannel<u64>) -> Result<()> {
    let mut jobs = jobs.iter();
    let job = jobs.next().ok_or("closed")??;
    begun.put(job)?;
    loop {
        std::thread::park();
    }
}

#[test]
fn jchan_16_a_taker_that_is_killed_loses_nothing_that_it_has_not_acknowledged() {
    let runtime = Runtime::new();
    let [home, taker] = ["home", "taker"].map(|name| runtime.worker(name).unwrap());
    let begun = runtime.channel(1).unwrap();
    for jobs in [home.channel::<u64>(4).unwrap(), runtime.channel(4).unwrap()] {
        let taker = if jobs.home().process.number() == 1 {
            &home
        } else {
            &taker
        };
        jobs.put(1).unwrap();
        jobs.put(2).unwrap();
        runtime
            .cast(take_and_hang::remote(&jobs, &begun).on(taker))
            .unwrap();
        assert_eq!(begun.take().unwrap(), 1);
        assert_eq!(jobs.take().unwrap(), 2, "the first one is on its way");
        kill(taker.pid().unwrap());
        assert_eq!(jobs.take().unwrap(), 1, "it goes back");
        assert!(!jobs.is_ready().unwrap());
    }
}

/// Says that it is there, and puts into a full channel.
#[remote]
fn put_and_wait(channel: RemoteChannel<u64>, begun: RemoteChannel<u64>) -> Result<()> {
    begun.put(0)?;
    Ok(channel.put(2)?)
}

#[test]
fn a_putter_that_is_killed_while_it_waits_leaves_nothing_behind() {
    let runtime = Runtime::new();
    let [home, putter] = ["home", "putter"].map(|name| runtime.worker(name).unwrap());
    let channel = home.channel::<u64>(1).unwrap();
    let begun = runtime.channel(1).unwrap();
    channel.put(1).unwrap();
    let call = runtime.call(put_and_wait::remote(&channel, &begun).on(&putter));
    begun.take().unwrap();
    kill(putter.pid().unwrap());
    call.wait().unwrap_err();
    // The home learns of the death by its own link, so the putter is known to be dead there only after a while.
    while runtime.call(living::remote().on(&home)).wait().unwrap() > 1 {}
    assert_eq!(channel.take().unwrap(), 1);
    assert!(!channel.is_ready().unwrap());
}

/// The number of other processes that this one knows to live.
#[remote]
fn living() -> Result<usize> {
    let runtime = Runtime::current()?;
    Ok(runtime
        .everywhere(one::remote())
        .map_or_else(|failed| failed.calls, |all| all.len())
        - 1)
}

#[remote]
fn one() -> u32 {
    1
}

#[remote]
fn take_one(channel: RemoteChannel<u64>) -> Result<u64, Lost> {
    channel.take().map_err(|error| match error {
        Error::HomeLost { channel, .. } => Lost(channel.owner.process.number()),
        _ => Lost(0),
    })
}

#[derive(Debug, PartialEq, serde::Serialize, serde::Deserialize, thiserror::Error)]
#[error("process {0} is lost")]
struct Lost(u32);

#[test]
fn jchan_16_the_death_of_the_home_ends_every_wait_and_names_the_process() {
    let runtime = Runtime::new();
    let [home, other] = ["home", "other"].map(|name| runtime.worker(name).unwrap());
    let (full, empty) = (home.channel::<u64>(1).unwrap(), home.channel::<u64>(1).unwrap());
    full.put(1).unwrap();
    let taker = runtime.call(take_one::remote(&empty).on(&other));
    std::thread::scope(|scope| {
        let putting = scope.spawn(|| full.put(2).map_err(Error::from));
        let peeking = scope.spawn(|| empty.peek());
        let waiting = scope.spawn(|| empty.ready());
        let looping = scope.spawn(|| empty.iter().map(|it| it.is_err()).collect::<Vec<_>>());
        kill(home.pid().unwrap());
        let ends = [
            putting.join().unwrap(),
            peeking.join().unwrap().map(drop),
            waiting.join().unwrap(),
        ];
        for end in ends {
            let error = end.unwrap_err();
            assert!(matches!(error, Error::HomeLost { .. }), "{error}");
            assert!(error.to_string().contains("SIGKILL"), "{error}");
            let named = format!(
                "worker `home` (process {}) has died",
                empty.home().process.number()
            );
            assert!(error.to_string().contains(&named), "{error}");
        }
        assert_eq!(looping.join().unwrap(), [true], "the loop tells it once");
    });
    let error = taker.wait().unwrap_err();
    assert_eq!(
        error.downcast_ref(),
        Some(&Lost(empty.home().process.number())),
        "{error}"
    );
    assert!(matches!(empty.close(), Err(Error::HomeLost { .. })));
    assert!(matches!(home.channel::<u64>(1), Err(Error::NotMade { .. })));
}

#[remote]
async fn blocks(channel: RemoteChannel<u64>) -> String {
    channel.take().unwrap_err().to_string()
}

#[remote]
async fn doubled(from: RemoteChannel<u64>, to: RemoteChannel<u64>) -> Result<()> {
    let mut values = from.stream();
    while let Some(value) = values.next().await {
        to.put_async(value? * 2).await?;
    }
    to.close()?;
    Ok(())
}

#[test]
fn async_functions_await_channels_and_do_not_block() {
    let runtime = Runtime::new();
    let worker = runtime.worker("w").unwrap();
    let (from, to) = (runtime.channel(1).unwrap(), worker.channel(1).unwrap());
    let text = runtime.call(blocks::remote(&from).on(&worker)).wait().unwrap();
    assert!(text.contains("take_async"), "{text}");
    let doubled = runtime.call(doubled::remote(&from, &to).on(&worker));
    let executor = tokio::runtime::Builder::new_current_thread()
        .enable_time()
        .build()
        .unwrap();
    executor.block_on(async {
        for value in [1, 2] {
            from.put_async(value).await.unwrap();
            to.ready_async().await.unwrap();
            assert!(to.is_ready_async().await.unwrap());
            assert_eq!(to.peek_async().await.unwrap(), value * 2);
            assert_eq!(to.take_async().await.unwrap(), value * 2);
        }
        from.close().unwrap();
        assert!(to.take_async().await.unwrap_err().is_closed());
        // A future that is dropped cancels its request.
        let open: RemoteChannel<u64> = worker.channel(1).unwrap();
        drop(tokio::time::timeout(Duration::ZERO, open.take_async()).await);
        open.put_async(5).await.unwrap();
        assert_eq!(open.take_async().await.unwrap(), 5);
    });
    doubled.wait().unwrap();
}

#[test]
fn functions_that_wait_for_channels_give_their_places_back() {
    let runtime = Runtime::new();
    let worker = runtime.worker("w").unwrap();
    let channel: RemoteChannel<u64> = worker.channel(0).unwrap();
    // More than the worker has cores.
    let takes: Vec<_> = (0..selvedge::cores().len() + 8)
        .map(|_| runtime.call(take_some::remote(&channel, 1_usize).on(&worker)))
        .collect();
    let values: Vec<u64> = (0..takes.len() as u64).collect();
    runtime
        .call(put_all::remote(&channel, &values).on(&worker))
        .wait()
        .unwrap();
    let mut taken: Vec<u64> = takes.into_iter().flat_map(|take| take.wait().unwrap()).collect();
    taken.sort_unstable();
    assert_eq!(taken, values);
}

#[test]
fn the_drop_of_a_loop_gives_the_last_value_back_unless_it_was_acknowledged() {
    let runtime = Runtime::new();
    let worker = runtime.worker("w").unwrap();
    for channel in [runtime.channel(2).unwrap(), worker.channel(2).unwrap()] {
        channel.put(1).unwrap();
        channel.put(2).unwrap();
        let mut values = channel.iter();
        assert_eq!(values.next().unwrap().unwrap(), 1);
        drop(values);
        let mut values = channel.iter();
        assert_eq!(values.next().unwrap().unwrap(), 1);
        values.acknowledge();
        drop(values);
        assert_eq!(channel.take().unwrap(), 2);
    }
}

#[test]
fn the_end_of_the_runtime_ends_every_wait() {
    let runtime = Runtime::new();
    let channel = runtime.channel::<u64>(1).unwrap();
    let waiting = std::thread::spawn({
        let channel = channel.clone();
        move || channel.take()
    });
    assert_eq!(runtime.shutdown(LATE), selvedge::ShutdownReport::default());
    assert!(matches!(waiting.join().unwrap(), Err(Error::Shutdown { .. })));
    let refused = channel.put(1).unwrap_err();
    assert!(matches!(refused.error, Error::Shutdown { .. }) && refused.value == Some(1));
    assert!(matches!(runtime.channel::<u64>(1), Err(Error::NotMade { .. })));
}
