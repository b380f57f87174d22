//! A wait without a time limit, where the system refuses to watch the peer.
#![cfg(all(target_os = "linux", not(any(miri, loom))))] // Miri starts no processes
#![allow(
    missing_docs,
    clippy::unwrap_used,
    clippy::expect_used,
    clippy::panic,
    clippy::indexing_slicing
)] // a test may panic

use std::future::Future;
use std::io::{BufRead, BufReader, Read};
use std::pin::pin;
use std::process::{Command, Stdio};
use std::task::{Context, Poll, Waker};

use rustix::process::{Resource, Rlimit, getrlimit, setrlimit};
use selvedge_channels::{ChannelError, ChannelOptions, SegmentError, SharedChannel, Waiting};

/// The part that a process plays, in a variable of its environment.
const PART: &str = "SELVEDGE_TEST_UNWATCHED";

fn options() -> ChannelOptions {
    ChannelOptions::new().waiting(Waiting::Park).timeout(None)
}

fn play(part: &str) -> Command {
    let mut command = Command::new(std::env::current_exe().unwrap());
    command
        .args(["--exact", "part", "--ignored", "--nocapture"])
        .env(PART, part);
    command
}

/// The other processes of the test below.
#[test]
#[ignore = "the processes of the other test"]
fn part() {
    match std::env::var(PART).as_deref() {
        Ok("reads") => reads(),
        Ok(descriptor) => writes(descriptor),
        Err(_) => {}
    }
}

/// Takes the writer, and lives until its standard input ends.
fn writes(descriptor: &str) {
    let channel = SharedChannel::<u64>::open(&descriptor.parse().unwrap(), options()).unwrap();
    let _writer = channel.writer().unwrap();
    println!("here");
    let _ = std::io::stdin().read(&mut [0]);
}

fn is_refused(error: &ChannelError) -> bool {
    let is_of_system = matches!(error, ChannelError::Segment(SegmentError::System { .. }));
    is_of_system && error.to_string().contains("watching a peer")
}

/// Reads what never comes: first without descriptors for a watch, then with some.
fn reads() {
    let channel = options().shared::<u64>().unwrap();
    let mut reader = channel.reader(0).unwrap();
    let mut writer = play(&channel.descriptor().to_string())
        .stdin(Stdio::piped())
        .stdout(Stdio::piped())
        .spawn()
        .unwrap();
    let lines = BufReader::new(writer.stdout.take().unwrap()).lines();
    assert!(lines.map(Result::unwrap).any(|line| line.contains("here")));
    let before = getrlimit(Resource::Nofile);
    let none = Rlimit {
        current: Some(0),
        ..before
    };
    setrlimit(Resource::Nofile, none).unwrap();
    let blocking = reader.recv().map(drop).unwrap_err();
    let awaited = {
        let mut context = Context::from_waker(Waker::noop());
        match pin!(reader.recv_async()).poll(&mut context) {
            Poll::Ready(read) => read.map(drop).unwrap_err(),
            Poll::Pending => panic!("nothing wakes it if the writer dies"),
        }
    };
    setrlimit(Resource::Nofile, before).unwrap();
    for error in [blocking, awaited] {
        assert!(is_refused(&error), "{error}");
    }
    let killer = std::thread::spawn(move || {
        writer.kill().unwrap();
        writer.wait().unwrap();
    });
    let died = reader.recv().map(drop).unwrap_err();
    assert!(matches!(died, ChannelError::Poisoned { .. }), "{died}");
    killer.join().unwrap();
}

#[test]
fn a_wait_that_no_death_would_end_is_an_error() {
    let ended = play("reads").output().unwrap();
    let text = String::from_utf8_lossy(&ended.stdout);
    assert!(
        ended.status.success(),
        "{text}{}",
        String::from_utf8_lossy(&ended.stderr)
    );
}
