//! Workers that are started by hand, and dial the driver.

use std::net::SocketAddr;
use std::path::PathBuf;
use std::process::{Child, Command, Stdio};
use std::sync::Mutex;
use std::time::Duration;

use selvedge::hosts::{AddError, ClusterManager, Cookie, CookieSource, DialIn, LinkTransport, WorkerConfig};
use selvedge::prelude::*;
use selvedge::{EndError, Worker};

use crate::census::{Census, settled, wait_until};
use crate::played::Adder;
use crate::refused::AnotherBuild;
use crate::resets::work_goes_on_over_resets;
use crate::topology::asked;
use crate::workers::values_go_between;
use crate::{alone, beside_others, pid, ports};

/// A process that somebody else than a runtime has started. The drop ends and reaps it.
pub struct ByHand(pub Child);

impl ByHand {
    /// Starts this program as a worker that dials a driver.
    pub fn start(door: &DialIn, file: &Invited, flags: &[&str]) -> Self {
        ByHand::of(&std::env::current_exe().unwrap(), door, file, flags)
    }

    pub fn of(program: &std::path::Path, door: &DialIn, file: &Invited, flags: &[&str]) -> Self {
        ByHand(command(program, door.address(), file, flags).spawn().unwrap())
    }

    /// Starts this program as a worker that finds the door at another address.
    pub fn at(address: SocketAddr, file: &Invited) -> Self {
        let program = std::env::current_exe().unwrap();
        ByHand(command(&program, address, file, &[]).spawn().unwrap())
    }

    /// Waits for the end. Returns whether the process ended well, and the words on its standard error.
    fn end(mut self) -> (bool, String) {
        let status = self.0.wait().unwrap();
        let mut said = String::new();
        std::io::Read::read_to_string(&mut self.0.stderr.take().unwrap(), &mut said).unwrap();
        (status.success(), said)
    }
}

impl Drop for ByHand {
    fn drop(&mut self) {
        let _ = self.0.kill();
        let _ = self.0.wait();
    }
}

fn command(program: &std::path::Path, door: SocketAddr, file: &Invited, flags: &[&str]) -> Command {
    let mut command = Command::new(program);
    command
        .args(["--selvedge-worker", "--dial", &door.to_string()])
        .arg("--cookie-file")
        .arg(&file.0)
        .args(flags)
        .stdin(Stdio::null())
        .stderr(Stdio::piped());
    command
}

/// The file of an invitation, which the drop removes.
pub struct Invited(pub PathBuf);

impl Invited {
    pub fn to(runtime: &Runtime, door: &DialIn) -> Self {
        let file = Invited::nowhere();
        runtime.invitation(door).unwrap().save(&file.0).unwrap();
        file
    }

    fn nowhere() -> Self {
        static FILES: Mutex<u32> = Mutex::new(0);
        let mut files = FILES.lock().unwrap();
        *files += 1;
        let name = format!("selvedge-invitation-{}-{}", std::process::id(), *files);
        Invited(std::env::temp_dir().join(name))
    }
}

impl Drop for Invited {
    fn drop(&mut self) {
        let _ = std::fs::remove_file(&self.0);
    }
}

pub fn door() -> DialIn {
    DialIn::listen("127.0.0.1:0").unwrap()
}

/// Adds workers that pass for those of other hosts, and are started by hand.
pub fn guests(
    runtime: &Runtime,
    door: &DialIn,
    hosts: &[&str],
    flags: &[&str],
) -> (Vec<Worker>, Vec<ByHand>) {
    let file = Invited::to(runtime, door);
    let program = std::env::current_exe().unwrap();
    let started = hosts.iter().map(|host| {
        let mut command = command(&program, door.address(), &file, flags);
        ByHand(command.env("SELVEDGE_HOST", host).spawn().unwrap())
    });
    let started: Vec<_> = started.collect();
    let count = u16::try_from(hosts.len()).unwrap().try_into().unwrap();
    let mut workers = runtime.add(door.expect(count)).unwrap();
    // In the order of the processes that were started.
    let place = |worker: &Worker| {
        let is_it = |process: &ByHand| Some(process.0.id()) == worker.pid();
        started.iter().position(is_it)
    };
    workers.sort_by_key(place);
    (workers, started)
}

#[test]
fn rtask_08_a_worker_offers_the_cores_of_its_own_host() {
    use rustix::thread::{CpuSet, sched_getaffinity, sched_setaffinity};
    let _guard = beside_others();
    let runtime = Runtime::new();
    // A process has the cores of the thread that starts it.
    let cores = sched_getaffinity(None).unwrap();
    let mut first = CpuSet::new();
    first.set((0..CpuSet::MAX_CPU).find(|core| cores.is_set(*core)).unwrap());
    sched_setaffinity(None, &first).unwrap();
    let (workers, _started) = guests(&runtime, &door(), &["b"], &[]);
    sched_setaffinity(None, &cores).unwrap();
    assert_eq!(
        *runtime.submit(pid::remote()).fetch().unwrap(),
        workers[0].pid().unwrap()
    );
    let error = runtime.submit(pid::remote().cpus(2)).fetch().unwrap_err();
    let why: Option<&selvedge::Lost> = error.downcast_ref();
    assert!(
        matches!(why, Some(selvedge::Lost::Infeasible { offered, .. }) if offered == "1 cpus"),
        "{error}"
    );
    // A worker with all cores has more room, if there are more.
    let (wide, _started) = guests(&runtime, &door(), &["c"], &[]);
    let all = std::thread::available_parallelism().unwrap().get();
    let placed = runtime.submit(pid::remote().cpus(all.try_into().unwrap()));
    if all > 1 {
        assert_eq!(*placed.fetch().unwrap(), wide[0].pid().unwrap());
    }
}

#[remote]
fn double(values: Vec<u64>) -> Vec<u64> {
    values.into_iter().map(|value| 2 * value).collect()
}

#[remote]
fn put_all(channel: RemoteChannel<u32>, count: u32) -> Result<()> {
    for value in 0..count {
        channel.put(value)?;
    }
    Ok(())
}

#[test]
fn functions_actors_references_channels_and_graphs_work_in_workers_that_dial_in() {
    let _guard = beside_others();
    let runtime = Runtime::new();
    let (workers, started) = guests(&runtime, &door(), &["b", "c"], &[]);
    for (worker, process) in workers.iter().zip(&started) {
        let found = runtime.call(pid::remote().on(worker)).wait().unwrap();
        assert_eq!(found, process.0.id());
    }
    values_go_between(&runtime, &workers);
    let channel = workers[0].channel::<u32>(4).unwrap();
    let putting = runtime.call(put_all::remote(&channel, 20).on(&workers[1]));
    let taken: Vec<u32> = (0..20).map(|_| channel.take().unwrap()).collect();
    assert_eq!(taken, (0..20).collect::<Vec<_>>());
    putting.wait().unwrap();
    let near = runtime.spawn::<Adder>("near", (1,)).in_thread().unwrap();
    let far = [0, 1].map(|at| {
        let spawn = runtime.spawn::<Adder>(&format!("far {at}"), (10,));
        spawn.in_worker(&workers[at]).unwrap()
    });
    assert_eq!(far[0].call().add(5).wait().unwrap(), 15);
    let graph = runtime
        .compile(|x: Edge<i64>| near.add(&far[1].add(&far[0].add(&x))))
        .unwrap();
    for x in 0..50 {
        assert_eq!(graph.run(x).unwrap(), x + 21);
    }
}

#[test]
fn work_goes_on_in_workers_that_dial_in_while_their_connections_are_reset() {
    let _guard = alone();
    let runtime = Runtime::new();
    let (workers, _started) = guests(&runtime, &door(), &["b", "c"], &[]);
    work_goes_on_over_resets(&runtime, &workers, Duration::from_millis(60));
}

#[cfg(feature = "tls")]
#[test]
fn workers_dial_in_under_tls_and_show_no_secret() {
    let _guard = beside_others();
    let runtime = Runtime::new();
    let door = door().transport(LinkTransport::tls().unwrap());
    let (workers, started) = guests(&runtime, &door, &["b", "c"], &["--tls-input"]);
    values_go_between(&runtime, &workers);
    let secret = runtime.cookie().unwrap().text();
    let secret = std::str::from_utf8(secret.as_ref()).unwrap().trim();
    for process in &started {
        for file in ["cmdline", "environ"] {
            let shown = std::fs::read(format!("/proc/{}/{file}", process.0.id())).unwrap();
            let shown = String::from_utf8_lossy(&shown).into_owned();
            assert!(
                !shown.contains(secret) && !shown.contains("PRIVATE KEY"),
                "{file}"
            );
        }
    }
}

#[test]
fn more_workers_dial_in_later_and_those_that_come_early_wait() {
    let _guard = beside_others();
    let runtime = Runtime::new();
    let door = door();
    let (first, _started) = guests(&runtime, &door, &["b"], &[]);
    let (second, _more) = guests(&runtime, &door, &["c", "d", "e"], &[]);
    let all: Vec<u32> = first
        .iter()
        .chain(&second)
        .map(|worker| runtime.call(pid::remote().on(worker)).wait().unwrap())
        .collect();
    let known: Vec<u32> = first.iter().chain(&second).filter_map(Worker::pid).collect();
    assert_eq!(all, known);
    assert_eq!(runtime.workers().len(), 4);
}

/// A manager of the user's own that starts workers in its own way, and lets them dial in.
struct Batch {
    door: DialIn,
    file: Invited,
    started: Mutex<Vec<ByHand>>,
}

impl ClusterManager for Batch {
    fn launch(&self, out: &mut dyn FnMut(WorkerConfig)) -> Result<()> {
        for job in ["job 7", "job 8"] {
            let process = ByHand::start(&self.door, &self.file, &[]);
            self.started.lock().unwrap().push(process);
            out(WorkerConfig::default().ident(job));
        }
        Ok(())
    }

    fn door(&self) -> Option<DialIn> {
        Some(self.door.clone())
    }
}

#[test]
fn jmgr_05_a_manager_of_the_users_own_starts_workers_that_dial_in() {
    let _guard = beside_others();
    let runtime = Runtime::new();
    let door = door();
    let file = Invited::to(&runtime, &door);
    let started = Mutex::default();
    let workers = runtime.add(Batch { door, file, started }).unwrap();
    let names: Vec<_> = workers.iter().map(Worker::name).collect();
    assert_eq!(names, ["job 7", "job 8"]);
    values_go_between(&runtime, &workers);
}

#[test]
fn workers_without_a_port_dial_others_and_two_of_them_have_no_link() {
    let _guard = beside_others();
    let runtime = Runtime::new();
    let door = door();
    let (hidden, started) = guests(&runtime, &door, &["b", "c"], &["--no-port"]);
    let (open, _open) = guests(&runtime, &door, &["d"], &[]);
    for process in &started {
        assert!(ports::listeners(process.0.id()).is_empty());
    }
    // Whoever asks, the one without a port dials.
    assert_eq!(asked(&runtime, &hidden[0], &open[0]).ok(), open[0].pid());
    assert_eq!(asked(&runtime, &open[0], &hidden[1]).ok(), hidden[1].pid());
    let error = asked(&runtime, &hidden[0], &hidden[1]).unwrap_err();
    assert!(error.contains("neither of the two listens"), "{error}");
    // Each of them still works.
    for worker in &hidden {
        assert_eq!(runtime.call(pid::remote().on(worker)).wait().ok(), worker.pid());
    }
}

#[test]
fn jnet_13_jnet_17_a_worker_with_another_cookie_or_build_is_refused_and_says_why() {
    let _guard = beside_others();
    let runtime = Runtime::new();
    let door = door().within(Duration::from_secs(10));
    let file = Invited::to(&runtime, &door);
    let wrong = Invited::nowhere();
    CookieSource::create(&wrong.0, Cookie::new([3; 32]).text().as_ref()).unwrap();
    let other = AnotherBuild::new("guest");
    let good = ByHand::start(&door, &file, &[]);
    let stranger = ByHand::start(&door, &wrong, &[]);
    let older = ByHand::of(&other.path, &door, &file, &[]);
    // The first comes, and no third: the deadline ends the wait.
    let error = runtime.add(door.expect(2.try_into().unwrap())).unwrap_err();
    let AddError::NotAllCame {
        came,
        expected,
        refused,
        ..
    } = &error
    else {
        panic!("{error}");
    };
    assert_eq!((came.len(), *expected), (1, 2), "{error}");
    assert!(
        refused.is_some() && error.to_string().contains("worker `guest "),
        "{error}"
    );
    assert_eq!(door.last_refusal(), *refused, "an operator can ask for it");
    let (is_well, said) = stranger.end();
    assert!(!is_well && said.contains("another cookie"), "{said}");
    let (is_well, said) = older.end();
    assert!(!is_well, "{said}");
    other.is_blamed(&said);
    // Those that came are ended.
    assert!(good.end().0);
}

#[test]
fn a_worker_without_its_cookie_or_with_one_that_others_may_read_does_not_dial() {
    use std::os::unix::fs::PermissionsExt;
    let _guard = beside_others();
    let (runtime, door) = (Runtime::new(), door());
    let missing = Invited::nowhere();
    let (is_well, said) = ByHand::start(&door, &missing, &[]).end();
    assert!(!is_well && said.contains("cannot be read"), "{said}");
    let file = Invited::to(&runtime, &door);
    assert_eq!(
        std::fs::metadata(&file.0).unwrap().permissions().mode() & 0o777,
        0o600
    );
    let again = runtime.invitation(&door).unwrap().save(&file.0).unwrap_err();
    assert_eq!(again.kind(), std::io::ErrorKind::AlreadyExists);
    std::fs::set_permissions(&file.0, PermissionsExt::from_mode(0o644)).unwrap();
    let (is_well, said) = ByHand::start(&door, &file, &[]).end();
    assert!(!is_well && said.contains("chmod 600"), "{said}");
}

#[test]
fn a_door_has_one_runtime_and_no_transport_of_the_users_own() {
    let _guard = beside_others();
    let door = door();
    let own = LinkTransport::own(selvedge::hosts::Uds::new().unwrap());
    let error = Runtime::new().add(door.clone().transport(own)).unwrap_err();
    assert!(matches!(error, AddError::NoDoor { .. }), "{error}");
    let (first, second) = (Runtime::new(), Runtime::new());
    let (_workers, _started) = guests(&first, &door, &["b"], &[]);
    let error = second.add(door).unwrap_err();
    assert!(matches!(error, AddError::DoorUsed { .. }), "{error}");
}

#[test]
fn errors_of_ports_and_files_say_which_and_why() {
    let _guard = beside_others();
    let door = door();
    let taken = door.address().to_string();
    let error = DialIn::listen(&taken).unwrap_err();
    assert_eq!(error.kind(), std::io::ErrorKind::AddrInUse);
    assert!(error.to_string().contains(&taken), "{error}");
    let (is_well, said) = ByHand::start(&door, &Invited::nowhere(), &[]).end();
    assert!(!is_well && said.contains("No such file"), "{said}");
    #[cfg(feature = "tls")]
    {
        let file = Invited::to(&Runtime::new(), &door);
        let (is_well, said) = ByHand::start(&door, &file, &["--tls-input"]).end();
        assert!(
            !is_well && said.contains("no credentials behind the cookie"),
            "{said}"
        );
    }
}

#[test]
fn nothing_is_left_of_workers_that_dialled_in() {
    let _guard = alone();
    let runtime = Runtime::new();
    let me = std::process::id();
    let listeners = ports::listeners(me).len();
    let round = || {
        let door = door();
        let (workers, started) = guests(&runtime, &door, &["b", "c"], &[]);
        assert_eq!(ports::listeners(me).len(), listeners + 1);
        for worker in &workers {
            runtime.call(pid::remote().on(worker)).wait().unwrap();
            worker.end(Duration::from_secs(60)).unwrap();
        }
        started.into_iter().for_each(|process| assert!(process.end().0));
    };
    round();
    wait_until(&listeners, || ports::listeners(me).len());
    let before = settled(Census::take);
    round();
    round();
    assert_eq!(wait_until(&listeners, || ports::listeners(me).len()), listeners);
    assert_eq!(wait_until(&before, Census::take), before);
}

#[test]
fn a_worker_that_does_not_end_in_time_is_cut_off() {
    let _guard = beside_others();
    let runtime = Runtime::new();
    let (workers, started) = guests(&runtime, &door(), &["b"], &[]);
    let of_worker = started[0].0.id();
    crate::deaths::signal(of_worker, rustix::process::Signal::STOP);
    let error = workers[0].end(Duration::from_millis(100)).unwrap_err();
    assert!(matches!(error, EndError::CutOff { .. }), "{error}");
    // It ends by itself when it runs again.
    crate::deaths::signal(of_worker, rustix::process::Signal::CONT);
    started.into_iter().for_each(|process| assert!(process.end().0));
}
