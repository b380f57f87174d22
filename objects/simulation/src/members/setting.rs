//! The size of a cluster, and what goes wrong in it.

use std::time::Duration;

use selvedge_cluster::membership::MemberSettings;

use crate::faults::copies;
use crate::random::Random;

/// The size of a run, and its faults. Faults happen at random hosts at random moments of the run.
#[derive(Clone, Copy, Debug)]
pub struct MemberSetting {
    /// The hosts beside the head's.
    pub hosts: u32,
    /// The workers of each host.
    pub workers: u32,
    /// The virtual time of the run.
    pub time: Duration,
    /// The frames of a thousand that are lost.
    pub loss_per_mille: u64,
    /// The frames of a thousand that arrive twice.
    pub duplication_per_mille: u64,
    /// The number of agents that are killed; another one starts a second later.
    pub kills: u32,
    /// The number of workers that are killed.
    pub worker_kills: u32,
    /// The number of hosts that stand still, for 15 to 30 s.
    pub freezes: u32,
    /// The number of hosts that stand still for less than 4 s, which nobody should notice.
    pub pauses: u32,
    /// The hosts of a hundred that are cut off from the head in the middle of the run, for half a minute.
    pub cut_percent: u32,
    /// The times of the membership.
    pub times: MemberSettings,
}

/// The time for which hosts are cut off.
pub const CUT_TIME: Duration = Duration::from_secs(30);

/// The time after which the head sends the notices that it has.
pub const BUNDLE_TIME: Duration = Duration::from_millis(20);

/// The time between two looks for silent members.
pub const LOOK_TIME: Duration = Duration::from_millis(100);

/// The time after which a process is started again.
pub const START_TIME: Duration = Duration::from_secs(1);

impl MemberSetting {
    /// The delay of a frame between the head and a host, one way: half of the hosts are in its rack, three of ten at its site,
    /// and the others far away.
    pub fn delay(&self, host: u32, random: &mut Random) -> Duration {
        let micros = match host % 10 {
            0..5 => 50,
            5..8 => 500,
            // Each host has its distance, of 5 to 150 ms.
            _ => 5_000 + u64::from(host) * 7_919 % 145_000,
        };
        Duration::from_micros(micros + random.below(micros / 5 + 1))
    }

    /// The number of copies of a frame that arrive.
    pub fn copies(&self, random: &mut Random) -> u32 {
        copies(self.loss_per_mille, self.duplication_per_mille, random)
    }

    /// The clock of a host at a moment: it is fast or slow by up to 200 millionths, and was started at another time.
    pub fn clock(host: u32, now: Duration) -> Duration {
        let drift = now.mul_f64(f64::from(host % 401) / 1e6);
        now + drift + Duration::from_secs(u64::from(host))
    }
}
