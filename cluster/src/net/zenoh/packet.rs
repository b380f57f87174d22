//! Packets: what two nodes say to each other in one message of zenoh, and the bytes of it.
//!
//! A message may come from anybody whom the router lets in. [`RelayPacket::decode`] takes it apart and believes nothing of it but its
//! lengths; what the numbers may be is checked by whoever knows the stream.

use std::borrow::Cow;
use std::fmt;
use std::str::FromStr;

/// The version of the bytes. Packets of another one are nobody's.
const VERSION: u8 = 1;

/// The bytes of a fragment at most: with its header, it is one batch of zenoh.
pub(super) const FRAGMENT_BYTES: usize = 16 << 10;
/// The bytes of a packet at most: kind, places, a receipt, and a fragment with its number.
pub(super) const PACKET_BYTES: usize = 3 + 32 + 24 + 8 + FRAGMENT_BYTES;

const OPEN: u8 = 1;
const REFUSED: u8 = 2;
const FLOW: u8 = 3;

const IS_LAST: u8 = 1;
const IS_DEAF: u8 = 2;
const ASKS: u8 = 4;
const HAS_FRAGMENT: u8 = 8;
const FLAGS: u8 = IS_LAST | IS_DEAF | ASKS | HAS_FRAGMENT;

/// The name of a node, which it draws at random: the side of one process at its router.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub(super) struct NodeId(pub(super) u128);

impl fmt::Display for NodeId {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{:032x}", self.0)
    }
}

impl FromStr for NodeId {
    type Err = std::num::ParseIntError;

    fn from_str(text: &str) -> Result<Self, Self::Err> {
        u128::from_str_radix(text, 16).map(NodeId)
    }
}

/// The end of a stream, or a listener, and the node where it is.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub(super) struct StreamPlace {
    pub(super) node: NodeId,
    /// The number that the node has given it.
    pub(super) number: u64,
}

/// The words of one end of a stream to the other.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct RelayPacket<'a> {
    pub(super) from: StreamPlace,
    /// The number of the stream or listener at the node that gets the packet.
    pub(super) to: u64,
    pub(super) body: PacketBody<'a>,
}

#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) enum PacketBody<'a> {
    /// A dialer asks a listener for a stream. Any other packet from there to the dialer's end is the answer.
    Open,
    /// The place is empty: no such listener, or no such stream any more.
    Refused,
    /// Bytes, and how far the other direction is.
    Flow(FlowPacket<'a>),
}

/// A part of the talk between the two ends of a stream.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct FlowPacket<'a> {
    pub(super) receipt: Receipt,
    /// The peer wants a receipt in return, although there are no bytes.
    pub(super) asks: bool,
    pub(super) fragment: Option<Fragment<'a>>,
}

/// How far one end of a stream has received.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Receipt {
    /// The number of the first fragment that is not there. All before it are.
    pub(super) expected: u64,
    /// The fragments behind that one which are there: bit `i` is the one of number `expected + 1 + i`.
    pub(super) beyond: u64,
    /// Fragments from this number on may not be sent.
    pub(super) limit: u64,
    /// Whether nobody reads any more.
    pub(super) is_deaf: bool,
}

/// A fragment of the bytes of a stream.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Fragment<'a> {
    /// The place among the fragments of its direction, from 0.
    pub(super) number: u64,
    /// No bytes follow.
    pub(super) is_last: bool,
    pub(super) bytes: Cow<'a, [u8]>,
}

impl<'a> RelayPacket<'a> {
    /// The bytes of the packet.
    pub(super) fn encode(&self) -> Vec<u8> {
        let (kind, flow) = match &self.body {
            PacketBody::Open => (OPEN, None),
            PacketBody::Refused => (REFUSED, None),
            PacketBody::Flow(flow) => (FLOW, Some(flow)),
        };
        let length = flow.and_then(|flow| flow.fragment.as_ref().map(|fragment| fragment.bytes.len()));
        let mut bytes = Vec::with_capacity(PACKET_BYTES - FRAGMENT_BYTES + length.unwrap_or(0));
        bytes.extend([VERSION, kind, flow.map_or(0, FlowPacket::flags)]);
        bytes.extend(self.from.node.0.to_le_bytes());
        for number in [self.from.number, self.to] {
            bytes.extend(number.to_le_bytes());
        }
        if let Some(flow) = flow {
            flow.encode(&mut bytes);
        }
        bytes
    }

    /// The packet that these bytes are, or nothing if they are none.
    pub(super) fn decode(mut bytes: &'a [u8]) -> Option<Self> {
        if bytes.len() > PACKET_BYTES {
            return None;
        }
        let [version, kind, flags] = take(&mut bytes)?;
        let node = NodeId(u128::from_le_bytes(take(&mut bytes)?));
        let number = number(&mut bytes)?;
        let to = self::number(&mut bytes)?;
        let body = match (version, kind) {
            (VERSION, OPEN) if flags == 0 && bytes.is_empty() => PacketBody::Open,
            (VERSION, REFUSED) if flags == 0 && bytes.is_empty() => PacketBody::Refused,
            (VERSION, FLOW) => PacketBody::Flow(FlowPacket::decode(flags, bytes)?),
            _ => return None,
        };
        let from = StreamPlace { node, number };
        Some(RelayPacket { from, to, body })
    }
}

impl<'a> FlowPacket<'a> {
    fn flags(&self) -> u8 {
        let is_last = self.fragment.as_ref().is_some_and(|fragment| fragment.is_last);
        let flags = [
            (is_last, IS_LAST),
            (self.receipt.is_deaf, IS_DEAF),
            (self.asks, ASKS),
            (self.fragment.is_some(), HAS_FRAGMENT),
        ];
        let flags = flags.iter().filter(|(is_set, _)| *is_set);
        flags.fold(0, |all, (_, flag)| all | flag)
    }

    fn encode(&self, bytes: &mut Vec<u8>) {
        let Receipt {
            expected,
            beyond,
            limit,
            ..
        } = self.receipt;
        for number in [expected, beyond, limit] {
            bytes.extend(number.to_le_bytes());
        }
        if let Some(fragment) = &self.fragment {
            bytes.extend(fragment.number.to_le_bytes());
            bytes.extend_from_slice(&fragment.bytes);
        }
    }

    fn decode(flags: u8, mut bytes: &'a [u8]) -> Option<Self> {
        let is_set = |flag| flags & flag != 0;
        let receipt = Receipt {
            expected: number(&mut bytes)?,
            beyond: number(&mut bytes)?,
            limit: number(&mut bytes)?,
            is_deaf: is_set(IS_DEAF),
        };
        let fragment = match is_set(HAS_FRAGMENT) {
            true => Some(Fragment {
                number: number(&mut bytes)?,
                is_last: is_set(IS_LAST),
                bytes: Cow::Borrowed(bytes),
            }),
            false if bytes.is_empty() && !is_set(IS_LAST) => None,
            false => return None,
        };
        (flags & !FLAGS == 0).then_some(FlowPacket {
            receipt,
            asks: is_set(ASKS),
            fragment,
        })
    }

    /// The packet with bytes of its own.
    pub(super) fn into_owned(self) -> FlowPacket<'static> {
        FlowPacket {
            receipt: self.receipt,
            asks: self.asks,
            fragment: self.fragment.map(|fragment| Fragment {
                number: fragment.number,
                is_last: fragment.is_last,
                bytes: Cow::Owned(fragment.bytes.into_owned()),
            }),
        }
    }
}

fn take<const N: usize>(bytes: &mut &[u8]) -> Option<[u8; N]> {
    let (taken, rest) = bytes.split_first_chunk()?;
    *bytes = rest;
    Some(*taken)
}

fn number(bytes: &mut &[u8]) -> Option<u64> {
    take(bytes).map(u64::from_le_bytes)
}

#[cfg(test)]
#[path = "packet_tests.rs"]
mod tests;
