//! Names of calls, by what they do and in which place.

use std::fmt;
use std::hash::Hasher;

use selvedge_cluster::id_map::IdKey;
use selvedge_cluster::peer::ProcessId;
use selvedge_objects::refs::RefId;
use serde::{Deserialize, Serialize};
use siphasher::sip128::{Hasher128, SipHasher13};

/// The name of a submitted call: 128 bits of SipHash over the call that has submitted it, its place among the calls and puts of that one,
/// the function, the process that it is for, the arguments, and the references in them. No two calls of a run have the same name. A call that
/// the driver's program submits has the same name on every run, if its arguments and references are the same. So has a call that a pure
/// call submits, whenever that runs. A call that other code of a worker submits counts as one of the program, in a place that depends on the
/// letters of that worker: its name differs from run to run.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
pub struct CallDigest([u8; 16]);

/// A reference in the arguments of a call.
pub(crate) enum ReferenceName {
    /// The value of a nested call, or what such a call has put.
    Made(CallDigest),
    /// Any other object.
    Object(RefId),
}

/// A place among the calls and puts of a call.
pub(crate) type NestedPlace = (CallDigest, u64);

impl CallDigest {
    /// The name of what submits without being a submitted call: the program itself.
    pub(crate) const PROGRAM: CallDigest = CallDigest([0; 16]);

    /// The name of a call.
    pub(crate) fn of<'a>(
        place: NestedPlace,
        (function, only_for): (u64, Option<ProcessId>),
        arguments: impl Iterator<Item = &'a [u8]>,
        references: impl Iterator<Item = ReferenceName>,
    ) -> Self {
        let mut hash = begun(place, b"call");
        hash.write(&function.to_le_bytes());
        hash.write(&only_for.map_or(0, ProcessId::number).to_le_bytes());
        let mut bytes = 0u64;
        for argument in arguments {
            hash.write(argument);
            bytes += argument.len() as u64;
        }
        // The length ends the arguments, so nothing of the references can pass for them.
        hash.write(&bytes.to_le_bytes());
        ended(hash, references)
    }

    /// The name of a call without arguments, for tests in which its place alone matters.
    #[cfg(test)]
    pub(super) fn at_place(index: u64) -> Self {
        CallDigest::of(
            (CallDigest::PROGRAM, index),
            (0, None),
            [].into_iter(),
            [].into_iter(),
        )
    }

    /// The name of what a call puts, whose encoded value has this content, or this length and checksum.
    pub(crate) fn of_put(
        place: NestedPlace,
        content: &PutContent<'_>,
        references: impl Iterator<Item = ReferenceName>,
    ) -> Self {
        let mut hash = begun(place, b"put!");
        match content {
            PutContent::Bytes(bytes) => {
                hash.write(&[0]);
                hash.write(bytes);
                hash.write(&(bytes.len() as u64).to_le_bytes());
            }
            PutContent::Checked { bytes, checksum } => {
                hash.write(&[1]);
                hash.write(&bytes.to_le_bytes());
                hash.write(&checksum.to_le_bytes());
            }
        }
        ended(hash, references)
    }
}

/// The encoded value of what is put.
pub(crate) enum PutContent<'a> {
    Bytes(&'a [u8]),
    /// A value that lies in the store. Its checksum tells what it is to a function that keeps its promise to be pure, and in all but one of
    /// four thousand million cases to any other one.
    Checked {
        bytes: u64,
        checksum: u32,
    },
}

/// A hash of all that follows in a place. Kinds are told apart. Only names of one place are ever taken for each other, so the
/// hash has to tell different calls apart, and not to withstand somebody who looks for two with one name.
fn begun((outer, index): NestedPlace, kind: &[u8; 4]) -> SipHasher13 {
    let mut hash = SipHasher13::new();
    hash.write(&outer.0);
    hash.write(&index.to_le_bytes());
    hash.write(kind);
    hash
}

fn ended(mut hash: SipHasher13, references: impl Iterator<Item = ReferenceName>) -> CallDigest {
    for reference in references {
        match reference {
            ReferenceName::Made(CallDigest(name)) => {
                hash.write(&[0]);
                hash.write(&name);
            }
            ReferenceName::Object(RefId {
                owner,
                creator,
                number,
            }) => {
                hash.write(&[1]);
                for peer in [owner, creator] {
                    hash.write(&peer.process.number().to_le_bytes());
                    hash.write(&peer.incarnation.0.to_le_bytes());
                }
                hash.write(&number.to_le_bytes());
            }
        }
    }
    CallDigest(hash.finish128().as_bytes())
}

impl IdKey for CallDigest {
    type Number = u128;

    const BITS: u32 = u128::BITS;

    fn number(self) -> u128 {
        u128::from_be_bytes(self.0)
    }
}

impl fmt::Display for CallDigest {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.0.iter().try_for_each(|byte| write!(f, "{byte:02x}"))
    }
}

impl fmt::Debug for CallDigest {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        fmt::Display::fmt(self, f)
    }
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeSet;

    use super::*;
    use crate::testing::peer;

    fn reference(number: u64) -> ReferenceName {
        let owner = peer(1);
        ReferenceName::Object(RefId {
            owner,
            creator: owner,
            number,
        })
    }

    fn digest(index: u64, function: u64, arguments: &[&[u8]], references: &[u64]) -> CallDigest {
        CallDigest::of(
            (CallDigest::PROGRAM, index),
            (function, None),
            arguments.iter().copied(),
            references.iter().map(|number| reference(*number)),
        )
    }

    /// Of a call with one argument and one reference.
    fn with(place: NestedPlace, only_for: Option<ProcessId>, made_by: ReferenceName) -> CallDigest {
        let arguments = [&b"ab"[..]].into_iter();
        CallDigest::of(place, (7, only_for), arguments, [made_by].into_iter())
    }

    #[test]
    fn rtask_03_a_name_is_a_function_of_parent_place_function_arguments_and_references() {
        let one = || digest(1, 7, &[b"ab"], &[3]);
        assert_eq!(one(), one());
        assert_eq!(
            one(),
            digest(1, 7, &[b"a", b"b"], &[3]),
            "segments are no part of it"
        );
        let place = (CallDigest::PROGRAM, 1);
        let put = |content| CallDigest::of_put(place, &content, [reference(3)].into_iter());
        let checked = |bytes, checksum| put(PutContent::Checked { bytes, checksum });
        let others = [
            one(),
            digest(2, 7, &[b"ab"], &[3]),
            digest(1, 8, &[b"ab"], &[3]),
            digest(1, 7, &[b"ac"], &[3]),
            digest(1, 7, &[b"ab"], &[4]),
            digest(1, 7, &[b"ab"], &[]),
            digest(1, 7, &[b"ab"], &[3, 3]),
            with((one(), 1), None, reference(3)),
            with(place, Some(ProcessId::HEAD), reference(3)),
            with(place, None, ReferenceName::Made(one())),
            put(PutContent::Bytes(b"ab")),
            put(PutContent::Bytes(b"ac")),
            checked(2, 3),
            checked(2, 4),
            checked(3, 3),
        ];
        assert_eq!(others.iter().collect::<BTreeSet<_>>().len(), others.len());
        assert_eq!(one().to_string().len(), 32);
    }
}
