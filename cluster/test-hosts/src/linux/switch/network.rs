//! All lines, and the packets that are under way.

use std::cmp::Reverse;
use std::collections::BinaryHeap;
use std::net::Ipv4Addr;
use std::time::Duration;

use super::line::{Line, LineId};
use super::{Faults, Traffic};
use crate::linux::interface::host_at;

/// The network between the hosts. All its decisions are here; the caller brings clock and packets.
#[derive(Debug)]
pub(crate) struct Network {
    hosts: usize,
    /// The lines, by sender and then by receiver.
    lines: Vec<Line>,
    /// The gateway of each host that is behind one.
    gateways: Vec<Option<usize>>,
    under_way: BinaryHeap<Reverse<UnderWay>>,
    /// The packets so far, repetitions among them.
    count: u64,
}

/// A packet that is under way. The first one of a heap is due first; of two that are due at one moment, the one that was sent
/// first.
#[derive(Debug, PartialEq, Eq, PartialOrd, Ord)]
struct UnderWay {
    due: Duration,
    place: u64,
    number: u64,
    is_repetition: bool,
    from: usize,
    to: usize,
    packet: Vec<u8>,
}

impl Network {
    pub(super) fn new(hosts: usize) -> Self {
        Network {
            hosts,
            lines: (0..hosts * hosts).map(|_| Line::default()).collect(),
            gateways: vec![None; hosts],
            under_way: BinaryHeap::new(),
            count: 0,
        }
    }

    fn line(&mut self, line: LineId) -> Option<&mut Line> {
        self.lines.get_mut(line.from * self.hosts + line.to)
    }

    /// Cuts a line, or heals it. A packet that is on a line while it is cut is lost.
    pub(crate) fn set_cut(&mut self, line: LineId, is_cut: bool) {
        if let Some(line) = self.line(line) {
            line.is_cut = is_cut;
        }
    }

    /// Cuts all lines of a host.
    pub(crate) fn isolate(&mut self, host: usize) {
        for other in 0..self.hosts {
            self.set_cut(
                LineId {
                    from: host,
                    to: other,
                },
                true,
            );
            self.set_cut(
                LineId {
                    from: other,
                    to: host,
                },
                true,
            );
        }
    }

    /// Heals all lines.
    pub(crate) fn heal_all(&mut self) {
        self.lines.iter_mut().for_each(|line| line.is_cut = false);
    }

    /// Sets what a line does to packets that enter it from now on.
    pub(crate) fn set_faults(&mut self, line: LineId, faults: Faults) {
        if let Some(line) = self.line(line) {
            line.faults = faults;
        }
    }

    /// Sets what all lines do to packets that enter them from now on.
    pub(crate) fn set_all_faults(&mut self, faults: Faults) {
        self.lines.iter_mut().for_each(|line| line.faults = faults);
    }

    /// Puts a host behind another one.
    pub(crate) fn put_behind(&mut self, host: usize, gateway: usize) {
        if let Some(place) = self.gateways.get_mut(host) {
            *place = Some(gateway);
        }
    }

    /// The host to which a packet is passed on its way; `None` if no way leads there.
    fn next_hop(&self, from: usize, to: usize) -> Option<usize> {
        let gateway = |host: usize| self.gateways.get(host).copied();
        match (gateway(from)?, gateway(to)?) {
            (near, far) if near == far || far == Some(from) => Some(to),
            (Some(gateway), _) => Some(gateway),
            (None, _) => None,
        }
    }

    pub(crate) fn traffic(&mut self, line: LineId) -> Traffic {
        self.line(line).map(|line| line.traffic).unwrap_or_default()
    }

    /// Takes a packet that a host has sent. One for no host of this network goes nowhere.
    pub(super) fn enter(&mut self, from: usize, now: Duration, packet: &[u8]) {
        let Some(to) = receiver(packet).and_then(|to| self.next_hop(from, to)) else {
            return;
        };
        let id = LineId { from, to };
        let entry = self.line(id).and_then(|line| line.enter(id, now, packet.len()));
        let Some(entry) = entry else {
            return;
        };
        let due = [(Some(entry.due), false), (entry.again, true)];
        for (due, is_repetition) in due {
            let Some(due) = due else { continue };
            self.count += 1;
            self.under_way.push(Reverse(UnderWay {
                due,
                place: self.count,
                number: entry.number,
                is_repetition,
                from,
                to,
                packet: packet.to_vec(),
            }));
        }
    }

    /// The moment at which the next packet leaves its line.
    pub(super) fn next_due(&self) -> Option<Duration> {
        self.under_way.peek().map(|Reverse(next)| next.due)
    }

    /// Hands the packets that leave their lines by now to their receivers. `deliver` takes the receiver's number and the packet,
    /// and returns whether it was accepted.
    pub(super) fn leave(&mut self, now: Duration, mut deliver: impl FnMut(usize, &[u8]) -> bool) {
        while self.next_due().is_some_and(|due| due <= now) {
            let Some(Reverse(next)) = self.under_way.pop() else {
                return;
            };
            let id = LineId {
                from: next.from,
                to: next.to,
            };
            let Some(line) = self.line(id) else { continue };
            let arrives = line.leave(next.number, next.is_repetition, next.packet.len());
            if arrives && !deliver(next.to, &next.packet) {
                line.traffic.refused += 1;
            }
        }
    }
}

/// The host to which a packet of IPv4 goes.
fn receiver(packet: &[u8]) -> Option<usize> {
    let version = packet.first()? >> 4;
    let to = packet.get(16..20)?;
    let to = <[u8; 4]>::try_from(to).ok()?;
    (version == 4).then(|| host_at(Ipv4Addr::from(to)))?
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::linux::interface::address;

    fn packet(to: usize, mark: u8) -> Vec<u8> {
        let mut packet = vec![0x45; 16];
        packet.extend(address(to).octets());
        packet.push(mark);
        packet
    }

    fn arrived(network: &mut Network, now: u64) -> Vec<(usize, u8)> {
        let mut arrived = Vec::new();
        network.leave(Duration::from_millis(now), |to, packet| {
            arrived.push((to, packet[20]));
            true
        });
        arrived
    }

    #[test]
    fn packets_leave_when_they_are_due_and_then_in_their_order() {
        let mut network = Network::new(3);
        let line = LineId { from: 0, to: 1 };
        network.set_faults(
            line,
            Faults {
                delay: Duration::from_millis(10),
                ..Faults::default()
            },
        );
        let now = Duration::ZERO;
        network.enter(0, now, &packet(1, 1));
        network.enter(0, now, &packet(2, 2));
        network.enter(2, now, &packet(0, 3));
        network.enter(0, now, &packet(7, 4));
        network.enter(0, now, &[0x60; 40]);
        network.enter(0, now, &[]);
        assert_eq!(arrived(&mut network, 0), [(2, 2), (0, 3)]);
        assert_eq!(network.next_due(), Some(Duration::from_millis(10)));
        assert_eq!(arrived(&mut network, 10), [(1, 1)]);
        assert_eq!(network.next_due(), None);
        assert_eq!(network.traffic(line).bytes, 21);
    }

    #[test]
    fn an_isolated_host_hears_nothing_and_says_nothing() {
        let mut network = Network::new(3);
        network.isolate(1);
        for (from, to) in [(0, 1), (1, 2), (2, 0)] {
            network.enter(from, Duration::ZERO, &packet(to, from as u8));
        }
        assert_eq!(arrived(&mut network, 0), [(0, 2)]);
        network.heal_all();
        network.enter(0, Duration::ZERO, &packet(1, 9));
        assert_eq!(arrived(&mut network, 0), [(1, 9)]);
    }

    #[test]
    fn a_host_behind_a_gateway_reaches_its_neighbours_directly_and_all_others_through_the_gateway() {
        let mut network = Network::new(5);
        network.put_behind(0, 2);
        network.put_behind(1, 2);
        network.put_behind(4, 3);
        let ways = [
            // Neighbours, the gateway, and hosts beyond it.
            ((0, 1), Some(1)),
            ((0, 2), Some(2)),
            ((0, 3), Some(2)),
            ((0, 4), Some(2)),
            // The gateway alone knows those behind it.
            ((2, 0), Some(0)),
            ((3, 0), None),
            ((4, 0), Some(3)),
            ((2, 4), None),
            ((2, 3), Some(3)),
            ((0, 9), None),
        ];
        for ((from, to), hop) in ways {
            network.enter(from, Duration::ZERO, &packet(to, 7));
            let hops: Vec<usize> = arrived(&mut network, 0).iter().map(|(to, _)| *to).collect();
            assert_eq!(hops, Vec::from_iter(hop), "from {from} to {to}");
        }
    }

    #[test]
    fn a_packet_that_overtakes_makes_the_other_one_overtaken() {
        let mut network = Network::new(2);
        let line = LineId { from: 0, to: 1 };
        network.set_all_faults(Faults {
            delay: Duration::from_millis(10),
            repetition: 1.0,
            ..Faults::default()
        });
        network.enter(0, Duration::ZERO, &packet(1, 1));
        network.set_all_faults(Faults::default());
        network.enter(0, Duration::ZERO, &packet(1, 2));
        assert_eq!(arrived(&mut network, 20), [(1, 2), (1, 1), (1, 1)]);
        let traffic = network.traffic(line);
        assert_eq!(
            (traffic.sent, traffic.packets, traffic.overtaken, traffic.repeated),
            (2, 3, 2, 1)
        );
    }
}
