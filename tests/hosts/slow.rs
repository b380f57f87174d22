//! Slow networks: what comes late is no death.

use std::io::{self, Read, Write};
use std::net::{SocketAddr, TcpListener, TcpStream};
use std::thread;
use std::time::Duration;

use selvedge::prelude::*;

use crate::beside_others;
use crate::guests::{ByHand, Invited, door};

/// The time for which a relay rests after each of its reads.
const REST: Duration = Duration::from_millis(10);

/// The bytes of one read, so that a relay passes on 3 MB/s.
const READ_BYTES: usize = 30_000;

/// The bytes of a value: more than the buffers of the sockets on its way hold, so that it comes for seconds.
const LENGTH: usize = 8 << 20;

/// Passes on what comes, slowly, until an end closes.
fn pass(mut from: TcpStream, mut to: TcpStream) -> io::Result<()> {
    let mut buffer = vec![0; READ_BYTES];
    loop {
        match from.read(&mut buffer)? {
            0 => return to.shutdown(std::net::Shutdown::Write),
            read => to.write_all(&buffer[..read])?,
        }
        thread::sleep(REST);
    }
}

/// A slow way to an address. Its threads end with the connections, and the one that takes them with the process.
fn relay_to(address: SocketAddr) -> SocketAddr {
    let listener = TcpListener::bind("127.0.0.1:0").unwrap();
    let relay = listener.local_addr().unwrap();
    thread::spawn(move || {
        for near in listener.incoming().flatten() {
            let far = TcpStream::connect(address).unwrap();
            let (near_end, far_end) = (near.try_clone().unwrap(), far.try_clone().unwrap());
            thread::spawn(move || pass(near, far));
            thread::spawn(move || pass(far_end, near_end));
        }
    });
    relay
}

#[remote]
fn long(bytes: usize) -> Vec<u8> {
    vec![7; bytes]
}

#[remote]
fn length(bytes: Vec<u8>) -> usize {
    bytes.len()
}

#[test]
fn a_worker_whose_signs_of_life_wait_behind_a_long_value_is_not_dead() {
    let _guard = beside_others();
    let runtime = Runtime::new().silence_timeout(Duration::from_secs(1));
    let door = door();
    let file = Invited::to(&runtime, &door);
    let _process = ByHand::at(relay_to(door.address()), &file);
    let workers = runtime.add(door.expect(1.try_into().unwrap())).unwrap();
    let value = runtime.call(long::remote(LENGTH).on(&workers[0])).wait().unwrap();
    assert_eq!(value.len(), LENGTH);
    let counted = runtime.call(length::remote(&value).on(&workers[0])).wait();
    assert_eq!(counted.unwrap(), LENGTH);
}
