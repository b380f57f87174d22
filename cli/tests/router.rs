//! Tests of `selvedge router`, run as a user runs it.
#![allow(clippy::unwrap_used, reason = "a test may panic")]

use std::io::{BufRead, BufReader, Read};
use std::net::{TcpListener, TcpStream};
use std::process::{Child, Command, Stdio};

use rustix::process::{Pid, Signal, kill_process};

fn router(arguments: &[&str]) -> Child {
    let mut command = Command::new(env!("CARGO_BIN_EXE_selvedge"));
    command.arg("router").args(arguments);
    command
        .stdout(Stdio::piped())
        .stderr(Stdio::piped())
        .spawn()
        .unwrap()
}

#[test]
fn a_router_says_where_it_listens_and_ends_by_a_signal() {
    let free = TcpListener::bind("127.0.0.1:0").unwrap();
    let address = free.local_addr().unwrap();
    drop(free);
    let endpoint = format!("tcp/{address}");
    for signal in [Signal::INT, Signal::TERM] {
        let mut child = router(&["--listen", &endpoint]);
        let mut lines = BufReader::new(child.stdout.take().unwrap());
        let mut first = String::new();
        lines.read_line(&mut first).unwrap();
        assert_eq!(first, format!("router: listens at {endpoint} (Ctrl-C ends it)\n"));
        TcpStream::connect(address).unwrap();
        // A port that is taken is an error that says so.
        let other = router(&["--listen", &endpoint]).wait_with_output().unwrap();
        assert!(!other.status.success());
        assert!(String::from_utf8_lossy(&other.stderr).contains("is the port taken?"));
        kill_process(Pid::from_child(&child), signal).unwrap();
        let mut rest = String::new();
        lines.read_to_string(&mut rest).unwrap();
        assert_eq!(rest, "router: ended\n");
        assert!(child.wait().unwrap().success());
    }
}

#[test]
fn an_entry_that_zenoh_does_not_know_is_refused_by_name() {
    for (set, said) in [("no/such=1", "`no/such`"), ("mode", "PATH=JSON5")] {
        let output = router(&["--set", set]).wait_with_output().unwrap();
        assert!(!output.status.success());
        let text = String::from_utf8_lossy(&output.stderr).into_owned();
        assert!(text.contains(said), "{text}");
    }
}
