//! Processes of hosts that meet at a router of zenoh, and have direct links where a dial works.
//!
//! The driver has a worker on each host, and obeys lines of its standard input:
//!
//! | order | answer |
//! |---|---|
//! | none | `ready`, when all workers have joined |
//! | `work` | `worked`: every worker was called, has read a value of the next one, and has had a part in a graph |
//! | `read FROM BY COUNT` | `read`: the worker of number `BY` has read so many numbers of 8 bytes of the worker `FROM` |
//! | `submit` | `submitted`: calls and executions are under way, and nobody waits for them |
//! | `collect` | `collected`: all of their results have come, each right and once |
//! | `end` | `left nothing`, when the runtime has ended |
//!
//! An error is the line `news TEXT`.

use std::time::Duration;

use selvedge::hosts::{
    CookieSource, DirectOr, LinkTransport, MachineSpec, SshManager, SshOptions, Tcp, WorkerCommand, Zenoh,
    ZenohRouter, ZenohSettings, init_worker,
};
use selvedge::prelude::*;
use selvedge::{Call, Graph, Worker};

use crate::driver::{one_line, say};
use crate::loads::{Counter, CounterHandle, expect, numbers, pid, sum};

/// The time for which the router may be away.
const SILENCE: Duration = Duration::from_secs(25);
/// The calls, and the executions, that are under way at once.
const UNDER_WAY: u64 = 12;

/// Runs a router until its standard input ends.
pub(crate) fn router(endpoint: &str) -> anyhow::Result<()> {
    let _router = ZenohRouter::start(&[endpoint.to_owned()], &[])?;
    say("ready");
    std::io::stdin().lines().for_each(drop);
    Ok(())
}

/// TCP where a dial works, and the router at this address elsewhere.
fn transport(router: &str) -> anyhow::Result<DirectOr<Tcp, Zenoh>> {
    let zenoh = Zenoh::open(&ZenohSettings::routers([format!("tcp/{router}")]))?;
    Ok(DirectOr::new(Tcp::towards(router)?, zenoh))
}

/// Becomes a worker of the driver that has started this program.
pub(crate) fn worker(router: &str) -> anyhow::Result<()> {
    let cookie = CookieSource::Stdin.read(&mut std::io::stdin())?;
    match init_worker(cookie, transport(router)?)? {}
}

/// Runs the driver to the end of its orders.
pub(crate) fn driver(router: &str, hosts: &[&str]) -> anyhow::Result<()> {
    let runtime = Runtime::new()
        .silence_timeout(SILENCE)
        .hello_timeout(Duration::from_secs(60));
    let program = std::env::current_exe()?.display().to_string();
    let options = SshOptions::default().program(program.as_str()).flag("ssh");
    let command = WorkerCommand::new(program)
        .argument("routed-worker")
        .argument(router);
    let manager = SshManager::machines(MachineSpec::parse_file(&hosts.join("\n"))?)
        .options(options)
        .command(command)
        .transport(LinkTransport::own(transport(router)?));
    let workers = runtime.add(manager)?;
    if let Err(error) = Routed::new(runtime, workers).and_then(Routed::obey) {
        say(&format!("news {}", one_line(&error.to_string())));
    }
    say("left nothing");
    Ok(())
}

/// The work of the driver.
struct Routed {
    runtime: Runtime,
    workers: Vec<Worker>,
    counters: Vec<CounterHandle>,
    graph: Graph<Vec<u64>, Vec<u64>>,
    /// The executions of the graph so far.
    executions: u64,
    calls: Vec<Call<u64>>,
    results: Vec<Execution<Vec<u64>>>,
}

impl Routed {
    fn new(runtime: Runtime, workers: Vec<Worker>) -> anyhow::Result<Self> {
        let counter = |worker| runtime.spawn::<Counter>("counter", ()).in_worker(worker);
        let counters: Vec<_> = workers.iter().map(counter).collect::<Result<_, _>>()?;
        let options = Options::new().timeout(None).submit_timeout(None);
        let graph = runtime.compile_with(options, |x: Edge<Vec<u64>>| {
            counters.iter().fold(x, |x, counter| counter.counted(&x))
        })?;
        Ok(Routed {
            runtime,
            workers,
            counters,
            graph,
            executions: 0,
            calls: Vec::new(),
            results: Vec::new(),
        })
    }

    fn obey(mut self) -> anyhow::Result<()> {
        say("ready");
        for order in std::io::stdin().lines() {
            let order = order?;
            let words: Vec<&str> = order.split(' ').collect();
            let done = match words[..] {
                ["work"] => self.work().map(|()| "worked"),
                ["read", from, by, count] => self
                    .read(from.parse()?, by.parse()?, count.parse()?)
                    .map(|()| "read"),
                ["submit"] => self.submit().map(|()| "submitted"),
                ["collect"] => self.collect().map(|()| "collected"),
                ["end"] => break,
                _ => anyhow::bail!("no such order: {order}"),
            };
            say(done.map_err(|error| anyhow::anyhow!("{error}"))?);
        }
        Ok(())
    }

    fn work(&mut self) -> Result<()> {
        for worker in &self.workers {
            let found = self.runtime.call(pid::remote().on(worker)).wait()?;
            expect(worker.pid().unwrap_or_default().into(), found.into())?;
        }
        for from in 0..self.workers.len() {
            self.read(from, (from + 1) % self.workers.len(), 1000)?;
        }
        self.submit()?;
        self.collect()
    }

    fn read(&mut self, from: usize, by: usize, count: u64) -> Result<()> {
        let worker = |number: usize| self.workers.get(number).ok_or("no such worker");
        let kept = self.runtime.keep(numbers::remote(count).on(worker(from)?));
        let sum = self.runtime.call(sum::remote(&kept).on(worker(by)?)).wait()?;
        expect((0..count).sum(), sum)
    }

    fn submit(&mut self) -> Result<()> {
        for (number, worker) in (0..UNDER_WAY).zip(self.workers.iter().cycle()) {
            let values = vec![number; 10];
            self.calls
                .push(self.runtime.call(total::remote(values).on(worker)));
            self.results.push(self.graph.execute(vec![0; 100]));
        }
        Ok(())
    }

    fn collect(&mut self) -> Result<()> {
        for (number, call) in (0..).zip(self.calls.drain(..)) {
            expect(10 * number, call.wait()?)?;
        }
        for result in self.results.drain(..) {
            self.executions += 1;
            let expected = self.executions * self.counters.len() as u64;
            expect(expected, result.wait()?.last().copied().unwrap_or_default())?;
        }
        Ok(())
    }
}

#[remote]
fn total(values: Vec<u64>) -> u64 {
    values.iter().sum()
}
