//! `kill -9`, and the generator that chooses its moments and its victims.
#![allow(dead_code, unreachable_pub, clippy::expect_used)] // every binary uses a part of the module, and a test may panic

pub fn kill(pid: u32) {
    let pid = rustix::process::Pid::from_raw(pid as i32).expect("pid");
    rustix::process::kill_process(pid, rustix::process::Signal::KILL).expect("kill");
}

/// A small generator (xorshift, Marsaglia 2003). Messages of failures print its seed, so a failure can be repeated.
pub struct Random(pub u64);

impl Random {
    pub fn below(&mut self, limit: u64) -> u64 {
        self.0 ^= self.0 << 13;
        self.0 ^= self.0 >> 7;
        self.0 ^= self.0 << 17;
        self.0 % limit
    }
}
