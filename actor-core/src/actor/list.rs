//! Lists of edges: the values of several edges, gathered into one argument where its task runs.

use std::fmt;

use selvedge_channels::{AnyValue, Payload, PayloadType};

use crate::{Failure, ValueIx};

/// Takes the values with the indices `members` and puts them, as one list, into the value with the index `into`, for
/// one execution.
pub type Gather = fn(&mut [Box<dyn AnyValue>], &[ValueIx], ValueIx, u64) -> Result<(), Failure>;

/// One level of a parameter that is a `Vec`: the types of the list and of its elements. A `Vec<Vec<T>>` has two levels.
#[derive(Clone, Copy)]
pub struct ListLevel {
    /// The list's type.
    pub list: PayloadType,
    /// The elements' type.
    pub element: PayloadType,
    /// Gathers the elements into a list.
    pub gather: Gather,
}

impl ListLevel {
    /// The level of a `Vec<T>`, given the types of the list and of its elements.
    #[must_use]
    pub fn of<T: Payload>(list: PayloadType, element: PayloadType) -> Self {
        ListLevel {
            list,
            element,
            gather: gather::<T>,
        }
    }
}

impl fmt::Debug for ListLevel {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "a list of {}", self.element.name())
    }
}

/// Gathers a list. An element is moved if this is its last read, else cloned.
fn gather<T: Payload>(
    values: &mut [Box<dyn AnyValue>],
    members: &[ValueIx],
    into: ValueIx,
    execution: u64,
) -> Result<(), Failure> {
    let wrong = || Failure::Internal("a list is put together from values of other types".to_owned());
    let mut list = Vec::with_capacity(members.len());
    for member in members {
        let value = values.get_mut(member.0).and_then(|value| value.typed_mut::<T>());
        list.push(value.ok_or_else(wrong)?.take()?);
    }
    let into = values
        .get_mut(into.0)
        .and_then(|value| value.typed_mut::<Vec<T>>());
    into.ok_or_else(wrong)?.put(execution, Ok(list))?;
    Ok(())
}
