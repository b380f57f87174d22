//! The workers of a runtime: their numbers, their hosts, and how they are removed.

use std::process::{Command, Stdio};
use std::time::Duration;

use selvedge::hosts::{ClusterManager, LocalManager, ProcessId, WorkerCommand, WorkerConfig};
use selvedge::prelude::*;
use selvedge::{EndError, RemoteError, Worker};

use crate::{Elsewhere, beside_others, forever, local, part, pid};

fn numbers(workers: &[Worker]) -> Vec<u32> {
    workers.iter().map(|worker| worker.process().number()).collect()
}

#[remote]
fn myself() -> Result<u32> {
    Ok(Runtime::current()?.process().number())
}

#[test]
fn jclust_04_jclust_05_workers_are_added_listed_and_removed_at_run_time() {
    let _guard = beside_others();
    let runtime = Runtime::new();
    assert_eq!((runtime.process().number(), runtime.workers().len()), (1, 0));
    let first = runtime.add(local(2)).unwrap();
    let child = runtime.worker("child").unwrap();
    let second = runtime.add(local(1)).unwrap();
    let all = [numbers(&first), numbers(&[child]), numbers(&second)].concat();
    assert!(all.is_sorted() && all[0] > 1, "{all:?}");
    // Nobody keeps the child.
    let kept = [numbers(&first), numbers(&second)].concat();
    assert_eq!(numbers(&runtime.workers()), kept);
    for worker in runtime.workers() {
        let found = runtime.call(myself::remote().on(&worker)).wait().unwrap();
        assert_eq!(found, worker.process().number());
        let found = runtime
            .call(myself::remote().on_process(worker.process()))
            .wait()
            .unwrap();
        assert_eq!(found, worker.process().number());
    }
    first[0].end(Duration::from_secs(60)).unwrap();
    assert_eq!(numbers(&runtime.workers()), kept[1..]);
    let third = runtime.add(local(1)).unwrap();
    assert!(numbers(&third)[0] > *all.last().unwrap());
    let kept = [&kept[1..], &numbers(&third)].concat();
    assert_eq!(numbers(&runtime.workers()), kept);
}

#[remote]
fn myself_there(process: u32) -> Result<u32> {
    let there = ProcessId::new(process).unwrap();
    let call = Runtime::current()?.call(myself::remote().on_process(there));
    Ok(call.wait()?)
}

#[test]
fn jclust_04_a_worker_that_was_added_is_known_to_all_others_and_knows_them() {
    let _guard = beside_others();
    let runtime = Runtime::new();
    let mut workers = vec![runtime.worker("child").unwrap()];
    for round in 0..16 {
        workers.push(match round % 2 {
            0 => runtime.add(local(1)).unwrap().remove(0),
            _ => runtime.worker("child").unwrap(),
        });
        let (child, host, last) = (&workers[0], &workers[1], &workers[workers.len() - 1]);
        for (from, to) in [(child, last), (host, last), (last, child), (last, host)] {
            let number = to.process().number();
            let call = runtime.call(myself_there::remote(number).on(from));
            assert_eq!(call.wait().unwrap(), number);
        }
    }
}

#[test]
fn jclust_08_a_worker_that_does_not_end_in_time_is_named() {
    let _guard = beside_others();
    let runtime = Runtime::new();
    let workers = runtime.add(local(2)).unwrap();
    // A stopped process does not end by itself.
    crate::deaths::signal(workers[0].pid().unwrap(), rustix::process::Signal::STOP);
    let error = workers[0].end(Duration::from_millis(100)).unwrap_err();
    assert!(
        matches!(&error, EndError::Killed { worker, .. } if worker.worker() == Some("local 1")),
        "{error}"
    );
    workers[1].end(Duration::from_secs(60)).unwrap();
    assert_eq!(numbers(&runtime.workers()), Vec::<u32>::new());
}

#[test]
fn jclust_13_workers_of_one_host_have_one_number_for_it() {
    let _guard = beside_others();
    let runtime = Runtime::new();
    let mut workers = runtime.add(local(2)).unwrap();
    workers.push(runtime.worker("child").unwrap());
    workers.extend(runtime.add(Elsewhere(&["b"])).unwrap());
    let hosts: Vec<_> = workers.iter().map(Worker::host).collect();
    assert!(
        hosts[0] == hosts[1] && hosts[1] == hosts[2] && hosts[2] != hosts[3],
        "{hosts:?}"
    );
}

#[test]
fn jclust_14_calls_go_on_while_workers_are_added_and_removed() {
    let _guard = beside_others();
    let runtime = Runtime::new();
    let workers = runtime.add(local(1)).unwrap();
    let mut waiting = runtime.call(forever::remote().on(&workers[0]));
    for _ in 0..3 {
        let added = runtime.add(local(1)).unwrap();
        runtime.call(pid::remote().on(&added[0])).wait().unwrap();
        let found = runtime.call(pid::remote().on(&workers[0])).wait().unwrap();
        assert_eq!(Some(found), workers[0].pid());
        added[0].end(Duration::from_secs(60)).unwrap();
    }
    let error = waiting.wait_timeout(Duration::ZERO).unwrap_err();
    assert!(matches!(error.remote(), Some(RemoteError::Timeout(_))), "{error}");
}

#[test]
fn jclust_15_a_manager_of_the_users_own_stands_beside_the_others() {
    let _guard = beside_others();
    let runtime = Runtime::new();
    let workers = [
        runtime.add(Elsewhere(&["b"])).unwrap(),
        runtime.add(local(1)).unwrap(),
    ]
    .concat();
    for worker in &workers {
        let found = runtime.call(pid::remote().on(worker)).wait().unwrap();
        assert_eq!(Some(found), worker.pid());
    }
}

#[remote]
fn say() {
    println!("a word\nanother");
}

/// A worker whose host greets whoever logs in.
struct Greeting;

impl ClusterManager for Greeting {
    fn launch(&self, out: &mut dyn FnMut(WorkerConfig)) -> Result<()> {
        let program = std::env::current_exe()?;
        let script = "echo 'Welcome to the machine'; printf 'no end of line'; exec \"$0\" \"$@\"";
        let command = WorkerCommand::new("sh").argument("-c").argument(script);
        let command = command.argument(program.to_str().unwrap());
        out(WorkerConfig::default()
            .ident("local 1")
            .command(command.bind("127.0.0.1".parse()?)));
        Ok(())
    }
}

/// A driver whose worker prints.
#[test]
#[ignore = "a part of the test below"]
fn a_driver() {
    if std::env::var_os("SELVEDGE_TEST_DRIVER").is_none() {
        return;
    }
    let runtime = Runtime::new();
    let workers = runtime.add(Greeting).unwrap();
    runtime.call(say::remote().on(&workers[0])).wait().unwrap();
    println!("pid={}", workers[0].pid().unwrap());
    workers[0].end(Duration::from_secs(60)).unwrap();
}

#[test]
fn jclust_11_jmgr_20_what_a_worker_prints_is_printed_with_its_name_and_what_comes_before_it_as_that_of_a_startup()
 {
    let _guard = beside_others();
    let output = part("members::a_driver").output().unwrap();
    let printed = String::from_utf8(output.stdout).unwrap();
    let pid = printed.split_once("pid=").unwrap().1.lines().next().unwrap();
    for line in ["a word", "another"] {
        let expected = format!("[local 1 pid {pid}] {line}\n");
        assert!(printed.contains(&expected), "{printed}");
    }
    for line in ["Welcome to the machine", "no end of line"] {
        let expected = format!("From worker startup: {line}\n");
        assert!(printed.contains(&expected), "{printed}");
    }
}

#[test]
fn jmgr_11_a_worker_listens_where_it_is_told() {
    let _guard = beside_others();
    // Nobody else of these tests has this address.
    let free = std::net::TcpListener::bind("127.0.0.9:0").unwrap();
    let address = free.local_addr().unwrap();
    drop(free);
    let manager = LocalManager::workers(2.try_into().unwrap()).bind(address.to_string().parse().unwrap());
    let runtime = Runtime::new();
    let workers = runtime.add(manager).unwrap();
    let places: Vec<_> = workers
        .iter()
        .map(|worker| crate::ports::listeners(worker.pid().unwrap())[0].local.clone())
        .collect();
    // As the kernel writes it.
    let first = format!("0900007F:{:04X}", address.port());
    assert!(
        places[0] == first && places[1] != first && places[1].starts_with("0900007F:"),
        "{places:?}"
    );
}

/// Runs this program as a worker, with this standard input. Returns what it says, and whether it ended well.
fn worker(arguments: &[&str], input: &str) -> (String, bool) {
    let mut worker = Command::new(std::env::current_exe().unwrap())
        .args(arguments)
        .stdin(Stdio::piped())
        .stdout(Stdio::piped())
        .stderr(Stdio::piped())
        .spawn()
        .unwrap();
    // A worker that does not want it does not read it.
    let _ = std::io::Write::write_all(&mut worker.stdin.take().unwrap(), input.as_bytes());
    let output = worker.wait_with_output().unwrap();
    (String::from_utf8(output.stderr).unwrap(), output.status.success())
}

#[test]
fn jmgr_09_a_worker_reads_the_cookie_from_its_input_and_does_not_run_without_it() {
    let _guard = beside_others();
    for input in ["", "no cookie\n"] {
        let (said, is_well) = worker(&["--selvedge-worker"], input);
        assert!(!is_well && said.contains("cookie"), "{said}");
    }
}

#[test]
fn a_wrong_flag_of_a_worker_ends_it_by_name() {
    let _guard = beside_others();
    let (said, is_well) = worker(&["--selvedge-worker", "--no-prot", "--dial", "127.0.0.1:1"], "");
    assert!(
        !is_well && said.contains("`--no-prot` is no flag of a worker"),
        "{said}"
    );
    let (said, is_well) = worker(&["--selvedge-worker", "--dial"], "");
    assert!(!is_well && said.contains("`--dial` needs HOST:PORT"), "{said}");
}

#[test]
fn a_worker_whose_last_line_nobody_can_read_ends_all_the_same() {
    let _guard = beside_others();
    let (reader, writer) = std::io::pipe().unwrap();
    drop(reader);
    let ended = Command::new(std::env::current_exe().unwrap())
        .args(["--selvedge-worker", "--cookie-file", "/nonexistent/cookie"])
        .stderr(writer)
        .status();
    // The code of a worker that cannot start, which a panic does not have.
    assert_eq!(ended.unwrap().code(), Some(70));
}
