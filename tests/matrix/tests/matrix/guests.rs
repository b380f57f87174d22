//! Guests that are there before their driver.

use std::fs;
use std::io::{BufRead, BufReader, Write};
use std::os::unix::fs::OpenOptionsExt;
use std::path::PathBuf;
use std::process::{Command, Stdio};

use selvedge_test_hosts::Hosts;

pub(crate) const PROGRAM: &str = env!("CARGO_BIN_EXE_selvedge-matrix");

/// A folder of one test, which is removed in the end.
pub(crate) struct Folder(pub(crate) PathBuf);

impl Folder {
    pub(crate) fn file(&self, name: &str, text: &str) -> String {
        let path = self.0.join(name);
        let mut options = fs::OpenOptions::new();
        let file = options
            .create(true)
            .write(true)
            .truncate(true)
            .mode(0o600)
            .open(&path);
        file.unwrap().write_all(text.as_bytes()).unwrap();
        path.to_str().unwrap().to_owned()
    }
}

impl Drop for Folder {
    fn drop(&mut self) {
        let _ = fs::remove_dir_all(&self.0);
    }
}

/// As Kubernetes starts pods in any order, and names a service when its pod is there.
#[test]
fn a_guest_joins_although_its_drivers_name_is_known_later_and_the_driver_listens_later_still() {
    let Some(hosts) = Hosts::or_left_out(2).unwrap() else {
        return;
    };
    let folder = Folder(std::env::temp_dir().join(format!("selvedge-guests-{}", std::process::id())));
    fs::create_dir(&folder.0).unwrap();
    let cookie = folder.file("cookie", &"07".repeat(32));
    let names = folder.file("names", "127.0.0.1 localhost\n");
    let script = format!(
        "mount --bind {names} /etc/hosts && exec {PROGRAM} --selvedge-worker --dial head.selvedge.test:7447 --cookie-file {cookie}"
    );
    let mut guest = Command::new("sh");
    guest.args(["-c", &script]).stdin(Stdio::null());
    let guest = hosts.host(1).spawn(guest).unwrap();
    // It has some time to look for the name in vain, and some to find nobody there. What is seen depends on neither.
    std::thread::sleep(std::time::Duration::from_millis(300));
    let address = hosts.host(0).address();
    folder.file(
        "names",
        &format!("127.0.0.1 localhost\n{address} head.selvedge.test\n"),
    );
    hosts
        .wait_for(hosts.host(1), hosts.host(0), |traffic| traffic.sent > 2)
        .unwrap();
    let mut driver = Command::new(PROGRAM);
    driver
        .args(["guests", &format!("{address}:7447"), &cookie, "1"])
        .stdin(Stdio::piped())
        .stdout(Stdio::piped());
    let mut driver = hosts.host(0).spawn(driver).unwrap();
    let lines = BufReader::new(driver.stdout.take().unwrap()).lines();
    let said: Vec<String> = lines
        .map_while(Result::ok)
        .take_while(|line| line != "ready")
        .collect();
    assert!(said.iter().any(|line| line.starts_with("worker ")), "{said:?}");
    drop(driver.stdin.take());
    assert!(driver.wait().unwrap().success());
    assert!(guest.wait().unwrap().success());
}
