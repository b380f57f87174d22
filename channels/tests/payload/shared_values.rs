//! Values with several handles in one message, and the other promises of the codec about a value's structure.

use std::collections::BTreeMap;
use std::fmt::Debug;
use std::sync::{Arc, RwLock};

use selvedge_channels::{
    DecodeError, EncodeError, Shared, Tensor, Wire, decode, encode, from_packed, to_packed,
};
use serde::{Deserialize, Serialize, Serializer};

use super::bytes_of;

/// The form byte of a payload: 0 is packed, 1 by name.
const PACKED: u8 = 0;

fn there_and_back<T: Wire>(value: &T) -> T {
    decode(&bytes_of(value)).unwrap()
}

/// A packed payload with this head.
fn packed(head: &[u8]) -> Vec<u8> {
    let mut bytes = (head.len() as u32).to_le_bytes().to_vec();
    bytes.extend([0, 0, PACKED, 1]);
    bytes.extend(head);
    bytes
}

fn refused<T: Wire + Debug>(head: &[u8], why: &str) {
    let error = decode::<T>(&packed(head)).unwrap_err();
    assert!(matches!(error, DecodeError::Deserialize { .. }));
    assert!(error.to_string().contains(why), "{error}");
}

#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
struct Node {
    name: String,
    next: Vec<Shared<Node>>,
}

#[test]
fn rser_05_a_list_that_holds_one_shared_value_twice_decodes_to_two_handles_on_one() {
    let row = Shared::new(vec![1, 2, 3]);
    let list = there_and_back(&vec![row.clone(), row.clone(), Shared::new(vec![1, 2, 3])]);
    assert_eq!(list, [row.clone(), row.clone(), row]);
    assert!(Shared::ptr_eq(&list[0], &list[1]));
    assert!(
        !Shared::ptr_eq(&list[0], &list[2]),
        "an equal value is another one"
    );
    let arc = Arc::new(7_u32);
    let list = there_and_back(&vec![arc.clone(), arc]);
    assert!(!Arc::ptr_eq(&list[0], &list[1]), "an `Arc` is copied, as ever");
}

#[test]
fn rser_05_handles_are_found_again_wherever_they_are_and_by_type() {
    type Entry = (Shared<String>, Shared<u8>);
    #[derive(Clone, Serialize, Deserialize)]
    struct Deep {
        name: Shared<String>,
        maps: BTreeMap<u8, Option<Entry>>,
        outer: Shared<Shared<String>>,
        tensors: [Shared<Tensor>; 2],
    }
    let name = Shared::new("name".to_owned());
    let tensor = Shared::new(Tensor::from_slice(&[1_u8; 10_000], &[10_000]).unwrap());
    let deep = Deep {
        name: name.clone(),
        maps: [(1, None), (2, Some((name.clone(), Shared::new(3))))].into(),
        outer: Shared::new(name),
        tensors: [tensor.clone(), tensor],
    };
    let bytes = bytes_of(&deep);
    assert!(
        bytes[6] == PACKED && bytes.len() < 11_000,
        "each value is in it once"
    );
    let back = there_and_back(&deep);
    let (inner, number) = back.maps[&2].as_ref().unwrap();
    assert!(Shared::ptr_eq(&back.name, inner) && Shared::ptr_eq(&back.name, &back.outer));
    assert_eq!((back.name.as_str(), **number), ("name", 3));
    assert!(Shared::ptr_eq(&back.tensors[0], &back.tensors[1]));
    assert!(*back.tensors[0] == *deep.tensors[1]);
}

#[test]
fn rser_05_values_that_share_what_they_hold_take_no_more_than_one_of_each() {
    let top = (0..60).fold(Shared::new(Node::default()), |node, _| {
        Shared::new(Node {
            next: vec![node.clone(), node],
            ..Node::default()
        })
    });
    let bytes = bytes_of(&top);
    assert!(
        bytes[6] == PACKED && bytes.len() < 60 * 8,
        "2^60 paths, 61 values"
    );
    let mut node = there_and_back(&top);
    for _ in 0..60 {
        assert!(Shared::ptr_eq(&node.next[0], &node.next[1]));
        node = node.next[0].clone();
    }
}

#[test]
fn rser_05_a_type_that_is_encoded_by_name_keeps_its_handles() {
    #[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
    struct Named {
        first: Shared<Node>,
        #[serde(skip_serializing_if = "Option::is_none")]
        second: Option<Shared<Node>>,
        #[serde(flatten)]
        rest: BTreeMap<String, Loose>,
    }
    /// Its first variants are tried in vain.
    #[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
    #[serde(untagged)]
    enum Loose {
        Number((Shared<String>, u8)),
        Pair((Shared<String>, Shared<String>)),
    }
    let (node, name) = (Shared::new(Node::default()), Shared::new("x".to_owned()));
    let value = Named {
        first: node.clone(),
        second: Some(node),
        rest: [("pair".to_owned(), Loose::Pair((name.clone(), name)))].into(),
    };
    assert_ne!(bytes_of(&value)[6], PACKED);
    let back = there_and_back(&value);
    assert_eq!(back, value);
    assert!(Shared::ptr_eq(&back.first, back.second.as_ref().unwrap()));
    let Loose::Pair((left, right)) = &back.rest["pair"] else {
        panic!("another variant")
    };
    assert!(Shared::ptr_eq(left, right));
}

#[test]
fn rser_05_a_serialize_that_makes_values_or_encodes_messages_confuses_nothing() {
    /// Serialises a value that lives as long as the call.
    #[derive(Clone)]
    struct Made(u32);
    impl Serialize for Made {
        fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
            Shared::new(vec![self.0; 3]).serialize(serializer)
        }
    }
    impl<'de> Deserialize<'de> for Made {
        fn deserialize<D: serde::Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
            Shared::<Vec<u32>>::deserialize(deserializer).map(|made| Made(made[0]))
        }
    }
    let made: Vec<_> = (0..100).map(Made).collect();
    let back = there_and_back(&made);
    assert!(back.iter().zip(0..).all(|(made, number)| made.0 == number));

    /// Serialises itself as a message of its own.
    #[derive(Clone)]
    struct Packet(Vec<Shared<u8>>);
    impl Serialize for Packet {
        fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
            encode(&self.0).unwrap().to_vec().serialize(serializer)
        }
    }
    impl<'de> Deserialize<'de> for Packet {
        fn deserialize<D: serde::Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
            let bytes = Vec::<u8>::deserialize(deserializer)?;
            // Made-up bytes are no message.
            Ok(Packet(decode(&bytes).unwrap_or_default()))
        }
    }
    let byte = Shared::new(7);
    let (left, packet, right) = there_and_back(&(
        byte.clone(),
        Packet(vec![byte.clone(), byte.clone()]),
        byte.clone(),
    ));
    assert!(
        Shared::ptr_eq(&left, &right),
        "the message inside has its own numbers"
    );
    assert!(Shared::ptr_eq(&packet.0[0], &packet.0[1]) && !Shared::ptr_eq(&left, &packet.0[0]));
}

#[test]
fn rser_05_rser_06_a_shared_value_that_contains_itself_is_too_deep() {
    #[derive(Clone, Default, Serialize, Deserialize)]
    struct Circle {
        next: Arc<RwLock<Option<Shared<Circle>>>>,
    }
    let circle = Shared::new(Circle::default());
    *circle.next.write().unwrap() = Some(circle.clone());
    assert!(matches!(encode(&circle), Err(EncodeError::TooDeep { .. })));
    circle.next.write().unwrap().take();
    assert!(
        there_and_back(&vec![circle.clone(), circle])[0]
            .next
            .read()
            .unwrap()
            .is_none()
    );
}

#[test]
fn rser_05_rser_10_numbers_of_shared_values_are_checked() {
    type Pair = (Shared<u32>, Shared<String>);
    assert_eq!(
        bytes_of(&vec![Shared::new(7_u32); 2]),
        packed(&[2, 0, 0, 7, 1, 0])
    );
    refused::<Vec<Shared<u32>>>(&[2, 0, 0, 7, 1, 1], "the shared value 1 has not come before");
    refused::<Vec<Shared<u32>>>(&[2, 1, 0, 0, 0, 7], "the shared value 0 has not come before");
    refused::<Pair>(
        &[0, 0, 7, 1, 0],
        "the shared value 0 is not a alloc::string::String",
    );
    refused::<Shared<Node>>(&[0, 0, 0, 1, 1, 0], "the shared value 0 has not come before");
    refused::<Vec<Shared<u32>>>(&[1, 2, 0], "");
    // One number for two values: the later counts, and both are there.
    let both: Vec<Shared<u32>> = decode(&packed(&[3, 0, 0, 7, 0, 0, 8, 1, 0])).unwrap();
    assert_eq!(both.iter().map(|number| **number).collect::<Vec<_>>(), [7, 8, 8]);
}

#[test]
fn rser_05_rser_10_a_long_chain_of_shared_values_overflows_no_stack_when_it_is_dropped() {
    const NODES: u32 = if cfg!(miri) { 100 } else { 100_000 };
    /// A node as bytes: whole, its number, its name, and one handle on the node before it.
    fn node(number: u32) -> Vec<u8> {
        let before = number.checked_sub(1);
        let next = before.map_or(vec![0], |before| [vec![1, 1], packed_number(before)].concat());
        [vec![0], packed_number(number), vec![0], next].concat()
    }
    fn packed_number(number: u32) -> Vec<u8> {
        to_packed(&number).unwrap()
    }
    let list: Vec<u8> = (0..NODES).flat_map(node).collect();
    let head = [packed_number(NODES), list].concat();
    // A byte that is missing: the nodes are dropped with the numbers.
    let cut = packed(&head[..head.len() - 1]);
    let bytes = packed(&head);
    super::deep::on_a_small_stack(move || {
        let mut nodes: Vec<Shared<Node>> = decode(&bytes).unwrap();
        let last = nodes.pop().unwrap();
        drop(nodes);
        assert!(
            matches!(encode(&last), Err(EncodeError::TooDeep { .. })),
            "from its end it is deep"
        );
        drop(last);
        assert!(decode::<Vec<Shared<Node>>>(&cut).is_err());
    });
}

#[test]
fn rser_05_a_value_is_dropped_with_its_last_handle_and_a_panic_in_a_drop_ends_no_other_drop() {
    struct Loud {
        panics: bool,
        _counted: Arc<()>,
        _inner: Vec<Shared<Loud>>,
    }
    impl Drop for Loud {
        fn drop(&mut self) {
            assert!(!self.panics, "a drop that panics");
        }
    }
    let count = Arc::new(());
    let loud = |panics, inner| {
        Shared::new(Loud {
            panics,
            _counted: count.clone(),
            _inner: inner,
        })
    };
    let shared = loud(false, vec![loud(false, vec![])]);
    let second = shared.clone();
    drop(shared);
    assert_eq!(Arc::strong_count(&count), 3, "a handle is left");
    drop(second);
    assert_eq!(Arc::strong_count(&count), 1);
    let bad = loud(false, vec![loud(true, vec![]), loud(false, vec![])]);
    assert!(std::panic::catch_unwind(std::panic::AssertUnwindSafe(|| drop(bad))).is_err());
    drop(loud(false, vec![loud(false, vec![])]));
    assert_eq!(
        Arc::strong_count(&count),
        1,
        "and what comes later is dropped as ever"
    );
}

#[test]
fn rser_05_other_formats_have_a_shared_value_as_itself() {
    let list = vec![Shared::new(7_u32); 2];
    assert_eq!(serde_json::to_string(&list).unwrap(), "[7,7]");
    let back: Vec<Shared<u32>> = serde_json::from_str("[7,7]").unwrap();
    assert!(back == list && !Shared::ptr_eq(&back[0], &back[1]));
    // An error has no parts, and keeps its handles.
    let back: Vec<Shared<u32>> = from_packed(&to_packed(&list).unwrap()).unwrap();
    assert!(Shared::ptr_eq(&back[0], &back[1]));
}

#[test]
fn rser_07_a_graph_whose_nodes_name_each_other_by_index_comes_back() {
    #[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
    struct Graph {
        nodes: Vec<(String, Vec<usize>)>,
    }
    let nodes = (0..1000).map(|node| (format!("node {node}"), vec![(node + 1) % 1000, node, 0]));
    let graph = Graph {
        nodes: nodes.collect(),
    };
    assert_eq!(
        there_and_back(&graph),
        graph,
        "with circles, and as deep as it likes"
    );
}

#[test]
fn rser_02_rser_03_a_derived_type_comes_back_exactly_and_by_its_own_rules() {
    /// A value that is made by its own rules only, and has a field that is no data.
    #[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
    #[serde(try_from = "(i64, i64)", into = "(i64, i64)")]
    struct Fraction {
        over: i64,
        under: i64,
        text: String,
    }
    impl TryFrom<(i64, i64)> for Fraction {
        type Error = &'static str;

        fn try_from((over, under): (i64, i64)) -> Result<Self, &'static str> {
            let text = format!("{over}/{under}");
            (under != 0)
                .then_some(Fraction { over, under, text })
                .ok_or("a fraction over zero")
        }
    }
    impl From<Fraction> for (i64, i64) {
        fn from(fraction: Fraction) -> Self {
            (fraction.over, fraction.under)
        }
    }
    #[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
    struct Order<T> {
        r#type: T,
        #[serde(rename = "how many")]
        count: u64,
        parts: Vec<(Fraction, Option<Option<char>>)>,
        nothing: (),
    }
    let order = Order {
        r#type: Some(-0.0_f64),
        count: u64::MAX,
        parts: vec![(Fraction::try_from((1, 3)).unwrap(), Some(None))],
        nothing: (),
    };
    let back = there_and_back(&order);
    assert_eq!(back, order);
    assert!(back.r#type.is_some_and(f64::is_sign_negative));
    let error = decode::<Fraction>(&bytes_of(&(1_i64, 0_i64))).unwrap_err();
    assert!(error.to_string().contains("a fraction over zero"), "{error}");
}

#[cfg(feature = "bytes")]
#[test]
fn rser_08_bytes_of_a_users_own_format_arrive_untouched_and_are_not_copied_out_of_their_part() {
    use bytes::Bytes;
    use selvedge_channels::DType;

    // An interpreter takes a minute for 100 000 bytes.
    let last = if cfg!(miri) { 499 } else { 8999 };
    let own = Bytes::from(serde_json::to_vec(&(0..=last).collect::<Vec<u32>>()).unwrap());
    let tensor = Tensor::from_bytes(DType::U8, &[own.len()], own.clone()).unwrap();
    let lies_at = tensor.bytes().as_ptr();
    let aligned = tensor.into_bytes().unwrap();
    assert_eq!(aligned.as_ptr(), lies_at);
    let again = Tensor::from_bytes(DType::U8, &[own.len()], aligned).unwrap();
    assert_eq!(
        again.bytes().as_ptr(),
        lies_at,
        "bytes on a 64-byte boundary stay where they are"
    );
    let (number, arrived, vec, short) = there_and_back(&(7_u8, again, own.to_vec(), vec![0xff_u8, 0]));
    let lies_at = arrived.bytes().as_ptr();
    let arrived = arrived.into_bytes().unwrap();
    assert_eq!(arrived.as_ptr(), lies_at);
    assert_eq!(
        (number, &arrived, vec.as_slice(), short),
        (7, &own, &own[..], vec![0xff, 0])
    );
    let numbers: Vec<u32> = serde_json::from_slice(&arrived).unwrap();
    assert_eq!(numbers.last(), Some(&last));
}
