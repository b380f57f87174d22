//! The shape of a type, which its trial finds, and with which each packed value is compared.

use std::sync::atomic::{AtomicPtr, Ordering};

use super::tag;

/// The shape of a type: the kinds of values that its `Deserialize` reads, place by place.
#[derive(Debug)]
pub(crate) struct Shape {
    /// The contents of each list, option, map, tuple, struct and enum. The first node contains the whole value.
    pub(super) nodes: Vec<Vec<Child>>,
}

impl Shape {
    /// The place of the whole value.
    #[inline]
    pub(super) fn root(&self) -> ShapeSlot {
        let root = self.nodes.first().and_then(|kids| kids.first());
        root.map_or(ShapeSlot::UNREAD, |kid| kid.slot)
    }

    /// Whether the value at a place takes no bytes.
    pub(super) fn is_empty(&self, slot: ShapeSlot) -> bool {
        match slot.tag() {
            tag::UNIT => true,
            tag::TUPLE | tag::STRUCT => self.kids(slot).iter().all(|kid| self.is_empty(kid.slot)),
            _ => false,
        }
    }

    /// The contents of the value at a place.
    #[inline]
    pub(super) fn kids(&self, slot: ShapeSlot) -> &[Child] {
        self.nodes.get(slot.node()).map_or(&[], Vec::as_slice)
    }
}

/// The value read at a place: a tag, and the number of the node with its contents.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct ShapeSlot(u32);

impl ShapeSlot {
    /// The value of a place that was not read.
    pub(super) const UNREAD: ShapeSlot = ShapeSlot(tag::UNREAD as u32);

    pub(super) fn new(tag: u8, node: usize) -> Self {
        ShapeSlot(u32::try_from(node << 5).unwrap_or(0) | u32::from(tag))
    }

    #[inline]
    pub(super) fn tag(self) -> u8 {
        (self.0 & 31) as u8
    }

    #[inline]
    fn node(self) -> usize {
        (self.0 >> 5) as usize
    }
}

/// A field, an element or a variant.
#[derive(Debug)]
pub(super) struct Child {
    /// The name that `Deserialize` uses.
    pub(super) name: &'static str,
    /// The address of the name that `Serialize` passed last. A string at this address is not compared again.
    seen: AtomicPtr<u8>,
    /// The form of a variant: `UNIT_VARIANT`, `VARIANT` with one value, `TUPLE` or `STRUCT`.
    pub(super) form: u8,
    pub(super) slot: ShapeSlot,
}

impl Child {
    pub(super) fn new(name: &'static str) -> Self {
        Child {
            name,
            seen: AtomicPtr::new(name.as_ptr().cast_mut()),
            form: tag::UNREAD,
            slot: ShapeSlot::UNREAD,
        }
    }

    /// Whether `name` is its name.
    #[inline]
    pub(super) fn is_named(&self, name: &'static str) -> bool {
        // A `'static` string never changes: the same address and length mean the same name. Relaxed: only the address is
        // compared, nothing is read through it.
        let is_seen = std::ptr::eq(self.seen.load(Ordering::Relaxed), name.as_ptr());
        is_seen && self.name.len() == name.len() || self.look(name)
    }

    #[cold]
    #[inline(never)]
    fn look(&self, name: &'static str) -> bool {
        let is_it = self.name == name;
        if is_it {
            // Relaxed: only the address is compared, nothing is read through it.
            self.seen.store(name.as_ptr().cast_mut(), Ordering::Relaxed);
        }
        is_it
    }
}
