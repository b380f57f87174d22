//! The loads: what a driver does with its workers while a fault comes. The first worker is on the host that the fault meets.
#![allow(unreachable_pub, reason = "the methods of an actor are public")]

use std::time::Duration;

use selvedge::prelude::*;
use selvedge::{RemoteChannel, Worker, allreduce};

/// A step of a load; it gets its number.
pub(crate) type Step = Box<dyn FnMut(u64) -> Result<()> + Send>;

/// The step of a load, by the load's name, and whether the steps go on by themselves.
pub(crate) fn load(name: &str, runtime: &Runtime, workers: &[Worker]) -> anyhow::Result<(Step, bool)> {
    let [first, second] = workers else {
        anyhow::bail!("two workers are needed");
    };
    let (runtime, first, second) = (runtime.clone(), first.clone(), second.clone());
    let is_busy = !matches!(
        name,
        "idle" | "one reader" | "four readers" | "one rank" | "four ranks"
    );
    let step: Step = match name {
        "idle" => Box::new(move |_| Ok(runtime.call(pid::remote().on(&first)).wait().map(drop)?)),
        "calls" => Box::new(move |_| calls(&runtime, &first)),
        "references" => {
            let held = runtime.keep(numbers::remote(20_000_u64).on(&first));
            Box::new(move |_| references(&runtime, &held, [&first, &second]))
        }
        "actor" => {
            let actor = runtime.spawn::<Counter>("counter", ()).in_worker(&first)?;
            Box::new(move |number| {
                let counted = actor.call().count().wait()?;
                expect(number + 1, counted)
            })
        }
        "channel" => {
            let channel = first.channel(8)?;
            Box::new(move |number| {
                channel.put(number)?;
                let taken = runtime.call(take::remote(&channel).on(&second)).wait()?;
                expect(number, taken)
            })
        }
        "graph" => graph(&runtime, &first, &second)?,
        "collective" => collective(&runtime, &[&first, &second], 2, 100)?,
        "one rank" => collective(&runtime, &[&first, &second], 1, LENGTH)?,
        "four ranks" => collective(&runtime, &[&first, &second], 4, LENGTH)?,
        "one reader" => readers(&runtime, &[first])?,
        "four readers" => readers(&runtime, &[first.clone(), first.clone(), first.clone(), first])?,
        _ => anyhow::bail!("no load is called `{name}`"),
    };
    Ok((step, is_busy))
}

/// A graph that goes from the driver to the first host, then to the second one, and back. Its executions overlap.
fn graph(runtime: &Runtime, first: &Worker, second: &Worker) -> anyhow::Result<Step> {
    let [first, second] = [("first", first), ("second", second)]
        .map(|(name, worker)| runtime.spawn::<Counter>(name, ()).in_worker(worker));
    let (first, second) = (first?, second?);
    let options = Options::new().timeout(None).submit_timeout(None);
    let graph = runtime.compile_with(options, |x: Edge<Vec<u64>>| {
        let counted = first.counted(&x);
        (second.counted(&counted), counted)
    })?;
    Ok(Box::new(move |number| {
        let executions: Vec<_> = (0..4_u64).map(|_| graph.execute(vec![0; 100])).collect();
        for (count, execution) in (4 * number + 1..).zip(executions) {
            let (twice, once) = execution.wait()?;
            expect(count, once.last().copied().unwrap_or_default())?;
            expect(2 * count, twice.last().copied().unwrap_or_default())?;
        }
        Ok(())
    }))
}

/// The elements of the tensors whose sum crosses between hosts while bytes are counted.
const LENGTH: usize = 1 << 17;

/// A graph of a sum over so many ranks on each of three hosts: the driver's, and those of the workers.
fn collective(
    runtime: &Runtime,
    workers: &[&Worker; 2],
    ranks: usize,
    length: usize,
) -> anyhow::Result<Step> {
    let mut actors = Vec::new();
    for number in 0..ranks {
        let spawn = || runtime.spawn::<Counter>(&format!("rank {number}"), ());
        actors.push(spawn().in_thread()?);
        for worker in workers {
            actors.push(spawn().in_worker(worker)?);
        }
    }
    let options = Options::new().timeout(None).submit_timeout(None);
    let graph = runtime.compile_with(options, |x: Edge<u64>| {
        let parts: Vec<_> = actors
            .iter()
            .map(|actor| actor.filled(&x, length as u64))
            .collect();
        let sums = allreduce(ReduceOp::Sum, parts);
        let firsts = actors.iter().zip(&sums).map(|(actor, sum)| actor.first(sum));
        firsts.collect::<Vec<_>>()
    })?;
    Ok(Box::new(move |number| {
        let expected = number * 3 * ranks as u64;
        let firsts = graph.run(number)?;
        firsts.into_iter().try_for_each(|first| expect(expected, first))
    }))
}

/// The length in bytes of the value that readers read.
const PAYLOAD_BYTES: usize = 4 << 20;

/// A graph whose input of [`PAYLOAD_BYTES`] is read by an actor in each of these workers.
fn readers(runtime: &Runtime, workers: &[Worker]) -> anyhow::Result<Step> {
    let spawn = |worker| runtime.spawn::<Counter>("reader", ()).in_worker(worker);
    let readers: Vec<_> = workers.iter().map(spawn).collect::<Result<_, _>>()?;
    let graph = runtime.compile(|x: Edge<Tensor>| {
        let lengths: Vec<_> = readers.iter().map(|reader| reader.length(&x)).collect();
        lengths
    })?;
    let tensor = Tensor::zeros::<u8>(&[PAYLOAD_BYTES])?;
    Ok(Box::new(move |_| {
        let lengths = graph.run(tensor.clone())?;
        lengths
            .into_iter()
            .try_for_each(|length| expect(PAYLOAD_BYTES as u64, length))
    }))
}

/// Some calls that are under way together.
fn calls(runtime: &Runtime, worker: &Worker) -> Result<()> {
    let calls: Vec<_> = (0..4_u64)
        .map(|value| runtime.call(slow::remote(value).on(worker)))
        .collect();
    for (value, call) in (0..).zip(calls) {
        expect(value, call.wait()?)?;
    }
    Ok(())
}

/// Values of one worker that another one reads: one that was held all the time, and a new one.
fn references(runtime: &Runtime, held: &Ref<Vec<u64>>, [first, second]: [&Worker; 2]) -> Result<()> {
    expect(199_990_000, runtime.call(sum::remote(held).on(second)).wait()?)?;
    let new = runtime.keep(numbers::remote(100_u64).on(first));
    expect(4_950, runtime.call(sum::remote(&new).on(second)).wait()?)
}

/// A wrong value is a mistake, whatever the network does.
pub(crate) fn expect(expected: u64, found: u64) -> Result<()> {
    match expected == found {
        true => Ok(()),
        false => Err(format!("WRONG: {found} in place of {expected}").into()),
    }
}

#[remote]
pub(crate) fn pid() -> u32 {
    std::process::id()
}

/// Takes a while, so that a fault meets it.
#[remote]
fn slow(value: u64) -> u64 {
    std::thread::sleep(Duration::from_millis(20));
    value
}

#[remote]
pub(crate) fn numbers(count: u64) -> Vec<u64> {
    (0..count).collect()
}

#[remote]
pub(crate) fn sum(values: Ref<Vec<u64>>) -> Result<u64> {
    Ok(values.fetch()?.iter().sum())
}

#[remote]
fn take(channel: RemoteChannel<u64>) -> Result<u64> {
    Ok(channel.take()?)
}

pub(crate) struct Counter(u64);

#[actor]
impl Counter {
    pub fn new() -> Self {
        Counter(0)
    }

    pub fn count(&mut self) -> u64 {
        self.0 += 1;
        self.0
    }

    /// Adds the count to the last of these values.
    pub fn counted(&mut self, mut values: Vec<u64>) -> Vec<u64> {
        self.0 += 1;
        if let Some(last) = values.last_mut() {
            *last += self.0;
        }
        values
    }

    /// A tensor of this many elements, which are all `x`.
    pub fn filled(&mut self, x: u64, #[constant] length: u64) -> Result<Tensor> {
        let length = usize::try_from(length)?;
        Ok(Tensor::from_slice(&vec![x; length], &[length])?)
    }

    pub fn first(&mut self, x: &Tensor) -> Result<u64> {
        Ok(x.as_slice::<u64>()?.first().copied().unwrap_or_default())
    }

    pub fn length(&mut self, x: &Tensor) -> u64 {
        x.bytes().len() as u64
    }
}
