//! A line: one direction between two hosts.

use std::time::Duration;

use super::chance::{Question, chance};
use super::{Faults, Traffic};

/// The bytes that are under way on a line at most, as in the queue of a router.
const BYTES_MAX: usize = 16 << 20;

/// A direction between two hosts, by their numbers.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct LineId {
    pub(crate) from: usize,
    pub(crate) to: usize,
}

/// One direction between two hosts.
#[derive(Debug, Default)]
pub(super) struct Line {
    pub(super) is_cut: bool,
    pub(super) faults: Faults,
    pub(super) traffic: Traffic,
    /// The moment from which the line takes a further packet, if its bytes are limited.
    free_at: Duration,
    /// The bytes under way.
    bytes: usize,
    /// The highest number of a packet that has arrived.
    newest: u64,
}

/// A packet that has entered a line.
#[derive(Debug, PartialEq, Eq)]
pub(super) struct Entry {
    /// The number of the packet on its line, from 1.
    pub(super) number: u64,
    /// The moment at which it leaves the line.
    pub(super) due: Duration,
    /// The moment at which it leaves the line once more.
    pub(super) again: Option<Duration>,
}

impl Line {
    /// Decides about a packet that enters the line; `None` if it is gone.
    pub(super) fn enter(&mut self, line: LineId, now: Duration, bytes: usize) -> Option<Entry> {
        self.traffic.sent += 1;
        let number = self.traffic.sent;
        let name = ((line.from as u64) << 32) | line.to as u64;
        let faults = self.faults;
        let chance = |question| chance(faults.seed, name, number, question);
        if self.is_cut {
            self.traffic.cut += 1;
            return None;
        }
        if chance(Question::Loss) < faults.loss {
            self.traffic.lost += 1;
            return None;
        }
        let copies = if chance(Question::Repetition) < faults.repetition {
            2
        } else {
            1
        };
        if self.bytes + copies * bytes > BYTES_MAX {
            self.traffic.crowded_out += 1;
            return None;
        }
        self.bytes += copies * bytes;
        let busy = transmission(bytes, faults.bytes_per_second);
        self.free_at = self.free_at.max(now).saturating_add(busy);
        let sent = self.free_at.saturating_add(faults.delay);
        let due = |jitter| sent.saturating_add(faults.jitter.mul_f64(chance(jitter)));
        Some(Entry {
            number,
            due: due(Question::Jitter),
            again: (copies == 2).then(|| due(Question::JitterOfRepetition)),
        })
    }

    /// Lets a packet leave the line. Returns whether it arrives.
    pub(super) fn leave(&mut self, number: u64, is_repetition: bool, bytes: usize) -> bool {
        self.bytes = self.bytes.saturating_sub(bytes);
        if self.is_cut {
            self.traffic.cut += 1;
            return false;
        }
        self.traffic.packets += 1;
        self.traffic.bytes += bytes as u64;
        self.traffic.repeated += u64::from(is_repetition);
        self.traffic.overtaken += u64::from(number < self.newest);
        self.newest = self.newest.max(number);
        true
    }
}

/// The time for which a packet keeps the line busy.
fn transmission(bytes: usize, bytes_per_second: Option<u64>) -> Duration {
    match bytes_per_second {
        Some(limit) => Duration::from_nanos((bytes as u64).saturating_mul(1_000_000_000) / limit.max(1)),
        None => Duration::ZERO,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const LINE: LineId = LineId { from: 0, to: 1 };

    fn line(faults: Faults) -> Line {
        Line {
            faults,
            ..Line::default()
        }
    }

    fn ms(ms: u64) -> Duration {
        Duration::from_millis(ms)
    }

    #[test]
    fn equal_seeds_and_packets_give_equal_decisions() {
        let decisions = |seed| {
            let mut line = line(Faults {
                seed,
                loss: 0.2,
                repetition: 0.1,
                delay: ms(50),
                jitter: ms(20),
                ..Faults::default()
            });
            let entries = (0..500).map(|n| line.enter(LINE, ms(n), 1000));
            entries.collect::<Vec<_>>()
        };
        assert_eq!(decisions(5), decisions(5));
        assert_ne!(decisions(5), decisions(6));
    }

    #[test]
    fn a_line_of_a_kilobyte_a_second_keeps_packets_apart() {
        let mut line = line(Faults {
            bytes_per_second: Some(1000),
            delay: ms(1),
            ..Faults::default()
        });
        let due = [0, 0, 2500].map(|now| line.enter(LINE, ms(now), 500).unwrap().due);
        assert_eq!(due, [ms(501), ms(1001), ms(3001)]);
    }

    #[test]
    fn a_full_line_takes_no_packet_until_one_has_left() {
        let mut line = line(Faults::default());
        let half = BYTES_MAX / 2;
        assert!(line.enter(LINE, ms(0), half).is_some() && line.enter(LINE, ms(0), half).is_some());
        assert_eq!(line.enter(LINE, ms(0), 1), None);
        assert_eq!(line.traffic.crowded_out, 1);
        assert!(line.leave(1, false, half));
        assert!(line.enter(LINE, ms(0), 1).is_some());
    }

    #[test]
    fn a_cut_meets_packets_under_way_and_new_ones() {
        let mut line = line(Faults::default());
        let entry = line.enter(LINE, ms(0), 10).unwrap();
        line.is_cut = true;
        assert!(!line.leave(entry.number, false, 10));
        assert_eq!(line.enter(LINE, ms(0), 10), None);
        assert_eq!((line.traffic.cut, line.traffic.packets), (2, 0));
    }
}
