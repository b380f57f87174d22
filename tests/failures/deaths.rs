//! Deaths of workers, shared and restarted, and of the driver.

use std::process::{Command, Stdio};
use std::sync::mpsc::{Receiver, Sender, channel};
use std::sync::{Arc, Mutex};
use std::task::{Wake, Waker};
use std::time::Duration;

use crate::actors::{self, Counter, Gate, counter, until};
use crate::census::{children_of, is_alive, wait_until};
use selvedge::prelude::*;
use selvedge::{Exit, Profile, Restart, ShutdownReport};

fn kill(pid: u32) {
    let pid = rustix::process::Pid::from_raw(pid as i32).expect("pid");
    rustix::process::kill_process(pid, rustix::process::Signal::KILL).expect("kill");
}

#[test]
fn rft_05_rft_06_a_restarted_actor_can_be_bound_again_and_a_call_to_a_dead_one_fails() -> Result<()> {
    let runtime = Runtime::new();
    let a = runtime
        .spawn::<Counter>("a", (5,))
        .restart(Restart::OnFailure { max: 2 })
        .in_process()?;
    for _ in 0..2 {
        let pid = a.actor().pid().expect("a process");
        let graph = runtime.compile(|x: Edge<i64>| a.inc(&x))?;
        assert_eq!(graph.execute(1).wait()?, 6);
        kill(pid);
        let error = until("the death", || graph.execute(1).wait().err());
        assert!(matches!(error, ExecError::ActorDied(_)), "{error}");
        let again = until("a restart", || a.actor().pid().filter(|again| *again != pid));
        let graph = graph.recompile(&Profile::default())?;
        let placement = &graph.plan().ir.actors[0].placement;
        assert!(placement.contains(&again.to_string()), "{placement}");
        assert_eq!(graph.execute(0).wait()?, 5);
        drop(graph);
        // The constructor ran again: the state is new, and the handle is unchanged.
        assert_eq!(a.call().total(()).wait()?, 5);
        assert_ne!(a.actor().pid(), Some(pid));
    }
    kill(a.actor().pid().expect("a process"));
    let error = until("the death", || a.call().total(()).wait().err());
    assert!(error.to_string().contains("`a`"), "{error}");
    Ok(())
}

#[test]
fn rft_06_a_graph_that_is_bound_while_its_actor_restarts_reports_the_new_process() -> Result<()> {
    let runtime = Runtime::new();
    let restart = Restart::OnFailure { max: 3 };
    let a = runtime
        .spawn::<Counter>("a", (5,))
        .restart(restart)
        .in_process()?;
    let mut graph = runtime.compile(|x: Edge<i64>| a.inc(&x))?;
    for _ in 0..3 {
        kill(a.actor().pid().expect("a process"));
        until("the death", || graph.execute(1).wait().err());
        graph = runtime.compile(|x: Edge<i64>| a.inc(&x))?;
        let pid = a.actor().pid().expect("a process");
        let placement = &graph.plan().ir.actors[0].placement;
        assert_eq!(*placement, format!("process with pid {pid}"));
    }
    Ok(())
}

#[test]
fn dag_37_an_exit_gives_its_code_and_last_words() -> Result<()> {
    let runtime = Runtime::new();
    let a = counter(&runtime, "a", Placement::Process);
    let graph = runtime.compile(|x: Edge<i64>| a.exit_if_negative(&x))?;
    assert_eq!(graph.execute(1).wait()?, 1);
    let error = graph.execute(-1).wait().expect_err("it exited");
    let ExecError::ActorDied(died) = &error else {
        panic!("{error:?}")
    };
    assert_eq!(died.death.exit, Exit::Code(7));
    assert!(
        died.death
            .stderr_tail
            .iter()
            .any(|line| line.contains("last words of the counter")),
        "{error}"
    );
    let (task, bound_at) = died.task.as_ref().expect("a task");
    assert_eq!(task, "a.exit_if_negative");
    assert!(bound_at.file.ends_with("deaths.rs"));
    Ok(())
}

#[test]
fn dag_37_actors_that_share_a_worker_die_together() -> Result<()> {
    let runtime = Runtime::new();
    let worker = runtime.worker("w")?;
    let a = runtime.spawn::<Counter>("a", (0,)).in_worker(&worker)?;
    let b = runtime.spawn::<Counter>("b", (0,)).in_worker(&worker)?;
    let c = counter(&runtime, "c", Placement::Process);
    assert_eq!(a.actor().pid(), b.actor().pid());
    let graph = runtime.compile(|x: Edge<i64>| c.echo(&b.echo(&a.echo(&x))))?;
    assert_eq!(graph.execute(1).wait()?, 1);
    kill(worker.pid().expect("a process"));
    let error = loop {
        if let Err(error) = graph.execute(1).wait() {
            break error;
        }
    };
    assert!(matches!(error, ExecError::ActorDied(_)), "{error}");
    assert!(!a.actor().is_alive() && !b.actor().is_alive() && c.actor().is_alive());
    Ok(())
}

struct Deep;

#[actor]
impl Deep {
    pub fn new() -> Self {
        Deep
    }

    /// Takes at least a kibibyte of the stack for each level.
    pub fn descend(&mut self, levels: u64) -> u64 {
        let frame = std::hint::black_box([levels; 128]);
        match levels {
            0 => 0,
            _ => self.descend(levels - 1).min(frame[0]),
        }
    }
}

#[test]
fn a_stack_overflow_in_a_worker_names_itself_as_a_possible_cause_and_the_way_to_a_larger_stack() -> Result<()>
{
    let levels = 16 << 10;
    let runtime = Runtime::new();
    let deep = runtime.spawn::<Deep>("deep", ()).in_process()?;
    let error = deep.call().descend(levels).wait().expect_err("it overflows");
    let text = error.to_string();
    assert!(text.contains("`deep`") && text.contains("SIGSEGV"), "{text}");
    assert!(
        text.contains("stack overflow") && text.contains("RUST_MIN_STACK"),
        "{text}"
    );
    let larger = runtime
        .spawn::<Deep>("deep", ())
        .env("RUST_MIN_STACK", "268435456")
        .in_process()?;
    assert_eq!(larger.call().descend(levels).wait()?, 0);
    Ok(())
}

/// A waker that blocks the thread that wakes it until the test releases that thread: the thread that reports deaths.
struct HoldsUp {
    held: Sender<()>,
    go: Mutex<Receiver<()>>,
}

impl Wake for HoldsUp {
    fn wake(self: Arc<Self>) {
        let _ = self.held.send(());
        // Returns too if the other end has been dropped.
        let _ = self.go.lock().expect("a lock").recv();
    }
}

struct Grower;

#[actor]
impl Grower {
    pub fn new() -> Self {
        Grower
    }

    /// Returns more bytes than the slots of a new channel hold.
    pub fn grown(&mut self, _x: i64) -> Vec<u8> {
        vec![1; 1 << 20]
    }

    pub fn pass(&mut self, x: i64, #[constant] gate: &str) -> i64 {
        actors::Counter::new(0).pass(x, gate)
    }

    pub fn sum(&mut self, bytes: &[u8]) -> u64 {
        bytes.iter().map(|byte| u64::from(*byte)).sum()
    }
}

/// Kills `writer` once it has reached the gate, and has its payload read before the driver reports the death.
fn read_after_death<Out: Send + std::fmt::Debug>(
    runtime: &Runtime,
    writer: &GrowerHandle,
    graph: &Graph<i64, Out>,
    (published, begins): (&Gate, &Gate),
) -> Result<()> {
    let other = counter(runtime, "other", Placement::Process);
    let watched = runtime.compile(|x: Edge<i64>| other.echo(&x))?;
    let (held, is_held) = channel();
    let (go, gone) = channel();
    let holds_up = HoldsUp {
        held,
        go: Mutex::new(gone),
    };
    assert!(watched.watch(&Waker::from(Arc::new(holds_up))).is_none());
    let execution = graph.execute(1);
    published.reached(1);
    other.actor().kill();
    is_held.recv()?;
    let pid = writer.actor().pid().expect("a process");
    kill(pid);
    assert!(!wait_until(&false, || is_alive(pid)));
    begins.open();
    let (tell, told) = channel();
    std::thread::scope(|scope| {
        scope.spawn(move || tell.send(execution.wait()));
        let early = told.recv_timeout(Duration::from_millis(100));
        assert!(early.is_err(), "before the death is known: {early:?}");
        drop(go);
        let Ok(Err(ExecError::ActorDied(died))) = told.recv() else {
            panic!("its writer has died")
        };
        assert_eq!(
            (died.actor.as_str(), &died.death.exit),
            ("writer", &Exit::Signal(9))
        );
    });
    Ok(())
}

#[test]
fn dag_37_a_grown_payload_of_a_dead_writer_is_never_told_as_a_file_that_is_missing() -> Result<()> {
    let runtime = Runtime::new();
    for placement in [Placement::Thread, Placement::Process] {
        let writer = runtime.spawn::<Grower>("writer", ()).in_process()?;
        let reader = runtime.spawn::<Grower>("reader", ()).place(placement)?;
        let (published, begins) = (Gate::closed(), Gate::closed());
        published.open();
        let graph = runtime.compile(|x: Edge<i64>| {
            let grown = writer.grown(&x);
            let said = writer.pass(&x, published.path()).after(&grown);
            let begun = reader.pass(&x, begins.path());
            (said, reader.sum(&grown).after(&begun))
        })?;
        read_after_death(&runtime, &writer, &graph, (&published, &begins))?;
    }
    // The driver itself reads the payload.
    let writer = runtime.spawn::<Grower>("writer", ()).in_process()?;
    let published = Gate::closed();
    published.open();
    let graph = runtime.compile(|x: Edge<i64>| {
        let grown = writer.grown(&x);
        (writer.pass(&x, published.path()).after(&grown), grown)
    })?;
    read_after_death(&runtime, &writer, &graph, (&published, &published))
}

/// The driver that the tests below kill; not a test of its own.
#[test]
fn helper_driver_to_be_killed() -> Result<()> {
    if std::env::var_os("SELVEDGE_TEST_DRIVER").is_none() {
        return Ok(());
    }
    interruptible();
    let runtime = Runtime::new();
    let (a, b) = (
        counter(&runtime, "a", Placement::Process),
        counter(&runtime, "b", Placement::Process),
    );
    let graph = runtime.compile(|x: Edge<i64>| b.echo(&a.echo(&x)))?;
    graph.execute(1).wait()?;
    println!("ready");
    loop {
        graph.execute(1).wait()?;
    }
}

/// Restores the default action of SIGINT, as at a terminal: background processes of a shell and their children ignore
/// it.
#[allow(unsafe_code)]
fn interruptible() {
    // SAFETY: sets a disposition to the default one; no handler of this program is involved.
    let before = unsafe { libc::signal(libc::SIGINT, libc::SIG_DFL) };
    assert_ne!(before, libc::SIG_ERR);
}

#[test]
fn dag_38_of_several_deaths_all_are_reported() -> Result<()> {
    let runtime = Runtime::new();
    let [a, b] = ["a", "b"].map(|name| counter(&runtime, name, Placement::Process));
    let graph = runtime.compile(|x: Edge<i64>| b.echo(&a.echo(&x)))?;
    // One death after the other, so that their order is known.
    for (actor, dead) in [(&b, 1), (&a, 2)] {
        kill(actor.actor().pid().expect("a process"));
        let reported = wait_until(&dead, || match graph.run(1) {
            Err(selvedge::ExecError::ActorDied(died)) => 1 + died.also.len(),
            other => panic!("{other:?}"),
        });
        assert_eq!(reported, dead);
    }
    let text = graph.run(1).expect_err("dead").to_string();
    assert!(
        text.contains("actor `b`") && text.contains("also: actor `a`"),
        "{text}"
    );
    Ok(())
}

struct Closer;

#[actor]
impl Closer {
    pub fn new() -> Self {
        Closer
    }

    /// Closes descriptors that it has not opened, as some libraries do before they start a program.
    #[allow(unsafe_code)]
    pub fn close_all(&mut self, x: i64) -> i64 {
        for descriptor in 3..1024 {
            // SAFETY: only the worker's own code still uses these descriptors, and its behaviour without them is the
            // subject of the test.
            unsafe { libc::close(descriptor) };
        }
        x
    }
}

#[test]
fn a_worker_whose_code_closed_its_link_is_noticed_and_says_so() -> Result<()> {
    let runtime = Runtime::new();
    let spawn = || runtime.spawn::<Closer>("closer", ()).in_process();
    let (called, bound) = (spawn()?, spawn()?);
    let answer = called.call().close_all(1).wait();
    let graph = runtime.compile(|x: Edge<i64>| bound.close_all(&x))?;
    assert_eq!(graph.run(2)?, 2, "a graph needs no descriptors");
    drop(graph);
    for answer in [answer, bound.call().close_all(3).wait()] {
        let Err(selvedge::CallError::ActorDied { death, .. }) = answer else {
            panic!("{answer:?}")
        };
        assert!(
            death
                .stderr_tail
                .join(" ")
                .contains("has closed the descriptor of the link"),
            "{death}"
        );
    }
    Ok(())
}

/// DAG-42: Ctrl-C in the middle of an execution ends the driver, and its workers with it.
#[test]
fn dag_42_no_worker_outlives_an_interrupted_driver() {
    ends_with_its_workers(rustix::process::Signal::INT);
}

#[test]
fn rinit_02_no_worker_outlives_a_killed_driver() {
    ends_with_its_workers(rustix::process::Signal::KILL);
}

/// A terminal sends Ctrl-C to its whole process group, a service manager SIGTERM to a whole service: workers leave the
/// decision to the driver.
#[test]
fn dag_42_workers_outlive_signals_that_are_for_everybody() -> Result<()> {
    let runtime = Runtime::new();
    let a = counter(&runtime, "a", Placement::Process);
    let graph = runtime.compile(|x: Edge<i64>| a.inc(&x))?;
    let pid = a.actor().pid().expect("a process");
    let process = rustix::process::Pid::from_raw(pid as i32).expect("pid");
    for (signal, total) in [libc::SIGINT, libc::SIGTERM, libc::SIGHUP].into_iter().zip(1..) {
        let signal = rustix::process::Signal::from_named_raw(signal).expect("a signal");
        rustix::process::kill_process(process, signal).expect("kill");
        assert_eq!(graph.run(1)?, total, "{signal:?}");
    }
    assert_eq!(a.actor().pid(), Some(pid));
    Ok(())
}

#[test]
fn dag_42_what_a_worker_starts_can_be_interrupted() -> Result<()> {
    let runtime = Runtime::new();
    let a = counter(&runtime, "a", Placement::Process);
    // The environment may ignore SIGINT and SIGHUP (`nohup`, a shell's background), so the test sends SIGTERM.
    assert_eq!(
        a.call().interrupt_a_child(libc::SIGTERM).wait()?,
        Some(libc::SIGTERM)
    );
    Ok(())
}

fn ends_with_its_workers(signal: rustix::process::Signal) {
    use std::io::{BufRead, BufReader};
    let mut driver = Command::new(std::env::current_exe().expect("exe"))
        .args([
            "deaths::helper_driver_to_be_killed",
            "--exact",
            "--nocapture",
            "--test-threads=1",
        ])
        .env("SELVEDGE_TEST_DRIVER", "1")
        .stdout(Stdio::piped())
        .spawn()
        .expect("spawn");
    let lines = BufReader::new(driver.stdout.take().expect("stdout")).lines();
    assert!(
        lines
            .map_while(std::result::Result::ok)
            .any(|line| line.contains("ready"))
    );
    let workers = children_of(driver.id());
    assert_eq!(workers.len(), 2, "{workers:?}");
    let pid = rustix::process::Pid::from_raw(driver.id() as i32).expect("pid");
    rustix::process::kill_process(pid, signal).expect("kill");
    driver.wait().expect("wait");
    let gone = wait_until(&0, || workers.iter().filter(|pid| is_alive(**pid)).count());
    assert_eq!(gone, 0, "{workers:?} outlived their driver");
}

/// A driver that exits in the middle of an execution, without tearing down its graph; not a test of its own.
#[test]
fn helper_driver_that_exits() -> Result<()> {
    let Some(gate) = std::env::var_os("SELVEDGE_TEST_EXIT_GATE") else {
        return Ok(());
    };
    let gate = gate.to_str().expect("a path");
    let runtime = Runtime::new();
    let (a, b) = (
        counter(&runtime, "a", Placement::Process),
        counter(&runtime, "b", Placement::Process),
    );
    let graph = runtime.compile(|x: Edge<i64>| b.echo(&a.pass(&x, gate.to_owned())))?;
    let pending = graph.execute(1);
    until("the worker at the gate", || {
        std::fs::metadata(gate).ok().filter(|file| file.len() > 0)
    });
    let pids = [&a, &b].map(|it| it.actor().pid().expect("a process"));
    println!("workers {} {}", pids[0], pids[1]);
    std::mem::forget((pending, graph, runtime));
    std::process::exit(0);
}

#[test]
fn dag_42_no_worker_outlives_a_driver_that_exits() {
    let gate = Gate::closed();
    let driver = Command::new(std::env::current_exe().expect("exe"))
        .args([
            "deaths::helper_driver_that_exits",
            "--exact",
            "--nocapture",
            "--test-threads=1",
        ])
        .env("SELVEDGE_TEST_EXIT_GATE", gate.path())
        .output()
        .expect("spawn");
    let said = String::from_utf8_lossy(&driver.stdout);
    assert_eq!(driver.status.code(), Some(0), "{said}");
    let workers = said.lines().find_map(|line| line.split_once("workers "));
    let workers: Vec<u32> = workers
        .expect("a line")
        .1
        .split(' ')
        .flat_map(str::parse)
        .collect();
    assert_eq!(workers.len(), 2, "{said}");
    // One worker is at the gate, which stays closed.
    let gone = wait_until(&0, || workers.iter().filter(|pid| is_alive(**pid)).count());
    assert_eq!(gone, 0, "{workers:?} outlived their driver");
}

/// A runtime that shuts down does not wait for a worker that dies meanwhile.
#[test]
fn rinit_02_a_runtime_ends_while_its_workers_die() {
    for _ in 0..60 {
        let runtime = Runtime::new();
        let a = counter(&runtime, "a", Placement::Process);
        let b = counter(&runtime, "b", Placement::Process);
        kill(a.actor().pid().expect("a process"));
        b.actor().kill();
        drop(runtime);
    }
}

/// Delays the end of a process, as the release of much memory does: one of its threads, dead or not, stays with this
/// tracer until the drop.
struct Held(i32);

impl Held {
    #[allow(unsafe_code)]
    fn lane(pid: u32, lane: &str) -> Option<Held> {
        let tasks = std::fs::read_dir(format!("/proc/{pid}/task")).expect("tasks");
        let is_lane = |path: &std::path::PathBuf| {
            std::fs::read_to_string(path.join("comm")).is_ok_and(|name| name.trim() == format!("lane {lane}"))
        };
        let path = tasks
            .map(|task| task.expect("a task").path())
            .find(is_lane)
            .expect("its lane");
        let thread: i32 = path.file_name()?.to_str()?.parse().ok()?;
        // SAFETY: attaches to a thread of a child; no memory is read or written.
        let seized = unsafe { libc::ptrace(libc::PTRACE_SEIZE, thread, 0, 0) };
        (seized == 0).then_some(Held(thread))
    }
}

impl Drop for Held {
    #[allow(unsafe_code)]
    fn drop(&mut self) {
        // SAFETY: waits for the thread that this thread has attached to; writes no status.
        unsafe { libc::waitpid(self.0, std::ptr::null_mut(), libc::__WALL) };
    }
}

/// Whether this kernel has pidfds of threads (Linux 6.9).
#[allow(unsafe_code)]
fn threads_are_watched() -> bool {
    // SAFETY: opens a descriptor, or fails.
    let fd = unsafe { libc::syscall(libc::SYS_pidfd_open, std::process::id(), libc::O_EXCL) };
    if fd >= 0 {
        // SAFETY: this function owns the descriptor.
        unsafe { libc::close(fd as i32) };
    }
    fd >= 0
}

#[test]
fn dag_37_a_death_is_told_before_the_kernel_is_done_with_the_process() -> Result<()> {
    let runtime = Runtime::new();
    let a = counter(&runtime, "a", Placement::Process);
    let graph = runtime.compile_with(Options::new().timeout(Duration::from_secs(60)), |x: Edge<i64>| {
        a.hang_if_negative(&x)
    })?;
    assert_eq!(graph.run(1)?, 1);
    let stuck = graph.execute(-1);
    let pid = a.actor().pid().expect("a process");
    let Some(held) = Held::lane(pid, "a").filter(|_| threads_are_watched()) else {
        return Ok(());
    };
    kill(pid);
    let error = stuck.wait().expect_err("it was killed");
    let ExecError::ActorDied(died) = &error else {
        panic!("{error:?}")
    };
    assert_eq!(died.death.exit, Exit::Signal(9));
    assert!(!a.actor().is_alive());
    drop(held);
    let process = format!("/proc/{pid}");
    let there = wait_until(&false, || std::path::Path::new(&process).exists());
    assert!(!there, "what is held no more is reaped");
    Ok(())
}

#[test]
fn a_worker_that_kill_has_ended_was_not_ended_by_a_stranger() -> Result<()> {
    let runtime = Runtime::new();
    let worker = runtime.worker("w")?;
    let a = runtime.spawn::<Counter>("a", (0,)).in_worker(&worker)?;
    let b = runtime.spawn::<Counter>("b", (0,)).in_worker(&worker)?;
    let graph = runtime.compile(|x: Edge<i64>| b.inc(&x))?;
    a.actor().kill();
    let died = b.actor().last_death().expect("it died with `a`");
    assert!(matches!(died.exit, Exit::Killed(_)), "{died}");
    let texts = [
        died.to_string(),
        b.call().total(()).wait().expect_err("it is dead").to_string(),
        graph.run(1).expect_err("it is dead").to_string(),
    ];
    for text in texts {
        assert!(
            text.contains("the runtime killed it, because `kill()` was called for actor `a`"),
            "{text}"
        );
        assert!(!text.contains("SIGKILL"), "{text}");
    }
    Ok(())
}

/// An actor whose constructor does not return once its file is there.
struct SlowAgain;

#[actor]
impl SlowAgain {
    pub fn new(hang: String) -> Self {
        while std::path::Path::new(&hang).exists() {
            std::thread::park_timeout(Duration::from_millis(1));
        }
        SlowAgain
    }
    pub fn pid(&self) -> u32 {
        std::process::id()
    }
}

#[test]
fn an_actor_that_is_not_built_again_in_time_is_dead() -> Result<()> {
    let hang = std::env::temp_dir().join(format!("selvedge-slow-again-{}", std::process::id()));
    let runtime = Runtime::new();
    let worker = runtime.worker("w")?;
    let path = hang.display().to_string();
    let slow = runtime
        .spawn::<SlowAgain>("slow", (path,))
        .restart(Restart::OnFailure { max: 5 });
    let slow = slow.in_worker(&worker)?;
    let other = runtime
        .spawn::<Counter>("other", (1,))
        .restart(Restart::OnFailure { max: 5 });
    let other = other.in_worker(&worker)?;
    // A revival in time is not ended later.
    let runtime = runtime.build_timeout(Duration::from_millis(500));
    kill(slow.call().pid().wait()?);
    kill(until("it is built again", || slow.call().pid().wait().ok()));
    until("it is built again", || slow.call().pid().wait().ok());
    std::thread::sleep(Duration::from_millis(1200));
    let pid = slow.call().pid().wait()?;
    std::fs::write(&hang, "")?;
    kill(pid);
    let said = "it was not built again: actor `slow` was not built within 500ms";
    until("its end", || {
        let error = slow.call().pid().wait().err()?;
        error.to_string().contains(said).then_some(())
    });
    assert!(!slow.actor().is_alive());
    assert_eq!(other.call().total(()).wait()?, 1, "it was built in time");
    let error = runtime.compile(|(): ()| slow.pid()).expect_err("it is dead");
    assert!(error.to_string().contains("D0106"), "{error}");
    std::fs::remove_file(&hang)?;
    Ok(())
}

#[test]
fn a_graph_tells_of_the_deaths_of_its_own_processes_only() -> Result<()> {
    let runtime = Runtime::new();
    let spawned = ["a", "b"].map(|name| {
        let actor = runtime.spawn::<Counter>(name, (1,));
        actor.restart(Restart::OnFailure { max: 5 }).in_process()
    });
    let [a, b] = [&spawned[0], &spawned[1]].map(|actor| actor.as_ref().expect("an actor"));
    let graph = runtime.compile(|x: Edge<i64>| b.inc(&a.inc(&x)))?;
    let pid = a.actor().pid().expect("a process");
    kill(pid);
    let again = until("a restart", || a.actor().pid().filter(|again| *again != pid));
    kill(again);
    until("a second restart", || {
        a.actor().pid().filter(|last| *last != again)
    });
    kill(b.actor().pid().expect("a process"));
    let ExecError::ActorDied(died) = until("both deaths", || {
        let error = graph.run(1).err()?;
        error.to_string().contains("actor `b`").then_some(error)
    }) else {
        panic!("another error")
    };
    assert_eq!(died.death.pid, Some(pid));
    assert_eq!(died.also.len(), 1, "{died}");
    assert_eq!(died.also[0].actor, "b");
    Ok(())
}

#[test]
fn a_graph_that_waits_for_a_restart_is_refused_when_the_runtime_ends() -> Result<()> {
    let hang = std::env::temp_dir().join(format!("selvedge-slow-at-end-{}", std::process::id()));
    let runtime = Runtime::new();
    let path = hang.display().to_string();
    let slow = runtime.spawn::<SlowAgain>("slow", (path,));
    let slow = slow.restart(Restart::OnFailure { max: 5 }).in_process()?;
    let pid = slow.call().pid().wait()?;
    std::fs::write(&hang, "")?;
    kill(pid);
    until("the death", || slow.actor().last_death());
    let (told, refused) = channel();
    let compiling = runtime.clone();
    std::thread::spawn(move || {
        let graph = compiling.compile_with(
            Options::new().compile_timeout(Duration::from_secs(300)),
            |(): ()| slow.pid(),
        );
        told.send(graph.map(drop).map_err(|error| error.to_string()))
    });
    let early = refused.recv_timeout(Duration::from_millis(100));
    assert!(early.is_err(), "it waits for the restart: {early:?}");
    let _ = runtime.shutdown(Duration::from_millis(100));
    let refused = refused.recv_timeout(Duration::from_secs(60))?;
    std::fs::remove_file(&hang)?;
    let error = refused.expect_err("the runtime has ended");
    assert!(error.contains("the runtime is shut down"), "{error}");
    Ok(())
}

#[test]
fn a_worker_that_a_stranger_kills_as_it_is_told_to_end_did_not_miss_its_grace() -> Result<()> {
    for round in 0..20 {
        let runtime = Runtime::new();
        let workers = [runtime.worker("v")?, runtime.worker("w")?];
        for worker in &workers {
            kill(worker.pid().expect("a process"));
        }
        workers[0].end(Duration::from_secs(60))?;
        let report = runtime.shutdown(Duration::from_secs(60));
        assert_eq!(report, ShutdownReport::default(), "round {round}");
    }
    Ok(())
}
