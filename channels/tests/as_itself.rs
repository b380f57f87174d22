//! A value that serde can serialise arrives as itself, or is refused by name; it never arrives as another value.
#![cfg(not(any(miri, loom)))] // safe code; `value` and `payload` test the bytes that reach unsafe code
#![allow(
    missing_docs,
    clippy::unwrap_used,
    clippy::expect_used,
    clippy::panic,
    clippy::indexing_slicing
)] // a test may panic

use std::cell::Cell;
use std::collections::{BTreeMap, HashMap, HashSet};
use std::fmt::Debug;
use std::net::IpAddr;
use std::num::NonZeroU32;

use proptest::prelude::*;
use proptest::test_runner::{Config, TestRunner};
use selvedge_channels::{ChannelOptions, DecodeError, EncodeError, Tensor, Wire, decode, encode};
use serde::de::Error as _;
use serde::ser::{Error as _, SerializeStruct};
use serde::{Deserialize, Deserializer, Serialize, Serializer};

/// The offset of the byte that states the form of a frame's value.
const FORM: usize = 6;
const PACKED: u8 = 0;
const NAMED: u8 = 2;

fn bytes_of<T: Wire>(value: &T) -> Vec<u8> {
    encode(value).unwrap().to_vec()
}

fn there_and_back<T: Wire>(value: &T) -> T {
    decode(&bytes_of(value)).unwrap()
}

#[track_caller]
fn arrives<T: Wire + PartialEq + Debug>(value: &T) {
    assert_eq!(&there_and_back(value), value);
}

#[track_caller]
fn arrives_as<T: Wire + PartialEq + Debug>(form: u8, value: &T) {
    arrives(value);
    assert_eq!(bytes_of(value)[FORM], form, "{value:?}");
}

/// A request as language-model services define it.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
struct Request {
    #[serde(skip_serializing_if = "Option::is_none")]
    seed: Option<u32>,
    level: u32,
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    stop: Vec<String>,
    tokens: Vec<u32>,
}

#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(tag = "type")]
enum Tagged {
    A { x: i64, list: Vec<Option<f64>> },
    B,
    C(Inner),
}

#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(tag = "t", content = "c")]
enum Adjacent {
    Unit,
    New(Inner),
    Tuple(u8, String),
    Struct { a: char },
}

#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(untagged)]
enum Untagged {
    Int(i64),
    Float(f64),
    Text(String),
    List(Vec<Untagged>),
    Inner(Inner),
    Address { at: IpAddr },
}

#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
struct Inner {
    deep: Option<Option<u8>>,
    unit: (),
}

#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
struct Flat {
    id: u64,
    #[serde(flatten)]
    inner: Inner,
    #[serde(flatten)]
    kind: Kind,
    #[serde(flatten)]
    rest: BTreeMap<String, serde_json::Value>,
}

#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
enum Kind {
    Unit,
    New(u16),
    Tuple(i64, char),
    Struct {
        floats: Vec<f32>,
        next: Option<Box<Kind>>,
    },
}

/// A value with all of serde's kinds, none of which needs names.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
struct Plain {
    wide: (u128, i128, i8, u16, i32),
    letter: char,
    deep: Option<Option<Option<u8>>>,
    by_number: BTreeMap<i32, Kind>,
    by_pair: BTreeMap<(u8, bool), ()>,
    nested: Vec<Result<Kind, String>>,
    not_zero: NonZeroU32,
    address: IpAddr,
    time: std::time::Duration,
    set: HashSet<u32>,
    children: Vec<Plain>,
}

fn inner() -> impl Strategy<Value = Inner> {
    any::<Option<Option<u8>>>().prop_map(|deep| Inner { deep, unit: () })
}

fn kind() -> impl Strategy<Value = Kind> {
    let leaf = prop_oneof![
        Just(Kind::Unit),
        any::<u16>().prop_map(Kind::New),
        any::<(i64, char)>().prop_map(|(number, letter)| Kind::Tuple(number, letter)),
    ];
    leaf.prop_recursive(3, 8, 1, |inner| {
        (any::<Vec<f32>>(), proptest::option::of(inner)).prop_map(|(floats, next)| Kind::Struct {
            floats,
            next: next.map(Box::new),
        })
    })
}

fn json() -> impl Strategy<Value = serde_json::Value> {
    use serde_json::Value;
    let leaf = prop_oneof![
        Just(Value::Null),
        any::<bool>().prop_map(Value::from),
        any::<u64>().prop_map(Value::from),
        any::<i64>().prop_map(Value::from),
        any::<f64>().prop_map(Value::from),
        any::<String>().prop_map(Value::from),
    ];
    leaf.prop_recursive(3, 16, 4, |inner| {
        prop_oneof![
            proptest::collection::vec(inner.clone(), 0..4).prop_map(Value::from),
            proptest::collection::btree_map(any::<String>(), inner, 0..4).prop_map(Value::from_iter),
        ]
    })
}

fn untagged() -> impl Strategy<Value = Untagged> {
    let leaf = prop_oneof![
        any::<i64>().prop_map(Untagged::Int),
        any::<f64>().prop_map(Untagged::Float),
        any::<String>().prop_map(Untagged::Text),
        inner().prop_map(Untagged::Inner),
        any::<IpAddr>().prop_map(|at| Untagged::Address { at }),
    ];
    leaf.prop_recursive(3, 8, 3, |inner| {
        proptest::collection::vec(inner, 0..4).prop_map(Untagged::List)
    })
}

fn plain() -> impl Strategy<Value = Plain> {
    let leaf = (
        any::<((u128, i128, i8, u16, i32), char, Option<Option<Option<u8>>>)>(),
        proptest::collection::btree_map(any::<i32>(), kind(), 0..3),
        any::<BTreeMap<(u8, bool), ()>>(),
        proptest::collection::vec(proptest::result::maybe_ok(kind(), any::<String>()), 0..3),
        any::<(NonZeroU32, IpAddr, std::time::Duration, HashSet<u32>)>(),
    );
    let leaf = leaf.prop_map(
        |((wide, letter, deep), by_number, by_pair, nested, (not_zero, address, time, set))| Plain {
            wide,
            letter,
            deep,
            by_number,
            by_pair,
            nested,
            not_zero,
            address,
            time,
            set,
            children: vec![],
        },
    );
    leaf.prop_recursive(2, 4, 2, |inner| {
        (inner.clone(), proptest::collection::vec(inner, 0..3))
            .prop_map(|(parent, children)| Plain { children, ..parent })
    })
}

fn all<T: Debug>(strategy: impl Strategy<Value = T>, check: impl Fn(T)) {
    let mut runner = TestRunner::new(Config {
        cases: if cfg!(miri) { 3 } else { 128 },
        failure_persistence: None,
        ..Config::default()
    });
    let checked = |value| {
        check(value);
        Ok(())
    };
    runner.run(&strategy, checked).unwrap();
}

#[test]
fn packed_values_are_what_postcard_writes() {
    all(plain(), |value| {
        arrives_as(PACKED, &value);
        // Sets have no order, so the compared value has no elements in a set.
        let value = Plain {
            set: HashSet::new(),
            children: vec![],
            ..value
        };
        let head = postcard::to_allocvec(&value).unwrap();
        assert_eq!(&bytes_of(&value)[8..], head);
        assert_eq!(postcard::from_bytes::<Plain>(&head).unwrap(), value);
    });
}

#[test]
fn rser_01_fields_that_are_left_out_arrive_left_out() {
    all(any::<(Option<u32>, u32, Vec<String>, Vec<u32>)>(), |value| {
        let (seed, level, stop, tokens) = value;
        arrives(&Request {
            seed,
            level,
            stop,
            tokens,
        });
    });
    arrives_as(
        NAMED,
        &vec![Request {
            seed: None,
            level: 0,
            stop: vec![],
            tokens: vec![1, 5],
        }],
    );
}

#[test]
fn rser_01_tagged_untagged_and_flat_types_arrive() {
    all(inner(), |inner| {
        arrives(&Tagged::C(inner.clone()));
        arrives(&Adjacent::New(inner));
    });
    all(any::<(i64, Vec<Option<f64>>)>(), |(x, list)| {
        arrives(&Tagged::A { x, list })
    });
    arrives_as(NAMED, &Tagged::B);
    arrives(&vec![
        Adjacent::Unit,
        Adjacent::Tuple(7, "x".to_owned()),
        Adjacent::Struct { a: 'ß' },
    ]);
    all(untagged(), |value| arrives_as(NAMED, &value));
    all(json(), |value| arrives_as(NAMED, &value));
    let rest = proptest::collection::btree_map("[a-c][a-z]{9}", json(), 0..3);
    all(
        (any::<u64>(), inner(), kind(), rest),
        |(id, inner, kind, rest)| {
            arrives_as(
                NAMED,
                &Flat {
                    id,
                    inner,
                    kind,
                    rest,
                },
            );
        },
    );
}

#[test]
fn numbers_that_are_none_arrive_bit_for_bit() {
    #[derive(Clone, Serialize, Deserialize)]
    #[serde(tag = "kind")]
    enum Two {
        Some { wide: f64, narrow: f32 },
    }
    let (wide, narrow) = (f64::from_bits(0x7ff8_0000_dead_beef), f32::from_bits(0x7fc0_1234));
    let packed = there_and_back(&(wide, narrow, ()));
    assert_eq!(
        (packed.0.to_bits(), packed.1.to_bits()),
        (wide.to_bits(), narrow.to_bits())
    );
    let Two::Some { wide: w, narrow: n } = there_and_back(&Two::Some { wide, narrow });
    assert_eq!((w.to_bits(), n.to_bits()), (wide.to_bits(), narrow.to_bits()));
}

#[test]
fn wide_numbers_bytes_and_keys_of_any_type_arrive_by_name() {
    #[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
    struct Wide {
        #[serde(skip_serializing_if = "Option::is_none")]
        none: Option<()>,
        some: Option<()>,
        wide: (u128, i128),
        by_number: HashMap<i64, u8>,
        by_letter: BTreeMap<char, Option<Option<()>>>,
        set: HashSet<String>,
        kind: Kind,
    }
    all(
        any::<((u128, i128), HashMap<i64, u8>, HashSet<String>)>(),
        |value| {
            let (wide, by_number, set) = value;
            arrives_as(
                NAMED,
                &Wide {
                    none: None,
                    some: Some(()),
                    wide,
                    by_number,
                    by_letter: BTreeMap::from([('a', None), ('b', Some(None)), ('ü', Some(Some(())))]),
                    set,
                    kind: Kind::Struct {
                        floats: vec![1.5],
                        next: Some(Box::new(Kind::Unit)),
                    },
                },
            );
        },
    );
}

#[test]
fn tensors_arrive_beside_values_that_go_by_name() {
    #[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
    #[serde(untagged)]
    enum Either {
        Many { all: HashMap<String, Tensor> },
        One(Tensor),
    }
    let tensor = |value: u8| Tensor::from_slice(&[value; 4096], &[64, 64]).unwrap();
    arrives_as(NAMED, &Either::One(tensor(1)));
    let all = ('a'..'i').map(|name| (name.to_string(), tensor(name as u8)));
    let many = Either::Many { all: all.collect() };
    arrives_as(NAMED, &many);
    assert!(bytes_of(&many).len() < 8 * 4096 + 2000, "the tensors are parts");
    // A tensor alone does not make a type go by name.
    arrives_as(PACKED, &(1_u8, vec![Some(tensor(2))]));
}

#[test]
fn a_variant_that_is_left_out_does_not_turn_the_next_into_another() {
    #[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
    enum Gap {
        A,
        #[serde(skip)]
        #[allow(dead_code)]
        B,
        C,
        D,
    }
    arrives(&Gap::A);
    arrives(&Gap::C);
    arrives(&vec![Gap::D, Gap::A]);
}

#[test]
fn a_field_that_is_never_written_takes_its_default() {
    #[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
    struct Secret {
        #[serde(skip_serializing, default)]
        key: u32,
        level: u32,
        more: u32,
    }
    let back = there_and_back(&Secret {
        key: 9,
        level: 1,
        more: 2,
    });
    assert_eq!((back.key, back.level, back.more), (0, 1, 2));
}

#[track_caller]
fn refused<T: Wire + Debug>(value: &T, name: &str) {
    match encode(value).map(|encoded| decode::<T>(&encoded.to_vec())) {
        Err(error @ EncodeError::Another { .. }) => {
            assert!(error.to_string().contains(name), "{error}");
        }
        other => panic!("{other:?}"),
    }
}

#[test]
fn a_value_that_would_arrive_as_another_is_refused_by_name() {
    #[derive(Clone, Debug, Serialize, Deserialize)]
    #[serde(untagged)]
    enum Ambiguous {
        Narrow(u8),
        Wide(u16),
        A { x: Option<u8> },
        B { x: Option<u8>, y: Option<u8> },
        Huge { h: u128 },
    }
    #[derive(Clone, Debug, Serialize, Deserialize)]
    struct Odd {
        #[serde(skip_serializing_if = "is_zero", default = "five")]
        level: u8,
    }
    #[derive(Clone, Debug, Serialize, Deserialize)]
    struct Shifts(
        #[serde(skip_serializing_if = "Option::is_none")] Option<u8>,
        #[serde(default)] Option<u8>,
    );
    #[allow(clippy::trivially_copy_pass_by_ref)] // the signature that serde requires
    fn is_zero(level: &u8) -> bool {
        *level == 0
    }
    fn five() -> u8 {
        5
    }
    for value in [Ambiguous::Narrow(1), Ambiguous::A { x: None }] {
        let _ = there_and_back(&value);
    }
    for value in [
        Ambiguous::Wide(1),
        Ambiguous::B { x: None, y: Some(2) },
        Ambiguous::Huge { h: u128::MAX },
    ] {
        refused(&value, "Ambiguous");
    }
    let _ = there_and_back(&Odd { level: 3 });
    refused(&vec![Odd { level: 0 }], "Odd");
    let _ = there_and_back(&Shifts(Some(1), Some(2)));
    refused(&Shifts(None, Some(2)), "Shifts");
}

#[test]
fn a_length_that_is_not_kept_to_is_not_believed() {
    /// Announces more fields than it writes.
    #[derive(Clone, Debug, PartialEq, Deserialize)]
    struct Liar {
        a: u8,
        b: Option<u8>,
    }
    impl Serialize for Liar {
        fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
            let mut fields = serializer.serialize_struct("Liar", 2)?;
            fields.serialize_field("a", &self.a)?;
            fields.end()
        }
    }
    arrives(&vec![Liar { a: 1, b: None }; 2]);
}

#[test]
fn a_number_that_is_read_as_another_kind_than_it_is_written_arrives() {
    #[derive(Clone, Debug, PartialEq, Deserialize)]
    struct Wider {
        level: u64,
        list: [u16; 2],
    }
    impl Serialize for Wider {
        fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
            let mut fields = serializer.serialize_struct("Wider", 2)?;
            fields.serialize_field("level", &(self.level as u8))?;
            // The field writes a list where an array is read.
            fields.serialize_field("list", &self.list[..])?;
            fields.end()
        }
    }
    for level in [1, 200, 255] {
        arrives_as(
            NAMED,
            &vec![Wider {
                level,
                list: [300, 3],
            }],
        );
    }
}

#[test]
fn what_nests_too_deep_to_go_by_name_is_refused_by_name() {
    #[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
    struct Deep {
        #[serde(skip_serializing_if = "Option::is_none")]
        next: Option<Box<Deep>>,
    }
    let deep = |levels| {
        (0..levels).fold(Deep { next: None }, |deep, _| Deep {
            next: Some(Box::new(deep)),
        })
    };
    arrives_as(NAMED, &deep(60));
    let Err(error) = encode(&deep(200)) else {
        panic!("it went")
    };
    let text = error.to_string();
    assert!(text.contains("Deep` nests deeper than 256 levels"), "{text}");
}

/// An element that takes no bytes in packed form, but takes memory.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
struct Hollow {
    unit: (),
    #[serde(skip)]
    number: u64,
}

#[test]
fn many_elements_that_take_no_bytes_go_by_name() {
    const MAX: usize = 1 << 16;
    arrives_as(PACKED, &vec![(); MAX]);
    arrives_as(NAMED, &vec![(); MAX + 1]);
    arrives_as(PACKED, &vec![Hollow::default(); MAX]);
    arrives_as(NAMED, &vec![Hollow::default(); MAX + 1]);
    arrives_as(PACKED, &vec![vec![[(); 2]; MAX / 8]; 8]);
    arrives_as(NAMED, &vec![vec![[(); 2]; MAX / 8]; 9]);
    arrives_as(PACKED, &vec![((), 7_u8); MAX + 1]);
    let named = |number| (format!("{number}"), ());
    arrives_as(PACKED, &(0..=MAX).map(named).collect::<BTreeMap<_, _>>());
}

#[test]
fn rser_10_a_length_that_no_bytes_bound_is_refused() {
    #[track_caller]
    fn refused<T: Wire>(lengths: &impl Wire) {
        let error = decode::<T>(&bytes_of(lengths)).map(drop).unwrap_err().to_string();
        assert!(error.contains("more than 65536 elements"), "{error}");
    }
    refused::<Vec<Vec<()>>>(&(2_u8, 40_000_u64, 40_000_u64));
    refused::<Vec<()>>(&(u64::MAX,));
    refused::<Vec<Hollow>>(&(u64::MAX,));
    refused::<HashSet<()>>(&(u64::MAX,));
    refused::<BTreeMap<(), ()>>(&(u64::MAX,));
}

#[test]
fn a_type_that_holds_itself_goes_packed_however_deep() {
    #[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
    enum Tree {
        Node(Box<Tree>, Box<Tree>),
        Many(Vec<Tree>),
        Leaf(Last),
    }
    #[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
    enum Last {
        A,
        B { more: Option<Box<Tree>> },
    }
    let mut tree = Tree::Leaf(Last::B { more: None });
    for _ in 0..100 {
        tree = Tree::Node(
            Box::new(Tree::Leaf(Last::B {
                more: Some(Box::new(Tree::Many(vec![Tree::Leaf(Last::A)]))),
            })),
            Box::new(tree),
        );
    }
    arrives_as(PACKED, &tree);
    // The trial finds a field that is left out, behind every other variant.
    #[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
    enum Far {
        Near,
        Node(Box<Far>, Farther),
    }
    #[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
    enum Farther {
        A,
        B,
        C(Vec<Untagged>),
    }
    let far = Far::Node(Box::new(Far::Near), Farther::C(vec![Untagged::Int(1)]));
    arrives_as(NAMED, &far);
}

#[test]
fn chan_14_what_serialize_and_deserialize_said_is_told_with_where() {
    #[derive(Clone, Debug)]
    struct Picky(u8);
    impl Serialize for Picky {
        fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
            if self.0 == 0 {
                return Err(S::Error::custom("zero is not a level"));
            }
            self.0.serialize(serializer)
        }
    }
    impl<'de> Deserialize<'de> for Picky {
        fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
            match u8::deserialize(deserializer)? {
                9 => Err(D::Error::custom("nine is too much")),
                level => Ok(Picky(level)),
            }
        }
    }
    #[derive(Clone, Debug, Serialize, Deserialize)]
    struct Levels {
        all: Vec<(bool, Picky)>,
    }
    let levels = |level| Levels {
        all: vec![(true, Picky(1)), (true, Picky(level))],
    };
    let Err(error) = encode(&levels(0)) else {
        panic!("zero went")
    };
    let text = error.to_string();
    assert!(
        text.contains("Levels` cannot be serialised: zero is not a level, at `.all[1][1]`"),
        "{text}"
    );
    let error = decode::<Levels>(&bytes_of(&levels(9))).unwrap_err();
    assert!(matches!(error, DecodeError::Deserialize { .. }));
    let text = error.to_string();
    assert!(
        text.contains("Levels: nine is too much, at `.all[1][1]`"),
        "{text}"
    );
}

#[test]
fn a_value_is_serialised_once_for_a_channel() {
    thread_local! {
        static RUNS: Cell<u32> = const { Cell::new(0) };
    }
    #[derive(Clone, Debug, Deserialize)]
    struct Counted(Vec<u8>);
    impl Serialize for Counted {
        fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
            RUNS.set(RUNS.get() + 1);
            serializer.serialize_newtype_struct("Counted", &self.0)
        }
    }
    let channel = ChannelOptions::new().shared::<Counted>().unwrap();
    let (mut writer, mut reader) = (channel.writer().unwrap(), channel.reader(0).unwrap());
    for sent in 1..9 {
        writer.send(Counted(vec![1; 100])).unwrap();
        assert_eq!(RUNS.get(), sent);
        assert_eq!(reader.recv().unwrap().0.len(), 100);
    }
}

#[test]
fn cut_and_scribbled_values_by_name_are_errors_or_values() {
    let value = Flat {
        id: 1,
        inner: Inner {
            deep: Some(None),
            unit: (),
        },
        kind: Kind::Tuple(1, 'a'),
        rest: BTreeMap::from([("more".to_owned(), serde_json::json!([1, {"a": null}]))]),
    };
    let bytes = bytes_of(&value);
    for cut in 0..bytes.len() {
        assert!(decode::<Flat>(&bytes[..cut]).is_err());
    }
    for at in 0..bytes.len() {
        for scribble in [0, 1, 19, 20, 24, 25, 0x7f, 0xff] {
            let mut bytes = bytes.clone();
            bytes[at] = scribble;
            let _ = decode::<Flat>(&bytes);
            let _ = decode::<serde_json::Value>(&bytes);
        }
    }
    // Endless nesting is an error, not a stack overflow.
    for tag in [19, 20, 21] {
        let head = vec![tag; 100_000];
        let mut bytes = (head.len() as u32).to_le_bytes().to_vec();
        bytes.extend([0, 0, NAMED, 1]);
        bytes.extend(head);
        assert!(decode::<serde_json::Value>(&bytes).is_err());
    }
}

#[test]
fn a_field_is_never_read_as_another_of_the_same_kind() {
    #[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
    struct User {
        #[serde(skip_deserializing)]
        id: String,
        #[serde(skip_serializing, default)]
        password: String,
        name: String,
    }
    let user = User {
        id: "7".to_owned(),
        password: String::new(),
        name: "ada".to_owned(),
    };
    match encode(&user).map(|encoded| decode::<User>(&encoded.to_vec()).unwrap()) {
        Err(EncodeError::Another { .. }) => {}
        Ok(back) => assert_eq!((&*back.password, &*back.name), ("", "ada")),
        Err(error) => panic!("{error}"),
    }
    /// Writes its fields in another order than it reads them.
    #[derive(Clone, Debug, PartialEq, Deserialize)]
    struct Turned {
        first: String,
        second: String,
    }
    impl Serialize for Turned {
        fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
            let mut fields = serializer.serialize_struct("Turned", 2)?;
            fields.serialize_field("second", &self.second)?;
            fields.serialize_field("first", &self.first)?;
            fields.end()
        }
    }
    #[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
    enum Holds {
        One { turned: Turned },
    }
    let turned = Turned {
        first: "a".to_owned(),
        second: "b".to_owned(),
    };
    arrives_as(NAMED, &turned);
    arrives_as(NAMED, &vec![Holds::One { turned }]);
}

#[test]
fn a_field_of_a_variant_is_never_read_as_another_of_the_same_kind() {
    #[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
    enum Event {
        None,
        Login {
            #[serde(skip_deserializing)]
            id: u64,
            #[serde(skip_serializing, default)]
            secret: u64,
        },
    }
    assert_eq!(there_and_back(&Event::None), Event::None);
    match encode(&Event::Login { id: 9, secret: 0 })
        .map(|encoded| decode::<Event>(&encoded.to_vec()).unwrap())
    {
        Err(EncodeError::Another { .. }) => {}
        Ok(back) => assert_eq!(back, Event::Login { id: 0, secret: 0 }),
        Err(error) => panic!("{error}"),
    }
}

#[test]
fn a_kind_that_is_read_elsewhere_in_the_type_is_not_read_here() {
    #[allow(clippy::trivially_copy_pass_by_ref)] // the signature that serde requires
    fn as_text<S: Serializer>(id: &u64, serializer: S) -> Result<S::Ok, S::Error> {
        serializer.collect_str(id)
    }
    #[derive(Clone, Debug, Serialize, Deserialize)]
    struct Mixed {
        #[serde(serialize_with = "as_text")]
        id: u64,
        name: String,
    }
    let value = Mixed {
        id: 49,
        name: "ada".to_owned(),
    };
    match encode(&value).map(|encoded| decode::<Mixed>(&encoded.to_vec())) {
        Err(EncodeError::Another { .. }) => {}
        other => panic!("{other:?}"),
    }
    /// Writes a unit where a number is read.
    #[allow(clippy::trivially_copy_pass_by_ref)] // the signature that serde requires
    fn as_unit<S: Serializer>(_: &u8, serializer: S) -> Result<S::Ok, S::Error> {
        serializer.serialize_unit()
    }
    #[derive(Clone, Debug, Serialize, Deserialize)]
    struct Short {
        #[serde(serialize_with = "as_unit")]
        first: u8,
        rest: Vec<u8>,
    }
    match encode(&Short {
        first: 1,
        rest: vec![0],
    })
    .map(|encoded| decode::<Short>(&encoded.to_vec()))
    {
        Err(EncodeError::Another { .. }) => {}
        other => panic!("{other:?}"),
    }
}

#[test]
fn a_question_whose_answer_is_thrown_away_is_still_a_question() {
    fn lenient<'de, D: Deserializer<'de>>(deserializer: D) -> Result<Untagged, D::Error> {
        Ok(Untagged::deserialize(deserializer).unwrap_or(Untagged::Int(0)))
    }
    fn lenient_list<'de, D: Deserializer<'de>>(deserializer: D) -> Result<Vec<Untagged>, D::Error> {
        Ok(Vec::deserialize(deserializer).unwrap_or_default())
    }
    #[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
    struct Lenient {
        #[serde(deserialize_with = "lenient")]
        any: Untagged,
        name: String,
        #[serde(deserialize_with = "lenient_list")]
        more: Vec<Untagged>,
    }
    arrives_as(
        NAMED,
        &Lenient {
            // The value is text, which the type reads elsewhere.
            any: Untagged::Text("x".to_owned()),
            name: "ada".to_owned(),
            more: vec![Untagged::Text("y".to_owned())],
        },
    );
}

/// A number whose `Deserialize` refuses 0, which its `Serialize` writes.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[serde(try_from = "u8")]
struct Level(u8);

impl TryFrom<u8> for Level {
    type Error = &'static str;

    fn try_from(number: u8) -> Result<Self, Self::Error> {
        (number > 0).then_some(Level(number)).ok_or("no level is 0")
    }
}

fn lenient<'de, D: Deserializer<'de>, T: Deserialize<'de> + Default>(deserializer: D) -> Result<T, D::Error> {
    Ok(T::deserialize(deserializer).unwrap_or_default())
}

/// A field that may fail with its error swallowed, in front of fields that could take its remaining bytes.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
struct Lenient<T: Default + for<'a> Deserialize<'a>> {
    #[serde(deserialize_with = "lenient")]
    it: T,
    next: u8,
    list: Vec<u8>,
}

#[test]
fn what_follows_a_swallowed_error_is_an_error_and_never_another_value() {
    let value = |level, rest| Lenient {
        it: (Level(level), rest),
        next: 1,
        list: vec![],
    };
    arrives_as(PACKED, &value(5, 9));
    // A decoder that went on after the level would read the rest as `next`, and `next` as the length of the list.
    let error = decode::<Lenient<(Level, u8)>>(&bytes_of(&value(0, 9))).unwrap_err();
    let DecodeError::Deserialize { error, .. } = &error else {
        panic!("{error}");
    };
    assert!(
        error.to_string().contains("goes on after an error") && error.to_string().contains("`.next`"),
        "{error}"
    );
    // The error also comes where the following fields take no bytes.
    let alone = Some((Level(0), ()));
    let last = bytes_of(&Last { it: alone });
    assert!(matches!(
        decode::<Last>(&last),
        Err(DecodeError::Deserialize { .. })
    ));

    #[derive(Clone, Debug, Serialize, Deserialize)]
    struct Last {
        #[serde(deserialize_with = "lenient")]
        it: Option<(Level, ())>,
    }
}

#[test]
fn a_list_that_swallows_errors_ends_at_the_first() {
    thread_local!(static READ: Cell<usize> = const { Cell::new(0) });
    #[derive(Clone, Debug, Serialize)]
    struct Entry((Level, u8));
    impl<'de> Deserialize<'de> for Entry {
        fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
            READ.set(READ.get() + 1);
            lenient(deserializer).map(Entry)
        }
    }
    let mut bytes = bytes_of(&vec![Entry((Level(1), 2)), Entry((Level(0), 3))]);
    // The longest list that one byte can announce.
    bytes[8] = 0x7f;
    READ.set(0);
    assert!(decode::<Vec<Entry>>(&bytes).is_err());
    assert_eq!(READ.get(), 2);
}

#[test]
fn an_error_over_what_was_read_to_its_end_may_be_swallowed() {
    let value = |it| Lenient {
        it,
        next: 1,
        list: vec![7],
    };
    arrives_as(PACKED, &value(Level(0)));
    let value = Lenient {
        it: Some(Level(0)),
        next: 1,
        list: vec![7],
    };
    let back = there_and_back(&value);
    assert_eq!(back, Lenient { it: None, ..value });
}

/// Every kind of data of which a part may stay unread.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
enum Odd {
    #[default]
    Nothing,
    New(Level),
    Tuple(Level, u8),
    Struct {
        level: Level,
        rest: (u8, u8),
    },
    List(Vec<(Level, u8)>),
    Map(BTreeMap<u8, Level>),
    Option(Option<Option<(u8, Level, u8)>>),
    Inner(Box<Lenient<(Level, u8)>>),
}

#[test]
fn nothing_is_read_as_another_value_wherever_an_error_is_swallowed() {
    let level = || (0_u8..3).prop_map(Level);
    let small = || 0_u8..4;
    let list = || proptest::collection::vec(small(), 0..4);
    let inner = ((level(), small()), small(), list()).prop_map(|(it, next, list)| Lenient { it, next, list });
    let odd = prop_oneof![
        Just(Odd::Nothing),
        level().prop_map(Odd::New),
        (level(), small()).prop_map(|(level, rest)| Odd::Tuple(level, rest)),
        (level(), (small(), small())).prop_map(|(level, rest)| Odd::Struct { level, rest }),
        proptest::collection::vec((level(), small()), 0..3).prop_map(Odd::List),
        proptest::collection::btree_map(small(), level(), 0..3).prop_map(Odd::Map),
        proptest::option::of(proptest::option::of((small(), level(), small()))).prop_map(Odd::Option),
        inner.prop_map(|inner| Odd::Inner(Box::new(inner))),
    ];
    let all_of_it = (odd, small(), list()).prop_map(|(it, next, list)| Lenient { it, next, list });
    let arrived = Cell::new(0);
    all(proptest::collection::vec(all_of_it, 64), |values| {
        for value in values {
            let bytes = bytes_of(&value);
            assert_eq!(bytes[FORM], PACKED);
            let Ok(back) = decode::<Lenient<Odd>>(&bytes) else {
                continue;
            };
            arrived.set(arrived.get() + 1);
            assert_eq!((back.next, &back.list), (value.next, &value.list), "{value:?}");
            assert!(
                back.it == value.it || back.it == Odd::Nothing,
                "{back:?}, {value:?}"
            );
        }
    });
    assert!(arrived.get() > 1000);
}

#[test]
fn a_tuple_that_comes_back_turned_is_refused_by_name() {
    #[derive(Clone, Debug, Serialize)]
    struct Pair(u8, u8);
    impl<'de> Deserialize<'de> for Pair {
        fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
            let (first, second) = Deserialize::deserialize(deserializer)?;
            Ok(Pair(second, first))
        }
    }
    #[derive(Clone, Debug, Serialize, Deserialize)]
    struct Pairs {
        #[serde(skip_serializing_if = "Option::is_none")]
        none: Option<u8>,
        pair: Pair,
    }
    let pairs = |first, second| Pairs {
        none: None,
        pair: Pair(first, second),
    };
    let _ = there_and_back(&pairs(3, 3));
    refused(&pairs(1, 2), "Pairs");
}

#[test]
fn keys_of_flat_maps_arrive_whatever_scalar_they_are() {
    #[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
    struct Flat<K: Ord> {
        name: String,
        #[serde(flatten)]
        rest: BTreeMap<K, u8>,
    }
    fn flat<K: Ord + Clone + Debug + Serialize + for<'de> Deserialize<'de> + Send + 'static>(keys: &[K])
    where
        Flat<K>: Wire,
    {
        let rest = keys.iter().cloned().zip(1..).collect();
        let name = "flat".to_owned();
        arrives_as(NAMED, &Flat { name, rest });
    }
    flat(&[false, true]);
    flat(&['a', 'ü']);
    flat(&[u8::MIN, u8::MAX]);
    flat(&[u16::MIN, u16::MAX]);
    flat(&[u32::MIN, u32::MAX]);
    flat(&[u64::MIN, u64::MAX]);
    flat(&[i8::MIN, i8::MAX]);
    flat(&[i16::MIN, i16::MAX]);
    flat(&[i32::MIN, i32::MAX]);
    flat(&[i64::MIN, i64::MAX]);
    flat(&["a".to_owned(), String::new()]);
}

#[test]
fn an_error_names_the_kind_that_is_there_and_the_one_that_is_read() {
    /// Goes by name, because it leaves a field out.
    #[derive(Clone, Debug, Serialize, Deserialize)]
    struct Holder<T> {
        value: T,
        #[serde(default, skip_serializing_if = "Option::is_none")]
        none: Option<u8>,
    }
    #[derive(Clone, Debug, Serialize, Deserialize)]
    struct Point {
        x: u8,
        y: u8,
    }
    fn held<T>(value: T) -> Holder<T> {
        Holder { value, none: None }
    }
    #[track_caller]
    fn read<A, B: Debug>(value: A) -> String
    where
        Holder<A>: Wire,
        Holder<B>: Wire,
    {
        let error = decode::<Holder<B>>(&bytes_of(&held(value))).unwrap_err();
        error.to_string()
    }
    let map = BTreeMap::from([("x".to_owned(), 1_u8), ("y".to_owned(), 2)]);
    for (text, wanted) in [
        (read::<u8, Vec<u8>>(7), "integer `7`, expected a sequence"),
        (
            read::<_, Vec<u8>>("no".to_owned()),
            "string \"no\", expected a sequence",
        ),
        (read::<_, Vec<u8>>(map.clone()), "map, expected a sequence"),
        (
            read::<_, (u8, u8)>(map.clone()),
            "map, expected a tuple of size 2",
        ),
        (
            read::<bool, BTreeMap<String, u8>>(true),
            "boolean `true`, expected a map",
        ),
        (
            read::<_, BTreeMap<String, u8>>(vec![1_u8]),
            "sequence, expected a map",
        ),
        (
            read::<f64, Point>(0.5),
            "floating point `0.5`, expected struct Point",
        ),
        (
            read::<Option<u8>, Point>(None),
            "Option value, expected struct Point",
        ),
    ] {
        assert!(text.contains(wanted), "{text}");
    }
    // As in JSON: a struct may be a map or a list.
    let point: Holder<Point> = decode(&bytes_of(&held(map))).unwrap();
    assert_eq!((point.value.x, point.value.y), (1, 2));
    let point: Holder<Point> = decode(&bytes_of(&held((3_u8, 4_u8)))).unwrap();
    assert_eq!((point.value.x, point.value.y), (3, 4));
    // An option is its content where the type reads no option.
    let list: Holder<Vec<u8>> = decode(&bytes_of(&held(Some(vec![5_u8])))).unwrap();
    assert_eq!(list.value, [5]);
    let point: Holder<Point> = decode(&bytes_of(&held(Some(Point { x: 6, y: 7 })))).unwrap();
    assert_eq!((point.value.x, point.value.y), (6, 7));
}
