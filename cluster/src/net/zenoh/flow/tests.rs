//! Two flows over a simulated network, which loses, repeats and reorders.
#![allow(clippy::unwrap_used, clippy::panic, clippy::indexing_slicing)] // a test may panic

use std::collections::BTreeMap;

use proptest::prelude::*;

use super::*;
use crate::net::zenoh::packet::{NodeId, PacketBody, Receipt, RelayPacket, StreamPlace};

/// What the network does, in percent and in time.
#[derive(Clone, Debug)]
struct Faults {
    lost: u32,
    repeated: u32,
    delay_max_ms: u64,
}

/// A network and the two flows at its ends, in virtual time.
struct LossyNetwork {
    now: Duration,
    flows: [Flow; 2],
    /// The packets on their way, by time and number: to whom, and the bytes.
    travelling: BTreeMap<(Duration, u64), (usize, Vec<u8>)>,
    sent: u64,
    faults: Faults,
    random: u64,
}

impl LossyNetwork {
    fn new(faults: Faults, seed: u64) -> Self {
        LossyNetwork {
            now: Duration::ZERO,
            flows: [Flow::new(), Flow::new()],
            travelling: BTreeMap::new(),
            sent: 0,
            faults,
            random: seed,
        }
    }

    fn random(&mut self, below: u64) -> u64 {
        self.random = self.random.wrapping_add(0x9E37_79B9_7F4A_7C15);
        let mixed = (self.random ^ self.random >> 30).wrapping_mul(0xBF58_476D_1CE4_E5B9);
        (mixed >> 20) % below.max(1)
    }

    fn percent(&mut self, percent: u32) -> bool {
        self.random(100) < u64::from(percent)
    }

    /// Sends what both sides have to send.
    fn turn(&mut self) {
        for side in 0..2 {
            self.flows[side].tick(self.now);
            let mut packets = Vec::new();
            while let Some(packet) = self.flows[side].next(self.now) {
                packets.push(bytes_of(packet.into_owned()));
            }
            for packet in packets {
                self.send(1 - side, &packet);
            }
        }
    }

    fn send(&mut self, to: usize, packet: &[u8]) {
        let copies = match (self.percent(self.faults.lost), self.percent(self.faults.repeated)) {
            (true, _) => 0,
            (false, true) => 2,
            (false, false) => 1,
        };
        for _ in 0..copies {
            let delay = Duration::from_millis(1 + self.random(self.faults.delay_max_ms));
            self.sent += 1;
            let key = (self.now + delay, self.sent);
            self.travelling.insert(key, (to, packet.to_vec()));
        }
    }

    /// Goes on to what happens next. Returns whether anything does.
    fn step(&mut self) -> bool {
        let arrival = self.travelling.keys().next().map(|(at, _)| *at);
        let deadlines = self.flows.iter().filter_map(Flow::deadline);
        let Some(next) = arrival.into_iter().chain(deadlines).min() else {
            return false;
        };
        self.now = self.now.max(next);
        while let Some(entry) = self.travelling.first_entry()
            && entry.key().0 <= self.now
        {
            let (to, bytes) = entry.remove();
            self.flows[to].receive(flow_of(&bytes), self.now);
        }
        self.turn();
        true
    }
}

fn bytes_of(flow: FlowPacket<'static>) -> Vec<u8> {
    let from = StreamPlace {
        node: NodeId(7),
        number: 1,
    };
    let body = PacketBody::Flow(flow);
    RelayPacket { from, to: 2, body }.encode()
}

fn flow_of(bytes: &[u8]) -> FlowPacket<'_> {
    match RelayPacket::decode(bytes).unwrap().body {
        PacketBody::Flow(flow) => flow,
        other => panic!("{other:?}"),
    }
}

fn text(length: usize, seed: u64) -> Vec<u8> {
    (0..length as u64)
        .map(|place| (place.wrapping_mul(seed | 1) >> 3) as u8 ^ (place >> 9) as u8)
        .collect()
}

/// One direction of a conversation.
struct Speech {
    from: usize,
    text: Vec<u8>,
    written: usize,
    read: Vec<u8>,
    is_over: bool,
}

impl Speech {
    /// Writes and reads pieces of random length. A reader may leave a turn out.
    fn go_on(&mut self, world: &mut LossyNetwork) {
        let length = 1 + world.random(40_000) as usize;
        let rest = &self.text[self.written..];
        let piece = &rest[..length.min(rest.len())];
        self.written += world.flows[self.from].write(piece).unwrap_or(0);
        if self.written == self.text.len() {
            world.flows[self.from].end();
        }
        if world.percent(30) {
            return;
        }
        let mut buffer = vec![0; 1 + world.random(50_000) as usize];
        match world.flows[1 - self.from].read(&mut buffer) {
            Some(FlowRead::Bytes(length)) => self.read.extend_from_slice(&buffer[..length]),
            Some(FlowRead::End) => self.is_over = true,
            Some(FlowRead::Nothing) => {}
            None => panic!("lost at {:?}", world.now),
        }
    }
}

/// Has both sides say their texts. Returns the time that it took.
fn converse(faults: Faults, seed: u64, lengths: [usize; 2]) -> Duration {
    let mut world = LossyNetwork::new(faults, seed);
    let mut talks = [0, 1].map(|from| Speech {
        from,
        text: text(lengths[from], seed + from as u64),
        written: 0,
        read: Vec::new(),
        is_over: false,
    });
    while talks.iter().any(|talk| !talk.is_over) {
        for talk in &mut talks {
            talk.go_on(&mut world);
        }
        world.turn();
        // A reader that left its turn out comes back to what is there.
        if !world.step() {
            world.now += Duration::from_millis(1);
        }
        assert!(world.now < Duration::from_secs(3600), "no end in sight");
    }
    for talk in &talks {
        assert!(talk.read == talk.text, "what was read differs");
    }
    while !world.flows.iter().all(Flow::is_over) {
        assert!(world.step(), "a flow waits for nothing");
    }
    assert!(!world.flows.iter().any(Flow::is_lost));
    world.now
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(48))]

    /// `FLOW-1`, under every fault of a network.
    #[test]
    fn flow_1_what_is_written_is_read_whatever_the_network_does(
        lost in 0..30_u32,
        repeated in 0..30_u32,
        delay_max_ms in 1..60_u64,
        seed in any::<u64>(),
        there in 0..400_000_usize,
        back in 0..400_000_usize,
    ) {
        let faults = Faults { lost, repeated, delay_max_ms };
        converse(faults, seed >> 1, [there, back]);
    }
}

fn pair() -> LossyNetwork {
    let faults = Faults {
        lost: 0,
        repeated: 0,
        delay_max_ms: 1,
    };
    LossyNetwork::new(faults, 1)
}

/// Writes until there is no room.
fn fill(world: &mut LossyNetwork) -> usize {
    let mut total = 0;
    loop {
        match world.flows[0].write(&[7; 10_000]).unwrap() {
            0 => return total,
            written => total += written,
        }
        world.turn();
    }
}

#[test]
fn flow_2_a_peer_that_does_not_read_stops_the_writer() {
    let mut world = pair();
    let mut total = fill(&mut world);
    for _ in 0..5_000 {
        world.step();
        total += fill(&mut world);
    }
    assert!(total <= 2 * BYTES_MAX && total > BYTES_MAX, "{total}");
    // It lives, so nothing is lost, and all of it is read in the end.
    world.flows[0].end();
    let mut read = 0;
    let mut buffer = vec![0; 30_000];
    loop {
        match world.flows[1].read(&mut buffer) {
            Some(FlowRead::Bytes(length)) => read += length,
            Some(FlowRead::End) => break,
            Some(FlowRead::Nothing) => assert!(world.step()),
            None => panic!("lost"),
        }
        world.turn();
    }
    assert_eq!(read, total);
}

#[test]
fn a_lost_word_of_room_is_asked_for() {
    let mut world = pair();
    fill(&mut world);
    for _ in 0..200 {
        world.step();
    }
    fill(&mut world);
    // The reader makes room, and everything that says so is lost.
    world.faults.lost = 100;
    let mut buffer = vec![0; BYTES_MAX];
    let read = world.flows[1].read(&mut buffer);
    assert!(
        matches!(read, Some(FlowRead::Bytes(length)) if length > BYTES_MAX / 2),
        "{read:?}"
    );
    world.turn();
    world.travelling.clear();
    world.faults.lost = 0;
    while world.flows[1].read(&mut buffer) == Some(FlowRead::Nothing) {
        assert!(world.step(), "nobody asks");
        assert!(world.now < Duration::from_secs(60));
    }
}

#[test]
fn flow_3_a_silent_peer_loses_the_stream_and_a_pause_of_ten_seconds_does_not() {
    let mut world = pair();
    world.flows[0].write(b"before").unwrap();
    world.turn();
    world.faults.lost = 100;
    world.flows[0].write(b" and after").unwrap();
    world.turn();
    let cut = world.now;
    while world.now < cut + Duration::from_secs(10) {
        assert!(world.step());
    }
    world.faults.lost = 0;
    world.flows[0].resume();
    world.turn();
    world.step();
    let mut buffer = [0; 99];
    assert_eq!(world.flows[1].read(&mut buffer), Some(FlowRead::Bytes(16)));
    assert_eq!(&buffer[..16], b"before and after");
    while world.step() {}
    world.faults.lost = 100;
    world.flows[0].write(b"never").unwrap();
    world.turn();
    let cut = world.now;
    while world.step() {}
    assert!(world.flows[0].is_lost());
    assert!(world.now <= cut + SILENCE_MAX + Duration::from_secs(1));
    assert_eq!(world.flows[0].write(b"x"), Err(NotWritten::Lost));
    assert_eq!(world.flows[0].read(&mut buffer), None);
    // The other one was waiting for nothing, and is told otherwise.
    assert!(!world.flows[1].is_lost());
}

#[test]
fn a_reader_that_is_gone_stops_the_writer_and_leaves_the_other_direction() {
    let mut world = pair();
    world.flows[1].refuse();
    world.turn();
    while world.step() {}
    assert_eq!(world.flows[0].write(b"x"), Err(NotWritten::Ended));
    world.flows[1].write(b"still").unwrap();
    world.flows[1].end();
    world.turn();
    while world.step() {}
    let mut buffer = [0; 9];
    assert_eq!(world.flows[0].read(&mut buffer), Some(FlowRead::Bytes(5)));
    assert_eq!(world.flows[0].read(&mut buffer), Some(FlowRead::End));
    assert!(world.flows.iter().all(Flow::is_over));
}

#[test]
fn a_peer_without_the_stream_has_ended_it_or_lost_it() {
    let mut lost = Flow::new();
    lost.gone();
    assert!(lost.is_lost());
    let mut world = pair();
    world.flows[1].end();
    world.turn();
    while world.step() {}
    world.flows[0].gone();
    assert!(!world.flows[0].is_lost() && world.flows[0].is_over());
    assert_eq!(world.flows[0].read(&mut [0]), Some(FlowRead::End));
}

/// The packets of one turn.
fn said(flow: &mut Flow, now: Duration) -> usize {
    flow.tick(now);
    let mut said = 0;
    while flow.next(now).is_some() {
        said += 1;
    }
    said
}

#[test]
fn flow_4_an_orphan_of_which_nobody_was_heard_says_its_end_once_and_is_over() {
    let mut flow = Flow::new();
    flow.greet();
    flow.refuse();
    flow.end();
    assert!(!flow.is_over(), "the dialer is to learn it");
    assert_eq!(said(&mut flow, Duration::ZERO), 1);
    assert!(flow.is_over() && !flow.is_lost());
    // One that has bytes for the peer keeps them.
    let mut flow = Flow::new();
    flow.write(b"bye").unwrap();
    flow.refuse();
    flow.end();
    assert!(said(&mut flow, Duration::ZERO) > 0);
    assert!(!flow.is_over());
}

#[test]
fn flow_4_an_orphan_whose_peer_talks_and_takes_nothing_is_lost() {
    let talk = |is_orphan: bool| {
        let mut flow = Flow::new();
        flow.write(b"bytes").unwrap();
        if is_orphan {
            flow.refuse();
            flow.end();
        }
        let mut now = Duration::ZERO;
        while now < SILENCE_MAX * 3 && !flow.is_lost() {
            said(&mut flow, now);
            now += Duration::from_secs(1);
            let receipt = Receipt {
                expected: 0,
                beyond: 0,
                limit: FRAGMENTS,
                is_deaf: false,
            };
            flow.receive(
                FlowPacket {
                    receipt,
                    asks: true,
                    fragment: None,
                },
                now,
            );
        }
        flow.is_lost().then_some(now)
    };
    assert_eq!(talk(false), None, "somebody waits for it");
    let lost = talk(true).unwrap();
    assert!(lost <= SILENCE_MAX + Duration::from_secs(2), "{lost:?}");
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(64))]

    /// `FLOW-2`: whatever a peer says, the limits of this side hold, and it does not panic.
    #[test]
    fn flow_2_hostile_packets_fill_no_memory(
        packets in proptest::collection::vec(
            ((0..200_u64, any::<u64>(), 0..u64::MAX, any::<bool>()), any::<bool>(), (0..200_u64, any::<bool>(), 0..40_000_usize)),
            1..300,
        ),
    ) {
        let mut flow = Flow::new();
        let mut now = Duration::ZERO;
        for ((expected, beyond, limit, is_deaf), asks, (number, is_last, length)) in packets {
            let _ = flow.write(&[1; 3_000]);
            let receipt = Receipt { expected, beyond, limit, is_deaf };
            let bytes = vec![0; length].into();
            let fragment = Some(crate::net::zenoh::packet::Fragment { number, is_last, bytes });
            flow.receive(FlowPacket { receipt, asks, fragment }, now);
            now += Duration::from_millis(10);
            flow.tick(now);
            let mut sent = 0;
            while flow.next(now).is_some() {
                sent += 1;
                prop_assert!(sent <= FRAGMENTS + 1);
            }
            prop_assert!(flow.receiving.held() <= BYTES_MAX);
        }
    }
}
