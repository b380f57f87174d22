//! Names of calls, by what they do and in which place.

use std::fmt;

use selvedge_objects::refs::RefId;
use sha2::{Digest, Sha256};

/// The name of a submitted call: 128 bits of SHA-256 over the call that has submitted it, its place among the calls of that one,
/// the function, the arguments, and the references in them. No two calls of a run have the same name. A call that the driver's program
/// submits has the same name on every run, if its arguments and references are the same. A call that a worker submits counts as one of
/// the program, in a place that depends on the letters of that worker: its name differs from run to run, and when its caller runs again.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct CallDigest([u8; 16]);

impl CallDigest {
    /// The name of what submits without being a submitted call: the program itself.
    pub(crate) const PROGRAM: CallDigest = CallDigest([0; 16]);

    /// The name of a call. `index` counts the calls that `parent` has submitted.
    pub(crate) fn of<'a>(
        (parent, index): (CallDigest, u64),
        function: u64,
        arguments: impl Iterator<Item = &'a [u8]>,
        references: impl Iterator<Item = RefId>,
    ) -> Self {
        let mut hash = Sha256::new();
        hash.update(parent.0);
        hash.update(index.to_le_bytes());
        hash.update(function.to_le_bytes());
        let mut bytes = 0u64;
        for argument in arguments {
            hash.update(argument);
            bytes += argument.len() as u64;
        }
        // The length ends the arguments, so nothing of the references can pass for them.
        hash.update(bytes.to_le_bytes());
        for RefId {
            owner,
            creator,
            number,
        } in references
        {
            for peer in [owner, creator] {
                hash.update(peer.process.number().to_le_bytes());
                hash.update(peer.incarnation.0.to_le_bytes());
            }
            hash.update(number.to_le_bytes());
        }
        let mut digest = [0; 16];
        for (to, from) in digest.iter_mut().zip(hash.finalize()) {
            *to = from;
        }
        CallDigest(digest)
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

    use selvedge_cluster::peer::{Incarnation, Peer, ProcessId};

    use super::*;

    fn reference(number: u64) -> RefId {
        let owner = Peer {
            process: ProcessId::HEAD,
            incarnation: Incarnation(1),
        };
        RefId {
            owner,
            creator: owner,
            number,
        }
    }

    fn digest(index: u64, function: u64, arguments: &[&[u8]], references: &[u64]) -> CallDigest {
        CallDigest::of(
            (CallDigest::PROGRAM, index),
            function,
            arguments.iter().copied(),
            references.iter().map(|number| reference(*number)),
        )
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
        let child = CallDigest::of(
            (one(), 1),
            7,
            [&b"ab"[..]].into_iter(),
            [reference(3)].into_iter(),
        );
        let others = [
            one(),
            digest(2, 7, &[b"ab"], &[3]),
            digest(1, 8, &[b"ab"], &[3]),
            digest(1, 7, &[b"ac"], &[3]),
            digest(1, 7, &[b"ab"], &[4]),
            digest(1, 7, &[b"ab"], &[]),
            digest(1, 7, &[b"ab"], &[3, 3]),
            child,
        ];
        assert_eq!(others.iter().collect::<BTreeSet<_>>().len(), others.len());
        assert_eq!(one().to_string().len(), 32);
    }
}
