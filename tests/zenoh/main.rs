//! Drivers and workers that know a router of zenoh alone: calls, references and graphs go through it.
#![allow(
    missing_docs,
    unreachable_pub,
    clippy::unwrap_used,
    clippy::indexing_slicing,
    clippy::panic
)] // a test may panic

#[path = "../played/mod.rs"]
mod played;
mod sockets;
#[cfg(feature = "tls")]
mod tls;

use std::net::TcpListener;
use std::time::Duration;

use selvedge::hosts::{
    ClusterManager, LinkTransport, WorkerConfig, Zenoh, ZenohRouter, ZenohSettings, init_worker,
};
use selvedge::prelude::*;
use selvedge::{Options, Worker};

use played::{Adder, cookie, forever, part, pid};

/// The variable by which a worker learns where the router is.
const ROUTER: &str = "SELVEDGE_TEST_ROUTER";

/// The program of the workers.
#[test]
#[ignore = "a part of the tests below"]
fn a_worker() {
    let Ok(endpoint) = std::env::var(ROUTER) else {
        return;
    };
    let zenoh = Zenoh::open(&ZenohSettings::routers([endpoint])).unwrap();
    panic!("{}", init_worker(cookie(), zenoh).unwrap_err());
}

/// Workers of this program that pass for those of other hosts, one a host.
struct Behind {
    /// The path of the program of the workers.
    program: &'static str,
    endpoint: String,
    transport: LinkTransport,
    hosts: &'static [&'static str],
    variables: Vec<(&'static str, String)>,
}

impl ClusterManager for Behind {
    fn launch(&self, out: &mut dyn FnMut(WorkerConfig)) -> Result<()> {
        for host in self.hosts {
            let command = part(self.program)
                .variable(ROUTER, &self.endpoint)
                .variable("SELVEDGE_HOST", *host);
            let variables = self.variables.iter();
            let command = variables.fold(command, |command, (name, value)| command.variable(*name, value));
            out(WorkerConfig::default().ident(*host).command(command));
        }
        Ok(())
    }

    fn transport(&self) -> LinkTransport {
        self.transport.clone()
    }
}

/// A router, a driver, and workers.
struct Site {
    router: Option<ZenohRouter>,
    endpoint: String,
    runtime: Runtime,
    workers: Vec<Worker>,
}

fn start(endpoint: &str) -> ZenohRouter {
    ZenohRouter::start(&[endpoint.to_owned()], &[]).unwrap()
}

impl Site {
    fn of(hosts: &'static [&'static str]) -> Self {
        let free = TcpListener::bind("127.0.0.1:0").unwrap();
        let endpoint = format!("tcp/{}", free.local_addr().unwrap());
        drop(free);
        let router = start(&endpoint);
        let zenoh = Zenoh::open(&ZenohSettings::routers([&endpoint])).unwrap();
        // Nobody gives a sign of life while the router is away.
        let runtime = Runtime::new()
            .hello_timeout(Duration::from_secs(60))
            .silence_timeout(Duration::from_secs(60));
        let manager = Behind {
            program: "a_worker",
            endpoint: endpoint.clone(),
            transport: LinkTransport::own(zenoh),
            hosts,
            variables: Vec::new(),
        };
        let workers = runtime.add(manager).unwrap();
        Site {
            router: Some(router),
            endpoint,
            runtime,
            workers,
        }
    }

    fn stop_router(&mut self) {
        self.router = None;
    }
}

#[remote]
fn pid_at(place: Ref<u32>) -> Result<u32> {
    Ok(*place.fetch()?)
}

#[remote]
fn sum_of(values: Vec<u64>) -> u64 {
    values.iter().sum()
}

/// Has each worker fetch a value of the next one.
fn ask_each_other(site: &Site) {
    let Site { runtime, workers, .. } = site;
    let kept: Vec<_> = workers
        .iter()
        .map(|worker| runtime.keep(pid::remote().on(worker)))
        .collect();
    let next = kept.iter().cycle().skip(1);
    for ((worker, kept), owner) in workers.iter().zip(next).zip(workers.iter().cycle().skip(1)) {
        let found = runtime.call(pid_at::remote(kept).on(worker)).wait().unwrap();
        assert_eq!(Some(found), owner.pid());
    }
}

#[test]
fn jtran_06_calls_references_and_a_graph_go_through_a_router() {
    let site = Site::of(&["b", "c"]);
    let Site { runtime, workers, .. } = &site;
    ask_each_other(&site);
    for worker in workers {
        let pid = worker.pid().unwrap();
        assert!(sockets::listening(pid).is_empty(), "only the router has a port");
        assert!(
            sockets::all_lead_to(pid, &site.endpoint),
            "each process knows the router alone"
        );
    }
    // Long values, both ways.
    let long: Vec<u64> = (0..1_000_000).collect();
    let sum = runtime
        .call(sum_of::remote(&long).on(&workers[1]))
        .wait()
        .unwrap();
    assert_eq!(sum, long.iter().sum::<u64>());
    // A graph whose edges go from host to host.
    let at = |name: &str, by, worker| runtime.spawn::<Adder>(name, (by,)).in_worker(worker).unwrap();
    let near = runtime.spawn::<Adder>("near", (1,)).in_thread().unwrap();
    let (b, c) = (at("b", 10, &workers[0]), at("c", 100, &workers[1]));
    let graph = runtime
        .compile(|x: Edge<i64>| near.add(&c.add(&b.add(&x))))
        .unwrap();
    let executions: Vec<_> = (0..200).map(|x| graph.execute(x)).collect();
    for (x, execution) in (0..).zip(executions) {
        assert_eq!(execution.wait().unwrap(), x + 111);
    }
    drop(graph);
    assert_eq!(b.call().count().wait().unwrap(), 200);
}

#[test]
fn a_router_that_is_away_for_ten_seconds_loses_nothing() {
    let mut site = Site::of(&["b", "c"]);
    let at = |name: &str, by, worker| {
        site.runtime
            .spawn::<Adder>(name, (by,))
            .in_worker(worker)
            .unwrap()
    };
    let (b, c) = (at("b", 10, &site.workers[0]), at("c", 100, &site.workers[1]));
    // Who submits waits for the router, too.
    let options = Options::new().submit_timeout(Duration::from_secs(60));
    let compiled = site
        .runtime
        .compile_with(options, |x: Edge<i64>| c.add(&b.add(&x)));
    let graph = compiled.unwrap();
    assert_eq!(graph.run(1).unwrap(), 111);
    site.stop_router();
    let endpoint = site.endpoint.clone();
    let restarting = std::thread::spawn(move || {
        std::thread::sleep(Duration::from_secs(10));
        start(&endpoint)
    });
    // While the router is away: calls, and executions of the graph, of which not all have room until it is back.
    let calls: Vec<_> = (0..50_u64)
        .map(|x| {
            let worker = &site.workers[x as usize % 2];
            site.runtime.call(sum_of::remote(vec![x; 10]).on(worker))
        })
        .collect();
    let executions: Vec<_> = (0..20).map(|x| graph.execute(x)).collect();
    site.router = Some(restarting.join().unwrap());
    for (x, call) in (0..).zip(calls) {
        assert_eq!(call.wait().unwrap(), x * 10);
    }
    for (x, execution) in (0..).zip(executions) {
        assert_eq!(execution.wait().unwrap(), x + 110);
    }
    drop(graph);
    // Each once.
    assert_eq!(b.call().count().wait().unwrap(), 21);
    ask_each_other(&site);
}

#[test]
fn a_call_at_the_moment_at_which_the_router_is_back_has_its_answer() {
    let mut site = Site::of(&["b"]);
    for _ in 0..3 {
        site.stop_router();
        site.router = Some(start(&site.endpoint));
        // Before everybody has connected again.
        let now = site.runtime.call(pid::remote().on(&site.workers[0]));
        assert_eq!(Some(now.wait().unwrap()), site.workers[0].pid());
    }
}

#[test]
fn a_worker_that_is_killed_is_named_and_the_others_go_on() {
    let site = Site::of(&["b", "c"]);
    let Site { runtime, workers, .. } = &site;
    let waiting = runtime.call(forever::remote().on(&workers[0]));
    let killed = rustix::process::Pid::from_raw(workers[0].pid().unwrap() as i32).unwrap();
    rustix::process::kill_process(killed, rustix::process::Signal::KILL).unwrap();
    let error = waiting.wait().unwrap_err().to_string();
    assert!(error.contains("worker `b`") && error.contains("died"), "{error}");
    let found = runtime.call(pid::remote().on(&workers[1])).wait().unwrap();
    assert_eq!(Some(found), workers[1].pid());
}
