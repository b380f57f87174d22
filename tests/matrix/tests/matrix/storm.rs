//! A random graph of calls over three hosts, while their processes are killed, frozen and buried: `KILLS=200 cargo test -p selvedge-matrix
//! --test matrix random_graph -- --nocapture` kills as many in a graph of 5 000 calls.

use std::fs;
use std::io::{BufRead, BufReader, Write};
use std::process::{Command, Stdio};

use rustix::process::{Pid, Signal, kill_process};
use selvedge_test_hosts::{Host, Hosts, Process};

use crate::guests::{Folder, PROGRAM};
use crate::spilled::damage_of;

/// Does what the driver of a storm orders.
struct Orders<'a> {
    hosts: &'a Hosts,
    folder: &'a Folder,
    cookie: &'a str,
    /// The processes of the hosts, by host and pid there.
    processes: Vec<(String, u32, Process)>,
}

impl Orders<'_> {
    fn host(&self, name: &str) -> &Host {
        self.hosts.all().iter().find(|host| host.name() == name).unwrap()
    }

    fn start(&mut self, host: &str, address: &str) {
        let mut guest = Command::new(PROGRAM);
        guest
            .args([
                "--selvedge-worker",
                "--dial",
                address,
                "--cookie-file",
                self.cookie,
            ])
            .stdin(Stdio::null());
        let guest = self.host(host).spawn(guest).unwrap();
        let pid = guest.pid_inside().unwrap();
        self.processes.push((host.to_owned(), pid, guest));
    }

    fn place(&self, host: &str, pid: &str) -> usize {
        let pid: u32 = pid.parse().unwrap();
        let is_it = |(at, known, _): &(String, u32, Process)| at == host && *known == pid;
        self.processes.iter().position(is_it).unwrap()
    }

    /// The pid here of a process of a host.
    fn pid(&self, host: &str, pid: &str) -> u32 {
        self.processes[self.place(host, pid)].2.pid()
    }

    fn strike(&self, host: &str, pid: &str, blow: &str) {
        let blow = match blow {
            "Kill" => Signal::KILL,
            "Freeze" => Signal::STOP,
            "Thaw" => Signal::CONT,
            other => panic!("no such blow: {other}"),
        };
        let pid = self.pid(host, pid).try_into().unwrap();
        kill_process(Pid::from_raw(pid).unwrap(), blow).unwrap();
    }

    /// Obeys an order. Returns whether it is to be answered.
    fn obey(&mut self, line: &str) -> bool {
        let words: Vec<&str> = line.split(' ').collect();
        match words[..] {
            ["start", host, count, address] => {
                let count: usize = count.parse().unwrap();
                (0..count).for_each(|_| self.start(host, address));
                return false;
            }
            ["strike", host, pid, blow] => self.strike(host, pid, blow),
            ["await", host, pid] => {
                let at = self.place(host, pid);
                self.processes.remove(at).2.wait().unwrap();
            }
            ["damage", host, ref pids @ ..] => {
                pids.iter()
                    .for_each(|pid| damage_of(self.pid(host, pid), &self.folder.0));
            }
            _ => {
                println!("{line}");
                return false;
            }
        }
        true
    }
}

#[test]
fn rft_02_rft_03_rft_04_a_random_graph_is_right_although_processes_and_stores_of_three_test_hosts_die() {
    let Some(hosts) = Hosts::or_left_out(4).unwrap() else {
        return;
    };
    let folder = Folder(std::env::temp_dir().join(format!("selvedge-storm-hosts-{}", std::process::id())));
    fs::create_dir(&folder.0).unwrap();
    let cookie = folder.file("cookie", &"07".repeat(32));
    let mut driver = Command::new(PROGRAM);
    driver
        .args(["storm", &hosts.host(0).address().to_string(), &cookie])
        .arg(&folder.0)
        .stdin(Stdio::piped())
        .stdout(Stdio::piped());
    let mut driver = hosts.host(0).spawn(driver).unwrap();
    let mut answers = driver.stdin.take().unwrap();
    let lines = BufReader::new(driver.stdout.take().unwrap()).lines();
    let mut orders = Orders {
        hosts: &hosts,
        folder: &folder,
        cookie: &cookie,
        processes: Vec::new(),
    };
    let mut is_over = false;
    for line in lines.map_while(Result::ok) {
        is_over |= line == "over";
        if orders.obey(&line) {
            writeln!(answers, "done").unwrap();
        }
    }
    assert!(driver.wait().unwrap().success() && is_over);
    for (_, _, process) in orders.processes {
        // Those that live end with their driver.
        process.wait().unwrap();
    }
}
