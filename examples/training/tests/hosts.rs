//! Training whose ranks are on several hosts: two ranks on each of three, which dial in.
#![cfg(target_os = "linux")]
#![allow(clippy::unwrap_used, clippy::panic)] // a test that cannot set up has failed

use std::io::Read;
use std::path::PathBuf;
use std::process::{Command, Stdio};
use std::time::Duration;

use selvedge_test_hosts::{Hosts, Process};

/// The place of the invitation. The drop removes it.
struct Invitation(PathBuf);

impl Drop for Invitation {
    fn drop(&mut self) {
        let _ = std::fs::remove_file(&self.0);
    }
}

fn program() -> Command {
    let mut command = Command::new(env!("CARGO_BIN_EXE_train_allreduce"));
    command.env("RAYON_NUM_THREADS", "1");
    command
}

/// Starts the driver on a host, and waits until it has written the invitation.
fn driver(hosts: &Hosts, address: &str, invitation: &Invitation) -> Process {
    let mut command = program();
    command
        .args(["--ranks", "6", "--steps", "60", "--guests", address])
        .arg("--invitation")
        .arg(&invitation.0)
        .stdout(Stdio::piped());
    let driver = hosts.host(0).spawn(command).unwrap();
    for _ in 0..6000 {
        if std::fs::metadata(&invitation.0).is_ok_and(|file| file.len() > 0) {
            return driver;
        }
        std::thread::sleep(Duration::from_millis(10));
    }
    panic!("the driver has written no invitation");
}

#[test]
fn six_ranks_on_three_hosts_have_equal_models_bit_for_bit() {
    let Some(hosts) = Hosts::or_left_out(3).unwrap() else {
        return;
    };
    let name = format!("selvedge-training-{}", std::process::id());
    let invitation = Invitation(std::env::temp_dir().join(name));
    let address = format!("{}:7447", hosts.host(0).address());
    let mut driver = driver(&hosts, &address, &invitation);
    let mut guests = Vec::new();
    for number in 0..6 {
        let mut command = program();
        command
            .args(["--selvedge-worker", "--dial", &address, "--cookie-file"])
            .arg(&invitation.0)
            .stdin(Stdio::null());
        guests.push(hosts.host(number % 3).spawn(command).unwrap());
    }
    let mut said = String::new();
    driver.stdout.take().unwrap().read_to_string(&mut said).unwrap();
    assert!(driver.wait().unwrap().success(), "{said}");
    assert!(
        said.lines().any(|line| line == "models       equal bit for bit"),
        "{said}"
    );
    let traffic = hosts.traffic(hosts.host(1), hosts.host(2));
    assert!(
        traffic.bytes > 1_000_000,
        "gradients go from host to host: {traffic:?}"
    );
    for guest in &guests {
        assert!(guest.wait().unwrap().success());
    }
}
