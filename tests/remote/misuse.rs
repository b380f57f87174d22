//! References and channels in the wrong hands: of another runtime, of a type that cannot be read, of a call that is over.

use std::sync::Mutex;
use std::time::{Duration, Instant};

use selvedge::prelude::*;
use selvedge::{CallError, FetchError, RemoteChannelError, RemoteError, Worker};
use serde::{Deserialize, Deserializer, Serialize};

use super::gate::{Gate, wait_at};

#[remote]
fn take(channel: RemoteChannel<u64>) -> Result<u64> {
    Ok(channel.take()?)
}

#[remote]
fn made(x: u64) -> u64 {
    x
}

#[test]
fn a_channel_or_reference_of_another_runtime_is_refused() {
    let (one, two) = (Runtime::new(), Runtime::new());
    let [first, worker] = [&one, &two].map(|runtime| runtime.worker("w").unwrap());
    // Both have the number 1 in their runtimes.
    let (channel, other) = (one.channel::<u64>(2).unwrap(), two.channel::<u64>(2).unwrap());
    channel.put(4).unwrap();
    other.put(77).unwrap();
    let refused = two.call(take::remote(&channel).on(&worker)).wait().unwrap_err();
    assert!(
        refused.to_string().contains("belongs to another runtime"),
        "{refused}"
    );
    let there: RemoteChannel<RemoteChannel<u64>> = worker.channel(2).unwrap();
    let refused = there.put(channel.clone()).unwrap_err();
    assert!(
        refused.to_string().contains("belongs to another runtime"),
        "{refused}"
    );
    let kept: Ref<u64> = first.keep(made::remote(1));
    let refused = two.call(made::remote(&kept).on(&worker)).wait().unwrap_err();
    assert!(
        refused.to_string().contains("belongs to another runtime"),
        "{refused}"
    );
    assert_eq!((channel.take().unwrap(), other.take().unwrap()), (4, 77));
}

/// A number whose `Deserialize` refuses 3.
#[derive(Clone, Serialize)]
struct Picky(u64);

impl<'de> Deserialize<'de> for Picky {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> std::result::Result<Self, D::Error> {
        match u64::deserialize(deserializer)? {
            3 => Err(serde::de::Error::custom("it is 3")),
            x => Ok(Picky(x)),
        }
    }
}

#[remote]
fn sum(channel: RemoteChannel<Picky>) -> Result<u64> {
    let mut sum = 0;
    for value in channel.iter() {
        sum += value?.0;
    }
    Ok(sum)
}

#[test]
fn a_value_that_cannot_be_decoded_does_not_come_back_to_the_next_loop() {
    let runtime = Runtime::new();
    let worker = runtime.worker("w").unwrap();
    let channel = runtime.channel(8).unwrap();
    for x in [1, 3, 5, 7] {
        channel.put(Picky(x)).unwrap();
    }
    channel.close().unwrap();
    let error = runtime
        .call(sum::remote(&channel).on(&worker))
        .wait()
        .unwrap_err();
    assert!(error.to_string().contains("it is 3"), "{error}");
    assert_eq!(
        runtime.call(sum::remote(&channel).on(&worker)).wait().unwrap(),
        12
    );
}

/// How the wait of this process ended: each test has a worker of its own.
static ENDED: Mutex<Option<String>> = Mutex::new(None);

#[remote]
fn begin_and_take(channel: RemoteChannel<u64>, begun: RemoteChannel<u64>) -> Result<u64> {
    // The cancellation may come before the answer to this put.
    let _ = begun.put(1);
    let taken = channel.take();
    let is_cancelled = matches!(taken, Err(RemoteChannelError::Cancelled { .. }));
    *ENDED.lock().unwrap() = Some(format!("cancelled: {is_cancelled}"));
    Ok(taken?)
}

#[remote]
fn ended() -> Option<String> {
    ENDED.lock().unwrap().clone()
}

/// Waits until the wait of the worker's process has ended. A fetch that goes on would end later, with its own limit.
fn end_at(runtime: &Runtime, worker: &Worker) -> String {
    let limit = Instant::now() + Duration::from_secs(50);
    loop {
        assert!(Instant::now() < limit, "the wait ends with the call");
        if let Some(text) = runtime.call(ended::remote().on(worker)).wait().unwrap() {
            return text;
        }
    }
}

#[test]
fn a_call_that_is_dropped_takes_nothing_any_more() {
    let runtime = Runtime::new();
    let worker = runtime.worker("w").unwrap();
    let (channel, begun) = (runtime.channel(4).unwrap(), runtime.channel(1).unwrap());
    let call = runtime.call(begin_and_take::remote(&channel, &begun).on(&worker));
    begun.take().unwrap();
    drop(call);
    assert_eq!(end_at(&runtime, &worker), "cancelled: true");
    channel.put(1).unwrap();
    channel.put(2).unwrap();
    assert_eq!((channel.take().unwrap(), channel.take().unwrap()), (1, 2));
}

#[remote]
fn begin_and_fetch(unset: Ref<u64>, begun: RemoteChannel<u64>) -> Result<u64> {
    // The cancellation may come before the answer to this put.
    let _ = begun.put(1);
    let fetched = unset.fetch();
    let is_cancelled = matches!(fetched, Err(FetchError::Cancelled { .. }));
    *ENDED.lock().unwrap() = Some(format!("cancelled: {is_cancelled}"));
    Ok(*fetched?)
}

#[test]
fn a_call_that_is_dropped_waits_for_no_value_any_more() {
    let runtime = Runtime::new();
    let worker = runtime.worker("w").unwrap();
    let (unset, begun) = (runtime.unset::<u64>(), runtime.channel(1).unwrap());
    let call = runtime.call(begin_and_fetch::remote(&unset, &begun).on(&worker));
    begun.take().unwrap();
    drop(call);
    assert_eq!(end_at(&runtime, &worker), "cancelled: true");
}

#[remote]
fn held_at(gate: &str) {
    wait_at(gate);
}

#[remote]
fn begin_and_call(gate: &str, begun: RemoteChannel<u64>) -> Result<()> {
    // The cancellation may come before the answer to this put.
    let _ = begun.put(1);
    let call = Runtime::current()?.call(held_at::remote(gate).on_process(begun.home().process));
    let called = call.wait();
    let is_cancelled = matches!(
        called.as_ref().map_err(CallError::remote),
        Err(Some(RemoteError::Cancelled))
    );
    *ENDED.lock().unwrap() = Some(format!("cancelled: {is_cancelled}"));
    Ok(called?)
}

#[test]
fn a_call_that_is_dropped_waits_for_no_call_any_more() {
    let gate = Gate::closed("dropped_call");
    let runtime = Runtime::new();
    let (worker, begun) = (runtime.worker("w").unwrap(), runtime.channel(1).unwrap());
    let call = runtime.call(begin_and_call::remote(&gate.path, &begun).on(&worker));
    begun.take().unwrap();
    drop(call);
    assert_eq!(end_at(&runtime, &worker), "cancelled: true");
    drop(gate);
}

/// A value of as many levels, and one more for each.
#[derive(Clone, Debug, PartialEq, serde::Serialize, serde::Deserialize)]
struct Deep(Option<Box<Deep>>);

fn deep(links: usize) -> Deep {
    (0..links).fold(Deep(None), |inner, _| Deep(Some(Box::new(inner))))
}

#[remote]
fn same(value: Deep) -> Deep {
    value
}

#[remote]
fn made_deep(links: usize) -> Deep {
    deep(links)
}

#[remote]
fn fails_deep(links: usize) -> Result<(), DeepError> {
    Err(DeepError(deep(links)))
}

#[derive(Debug, thiserror::Error, serde::Serialize, serde::Deserialize)]
#[error("a deep error")]
struct DeepError(Deep);

struct Passer;

#[actor]
impl Passer {
    pub fn new() -> Self {
        Passer
    }

    pub fn pass(&mut self, value: Deep) -> Deep {
        value
    }

    pub fn make(&mut self, links: usize) -> Deep {
        deep(links)
    }
}

#[test]
fn rser_06_a_value_that_nests_too_deep_is_an_error_wherever_it_would_cross_a_process() -> Result<()> {
    fn refused<T, E: std::fmt::Display>(result: Result<T, E>) {
        let error = result.err().map(|error| error.to_string()).unwrap_or_default();
        assert!(error.contains("nests deeper than 256 levels"), "{error:?}");
    }
    let runtime = Runtime::new();
    let worker = runtime.worker("w")?;
    let call = |links| runtime.call(same::remote(deep(links)).on(&worker)).wait();
    // The tuple of the arguments is a level, and each argument in it.
    assert_eq!(call(126)?, deep(126));
    refused(call(200));
    refused(runtime.call(made_deep::remote(200_usize).on(&worker)).wait());
    assert_eq!(runtime.put(deep(127))?.fetch()?.as_ref(), &deep(127));
    refused(runtime.put(deep(200)));
    refused(runtime.submit(same::remote(deep(200)).on(&worker)).fetch());
    let channel = worker.channel::<Deep>(4)?;
    channel.put(deep(127))?;
    refused(channel.put(deep(200)));
    assert_eq!(channel.take()?, deep(127));
    let error = runtime
        .call(fails_deep::remote(200_usize).on(&worker))
        .wait()
        .unwrap_err();
    assert!(error.to_string().contains("a deep error"), "as text: {error}");
    let passer = runtime.spawn::<Passer>("passer", ()).in_worker(&worker)?;
    let graph = runtime.compile(|x: Edge<Deep>| passer.pass(&x))?;
    refused(graph.run(deep(200)));
    assert_eq!(graph.run(deep(127))?, deep(127), "the graph goes on");
    drop(graph);
    let graph = runtime.compile(|links: Edge<usize>| passer.make(&links))?;
    refused(graph.run(200));
    assert_eq!(graph.run(127)?, deep(127));
    Ok(())
}

#[remote]
fn pid() -> u32 {
    std::process::id()
}

/// Starts a worker by the runtime of this function, and another one by a runtime of its own, and calls both by the runtime of this function.
#[remote]
fn call_own_workers() -> Result<Vec<String>> {
    let runtime = Runtime::current()?;
    let own = Runtime::new();
    let workers = [runtime.worker("inner")?, own.worker("own")?];
    assert_eq!(
        own.call(pid::remote().on(&workers[1])).wait()?,
        workers[1].pid().unwrap_or(0)
    );
    let [inner, foreign] = &workers;
    let texts = [
        runtime
            .call(pid::remote().on(inner))
            .wait()
            .map_err(|error| error.to_string()),
        inner
            .keep(pid::remote())
            .fetch()
            .map(|pid| *pid)
            .map_err(|error| error.to_string()),
        runtime
            .call(pid::remote().on(foreign))
            .wait()
            .map_err(|error| error.to_string()),
    ];
    Ok(texts
        .into_iter()
        .map(|text| text.map_or_else(|error| error, |pid| format!("ran in {pid}")))
        .collect())
}

#[test]
fn a_worker_that_a_worker_has_started_is_not_taken_for_another_process() {
    let runtime = Runtime::new();
    let workers = ["a", "b", "c"].map(|name| runtime.worker(name).unwrap());
    for worker in &workers {
        let texts = runtime
            .call(call_own_workers::remote().on(worker))
            .wait()
            .unwrap();
        for (text, name) in texts.iter().zip(["inner", "inner", "own"]) {
            assert!(
                text.contains(&format!("worker `{name}`")) && text.contains("was started by this process"),
                "{text}"
            );
        }
    }
}
