//! Connections that break while they are used.

use std::fs;
use std::os::fd::BorrowedFd;
use std::time::Duration;

use selvedge::prelude::*;

use crate::{alone, local};

#[remote]
fn doubled(values: Vec<u64>) -> Vec<u64> {
    values.into_iter().map(|value| 2 * value).collect()
}

struct Log(Vec<u64>);

#[actor]
impl Log {
    pub fn new() -> Self {
        Log(Vec::new())
    }

    pub fn push(&mut self, value: u64) -> usize {
        self.0.push(value);
        self.0.len()
    }

    pub fn all(&mut self) -> Vec<u64> {
        self.0.clone()
    }
}

/// Resets every TCP connection of this process, and returns their number.
#[allow(unsafe_code, reason = "borrows descriptors of the library by their numbers")]
fn reset_all() -> usize {
    let numbers = fs::read_dir("/proc/self/fd").unwrap().flatten();
    let sockets = numbers.filter_map(|entry| {
        let target = fs::read_link(entry.path()).ok()?;
        target.to_str()?.strip_prefix("socket:")?;
        entry.file_name().to_str()?.parse().ok()
    });
    let sockets: Vec<i32> = sockets.collect();
    let reset = |number: &i32| {
        // SAFETY: the call gets a number that was open a moment ago. If another socket has it by now, that one is reset
        // instead, and links go on after that too; nothing else in this process has sockets of TCP.
        let socket = unsafe { BorrowedFd::borrow_raw(*number) };
        let is_tcp = rustix::net::getpeername(socket)
            .ok()
            .flatten()
            .is_some_and(|peer| std::net::SocketAddr::try_from(peer).is_ok());
        is_tcp && rustix::net::connect_unspec(socket).is_ok()
    };
    sockets.iter().filter(|number| reset(number)).count()
}

#[test]
fn rref_28_calls_actors_and_channels_go_on_over_connections_that_are_reset() {
    let _guard = alone();
    let runtime = Runtime::new();
    let workers = runtime.add(local(2)).unwrap();
    let log = runtime.spawn::<Log>("log", ()).in_worker(&workers[0]).unwrap();
    let mut resets = 0;
    std::thread::scope(|scope| {
        let calls = scope.spawn(|| {
            let long: Vec<u64> = (0..400_000).collect();
            for count in 0..300_u64 {
                let values = match count % 20 {
                    0 => long.clone(),
                    _ => vec![count; 10],
                };
                let expected: Vec<u64> = values.iter().map(|value| 2 * value).collect();
                let worker = &workers[count as usize % 2];
                let found = runtime.call(doubled::remote(&values).on(worker)).wait().unwrap();
                assert_eq!(found, expected);
                assert_eq!(log.call().push(count).wait().unwrap(), count as usize + 1);
            }
        });
        while !calls.is_finished() {
            std::thread::sleep(Duration::from_millis(10));
            resets += reset_all();
        }
    });
    assert!(resets > 10, "{resets}");
    assert_eq!(log.call().all().wait().unwrap(), (0..300).collect::<Vec<_>>());
}
