#![allow(clippy::unwrap_used, clippy::indexing_slicing)] // a test may panic

use proptest::prelude::*;

use super::*;

fn receipts() -> impl Strategy<Value = Receipt> {
    (any::<u64>(), any::<u64>(), any::<u64>(), any::<bool>()).prop_map(
        |(expected, beyond, limit, is_deaf)| Receipt {
            expected,
            beyond,
            limit,
            is_deaf,
        },
    )
}

fn flows() -> impl Strategy<Value = FlowPacket<'static>> {
    let fragment = (any::<u64>(), any::<bool>(), any::<Vec<u8>>());
    let fragment = fragment.prop_map(|(number, is_last, bytes)| Fragment {
        number,
        is_last,
        bytes: Cow::Owned(bytes),
    });
    (receipts(), any::<bool>(), proptest::option::of(fragment)).prop_map(|(receipt, asks, fragment)| {
        FlowPacket {
            receipt,
            asks,
            fragment,
        }
    })
}

fn packets() -> impl Strategy<Value = RelayPacket<'static>> {
    let body = prop_oneof![
        Just(PacketBody::Open),
        Just(PacketBody::Refused),
        flows().prop_map(PacketBody::Flow)
    ];
    (any::<u128>(), any::<u64>(), any::<u64>(), body).prop_map(|(node, number, to, body)| RelayPacket {
        from: StreamPlace {
            node: NodeId(node),
            number,
        },
        to,
        body,
    })
}

proptest! {
    #[test]
    fn a_packet_is_read_as_it_was_written(packet in packets()) {
        let bytes = packet.encode();
        prop_assert_eq!(RelayPacket::decode(&bytes), Some(packet));
    }

    #[test]
    fn hostile_bytes_are_no_packet_or_one_that_is_written_in_this_way(bytes in any::<Vec<u8>>(), kind in 0..5_u8) {
        let begun = [vec![1, kind], bytes].concat();
        if let Some(packet) = RelayPacket::decode(&begun) {
            prop_assert_eq!(packet.encode(), begun);
        }
    }

    #[test]
    fn what_is_cut_off_within_its_numbers_is_no_packet(packet in packets(), kept in 0..35_usize) {
        let bytes = packet.encode();
        prop_assert_eq!(RelayPacket::decode(&bytes[..kept]), None);
    }

    #[test]
    fn a_fragment_that_is_too_long_is_no_packet(flow in flows(), number in any::<u64>(), beyond in 0..2_usize) {
        let bytes = vec![7; FRAGMENT_BYTES + beyond].into();
        let fragment = Some(Fragment { number, is_last: false, bytes });
        let body = PacketBody::Flow(FlowPacket { fragment, ..flow });
        let from = StreamPlace { node: NodeId(1), number };
        let encoded = RelayPacket { from, to: 2, body }.encode();
        prop_assert_eq!(encoded.len(), PACKET_BYTES + beyond);
        prop_assert_eq!(RelayPacket::decode(&encoded).is_some(), beyond == 0);
    }

    #[test]
    fn a_node_is_found_by_its_text(node in any::<u128>()) {
        prop_assert_eq!(NodeId(node).to_string().parse(), Ok(NodeId(node)));
    }
}
