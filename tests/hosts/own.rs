//! Transports of the user's own: a program makes itself a worker by `init_worker`, and a manager starts it.

use std::fs;
use std::os::unix::fs::PermissionsExt;
use std::path::PathBuf;
use std::process::{Command, Stdio};
use std::time::Duration;

use selvedge::hosts::{
    AddError, ClusterManager, CookieSource, LinkTransport, SetCookieError, SshOptions, Uds, WorkerCommand,
    WorkerConfig, init_worker,
};
use selvedge::prelude::*;

use crate::broker::{Broker, Brokered};
use crate::census::{Census, settled, wait_until};
use crate::played::{cookie, part};
use crate::{alone, beside_others, deaths, forever, local, pid, ports};

/// The variable by which a part of a test learns over which transport it is a worker.
const PLACE: &str = "SELVEDGE_TEST_PLACE";

/// The program of the workers.
#[test]
#[ignore = "a part of the tests below"]
fn a_worker() {
    let Ok(place) = std::env::var(PLACE) else {
        return;
    };
    let cookie = cookie();
    let error = match place.strip_prefix("broker ") {
        Some(broker) => init_worker(cookie, Brokered::at(broker.parse().unwrap())),
        None => init_worker(cookie, Uds::within(place).unwrap()),
    };
    panic!("{}", error.unwrap_err());
}

/// Workers of this program over a transport of the user's own.
struct Own {
    count: usize,
    transport: LinkTransport,
    place: String,
}

impl ClusterManager for Own {
    fn launch(&self, out: &mut dyn FnMut(WorkerConfig)) -> Result<()> {
        let command = part("own::a_worker").variable(PLACE, &self.place);
        for number in 1..=self.count {
            let config = WorkerConfig::default().ident(format!("own {number}"));
            out(config.command(command.clone()));
        }
        Ok(())
    }

    fn transport(&self) -> LinkTransport {
        self.transport.clone()
    }
}

/// Workers whose sockets lie in a directory.
fn in_directory(count: usize, name: &str) -> (Own, PathBuf) {
    let directory = std::env::temp_dir().join(format!("selvedge-own-{name}-{}", std::process::id()));
    let manager = Own {
        count,
        transport: LinkTransport::own(Uds::within(&directory).unwrap()),
        place: directory.to_str().unwrap().to_owned(),
    };
    (manager, directory)
}

#[remote]
fn pid_at(place: Ref<u32>) -> Result<u32> {
    Ok(*place.fetch()?)
}

/// Has each worker ask another one.
fn ask_each_other(runtime: &Runtime, workers: &[selvedge::Worker]) {
    let kept: Vec<_> = workers
        .iter()
        .map(|worker| runtime.keep(pid::remote().on(worker)))
        .collect();
    for (at, worker) in workers.iter().enumerate() {
        let next = (at + 1) % workers.len();
        let found = runtime
            .call(pid_at::remote(&kept[next]).on(worker))
            .wait()
            .unwrap();
        assert_eq!(Some(found), workers[next].pid());
    }
}

#[test]
fn jtran_04_jtran_07_jtran_09_jnet_15_workers_are_reached_over_sockets_of_a_directory() {
    let _guard = alone();
    let runtime = Runtime::new().hello_timeout(Duration::from_secs(60));
    let (manager, directory) = in_directory(2, "sockets");
    let workers = runtime.add(manager).unwrap();
    ask_each_other(&runtime, &workers);
    for worker in &workers {
        let pid = worker.pid().unwrap();
        assert!(
            ports::listeners(pid).is_empty() && ports::links(pid) == 0,
            "nothing goes over TCP"
        );
        let shown = fs::read(format!("/proc/{pid}/cmdline")).unwrap();
        assert!(!String::from_utf8_lossy(&shown).contains("--selvedge-worker"));
    }
    assert!(fs::read_dir(&directory).unwrap().count() >= 2);
    let waiting = runtime.call(forever::remote().on(&workers[0]));
    deaths::kill_9(workers[0].pid().unwrap());
    let error = waiting.wait().unwrap_err().to_string();
    assert!(
        error.contains("worker `own 1`") && error.contains("died"),
        "{error}"
    );
    workers[1].end(Duration::from_secs(60)).unwrap();
    let _ = fs::remove_dir_all(directory);
}

#[test]
fn jtran_06_a_star_through_a_broker_is_logically_all_to_all() {
    let _guard = alone();
    let broker = Broker::start();
    let runtime = Runtime::new().hello_timeout(Duration::from_secs(60));
    let manager = |count| Own {
        count,
        transport: broker.transport(),
        place: format!("broker {}", broker.address()),
    };
    let workers = runtime.add(manager(3)).unwrap();
    ask_each_other(&runtime, &workers);
    for worker in &workers {
        let pid = worker.pid().unwrap();
        assert!(ports::listeners(pid).is_empty());
        assert!(
            ports::all_lead_to(pid, broker.address()),
            "each process knows the broker alone"
        );
    }
    let kept = runtime.keep(pid::remote().on(&workers[2]));
    assert_eq!(kept.fetch().unwrap(), workers[2].pid().unwrap().into());
    let waiting = runtime.call(forever::remote().on(&workers[0]));
    deaths::kill_9(workers[0].pid().unwrap());
    let error = waiting.wait().unwrap_err().to_string();
    assert!(
        error.contains("worker `own 1`") && error.contains("died"),
        "{error}"
    );
    // A child has no transport of the driver's own.
    let child = runtime.worker("child").unwrap();
    let asked = || {
        let call = crate::topology::pid_of::remote(workers[1].process().number()).on(&child);
        runtime.call(call).wait().unwrap_err().to_string()
    };
    // The call may be there before the news of the other one.
    assert!(!wait_until(&false, || asked().contains("no process with this number")));
    let error = asked();
    assert!(
        error.contains("the transport `broker` of the driver's own"),
        "{error}"
    );
    // A long value, both ways.
    let long: Vec<u64> = (0..1_000_000).collect();
    let sum = runtime
        .call(sum_of::remote(&long).on(&workers[1]))
        .wait()
        .unwrap();
    assert_eq!(sum, long.iter().sum::<u64>());
}

#[remote]
fn sum_of(values: Vec<u64>) -> u64 {
    values.iter().sum()
}

#[test]
fn jmgr_12_whoever_is_a_driver_or_a_worker_over_tcp_does_not_become_a_worker_of_another_transport() {
    let _guard = beside_others();
    let _driver = Runtime::new();
    let error = init_worker(
        CookieSource::Given(selvedge::hosts::Cookie::new([1; 32]))
            .read(&mut std::io::empty())
            .unwrap(),
        Uds::new().unwrap(),
    );
    assert!(error.unwrap_err().to_string().contains("so it is a driver"));
    // Behind `--`, the flag is one of the program.
    let program = std::env::current_exe().unwrap();
    let output = Command::new(program)
        .args(["--exact", "own::a_worker", "--ignored", "--nocapture"])
        .env(PLACE, "/nonexistent/of/no/use")
        .stdin(Stdio::null())
        .output()
        .unwrap();
    assert!(!output.status.success());
    let said =
        String::from_utf8_lossy(&output.stdout).into_owned() + &String::from_utf8_lossy(&output.stderr);
    assert!(
        said.contains("Ended"),
        "without a cookie there is no worker: {said}"
    );
}

#[test]
fn what_does_not_go_with_a_transport_of_the_users_own_is_refused() {
    let _guard = alone();
    let runtime = Runtime::new().hello_timeout(Duration::from_secs(60));
    let (manager, directory) = in_directory(1, "refused");
    struct Tunnelled(Own);
    impl ClusterManager for Tunnelled {
        fn launch(&self, out: &mut dyn FnMut(WorkerConfig)) -> Result<()> {
            self.0.launch(&mut |config| {
                let ssh = SshOptions::default().tunnel(true);
                out(config.ssh(ssh).machine("gpu0".parse().unwrap()));
            })
        }

        fn transport(&self) -> LinkTransport {
            self.0.transport()
        }
    }
    let transport = manager.transport.clone();
    let error = runtime.add(Tunnelled(manager)).unwrap_err();
    assert!(matches!(error, AddError::NoTunnel { .. }), "{error}");
    // A call that fails fixes nothing.
    let workers = runtime.add(local(1)).unwrap();
    let error = runtime.add(local(1).transport(transport.clone())).unwrap_err();
    assert!(matches!(error, AddError::TransportFixed { .. }), "{error}");
    // Both live until the end, so that they do not end while others are counted.
    let _first = (workers, runtime);
    // A program that listens over TCP all the same is not reached, and nothing is left of it.
    let runtime = Runtime::new().hello_timeout(Duration::from_secs(60));
    let add = || {
        runtime
            .add(Announcing(transport.clone()))
            .unwrap_err()
            .to_string()
    };
    add();
    let before = settled(Census::take);
    let error = add();
    assert!(error.contains("nobody answers"), "{error}");
    assert_eq!(wait_until(&before, Census::take), before);
    let _ = fs::remove_dir_all(directory);
}

/// A program that announces a place where nobody listens.
struct Announcing(LinkTransport);

impl ClusterManager for Announcing {
    fn launch(&self, out: &mut dyn FnMut(WorkerConfig)) -> Result<()> {
        let script = "echo 'selvedge-worker#1 at /nonexistent/socket'; exec sleep 60";
        let command = WorkerCommand::new("sh").argument("-c").argument(script);
        out(WorkerConfig::default().command(command));
        Ok(())
    }

    fn transport(&self) -> LinkTransport {
        self.0.clone()
    }
}

#[test]
fn jnet_12_jnet_16_a_runtime_has_the_cookie_that_it_is_given() {
    let _guard = beside_others();
    let file = std::env::temp_dir().join(format!("selvedge-cookie-{}", std::process::id()));
    fs::write(&file, format!("{}\n", "5a".repeat(32))).unwrap();
    let runtime = Runtime::new();
    let set = || runtime.set_cookie(&CookieSource::File(file.clone()));
    fs::set_permissions(&file, PermissionsExt::from_mode(0o640)).unwrap();
    let exposed = set().unwrap_err();
    assert!(matches!(exposed, SetCookieError::Source(_)), "{exposed}");
    fs::set_permissions(&file, PermissionsExt::from_mode(0o600)).unwrap();
    set().unwrap();
    let workers = runtime.add(local(1)).unwrap();
    assert_eq!(
        runtime.cookie().unwrap().text().as_ref(),
        format!("{}\n", "5a".repeat(32)).as_bytes()
    );
    let found = runtime.call(pid::remote().on(&workers[0])).wait().unwrap();
    assert_eq!(Some(found), workers[0].pid());
    let late = set().unwrap_err();
    assert!(matches!(late, SetCookieError::Fixed), "{late}");
    // Another runtime has a cookie of its own.
    assert_ne!(
        Runtime::new().cookie().unwrap().text().as_ref(),
        runtime.cookie().unwrap().text().as_ref()
    );
    fs::remove_file(file).unwrap();
}
