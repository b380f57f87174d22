//! Jobs: other processes of this program join a running runtime, and leave it again.

use std::io::{BufRead, BufReader, Read};
use std::net::{Ipv4Addr, SocketAddr, SocketAddrV4};
use std::path::PathBuf;
use std::process::{Child, ChildStdout, Stdio};
use std::sync::Mutex;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::{Duration, Instant};

use rustix::net::{AddressFamily, SocketType, bind, getsockname, socket};
use selvedge::hosts::{ConnectError, Cookie, CookieSource, DialIn, HandshakeError, LinkCause};
use selvedge::prelude::*;
use selvedge::{NotAllowed, RemoteError, ShutdownReport, SpawnError};

use crate::census::{Census, settled, wait_until};
use crate::guests::Invited;
use crate::played::Adder;
use crate::refused::AnotherBuild;
use crate::{alone, beside_others, local, part, pid};

#[remote]
fn double(x: u64) -> u64 {
    2 * x
}

#[remote]
fn sum(values: Vec<u64>) -> u64 {
    values.iter().sum()
}

/// Says so, and runs until it is cancelled.
#[remote]
async fn stays(note: String) {
    struct Leaves(String);
    impl Drop for Leaves {
        fn drop(&mut self) {
            let _ = std::fs::remove_file(&self.0);
        }
    }
    let _leaves = Leaves(note.clone());
    std::fs::write(&note, "here").unwrap();
    std::future::pending::<()>().await;
}

#[remote]
fn held() -> usize {
    Runtime::current().unwrap().references().owned
}

/// Waits for a value, and notes the error.
#[remote]
fn waits(value: Ref<u64>) {
    let error = value.fetch().unwrap_err();
    SEEN.lock().unwrap().push(error.to_string());
}

static SEEN: Mutex<Vec<String>> = Mutex::new(Vec::new());

#[remote]
fn seen() -> Vec<String> {
    SEEN.lock().unwrap().clone()
}

/// Keeps a reference until this process ends.
#[remote]
fn keeps(value: Ref<u64>) {
    KEPT.lock().unwrap().push(value);
}

static KEPT: Mutex<Vec<Ref<u64>>> = Mutex::new(Vec::new());

/// Holds a reference until it is cancelled.
#[remote]
async fn holds(_value: Ref<u64>) {
    std::future::pending::<()>().await;
}

/// A runtime that jobs can join.
pub struct Head {
    pub runtime: Runtime,
    door: DialIn,
    file: Invited,
}

impl Head {
    pub fn new() -> Self {
        let runtime = Runtime::new();
        let door = DialIn::listen("127.0.0.1:0").unwrap();
        runtime.accept_jobs(&door).unwrap();
        let file = Invited::to(&runtime, &door);
        Head { runtime, door, file }
    }

    fn address(&self) -> String {
        self.door.address().to_string()
    }

    fn cookie(&self) -> CookieSource {
        CookieSource::File(self.file.0.clone())
    }

    pub fn connect(&self) -> Runtime {
        Runtime::connect(&self.address(), &self.cookie()).unwrap()
    }

    /// Starts a job in a process of its own: an ignored part of these tests.
    fn job(&self, name: &str) -> JobProcess {
        self.job_at(&format!("jobs::{name}"))
    }

    /// Starts a job, by the path of an ignored part of these tests.
    pub fn job_at(&self, path: &str) -> JobProcess {
        self.job_of(&std::env::current_exe().unwrap(), path)
    }

    /// Starts a job as another program.
    fn job_of(&self, program: &std::path::Path, path: &str) -> JobProcess {
        static JOBS: AtomicUsize = AtomicUsize::new(0);
        let number = JOBS.fetch_add(1, Ordering::Relaxed);
        let notes = format!("selvedge-job-{}-{number}", std::process::id());
        let notes = std::env::temp_dir().join(notes).display().to_string();
        let mut command = std::process::Command::new(program);
        command.args(part(path).get_args());
        command
            .env("TEST_HEAD", self.address())
            .env("TEST_COOKIE_FILE", &self.file.0)
            .env("TEST_NOTES", &notes)
            .stdin(Stdio::piped())
            .stdout(Stdio::piped());
        let mut child = command.spawn().unwrap();
        let said = BufReader::new(child.stdout.take().unwrap());
        JobProcess { notes, child, said }
    }
}

/// The drop kills and reaps the process.
pub struct JobProcess {
    /// The beginning of the names of its files.
    notes: String,
    pub child: Child,
    said: BufReader<ChildStdout>,
}

impl JobProcess {
    /// Waits until the job says this word, and returns the line.
    pub fn says(&mut self, word: &str) -> String {
        let mut line = String::new();
        while !line.contains(word) {
            line.clear();
            assert!(
                self.said.read_line(&mut line).unwrap() > 0,
                "it ended before it said {word}"
            );
        }
        line
    }

    /// The file that one of the job's calls has made, and removes when it is cancelled.
    fn note(&self, number: usize) -> PathBuf {
        PathBuf::from(format!("{}-{number}", self.notes))
    }
}

impl Drop for JobProcess {
    fn drop(&mut self) {
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

/// Joins the runtime of the test that has started this process.
pub fn joined() -> Runtime {
    try_to_join().unwrap()
}

fn try_to_join() -> Result<Runtime, ConnectError> {
    let address = std::env::var("TEST_HEAD").unwrap();
    let file = std::env::var("TEST_COOKIE_FILE").unwrap();
    Runtime::connect(&address, &CookieSource::File(file.into()))
}

/// Waits until the test that has started this process ends.
pub fn until_the_test_ends() {
    let _ = std::io::stdin().read_to_end(&mut Vec::new());
}

#[test]
fn rinit_04_a_job_calls_submits_puts_and_fetches_and_its_end_ends_nothing() -> Result<()> {
    let _beside = beside_others();
    let head = Head::new();
    let child = head.runtime.worker("child")?;
    let far = head.runtime.add(local(1))?.remove(0);
    for _ in 0..2 {
        let job = head.connect();
        let numbers: Vec<u32> = job
            .processes()
            .iter()
            .map(|name| name.process().number())
            .collect();
        assert_eq!(job.processes().len(), 3);
        assert!(!numbers.contains(&job.process().number()), "a job takes no work");
        assert_eq!(
            head.runtime.processes(),
            job.processes(),
            "both know the workers, and no job"
        );
        for worker in [&child, &far] {
            assert_eq!(job.call(pid::remote().on(worker)).wait()?, worker.pid().unwrap());
        }
        assert_eq!(
            job.call(pid::remote().on_process(head.runtime.process()))
                .wait()?,
            std::process::id()
        );
        assert_ne!(job.call(pid::remote()).wait()?, 0);
        let value = job.put(vec![1_u64; 100_000])?;
        let result: Ref<u64> = job.submit(double::remote(job.submit(sum::remote(&value))));
        assert_eq!(*result.fetch()?, 200_000);
        assert_eq!(job.call(sum::remote(&value).on(&child)).wait()?, 100_000);
        let kept = job.keep(double::remote(4).on(&far));
        assert_eq!(job.call(double::remote(&kept).on(&child)).wait()?, 16);
        let refused = job.worker("mine").map(drop);
        assert!(
            matches!(refused, Err(SpawnError::NotAllowed(NotAllowed::IsJob))),
            "{refused:?}"
        );
        drop((value, result, kept));
        drop(job);
        assert_eq!(head.runtime.call(double::remote(1).on(&child)).wait()?, 2);
        assert_eq!(head.runtime.call(double::remote(1).on(&far)).wait()?, 2);
    }
    Ok(())
}

#[test]
fn rinit_03_a_runtime_has_no_address_and_a_door_without_jobs_lets_none_in() -> Result<()> {
    let _beside = beside_others();
    let runtime = Runtime::new();
    let door = DialIn::listen("127.0.0.1:0")?;
    let file = Invited::to(&runtime, &door);
    let cookie = CookieSource::File(file.0.clone());
    // The socket has the port, and does not listen.
    let deaf = socket(AddressFamily::INET, SocketType::STREAM, None)?;
    bind(&deaf, &SocketAddrV4::new(Ipv4Addr::LOCALHOST, 0))?;
    let nobody = SocketAddr::try_from(getsockname(&deaf)?)?;
    let error = Runtime::connect(&nobody.to_string(), &cookie).unwrap_err();
    let ConnectError::Refused { error, .. } = error else {
        panic!("{error}")
    };
    assert!(matches!(error.cause, LinkCause::Unreachable { .. }), "{error}");
    let error = Runtime::connect("nowhere", &cookie).unwrap_err();
    assert!(matches!(error, ConnectError::Address { .. }), "{error}");
    runtime.accept_jobs(&door)?;
    let job = Runtime::connect(&door.address().to_string(), &cookie)?;
    let of_another = Runtime::new();
    assert!(of_another.accept_jobs(&door).is_err(), "a door has one runtime");
    assert!(job.accept_jobs(&door).is_err(), "a job is no head");
    Ok(())
}

#[test]
fn rinit_04_a_job_with_another_cookie_or_build_is_refused_with_the_reason() -> Result<()> {
    let _beside = beside_others();
    let head = Head::new();
    let wrong = CookieSource::Given(Cookie::new([1; 32]));
    let error = Runtime::connect(&head.address(), &wrong).unwrap_err();
    let ConnectError::Refused { error, .. } = error else {
        panic!("{error}")
    };
    let cause = &error.cause;
    assert!(
        matches!(
            cause,
            LinkCause::Handshake(HandshakeError::WrongCookie) | LinkCause::HungUp
        ),
        "{error}"
    );
    let other = AnotherBuild::new("job");
    let mut job = head.job_of(&other.path, "jobs::a_job_of_another_build");
    other.is_blamed(&job.says("build"));
    assert_eq!(*head.connect().submit(double::remote(21)).fetch()?, 42);
    Ok(())
}

#[test]
#[ignore = "a job of another test"]
fn a_job_of_another_build() {
    println!("{}", try_to_join().unwrap_err());
}

#[test]
fn rft_08_a_killed_job_has_its_calls_cancelled_and_its_references_gone() -> Result<()> {
    let _beside = beside_others();
    let head = Head::new();
    let child = head.runtime.worker("child")?;
    let far = head.runtime.add(local(1))?.remove(0);
    for round in 0..2 {
        let mut job = head.job("a_job_that_is_killed");
        job.says("ready");
        // Calls at both workers, two of them submitted; kept values at both; objects of the head.
        for worker in [&child, &far] {
            assert!(head.runtime.call(held::remote().on(worker)).wait()? > 0);
        }
        assert!(head.runtime.references().owned > 0);
        job.child.kill()?;
        for number in 0..4 {
            wait_until(&false, || job.note(number).exists());
        }
        let of_worker = |worker| head.runtime.call(held::remote().on(worker)).wait().ok();
        wait_until(&(0, Some(0), Some(0)), || {
            let owned = head.runtime.references().owned;
            (owned, of_worker(&child), of_worker(&far))
        });
        assert_eq!(
            head.runtime.call(double::remote(round).on(&child)).wait()?,
            2 * round
        );
        assert_eq!(*head.runtime.submit(double::remote(21)).fetch()?, 42);
    }
    Ok(())
}

#[test]
#[ignore = "a job of another test"]
fn a_job_that_is_killed() {
    let notes = std::env::var("TEST_NOTES").unwrap();
    let job = joined();
    let workers: Vec<_> = job
        .processes()
        .iter()
        .map(|name| name.process())
        .filter(|it| it.number() > 1)
        .collect();
    let note = |number: usize| format!("{notes}-{number}");
    let calls: Vec<_> = (0..2)
        .map(|at| job.call(stays::remote(note(at)).on_process(workers[at])))
        .collect();
    let submitted: Vec<_> = (2..4)
        .map(|at| job.submit(stays::remote(note(at)).cpus(0)))
        .collect();
    let kept: Vec<Ref<u64>> = workers
        .iter()
        .map(|at| job.keep(double::remote(1).on_process(*at)))
        .collect();
    kept.iter().for_each(|kept| kept.ready().unwrap());
    let value = job.put(vec![7_u8; 1 << 20]).unwrap();
    for number in 0..4 {
        wait_until(&true, || std::path::Path::new(&note(number)).exists());
    }
    println!("ready");
    until_the_test_ends();
    drop((calls, submitted, kept, value));
}

#[test]
fn rref_37_the_shutdown_of_a_job_waits_until_others_have_let_go_of_its_values() -> Result<()> {
    let _beside = beside_others();
    let head = Head::new();
    let child = head.runtime.worker("child")?;
    let job = head.connect();
    let at = child.process();
    let (value, other) = (job.unset::<u64>(), job.keep(double::remote(4).on_process(at)));
    // A function that waits for a value of the job, and one that the job has called and that holds the reference.
    job.cast(waits::remote(&value).on_process(at))?;
    let held = job.call(holds::remote(&value).on_process(at));
    assert_eq!(*other.fetch()?, 8);
    let (begun, grace) = (Instant::now(), Duration::from_secs(60));
    assert_eq!(job.shutdown(grace), ShutdownReport::default());
    assert!(begun.elapsed() < grace / 2);
    let seen = head.runtime.call(seen::remote().on(&child)).wait()?;
    assert!(seen.len() == 1 && seen[0].contains("freed"), "{seen:?}");
    assert!(held.wait().is_err());
    Ok(())
}

#[test]
fn rref_37_the_shutdown_of_a_job_names_who_has_not_let_go_of_its_values() -> Result<()> {
    let _beside = beside_others();
    let head = Head::new();
    let child = head.runtime.worker("child")?;
    let job = head.connect();
    let value = job.unset::<u64>();
    job.call(keeps::remote(&value).on_process(child.process()))
        .wait()?;
    let report = job.shutdown(Duration::from_millis(300));
    let leaked: Vec<_> = report
        .leaked_references
        .iter()
        .map(|leaked| (leaked.id(), leaked.process().process()))
        .collect();
    assert_eq!(leaked, [(Some(value.id()), child.process())], "{report:?}");
    // The drop of a job waits for nobody.
    let job = head.connect();
    job.call(keeps::remote(job.unset::<u64>()).on_process(child.process()))
        .wait()?;
    drop(job);
    assert_eq!(head.runtime.call(double::remote(1).on(&child)).wait()?, 2);
    Ok(())
}

#[test]
fn rinit_05_two_jobs_share_the_workers_and_an_actor_ends_with_its_job() -> Result<()> {
    let _beside = beside_others();
    let head = Head::new();
    let child = head.runtime.worker("child")?;
    let (one, two) = (head.connect(), head.connect());
    let at = child.process();
    let pids = [&one, &two, &head.runtime].map(|job| job.call(pid::remote().on_process(at)).wait().unwrap());
    assert_eq!(pids, [child.pid().unwrap(); 3]);
    assert_ne!(one.process(), two.process(), "each has a number of its own");
    let adder = one.spawn::<Adder>("adder", (1,)).in_thread()?;
    assert_eq!(adder.call().add(1).wait()?, 2);
    let (first, third) = (one.process(), head.connect());
    drop(one);
    assert!(adder.call().add(1).wait().is_err());
    assert_eq!(two.call(pid::remote().on_process(at)).wait()?, pids[0]);
    assert_ne!(third.process(), first);
    assert_ne!(head.connect().process(), first, "no number is given twice");
    Ok(())
}

#[test]
fn rft_08_a_stopped_job_ends_and_one_that_dies_while_it_joins_leaves_nothing() -> Result<()> {
    let _beside = beside_others();
    let mut head = Head::new();
    head.runtime = head.runtime.silence_timeout(Duration::from_secs(1));
    let child = head.runtime.worker("child")?;
    let _far = head.runtime.add(local(1))?;
    let mut stopped = head.job("a_job_that_is_killed");
    stopped.says("ready");
    let id = rustix::process::Pid::from_raw(stopped.child.id() as i32).unwrap();
    rustix::process::kill_process(id, rustix::process::Signal::STOP)?;
    wait_until(&0, || head.runtime.references().owned);
    for round in 0..20_u64 {
        let mut job = head.job("a_job_that_leaves");
        (0..round * 200_000).for_each(|_| std::hint::spin_loop());
        job.child.kill()?;
    }
    assert_eq!(*head.connect().submit(double::remote(21)).fetch()?, 42);
    assert_eq!(head.runtime.call(double::remote(1).on(&child)).wait()?, 2);
    assert_eq!(head.runtime.processes().len(), 3);
    Ok(())
}

#[test]
#[ignore = "a job of another test"]
fn a_job_that_leaves() {
    drop(joined());
}

#[test]
fn rft_07_a_job_is_told_that_its_head_has_ended() -> Result<()> {
    let _beside = beside_others();
    let head = Head::new();
    let child = head.runtime.worker("child")?;
    let job = head.connect();
    let process = child.process();
    let value = job.keep(double::remote(4).on_process(process));
    assert_eq!(*value.fetch()?, 8);
    let waiting = job.call(crate::forever::remote().on_process(process));
    drop(child);
    drop(head.runtime);
    let error = waiting.wait().unwrap_err();
    assert!(error.to_string().contains("process"), "{error}");
    let error = job
        .call(double::remote(4).on_process(process))
        .wait()
        .unwrap_err();
    assert!(
        matches!(
            error.remote(),
            Some(RemoteError::Died { .. } | RemoteError::NoSuchProcess { .. })
        ),
        "{error}"
    );
    let error = job.submit(double::remote(4)).fetch().unwrap_err().to_string();
    assert!(error.contains("on process 1"), "{error}");
    // The owner of what is put is the head, whatever the size.
    for count in [1, 100_000] {
        let error = job.put(vec![1_u64; count]).unwrap_err().to_string();
        assert!(error.contains("the process that made the runtime"), "{error}");
    }
    Ok(())
}

#[test]
fn rinit_04_jobs_that_come_and_go_leave_nothing() -> Result<()> {
    let _alone = alone();
    let head = Head::new();
    let child = head.runtime.worker("child")?;
    let work = || {
        let job = head.connect();
        let result = job.submit(double::remote(job.put(21_u64)?)).fetch()?;
        assert_eq!(*result, 42);
        assert_eq!(job.call(double::remote(1).on(&child)).wait()?, 2);
        Ok::<(), selvedge::BoxError>(())
    };
    leaves_nothing(work)
}

#[test]
fn rinit_04_jobs_of_one_process_that_use_the_store_leave_nothing() -> Result<()> {
    let _alone = alone();
    let head = Head::new();
    let child = head.runtime.worker("child")?;
    let values = vec![3_u64; 1 << 17];
    let work = || {
        let job = head.connect();
        let stored = job.put(values.clone())?;
        let result = job.submit(sum::remote(&stored).on(&child)).fetch()?;
        assert_eq!(*result, 3 << 17);
        Ok::<(), selvedge::BoxError>(())
    };
    leaves_nothing(work)
}

/// Does some work again and again, and looks whether each time leaves nothing.
pub(crate) fn leaves_nothing(work: impl Fn() -> Result<()>) -> Result<()> {
    work()?;
    let before = settled(Census::beside_functions);
    for _ in 0..5 {
        work()?;
    }
    assert_eq!(wait_until(&before, Census::beside_functions), before);
    Ok(())
}
