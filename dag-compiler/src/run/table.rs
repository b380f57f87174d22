//! Tables whose items are found by an index of their own type.
//!
//! The loader makes the items and their indices together, so a look-up finds its item. A look-up that does not is a bug
//! of selvedge, and its error says so.

use std::marker::PhantomData;
use std::ops::{Deref, DerefMut};

use selvedge_core::ValueIx;

/// A position in a [`Table`].
pub(crate) trait TableIx: Copy {
    /// The name of an item, for errors.
    const ITEM: &'static str;
    fn new(position: usize) -> Self;
    fn position(self) -> usize;
}

/// An error: a table has no item at an index.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
#[error("the lane has no {item} {position}: this is a bug of selvedge, please report it")]
pub(crate) struct NoSuchItem {
    item: &'static str,
    position: usize,
}

impl NoSuchItem {
    #[cold]
    pub(crate) fn new(item: &'static str, position: usize) -> Self {
        NoSuchItem { item, position }
    }
}

/// Items by index.
pub(crate) struct Table<I, T> {
    items: Vec<T>,
    index: PhantomData<fn(I)>,
}

impl<I: TableIx, T> Table<I, T> {
    /// Adds an item; returns its index.
    pub(crate) fn push(&mut self, item: T) -> I {
        self.items.push(item);
        I::new(self.items.len() - 1)
    }

    #[inline]
    pub(crate) fn get(&self, index: I) -> Option<&T> {
        self.items.get(index.position())
    }

    #[inline]
    pub(crate) fn get_mut(&mut self, index: I) -> Option<&mut T> {
        self.items.get_mut(index.position())
    }

    /// The item at an index that the loader has made.
    #[inline]
    pub(crate) fn at(&self, index: I) -> Result<&T, NoSuchItem> {
        self.get(index).ok_or_else(|| no_such(index))
    }

    /// The item at an index that the loader has made, mutably.
    #[inline]
    pub(crate) fn at_mut(&mut self, index: I) -> Result<&mut T, NoSuchItem> {
        self.get_mut(index).ok_or_else(|| no_such(index))
    }

    /// The `len` items from an index on.
    #[inline]
    pub(crate) fn range_mut(&mut self, first: I, len: usize) -> Result<&mut [T], NoSuchItem> {
        let range = first.position()..first.position() + len;
        self.items.get_mut(range).ok_or_else(|| no_such(first))
    }
}

#[cold]
fn no_such<I: TableIx>(index: I) -> NoSuchItem {
    NoSuchItem::new(I::ITEM, index.position())
}

impl<I, T> Table<I, T> {
    pub(crate) fn with_capacity(items: usize) -> Self {
        Table {
            items: Vec::with_capacity(items),
            index: PhantomData,
        }
    }
}

impl<I, T> Default for Table<I, T> {
    fn default() -> Self {
        Table::with_capacity(0)
    }
}

impl<I, T> Deref for Table<I, T> {
    type Target = [T];

    #[inline]
    fn deref(&self) -> &[T] {
        &self.items
    }
}

impl<I, T> DerefMut for Table<I, T> {
    #[inline]
    fn deref_mut(&mut self) -> &mut [T] {
        &mut self.items
    }
}

macro_rules! index {
    ($($(#[$doc:meta])* $name:ident $item:literal;)+) => {$(
        $(#[$doc])*
        #[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
        pub(crate) struct $name(pub(crate) usize);

        table_index!($name $item);
    )+};
}

macro_rules! table_index {
    ($name:ident $item:literal) => {
        impl TableIx for $name {
            const ITEM: &'static str = $item;

            fn new(position: usize) -> Self {
                $name(position)
            }

            #[inline]
            fn position(self) -> usize {
                self.0
            }
        }
    };
}

table_index!(ValueIx "value");

index! {
    /// The position of a task among the tasks of a lane.
    TaskIx "task";
    /// The position of a rank among the ranks of a lane.
    RankIx "rank";
}
