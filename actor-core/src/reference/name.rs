//! The name of a reference in errors.

use std::any::type_name;
use std::fmt;

use selvedge_objects::refs::RefId;

use crate::short_name::short;

/// A reference, as errors name it: by the type of its value. [`id`](Self::id) tells it from others of its type.
#[derive(Clone, Copy)]
pub struct NamedRef {
    id: RefId,
    /// One word, so that errors stay small.
    type_name: fn() -> &'static str,
}

impl NamedRef {
    /// The reference with this name to a `T`.
    pub(super) fn of<T>(id: RefId) -> Self {
        let type_name = type_name::<T>;
        NamedRef { id, type_name }
    }

    /// The reference's own name: [`Ref::id`](crate::Ref::id).
    #[must_use]
    pub fn id(&self) -> RefId {
        self.id
    }

    /// The full name of the type of its value.
    #[must_use]
    pub fn type_name(&self) -> &'static str {
        (self.type_name)()
    }
}

impl fmt::Display for NamedRef {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "`Ref<{}>`", short(self.type_name()))
    }
}

impl fmt::Debug for NamedRef {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        fmt::Display::fmt(self, f)
    }
}
