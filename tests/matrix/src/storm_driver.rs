//! The driver of a storm: a random graph of calls on other hosts, whose processes the test starts, strikes and damages by order.
//!
//! | order, on standard output | done when the test has |
//! |---|---|
//! | `start HOST COUNT ADDRESS` | started guests on a host, which dial this address; no answer, since the driver sees them |
//! | `strike HOST PID BLOW` | killed, frozen or thawed a process |
//! | `await HOST PID` | seen its end |
//! | `damage HOST PID..` | damaged what these processes have spilled |
//!
//! The answer to each is the line `done`. Other lines are the storm's own words. The last line is `over`.
#![allow(clippy::unwrap_used)] // a test may panic

use std::path::PathBuf;
use std::time::Duration;

use selvedge::hosts::{CookieSource, DialIn};
use selvedge::prelude::*;
use selvedge::{StoreOptions, Worker};

use crate::census::{Census, settled, wait_until};
use crate::storm::{Blow, STORE_BYTES, Site, Storm};

/// Hosts whose processes the test has: the driver is reached at this address.
struct Ordered {
    address: String,
}

/// Orders something of the test, and waits until it is done.
fn order(words: &str) {
    println!("{words}");
    let done = std::io::stdin().lines().next();
    assert_eq!(done.and_then(Result::ok).as_deref(), Some("done"), "{words}");
}

impl Site for Ordered {
    fn start(&mut self, runtime: &Runtime, host: &'static str, count: usize) -> Vec<Worker> {
        let door = DialIn::listen(format!("{}:0", self.address)).unwrap();
        println!("start {host} {count} {}", door.address());
        let count = u16::try_from(count).unwrap().try_into().unwrap();
        runtime.add(door.expect(count)).unwrap()
    }

    fn strike(&mut self, host: &str, pid: u32, blow: Blow) {
        order(&format!("strike {host} {pid} {blow:?}"));
    }

    fn await_end(&mut self, host: &str, pid: u32) {
        order(&format!("await {host} {pid}"));
    }

    fn damage(&mut self, host: &str, pids: &[u32]) {
        let pids: Vec<String> = pids.iter().map(u32::to_string).collect();
        order(&format!("damage {host} {}", pids.join(" ")));
    }
}

/// Runs a storm over three hosts. Values are spilled to the folder, in which the ledger lies.
pub(crate) fn run(address: &str, cookie: &str, folder: &str) -> anyhow::Result<()> {
    let before = settled(Census::take);
    {
        let folder = PathBuf::from(folder);
        let runtime = Runtime::new()
            .silence_timeout(Duration::from_secs(5))
            .hello_timeout(Duration::from_secs(60))
            .store(StoreOptions::new().bytes(STORE_BYTES).spill(&folder));
        runtime.set_cookie(&CookieSource::File(cookie.into()))?;
        let site = Ordered {
            address: address.to_owned(),
        };
        let mut storm = Storm::new(
            &runtime,
            site,
            &["host-1", "host-2", "host-3"],
            folder.join("ledger"),
        );
        storm.run();
    }
    wait_until(&before, || settled(Census::take));
    println!("over");
    Ok(())
}
