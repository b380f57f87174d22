//! Hosts with a real `sshd`, and a driver on the first of them.

use std::io::{BufRead, BufReader};
use std::path::PathBuf;
use std::process::{Command, Stdio};
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Mutex, PoisonError};

use selvedge_test_hosts::{Host, Hosts, Process, SocketState};

use crate::available::available;

const SSHD: &str = "/usr/sbin/sshd";

/// Hosts, a folder with keys, and the `sshd`s that run. The drop ends them and removes the folder.
pub(crate) struct Site {
    pub(crate) hosts: Hosts,
    folder: PathBuf,
    running: Mutex<Vec<Process>>,
}

/// Makes a site of so many hosts; `None` if this machine cannot have them.
pub(crate) fn site(count: usize) -> Option<Site> {
    static COUNT: AtomicU64 = AtomicU64::new(0);
    if !(available("sshd") && available("ssh") && available("ssh-keygen")) {
        return None;
    }
    let hosts = Hosts::or_left_out(count).unwrap()?;
    let number = COUNT.fetch_add(1, Ordering::Relaxed);
    let folder = std::env::temp_dir().join(format!("selvedge-ssh-{}-{number}", std::process::id()));
    std::fs::create_dir(&folder).unwrap();
    let site = Site {
        hosts,
        folder,
        running: Mutex::default(),
    };
    for key in ["host", "user"] {
        let mut keygen = Command::new("ssh-keygen");
        keygen.args(["-q", "-t", "ed25519", "-N", "", "-f", &site.file(key)]);
        assert!(keygen.status().unwrap().success());
    }
    // `sshd` of root wants this directory, which its service makes.
    let _ = std::fs::create_dir_all("/run/sshd");
    Some(site)
}

impl Site {
    fn file(&self, name: &str) -> String {
        self.folder.join(name).to_str().unwrap().to_owned()
    }

    /// Starts `sshd` on a host, and waits until it listens.
    pub(crate) fn sshd(&self, number: usize, port: u16, settings: &str) {
        let host = self.hosts.host(number);
        let settings = format!(
            "HostKey {}\nAuthorizedKeysFile {}\nPidFile none\nStrictModes no\nUsePAM no\n{settings}",
            self.file("host"),
            self.file("user.pub")
        );
        let path = self.file(&format!("settings-{number}"));
        std::fs::write(&path, settings).unwrap();
        let mut sshd = Command::new(SSHD);
        sshd.args(["-D", "-e", "-f", &path, "-p", &port.to_string()])
            .stdin(Stdio::null())
            .stderr(Stdio::null());
        let process = host.spawn(sshd).unwrap();
        self.running
            .lock()
            .unwrap_or_else(PoisonError::into_inner)
            .push(process);
        let listens = || {
            let mut sockets = host.sockets().unwrap().into_iter();
            sockets.any(|socket| socket.state == SocketState::Listen && socket.local.port() == port)
        };
        until("sshd listens", listens);
    }

    /// Sets the packet filter of a host.
    pub(crate) fn filter(&self, host: &Host, rules: &str) {
        let mut nft = Command::new("nft");
        nft.arg(rules).stdin(Stdio::null());
        let nft = host.spawn(nft).unwrap();
        assert!(nft.wait().unwrap().success(), "the filter is refused");
    }

    /// Runs a driver on host 0 that adds the workers of a machine file. `meanwhile` is called when they have joined. Returns the
    /// driver's lines.
    pub(crate) fn add(
        &self,
        machines: &str,
        is_tunnelled: bool,
        meanwhile: impl FnOnce(&[String]),
    ) -> Vec<String> {
        let path = self.file("machines");
        std::fs::write(&path, machines).unwrap();
        let mut driver = Command::new(env!("CARGO_BIN_EXE_selvedge-matrix"));
        driver
            .args([
                "ssh-workers",
                &path,
                &self.file("user"),
                &is_tunnelled.to_string(),
            ])
            .stdin(Stdio::piped())
            .stdout(Stdio::piped());
        let mut driver = self.hosts.host(0).spawn(driver).unwrap();
        let mut output = BufReader::new(driver.stdout.take().unwrap()).lines();
        let mut lines: Vec<String> = Vec::new();
        for line in output.by_ref().map_while(Result::ok) {
            if line == "ready" {
                meanwhile(&lines);
                break;
            }
            lines.push(line);
        }
        drop(driver.stdin.take());
        output.for_each(drop);
        assert!(driver.wait().unwrap().success(), "{lines:?}");
        lines
    }
}

impl Drop for Site {
    fn drop(&mut self) {
        for host in self.hosts.all() {
            let _ = host.kill();
        }
        let _ = std::fs::remove_dir_all(&self.folder);
    }
}

/// Waits until something holds, which it does within a minute.
pub(crate) fn until(what: &str, holds: impl Fn() -> bool) {
    let holds = (0..6000).any(|_| {
        holds() || {
            std::thread::sleep(std::time::Duration::from_millis(10));
            false
        }
    });
    assert!(holds, "{what}");
}
