//! Keys that are numbers.

use std::num::NonZeroU32;

use crate::peer::{Peer, ProcessId};

/// A key that is a number: its order is the order of the numbers.
pub trait IdKey: Copy {
    /// The type of the numbers: `u128`, or a pair of these for keys of more than 128 bits. Each type is a tree of its own.
    type Number: Copy + Ord;

    /// The number of bits that suffice for each number. Only keys that are parts of others need it.
    const BITS: u32 = u32::MAX;

    /// Returns the number of the key, which no other key has.
    fn number(self) -> Self::Number;
}

macro_rules! numbers {
    ($($key:ty),+) => {$(
        impl IdKey for $key {
            type Number = u128;

            const BITS: u32 = <$key>::BITS;

            fn number(self) -> u128 {
                self as u128
            }
        }
    )+};
}

numbers!(u16, u32, u64, usize);

/// Makes a type a key by another key, which holds all of it.
///
/// ```
/// use selvedge_cluster::id_map::IdKey;
///
/// #[derive(Clone, Copy)]
/// struct Seat {
///     row: u16,
///     place: u32,
/// }
///
/// selvedge_cluster::id_key!(Seat as (u16, u32): |seat| (seat.row, seat.place));
/// assert!(Seat { row: 1, place: 9 }.number() < Seat { row: 2, place: 0 }.number());
/// ```
#[macro_export]
macro_rules! id_key {
    ($key:ty as $other:ty: |$it:ident| $made:expr) => {
        impl $crate::id_map::IdKey for $key {
            type Number = u128;

            const BITS: u32 = <$other as $crate::id_map::IdKey>::BITS;

            #[inline]
            fn number(self) -> u128 {
                let $it = self;
                let other: $other = $made;
                $crate::id_map::IdKey::number(other)
            }
        }
    };
}

id_key!(NonZeroU32 as u32: |number| number.get());
id_key!(ProcessId as u32: |process| process.number());
id_key!(Peer as (ProcessId, u32): |peer| (peer.process, peer.incarnation.0));

impl<A: IdKey<Number = u128>, B: IdKey<Number = u128>> IdKey for (A, B) {
    type Number = u128;

    const BITS: u32 = {
        assert!(A::BITS + B::BITS <= u128::BITS, "these keys have too many bits");
        A::BITS + B::BITS
    };

    fn number(self) -> u128 {
        // A shift by 128 bits or more does not compile, since `BITS` of the pair is then too large.
        const { assert!(Self::BITS <= u128::BITS) };
        self.0.number() << B::BITS | self.1.number()
    }
}

impl<A: IdKey<Number = u128>> IdKey for Option<A> {
    type Number = u128;

    const BITS: u32 = A::BITS + 1;

    fn number(self) -> u128 {
        self.map_or(0, |key| 1 << A::BITS | key.number())
    }
}
