//! The loads: what a driver does with its workers while a fault comes. The first worker is on the host that the fault meets.
#![allow(unreachable_pub, reason = "the methods of an actor are public")]

use std::time::Duration;

use selvedge::prelude::*;
use selvedge::{RemoteChannel, Worker};

/// A step of a load; it gets its number.
pub(crate) type Step = Box<dyn FnMut(u64) -> Result<()> + Send>;

/// The step of a load, by the load's name, and whether the steps go on by themselves.
pub(crate) fn load(name: &str, runtime: &Runtime, workers: &[Worker]) -> anyhow::Result<(Step, bool)> {
    let [first, second] = workers else {
        anyhow::bail!("two workers are needed");
    };
    let (runtime, first, second) = (runtime.clone(), first.clone(), second.clone());
    let is_busy = name != "idle";
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
        _ => anyhow::bail!("no load is called `{name}`"),
    };
    Ok((step, is_busy))
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
fn expect(expected: u64, found: u64) -> Result<()> {
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
fn numbers(count: u64) -> Vec<u64> {
    (0..count).collect()
}

#[remote]
fn sum(values: Ref<Vec<u64>>) -> Result<u64> {
    Ok(values.fetch()?.iter().sum())
}

#[remote]
fn take(channel: RemoteChannel<u64>) -> Result<u64> {
    Ok(channel.take()?)
}

struct Counter(u64);

#[actor]
impl Counter {
    pub fn new() -> Self {
        Counter(0)
    }

    pub fn count(&mut self) -> u64 {
        self.0 += 1;
        self.0
    }
}
