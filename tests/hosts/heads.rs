//! Processes that are only heads, and their logs: workers outlive a head that is killed.

use std::fs;
use std::io::{BufRead, BufReader, Read};
use std::path::PathBuf;
use std::process::{Child, ChildStderr, ChildStdout, Command, Stdio};
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Mutex, PoisonError};
use std::time::{Duration, Instant};

use rustix::process::Signal;
use selvedge::hosts::{
    ConnectError, Cookie, CookieSource, DialIn, HeadError, HeadLogCause, HeadOptions, ProcessId,
};
use selvedge::inspect::{InspectTopic, InspectValue, inspect};
use selvedge::prelude::*;
use selvedge::{NameError, RemoteError};

use crate::census::{Census, is_alive, settled, wait_until};
use crate::deaths::{kill_9, signal};
use crate::named::{Counter, count, counter, left};
use crate::{alone, beside_others, forever, part, pid, ports};

/// Values that a worker holds for nobody in particular.
static HELD: Mutex<Vec<Ref<u64>>> = Mutex::new(Vec::new());

#[remote]
fn double(x: u64) -> u64 {
    2 * x
}

#[remote]
fn hold(value: Ref<u64>) {
    HELD.lock().unwrap_or_else(PoisonError::into_inner).push(value);
}

#[remote]
fn sum_of_held() -> Result<u64> {
    let held = HELD.lock().unwrap_or_else(PoisonError::into_inner).clone();
    held.iter().map(|value| Ok(*value.fetch()?)).sum()
}

#[remote]
fn errors_of_held() -> Vec<String> {
    let held = HELD.lock().unwrap_or_else(PoisonError::into_inner).clone();
    held.iter()
        .filter_map(|value| Some(value.fetch().err()?.to_string()))
        .collect()
}

/// Calls a function at another worker.
#[remote]
fn double_there(process: u32, x: u64) -> Result<u64> {
    let process = ProcessId::new(process).ok_or("zero")?;
    let call = Runtime::current()?.call(double::remote(x).on_process(process));
    Ok(call.wait()?)
}

/// The files of a cluster, in a folder that the drop removes.
struct Files(PathBuf);

impl Files {
    fn new() -> Self {
        static FOLDERS: AtomicUsize = AtomicUsize::new(0);
        let number = FOLDERS.fetch_add(1, Ordering::Relaxed);
        let name = format!("selvedge-heads-{}-{number}", std::process::id());
        let folder = std::env::temp_dir().join(name);
        fs::create_dir(&folder).unwrap();
        let text = Cookie::random().unwrap().text();
        CookieSource::create(&folder.join("cookie"), text.as_ref()).unwrap();
        Files(folder)
    }

    fn cookie(&self) -> CookieSource {
        CookieSource::File(self.0.join("cookie"))
    }

    fn names(&self) -> Vec<String> {
        let entries = fs::read_dir(&self.0).unwrap().flatten();
        let mut names: Vec<_> = entries
            .map(|entry| entry.file_name().into_string().unwrap())
            .collect();
        names.sort();
        names
    }
}

impl Drop for Files {
    fn drop(&mut self) {
        let _ = fs::remove_dir_all(&self.0);
    }
}

/// A process; the drop kills and reaps it.
struct Started(Child);

impl Started {
    fn kill(&mut self) {
        kill_9(self.0.id());
        self.0.wait().unwrap();
    }
}

impl Drop for Started {
    fn drop(&mut self) {
        let _ = self.0.kill();
        let _ = self.0.wait();
    }
}

/// A head in a process of its own.
struct Head {
    process: Started,
    address: String,
    said: BufReader<ChildStdout>,
}

/// The settings of a head that its tests change.
#[derive(Clone, Copy)]
struct Settings<'a> {
    log: Option<&'a str>,
    grace_ms: u64,
    /// How long a member may be silent; as long as by default if it is `None`.
    silence_ms: Option<u64>,
    /// Whether its files may have half a KiB and no more.
    is_short: bool,
}

const LOGGED: Settings = Settings {
    log: Some("log"),
    grace_ms: 60_000,
    silence_ms: None,
    is_short: false,
};

impl Head {
    /// Starts a head at this address, or at any.
    fn start(files: &Files, at: Option<&str>, settings: Settings) -> Head {
        let mut command = match settings.is_short {
            false => part("heads::a_head"),
            true => {
                let part = part("heads::a_head");
                let mut shell = Command::new("sh");
                shell.args(["-c", "trap '' XFSZ; ulimit -f 1; exec \"$0\" \"$@\""]);
                shell.arg(part.get_program()).args(part.get_args());
                shell.env("SELVEDGE_TEST_DRIVER", "1");
                shell
            }
        };
        command
            .env("TEST_AT", at.unwrap_or("127.0.0.1:0"))
            .env("TEST_FILES", &files.0)
            .env("TEST_GRACE_MS", settings.grace_ms.to_string())
            // Signs of life four times a second: some workers wait for a second.
            .env("SELVEDGE_WORKER_TIMEOUT_MS", "1000")
            .stdin(Stdio::piped())
            .stdout(Stdio::piped());
        if let Some(log) = settings.log {
            command.env("TEST_LOG", files.0.join(log));
        }
        if let Some(silence) = settings.silence_ms {
            command.env("TEST_SILENCE_MS", silence.to_string());
        }
        let mut process = Started(command.spawn().unwrap());
        let mut said = BufReader::new(process.0.stdout.take().unwrap());
        let mut line = String::new();
        let address = loop {
            line.clear();
            assert!(said.read_line(&mut line).unwrap() > 0, "the head has not begun");
            if let Some((_, address)) = line.split_once("listens: ") {
                break address.trim().to_owned();
            }
        };
        Head {
            process,
            address,
            said,
        }
    }

    /// Kills the head, and starts the next one at its address.
    fn again(mut self, files: &Files) -> Head {
        self.process.kill();
        Head::start(files, Some(&self.address), LOGGED)
    }

    fn guest(&self, files: &Files, host: &str) -> Started {
        self.guest_with(files, host, 60_000)
    }

    /// Starts a worker that hears its head at least once in this time.
    fn guest_with(&self, files: &Files, host: &str, timeout_ms: u64) -> Started {
        let mut command = Command::new(std::env::current_exe().unwrap());
        command
            .args(["--selvedge-worker", "--dial", &self.address, "--cookie-file"])
            .arg(files.0.join("cookie"))
            .env("SELVEDGE_HOST", host)
            .env("SELVEDGE_WORKER_TIMEOUT_MS", timeout_ms.to_string())
            .stdin(Stdio::null())
            .stderr(Stdio::piped());
        if files.0.join("tls").exists() {
            let of_tls = |name| files.0.join("tls").join(name);
            command
                .arg("--tls-files")
                .args(["chain.pem", "key.pem", "authority.pem"].map(of_tls));
            command.arg("--tls-any-name");
        }
        Started(command.spawn().unwrap())
    }

    fn connect(&self, files: &Files) -> Runtime {
        Runtime::connect(&self.address, &files.cookie()).unwrap()
    }

    /// A job, once it knows so many workers.
    fn job(&self, files: &Files, workers: usize) -> Runtime {
        let job = self.connect(files);
        wait_until(&workers, || job.processes().len());
        job
    }

    /// The numbers of the members and their states, as another process sees them.
    fn members(&self) -> Vec<(u64, String)> {
        let mut answers = inspect(self.process.0.id(), InspectTopic::Members, 100).unwrap();
        let table = answers.remove(0).table.unwrap();
        let column = |name: &str| table.columns.iter().position(|column| column == name).unwrap();
        let (process, state) = (column("process"), column("state"));
        let rows = table.rows.iter();
        rows.map(|row| {
            let InspectValue::Number(number) = row[process] else {
                panic!("{row:?}")
            };
            (number, row[state].to_string())
        })
        .collect()
    }

    fn numbers(&self) -> Vec<u64> {
        self.members().into_iter().map(|(number, _)| number).collect()
    }
}

#[test]
#[ignore = "a head of other tests"]
fn a_head() {
    let Some(files) = std::env::var_os("TEST_FILES").map(PathBuf::from) else {
        return;
    };
    let text = |name: &str| std::env::var(name).unwrap();
    let door = DialIn::listen(text("TEST_AT")).unwrap();
    #[cfg(feature = "tls")]
    let door = match files.join("tls").exists() {
        true => door.transport(crate::tls::of_files(
            &files.join("tls"),
            selvedge::hosts::PeerNames::Any,
        )),
        false => door,
    };
    let cookie = CookieSource::File(files.join("cookie"));
    let grace = Duration::from_millis(text("TEST_GRACE_MS").parse().unwrap());
    let mut options = HeadOptions::at(door, cookie).grace(grace);
    if let Ok(silence) = std::env::var("TEST_SILENCE_MS") {
        options = options.silence_timeout(Duration::from_millis(silence.parse().unwrap()));
    }
    if let Ok(log) = std::env::var("TEST_LOG") {
        options = options.log(log);
    }
    let head = Runtime::head(options).unwrap();
    println!("listens: {}", head.door().address());
    let stopper = head.stopper();
    std::thread::spawn(move || {
        // The end of the input is the wish to end.
        let _ = std::io::stdin().read_to_end(&mut Vec::new());
        stopper.stop();
    });
    let served = head.serve();
    if let Err(error) = &served {
        println!("failed: {error}");
    }
    drop(head);
    if served.is_err() {
        std::process::exit(1);
    }
}

/// The processes of workers, by number, each with its pid.
fn pids(job: &Runtime) -> Vec<(u32, u32)> {
    let processes = job.processes();
    let numbers = processes.iter().map(|name| name.process());
    numbers
        .map(|process| {
            let found = job.call(pid::remote().on_process(process)).wait().unwrap();
            (process.number(), found)
        })
        .collect()
}

fn process(number: u32) -> ProcessId {
    ProcessId::new(number).unwrap()
}

/// The words of a process on its standard error, to the end.
fn last_words(process: &mut Started) -> String {
    let mut said = String::new();
    let stderr: &mut ChildStderr = process.0.stderr.as_mut().unwrap();
    stderr.read_to_string(&mut said).unwrap();
    said
}

#[test]
fn rft_07_rfn_01_workers_rejoin_the_next_life_of_a_killed_head_and_keep_what_they_hold() {
    let _beside = beside_others();
    let files = Files::new();
    let head = Head::start(&files, None, LOGGED);
    let mut guests = vec![head.guest(&files, "b"), head.guest(&files, "c")];
    let job = head.job(&files, 2);
    let before = pids(&job);
    let [(one, _), (two, _)] = before[..] else {
        panic!("{before:?}")
    };
    let kept = job.keep(double::remote(21).on_process(process(one)));
    let of_head = job.put(5_u64).unwrap();
    for (value, holder) in [(&kept, two), (&of_head, one)] {
        job.call(hold::remote(value).on_process(process(holder)))
            .wait()
            .unwrap();
    }
    let waiting = job.call(forever::remote().on_process(process(one)));
    let first_job = job.process();
    let address = head.address.clone();
    let killed = Instant::now();
    let head = head.again(&files);
    assert_eq!(head.address, address);
    let error = waiting.wait().unwrap_err().to_string();
    assert!(
        error.contains("the head of the runtime, process 1, has ended"),
        "the job ends with the head, and the worker lives: {error}"
    );
    drop((job, kept, of_head));
    let job = head.job(&files, 2);
    println!(
        "two workers have rejoined within {:?} of the kill",
        killed.elapsed()
    );
    assert_eq!(pids(&job), before, "the same processes, under the same numbers");
    let held = |at: u32| job.call(sum_of_held::remote().on_process(process(at))).wait();
    assert_eq!(held(two).unwrap(), 42, "a worker holds the value of another one");
    let lost = job.call(errors_of_held::remote().on_process(process(one)));
    let lost = lost.wait().unwrap();
    assert!(
        lost.len() == 1 && lost[0].contains("process 1"),
        "what the dead head owned: {lost:?}"
    );
    assert!(job.process() > first_job, "no number is given twice");
    guests.push(head.guest(&files, "d"));
    wait_until(&3, || job.processes().len());
    let newest = pids(&job)[2].0;
    assert!(newest > job.process().number());
    let there = double_there::remote(newest, 4).on_process(process(one));
    assert_eq!(job.call(there).wait().unwrap(), 8, "old and new reach each other");
    assert_eq!(*job.submit(double::remote(9)).fetch().unwrap(), 18);
    let mut members = vec![1, one, two, job.process().number(), newest];
    members.sort_unstable();
    let members: Vec<u64> = members.into_iter().map(u64::from).collect();
    assert_eq!(head.numbers(), members, "the dead job is none");
}

#[test]
fn rft_07_a_named_counter_answers_with_its_state_after_its_head_was_killed() {
    let _beside = beside_others();
    let files = Files::new();
    let head = Head::start(&files, None, LOGGED);
    let _guests = [head.guest(&files, "b"), head.guest(&files, "c")];
    let job = head.job(&files, 2);
    let owner = job.processes()[0].process();
    let counter = job.keep(counter::remote().on_process(owner));
    job.name("counter", &counter).unwrap();
    for _ in 0..3 {
        job.call(count::remote(&counter, 1)).wait().unwrap();
    }
    let of_head = job.put(5_u64).unwrap();
    job.name("of the head", &of_head).unwrap();
    let head = head.again(&files);
    drop((job, counter, of_head));

    let job = head.job(&files, 2);
    let counter = job.named::<Counter>("counter").unwrap();
    assert_eq!(counter.owner().process, owner);
    assert_eq!(job.call(count::remote(&counter, 1)).wait().unwrap(), 4);
    let error = job.named::<u64>("of the head").unwrap_err();
    assert!(
        matches!(&error, NameError::OwnerDead { owner, .. } if owner.process() == ProcessId::HEAD),
        "{error}"
    );
    // What this life of the head decides is known in the next one, too.
    job.name("again", &counter).unwrap();
    job.unname("counter").unwrap();
    let head = head.again(&files);
    drop((job, counter));

    let job = head.job(&files, 2);
    let names: Vec<_> = job.names().unwrap().into_iter().map(|info| info.name).collect();
    assert_eq!(names, ["again"]);
    let counter = job.named::<Counter>("again").unwrap();
    assert_eq!(job.call(count::remote(&counter, 1)).wait().unwrap(), 5);
    job.unname("again").unwrap();
    drop(counter);
    let left = || job.call(left::remote().on_process(owner)).wait().unwrap();
    wait_until(&(1, 0), left);
}

/// Resets the connections of this worker.
#[remote]
fn reset() -> usize {
    crate::resets::reset_all()
}

#[test]
fn rft_07_workers_rejoin_although_their_connections_are_reset_when_the_head_is_killed() {
    let _beside = beside_others();
    let files = Files::new();
    let head = Head::start(&files, None, LOGGED);
    let _guest = head.guest(&files, "b");
    let job = head.job(&files, 1);
    let before = pids(&job);
    // A head that is stopped takes no other connection, so the worker dials it when it is dead, and perhaps when the next one is there.
    signal(head.process.0.id(), Signal::STOP);
    let resets = job.call(reset::remote().on_process(process(before[0].0))).wait();
    assert!(resets.unwrap() >= 1);
    let head = head.again(&files);
    drop(job);
    assert_eq!(pids(&head.job(&files, 1)), before);
}

#[cfg(feature = "tls")]
#[test]
fn rft_07_workers_rejoin_a_killed_head_under_tls_with_certificates_of_files() {
    let _beside = beside_others();
    let files = Files::new();
    crate::tls::Lab::new().write(&files.0.join("tls"), "lab");
    let head = Head::start(&files, None, LOGGED);
    let _guest = head.guest(&files, "b");
    let joined = [(1, "answers".to_owned()), (2, "lives".to_owned())];
    wait_until(&true, || head.members() == joined);
    let head = head.again(&files);
    wait_until(&true, || head.members() == joined);
}

/// The error of a call to the head.
#[remote]
fn error_of_head() -> Result<String> {
    let call = pid::remote()
        .on_process(process(1))
        .deadline(Duration::from_millis(200));
    let answer = Runtime::current()?.call(call).wait();
    Ok(answer.err().ok_or("the head runs functions")?.to_string())
}

#[test]
fn rft_07_a_worker_that_hears_nothing_of_its_head_looks_for_its_next_life() {
    let _beside = beside_others();
    let files = Files::new();
    let head = Head::start(&files, None, LOGGED);
    let _guest = head.guest_with(&files, "b", 1000);
    let job = head.job(&files, 1);
    let before = pids(&job);
    let error = || {
        let call = error_of_head::remote().on_process(process(before[0].0));
        job.call(call).wait().unwrap()
    };
    assert!(error().contains("only a head"), "{}", error());
    // As if its host had been cut off: it says nothing, and ends no connection.
    signal(head.process.0.id(), Signal::STOP);
    wait_until(&true, || error().contains("died"));
    let head = head.again(&files);
    assert_eq!(pids(&head.job(&files, 1)), before);
}

#[test]
fn rft_07_workers_rejoin_a_head_that_is_killed_twice_in_a_row() {
    let _beside = beside_others();
    let files = Files::new();
    let head = Head::start(&files, None, LOGGED);
    let _guests = [head.guest(&files, "b"), head.guest(&files, "b")];
    let job = head.job(&files, 2);
    let before = pids(&job);
    drop(job);
    // The second one is killed while the workers look for it, or come.
    let head = head.again(&files).again(&files);
    let job = head.job(&files, 2);
    assert_eq!(pids(&job), before);
    drop(job);
    let head = head.again(&files);
    assert_eq!(pids(&head.job(&files, 2)), before);
    assert_eq!(files.names(), ["cookie", "log", "log.lock"]);
}

#[test]
fn rft_07_workers_rejoin_after_a_head_that_could_not_open_its_door() {
    let _beside = beside_others();
    let files = Files::new();
    let mut head = Head::start(&files, None, LOGGED);
    let _guest = head.guest(&files, "b");
    let job = head.job(&files, 1);
    let before = pids(&job);
    drop(job);
    head.process.kill();
    let other = Runtime::new();
    let door = DialIn::listen("127.0.0.1:0").unwrap();
    other.accept_jobs(&door).unwrap();
    let options = HeadOptions::at(door, files.cookie()).log(files.0.join("log"));
    let error = Runtime::head(options).unwrap_err();
    assert!(matches!(error, HeadError::Door(_)), "{error}");
    let head = Head::start(&files, Some(&head.address), LOGGED);
    assert_eq!(pids(&head.job(&files, 1)), before);
}

#[test]
fn rft_07_a_worker_whose_head_does_not_come_back_ends_after_its_time_and_says_why() {
    let _beside = beside_others();
    let files = Files::new();
    let settings = Settings {
        grace_ms: 700,
        ..LOGGED
    };
    let mut head = Head::start(&files, None, settings);
    let mut guest = head.guest(&files, "b");
    drop(head.job(&files, 1));
    head.process.kill();
    let said = last_words(&mut guest);
    assert!(!guest.0.wait().unwrap().success());
    assert!(
        said.contains("its next life at") && said.contains("700ms"),
        "{said}"
    );
}

#[test]
fn rft_07_a_worker_that_was_stopped_for_too_long_says_that_its_head_lives() {
    let _beside = beside_others();
    let files = Files::new();
    let settings = Settings {
        silence_ms: Some(1000),
        ..LOGGED
    };
    let head = Head::start(&files, None, settings);
    let mut guest = head.guest(&files, "b");
    let job = head.job(&files, 1);
    signal(guest.0.id(), Signal::STOP);
    wait_until(&0, || job.processes().len());
    signal(guest.0.id(), Signal::CONT);
    let said = last_words(&mut guest);
    assert!(!guest.0.wait().unwrap().success());
    assert!(
        said.contains("lives, counts this worker as dead") && !said.contains("has ended"),
        "{said}"
    );
}

#[test]
fn rft_07_a_head_forgets_a_worker_that_does_not_come_back_and_tells_the_others() {
    let _beside = beside_others();
    let files = Files::new();
    let mut head = Head::start(
        &files,
        None,
        Settings {
            grace_ms: 3000,
            ..LOGGED
        },
    );
    let (_stays, mut goes) = (head.guest(&files, "b"), head.guest(&files, "c"));
    let job = head.job(&files, 2);
    let numbers: Vec<u32> = pids(&job).iter().map(|(number, _)| *number).collect();
    let gone = pids(&job).iter().find(|(_, pid)| *pid == goes.0.id()).unwrap().0;
    let stays = *numbers.iter().find(|number| **number != gone).unwrap();
    let counter = job.keep(counter::remote().on_process(process(gone)));
    job.name("gone", &counter).unwrap();
    drop((job, counter));
    head.process.kill();
    goes.kill();
    let settings = Settings {
        grace_ms: 3000,
        ..LOGGED
    };
    let head = Head::start(&files, Some(&head.address), settings);
    let job = head.job(&files, 1);
    // The one that is here asks for the other one, of which the head does not know yet whether it lives.
    let there = double_there::remote(gone, 4).on_process(process(stays));
    let error = job.call(there).wait().unwrap_err().to_string();
    assert!(error.contains(&format!("process {gone}")), "{error}");
    wait_until(&false, || head.numbers().contains(&u64::from(gone)));
    assert_eq!(pids(&job).len(), 1);
    let error = job.named::<Counter>("gone").unwrap_err();
    assert!(
        matches!(&error, NameError::OwnerDead { owner, .. } if owner.process().number() == gone),
        "{error}"
    );
}

#[test]
fn rft_07_without_a_log_all_end_with_the_head() {
    let _beside = beside_others();
    let files = Files::new();
    let settings = Settings { log: None, ..LOGGED };
    let mut head = Head::start(&files, None, settings);
    let mut guest = head.guest(&files, "b");
    let job = head.job(&files, 1);
    let at = job.processes()[0].process();
    let waiting = job.call(forever::remote().on_process(at));
    head.process.kill();
    let error = waiting.wait().unwrap_err();
    assert!(
        matches!(error.remote(), Some(RemoteError::Died { .. })),
        "{error}"
    );
    assert!(guest.0.wait().is_ok());
    assert_eq!(files.names(), ["cookie"]);
}

#[test]
fn a_worker_is_let_in_by_no_other_head_at_the_address_of_its_own() {
    let _beside = beside_others();
    let files = Files::new();
    let other = Settings {
        log: Some("other"),
        ..LOGGED
    };
    // Another cluster with the same cookie, in which another process had the same number.
    let mut head = Head::start(&files, None, other);
    let mut namesake = head.guest(&files, "b");
    drop(head.job(&files, 1));
    head.process.kill();
    namesake.kill();
    let mut first = Head::start(&files, Some(&head.address), LOGGED);
    let mut guest = first.guest(&files, "b");
    drop(first.job(&files, 1));
    first.process.kill();
    let second = Head::start(&files, Some(&head.address), other);
    assert!(guest.0.wait().is_ok(), "it is refused");
    assert!(second.connect(&files).processes().is_empty());
    // And one in which nobody had the number.
    let mut head = Head::start(&files, None, LOGGED);
    let mut guest = head.guest(&files, "b");
    drop(head.job(&files, 1));
    head.process.kill();
    let third = Settings {
        log: Some("third"),
        ..LOGGED
    };
    let _third = Head::start(&files, Some(&head.address), third);
    let said = last_words(&mut guest);
    assert!(said.contains("does not know this worker"), "{said}");
}

#[test]
fn a_head_runs_no_function_and_what_is_submitted_waits_for_a_worker() {
    let _beside = beside_others();
    let files = Files::new();
    let head = Head::start(&files, None, LOGGED);
    let job = head.connect(&files);
    assert!(job.processes().is_empty());
    let error = job.call(pid::remote().on_process(process(1))).wait().unwrap_err();
    assert!(error.to_string().contains("only a head"), "{error}");
    let error = job.call(pid::remote()).wait().unwrap_err();
    assert!(error.to_string().contains("no worker has joined"), "{error}");
    let submitted = job.submit(pid::remote());
    let pinned = job.submit(pid::remote().on_process(process(1)));
    assert!(pinned.fetch().unwrap_err().to_string().contains("only a head"));
    assert!(!submitted.is_ready().unwrap());
    let guest = head.guest(&files, "b");
    assert_eq!(*submitted.fetch().unwrap(), guest.0.id());
    let states: Vec<String> = head.members().into_iter().map(|(_, state)| state).collect();
    assert_eq!(states, ["answers", "lives", "lives"]);
}

#[test]
fn a_log_has_one_head_and_one_cluster() {
    let _beside = beside_others();
    let files = Files::new();
    let options = |cluster: &str| {
        let door = DialIn::listen("127.0.0.1:0").unwrap();
        let options = HeadOptions::at(door, files.cookie()).cluster(cluster);
        options.log(files.0.join("log"))
    };
    let head = Runtime::head(options("lab")).unwrap();
    assert_eq!(head.members().len(), 1);
    let cause = |cluster: &str| match Runtime::head(options(cluster)) {
        Err(HeadError::Log(error)) => error.cause,
        other => panic!("{other:?}"),
    };
    assert!(matches!(cause("lab"), HeadLogCause::InUse));
    drop(head);
    assert!(matches!(cause("farm"), HeadLogCause::OtherCluster { .. }));
}

#[test]
fn rfn_01_a_head_whose_log_cannot_be_written_ends_with_all_members_and_says_why() {
    let _beside = beside_others();
    let files = Files::new();
    let settings = Settings {
        is_short: true,
        ..LOGGED
    };
    let mut head = Head::start(&files, None, settings);
    let mut guest = head.guest(&files, "b");
    drop(head.job(&files, 1));
    // Each job that comes and goes is some lines.
    let connect = || Runtime::connect(&head.address, &files.cookie());
    let refused = (0..1000).find_map(|_| connect().err()).unwrap();
    assert!(matches!(refused, ConnectError::Refused { .. }), "{refused}");
    let mut line = String::new();
    while !line.contains("failed: ") {
        line.clear();
        assert!(head.said.read_line(&mut line).unwrap() > 0);
    }
    assert!(line.contains("log`: it cannot be written"), "{line}");
    assert!(!head.process.0.wait().unwrap().success());
    assert!(guest.0.wait().unwrap().success(), "it was asked to end");
}

#[test]
fn rfn_01_names_of_a_head_whose_log_cannot_be_written_are_refused_and_nobody_waits() {
    let _beside = beside_others();
    let files = Files::new();
    let settings = Settings {
        is_short: true,
        ..LOGGED
    };
    let mut head = Head::start(&files, None, settings);
    let mut guest = head.guest(&files, "b");
    let job = head.job(&files, 1);
    let owner = job.processes()[0].process();
    let counter = job.keep(counter::remote().on_process(owner));
    let refused = (0..1000).find_map(|number| job.name(&format!("counter {number}"), &counter).err());
    let refused = refused.unwrap();
    assert!(
        matches!(refused, NameError::NoHead | NameError::Shutdown),
        "{refused}"
    );
    assert!(!head.process.0.wait().unwrap().success());
    assert!(guest.0.wait().unwrap().success(), "it was asked to end");
}

#[test]
fn a_head_that_is_stopped_ends_its_workers_and_forgets_them() {
    let _beside = beside_others();
    let files = Files::new();
    let mut head = Head::start(&files, None, LOGGED);
    let mut guest = head.guest(&files, "b");
    drop(head.job(&files, 1));
    drop(head.process.0.stdin.take());
    assert!(head.process.0.wait().unwrap().success());
    assert!(guest.0.wait().unwrap().success(), "it was asked to end");
    let head = Head::start(&files, Some(&head.address), LOGGED);
    assert_eq!(head.numbers(), [1]);
    assert!(head.connect(&files).process().number() > 3, "numbers go on");
}

#[test]
fn rft_07_nothing_is_left_when_a_head_and_its_workers_are_killed() {
    let _alone = alone();
    let files = Files::new();
    let me = std::process::id();
    let round = || {
        let mut head = Head::start(&files, None, LOGGED).again(&files);
        let mut guests = [head.guest(&files, "b"), head.guest(&files, "c")];
        let job = head.job(&files, 2);
        let kept = job.put(vec![1_u64; 100_000]).unwrap();
        head.process.kill();
        guests.iter_mut().for_each(Started::kill);
        drop((kept, job));
        assert!(
            guests
                .iter()
                .chain([&head.process])
                .all(|process| !is_alive(process.0.id()))
        );
        assert!(matches!(
            Runtime::connect(&head.address, &files.cookie()),
            Err(ConnectError::Refused { .. })
        ));
    };
    round();
    let before = (settled(Census::take), ports::listeners(me).len());
    round();
    round();
    wait_until(&before, || (Census::take(), ports::listeners(me).len()));
    assert_eq!(files.names(), ["cookie", "log", "log.lock"]);
}
