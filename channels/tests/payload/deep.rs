//! The limit on the nesting of a value: an error of its own, and never a stack that overflows.

use std::collections::BTreeMap;
use std::fmt::Debug;
use std::sync::{Arc, RwLock};
use std::thread;

use selvedge_channels::{DecodeError, EncodeError, Wire, decode, encode, from_packed, to_packed};
use serde::{Deserialize, Deserializer, Serialize, Serializer};

/// The levels that a value may have.
const LEVELS_MAX: u16 = 256;

/// Runs code on a stack of half the size that a thread of the standard library has.
pub(super) fn on_a_small_stack(run: impl FnOnce() + Send + 'static) {
    let thread = thread::Builder::new().stack_size(STACK_BYTES).spawn(run);
    thread.unwrap().join().unwrap();
}

const STACK_BYTES: usize = 1 << 20;

/// Two levels each: a struct and an option.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
struct List {
    name: String,
    numbers: [u64; 4],
    next: Option<Box<List>>,
}

/// A level each, and no byte but the option's.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
struct Newtype(Option<Box<Newtype>>);

#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
enum Tree {
    Leaf,
    Negated(Box<Tree>),
    Pair(Vec<Tree>, u8),
    Named { inner: BTreeMap<u8, Tree> },
}

/// A value that is encoded by name, and buffered before its type is known.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(untagged)]
enum Loose {
    Number(u64),
    List(Vec<Loose>),
}

fn list(links: usize) -> List {
    (0..links).fold(List::default(), |next, _| List {
        next: Some(Box::new(next)),
        ..List::default()
    })
}

fn newtype(links: usize) -> Newtype {
    (0..links).fold(Newtype(None), |next, _| Newtype(Some(Box::new(next))))
}

fn tree(rounds: usize) -> Tree {
    (0..rounds).fold(Tree::Leaf, |tree, _| {
        let tree = Tree::Named {
            inner: [(1, tree)].into(),
        };
        Tree::Pair(vec![Tree::Negated(Box::new(tree))], 7)
    })
}

fn loose(lists: usize) -> Loose {
    (0..lists).fold(Loose::Number(7), |loose, _| Loose::List(vec![loose]))
}

/// Drops a long list link by link: the drop of a deep value is its user's.
fn unlink(list: List) {
    let mut next = list.next;
    while let Some(mut link) = next {
        next = link.next.take();
    }
}

fn arrives<T: Wire + Debug + PartialEq>(value: &T) {
    let bytes = encode(value).unwrap().to_vec();
    assert_eq!(&decode::<T>(&bytes).unwrap(), value);
}

fn is_too_deep<T: Wire>(value: &T) -> String {
    match encode(value) {
        Err(error @ EncodeError::TooDeep { levels_max, .. }) if levels_max == LEVELS_MAX => error.to_string(),
        Err(error) => panic!("{error}"),
        Ok(_) => panic!("it went"),
    }
}

/// A packed payload with this head.
fn packed(head: &[u8]) -> Vec<u8> {
    let mut bytes = (head.len() as u32).to_le_bytes().to_vec();
    bytes.extend([0, 0, 0, 1]);
    bytes.extend(head);
    bytes
}

#[test]
#[cfg_attr(
    miri,
    ignore = "no unsafe code of its own; the interpreter takes minutes for deep values"
)]
fn rser_06_a_value_of_256_levels_arrives_on_a_small_stack_and_a_deeper_one_is_refused() {
    on_a_small_stack(|| {
        arrives(&list(127));
        arrives(&newtype(127));
        arrives(&tree(51));
        arrives(&loose(255));
        assert!(is_too_deep(&list(128)).contains("List` nests deeper than 256 levels, or contains itself"));
        is_too_deep(&newtype(128));
        is_too_deep(&tree(52));
        is_too_deep(&loose(257));
    });
}

#[test]
#[cfg_attr(
    miri,
    ignore = "no unsafe code of its own; the interpreter takes minutes for deep values"
)]
fn rser_06_a_list_of_a_million_links_is_refused() {
    on_a_small_stack(|| {
        let long = list(1_000_000);
        is_too_deep(&long);
        assert!(matches!(to_packed(&long), Err(EncodeError::TooDeep { .. })));
        unlink(long);
    });
}

#[test]
#[cfg_attr(
    miri,
    ignore = "no unsafe code of its own; the interpreter takes minutes for deep values"
)]
fn rser_06_a_value_that_contains_itself_is_refused() {
    #[derive(Clone, Default, Serialize, Deserialize)]
    struct Node {
        next: Arc<RwLock<Vec<Node>>>,
    }
    on_a_small_stack(|| {
        let node = Node::default();
        node.next.write().unwrap().push(node.clone());
        assert!(is_too_deep(&node).contains("or contains itself"));
        node.next.write().unwrap().clear();
        assert!(encode(&node).is_ok(), "the same value without its circle");
    });
}

#[test]
fn rser_06_rser_10_bytes_that_nest_without_end_are_refused() {
    fn refused<T: Wire + Debug>(head: &[u8]) {
        let _ = encode::<Option<T>>(&None);
        let error = decode::<T>(&packed(head)).unwrap_err();
        assert!(
            matches!(
                error,
                DecodeError::TooDeep {
                    levels_max: LEVELS_MAX,
                    ..
                }
            ),
            "{error}"
        );
        let error = from_packed::<T>(head).unwrap_err();
        assert!(
            error.to_string().contains("they nest deeper than 256 levels"),
            "{error}"
        );
    }
    on_a_small_stack(|| {
        refused::<Newtype>(&[1; 100_000]);
        refused::<Tree>(&[1; 100_000]);
        refused::<List>(&[0, 0, 0, 0, 0, 1].repeat(20_000));
        // A list of a list of a list.
        refused::<Tree>(&[2, 1].repeat(50_000));
    });
}

#[test]
fn rser_06_a_serialize_that_goes_on_after_the_limit_is_refused_too() {
    #[derive(Clone, Debug, Deserialize)]
    struct Stubborn(Option<Box<Stubborn>>);
    impl Serialize for Stubborn {
        fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
            struct Tried<'a>(&'a Stubborn);
            impl Serialize for Tried<'_> {
                fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
                    (self.0).0.serialize(serializer)
                }
            }
            let written = serializer.serialize_newtype_struct("Stubborn", &Tried(self));
            written.map_err(|error| serde::ser::Error::custom(format!("renamed: {error}")))
        }
    }
    on_a_small_stack(|| {
        let deep = (0..300).fold(Stubborn(None), |next, _| Stubborn(Some(Box::new(next))));
        is_too_deep(&deep);
    });
}

#[test]
fn rser_06_a_deserialize_that_renames_the_error_is_too_deep_too() {
    #[derive(Clone, Debug, Serialize)]
    struct Renamed(Option<Box<Renamed>>);
    impl<'de> Deserialize<'de> for Renamed {
        fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
            let inner = Option::<Box<Renamed>>::deserialize(deserializer);
            inner
                .map(Renamed)
                .map_err(|_| serde::de::Error::custom("renamed"))
        }
    }
    let error = from_packed::<Renamed>(&[1; 1000]).unwrap_err();
    assert!(matches!(error, DecodeError::TooDeep { .. }), "{error}");
}
