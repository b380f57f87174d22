//! Workers that are reached by a real `ssh` and a real `sshd`, which talk over a pipe, so that no port is open.

use std::fs;
use std::path::{Path, PathBuf};
use std::process::{Command, Output, Stdio};
use std::time::Duration;

use selvedge::Worker;
use selvedge::hosts::{MachineSpec, SshManager, SshOptions};
use selvedge::prelude::*;

use crate::{alone, pid};

const SSHD: &str = "/usr/sbin/sshd";

/// A folder with keys and the settings of `sshd`. The drop removes the folder.
struct Site(PathBuf);

impl Site {
    /// `Err` says why there is none.
    fn new() -> Result<Self, String> {
        let site = Site(std::env::temp_dir().join(format!("selvedge-sshd-{}", std::process::id())));
        fs::create_dir_all(&site.0).unwrap();
        for key in ["host", "user"] {
            let mut keygen = Command::new("ssh-keygen");
            keygen.args(["-q", "-t", "ed25519", "-N", "", "-f", &site.file(key)]);
            done(keygen.output())?;
        }
        let settings = format!(
            "HostKey {}\nAuthorizedKeysFile {}\nPidFile none\nStrictModes no\nUsePAM no\n",
            site.file("host"),
            site.file("user.pub")
        );
        fs::write(site.file("settings"), settings).unwrap();
        // `sshd` of root wants this directory, which its service makes.
        let _ = fs::create_dir_all("/run/sshd");
        let mut ssh = Command::new("ssh");
        let flags = site.options().flags;
        ssh.args(flags).args(["-o", "BatchMode=yes", "here", "true"]);
        done(ssh.stdin(Stdio::null()).output())?;
        Ok(site)
    }

    fn file(&self, name: &str) -> String {
        self.0.join(name).to_str().unwrap().to_owned()
    }

    fn options(&self) -> SshOptions {
        let proxy = format!("ProxyCommand={SSHD} -i -f {}", self.file("settings"));
        let control = format!("ControlPath={}", self.file("%C"));
        let user = self.file("user");
        let flags = [
            "-F",
            "none",
            "-i",
            &user,
            "-o",
            &proxy,
            "-o",
            &control,
            "-o",
            "UserKnownHostsFile=/dev/null",
            "-o",
            "StrictHostKeyChecking=no",
            "-o",
            "LogLevel=ERROR",
        ];
        flags.into_iter().fold(SshOptions::default(), SshOptions::flag)
    }
}

impl Drop for Site {
    fn drop(&mut self) {
        let _ = fs::remove_dir_all(&self.0);
    }
}

fn done(output: std::io::Result<Output>) -> Result<(), String> {
    let output = output.map_err(|error| error.to_string())?;
    match output.status.success() {
        true => Ok(()),
        false => Err(String::from_utf8_lossy(&output.stderr).into_owned()),
    }
}

#[test]
fn jnet_04_jnet_06_jnet_09_a_real_ssh_starts_workers_and_carries_tunnels() {
    let _guard = alone();
    if !Path::new(SSHD).exists() {
        let _ = std::io::Write::write_all(
            &mut std::io::stderr(),
            format!("\nleft out: there is no {SSHD}\n").as_bytes(),
        );
        return;
    }
    let site = Site::new().unwrap();
    let me = std::process::id();
    let sockets = crate::ports::links(me);
    let options = site.options();
    for (options, links) in [
        (options.clone(), 2),
        (options.clone().tunnel(true), 0),
        (options.tunnel(true).multiplex(true), 0),
    ] {
        let machines = MachineSpec::parse_file("2*here 127.0.0.1").unwrap();
        let runtime = Runtime::new().hello_timeout(Duration::from_secs(60));
        let workers = runtime
            .add(SshManager::machines(machines).options(options))
            .unwrap();
        let names: Vec<_> = workers.iter().map(Worker::name).collect();
        assert_eq!(names, ["here 1", "here 2"]);
        for worker in &workers {
            let found = runtime.call(pid::remote().on(worker)).wait().unwrap();
            assert_eq!(Some(found), worker.pid());
        }
        assert_eq!(crate::ports::links(me) - sockets, links);
    }
}
