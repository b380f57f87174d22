//! A relay between two connections, which sees what it passes on.

use std::io::{Read, Write};
use std::net::{Shutdown, TcpStream};
use std::thread;

/// Passes on what comes on either connection, in pieces of at most so many bytes, until both have ended. `sees` is called with each piece
/// before it goes on.
pub fn relay(near: &TcpStream, far: &TcpStream, most: usize, sees: impl Fn(&[u8]) + Sync) {
    let pass = |mut from: &TcpStream, mut to: &TcpStream| {
        let mut bytes = vec![0; most];
        while let Ok(read @ 1..) = from.read(&mut bytes) {
            sees(&bytes[..read]);
            if to.write_all(&bytes[..read]).is_err() {
                break;
            }
        }
        let _ = to.shutdown(Shutdown::Write);
    };
    thread::scope(|scope| {
        scope.spawn(|| pass(near, far));
        pass(far, near);
    });
}
