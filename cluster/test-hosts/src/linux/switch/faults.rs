//! What lines do to packets.

use std::time::Duration;

/// What a line does to the packets that travel on it. The default does nothing.
///
/// Chance decides by the seed, the line and the number of the packet on that line, and by nothing else: with the same seed and
/// the same packets, the same ones are lost. How many packets there are is up to the hosts' kernels, and so not the same in two
/// runs. A retransmission is a further packet.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub struct Faults {
    /// The seed of chance.
    pub seed: u64,
    /// The share of packets that are lost, from 0 to 1.
    pub loss: f64,
    /// The share of packets that arrive twice, from 0 to 1.
    pub repetition: f64,
    /// The time that each packet is under way.
    pub delay: Duration,
    /// The longest time that chance adds to the delay. Packets overtake each other by it.
    pub jitter: Duration,
    /// The bytes that the line takes in a second; `None` sets no limit.
    pub bytes_per_second: Option<u64>,
}
