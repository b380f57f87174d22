//! Slow networks: what comes late is no death.

use std::net::{SocketAddr, TcpListener, TcpStream};
use std::sync::Arc;
use std::thread;
use std::time::Duration;

use selvedge::prelude::*;

use crate::beside_others;
use crate::census::wait_until;
use crate::guests::{ByHand, Invited, door};
use crate::relay::relay;

/// The time for which a relay rests after each of its reads.
const REST: Duration = Duration::from_millis(10);

/// The bytes of one read, so that a relay passes on 3 MB/s.
const READ_BYTES: usize = 30_000;

/// The bytes of a value: more than the buffers of the sockets on its way hold, so that it comes for seconds.
const LENGTH: usize = 8 << 20;

/// A slow way to an address.
struct SlowWay {
    entry: SocketAddr,
    /// Held here, by the thread that takes connections until the process ends, and once more for each connection.
    held: Arc<()>,
}

impl SlowWay {
    fn to(address: SocketAddr) -> Self {
        let listener = TcpListener::bind("127.0.0.1:0").unwrap();
        let (entry, held) = (listener.local_addr().unwrap(), Arc::new(()));
        let taking = Arc::clone(&held);
        thread::spawn(move || {
            for near in listener.incoming().flatten() {
                let (far, taken) = (TcpStream::connect(address).unwrap(), Arc::clone(&taking));
                thread::spawn(move || {
                    relay(&near, &far, READ_BYTES, |_| thread::sleep(REST));
                    drop((near, far));
                    drop(taken);
                });
            }
        });
        SlowWay { entry, held }
    }

    /// Waits until the connections have ended, which other tests would find in this process.
    fn wait_for_the_end(self) {
        wait_until(&2, || Arc::strong_count(&self.held));
    }
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
    let way = SlowWay::to(door.address());
    let process = ByHand::at(way.entry, &file);
    let workers = runtime.add(door.expect(1.try_into().unwrap())).unwrap();
    let value = runtime.call(long::remote(LENGTH).on(&workers[0])).wait().unwrap();
    assert_eq!(value.len(), LENGTH);
    let counted = runtime.call(length::remote(&value).on(&workers[0])).wait();
    assert_eq!(counted.unwrap(), LENGTH);
    drop((workers, runtime, process));
    way.wait_for_the_end();
}
