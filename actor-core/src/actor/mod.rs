//! Actor types, described by plain data: a constructor and methods.
//!
//! `#[actor]` generates these items from an `impl` block; they can also be written by hand. The functions in an
//! [`ActorEntry`] know the types of their actor, and the callers of the functions do not: arguments are passed
//! in a [`Frame`], or as a tuple in [`Arguments`], and the actor is passed as an [`ActorState`].

pub(crate) mod actor_type;
pub(crate) mod arguments;
pub(crate) mod error_probe;
pub(crate) mod list;
pub(crate) mod made_in;
pub(crate) mod parts;
pub(crate) mod registry;
pub(crate) mod sharing;

use std::fmt;

use selvedge_channels::PayloadType;

use crate::BoxError;
use crate::actor::arguments::{Arguments, Returned};
use crate::actor::list::ListLevel;
use crate::actor::sharing::Sharing;
use crate::cell::async_driver::AsyncDriver;
use crate::cell::frame::Frame;
use crate::cell::state::ActorState;
use crate::error_codec::ErrorCodec;
use crate::failure::Failure;

/// Decodes the arguments and calls the constructor.
pub type Create = fn(&[u8]) -> Result<ActorState, BoxError>;

/// Runs a method inside a program, from the values of its arguments to the destinations of its result.
pub type Compute = fn(&mut ActorState, &mut Frame<'_>) -> Result<(), Box<Failure>>;

/// The data that the runtime has about an actor type.
pub struct ActorEntry {
    /// The path of the type: its module and its name there. Types inside functions, and types of two versions of one
    /// crate, can have the same path.
    pub name: &'static str,
    /// The place of the type in the source, as `file:line:column`, which distinguishes types of the same name. May be
    /// empty.
    pub place: &'static str,
    /// Decodes the constructor's arguments and builds a value.
    pub create: Create,
    /// The number of async methods that may be in flight at a time, unless the actor is spawned with another one. 0 and
    /// 1 mean one after the other.
    pub concurrency: u32,
    /// The methods. A method is identified by its index here.
    pub methods: &'static [MethodEntry],
}

/// One method of an actor type.
pub struct MethodEntry {
    /// The method's name in the source.
    pub name: &'static str,
    /// The parameters after `&mut self`, in order.
    pub params: &'static [ParamEntry],
    /// The type of the result (the `T` of a `Result<T, E>`).
    pub result: fn() -> PayloadType,
    /// The types of a tuple result's parts; empty for any other result.
    pub parts: fn() -> Vec<PayloadType>,
    /// The codec of the method's errors, if serde knows their type.
    pub error: fn() -> Option<&'static ErrorCodec>,
    /// Runs the method inside a program.
    pub compute: Compute,
    /// The sharing of the actor's state: decides which methods may run beside this one.
    pub sharing: Sharing,
    /// Runs the method for an ordinary call.
    pub call: fn(&mut ActorState, Arguments, &AsyncDriver) -> Result<Returned, Failure>,
}

/// The methods of an actor type, as a trait, so that the bounds on the types of all methods are checked once, where the
/// table is used.
pub trait MethodTable {
    /// The table.
    const METHODS: &'static [MethodEntry];
}

/// One parameter of a method.
pub struct ParamEntry {
    /// The parameter's name in the source.
    pub name: &'static str,
    /// The owned type that travels to the parameter (`String` for a `&str`).
    pub payload: fn() -> PayloadType,
    /// The levels at which a list for the parameter can be gathered from edges, outermost first. Empty if the parameter
    /// is not written as a `Vec` or a slice.
    pub lists: fn() -> Vec<ListLevel>,
}

impl ActorEntry {
    /// The method with this index.
    #[must_use]
    #[inline]
    pub fn method(&self, index: u16) -> Option<&'static MethodEntry> {
        self.methods.get(usize::from(index))
    }

    /// The method's name, or `"?"` for an index that the type does not have.
    #[must_use]
    pub fn method_name(&self, index: u16) -> &'static str {
        self.method(index).map_or("?", |method| method.name)
    }
}

impl fmt::Debug for ActorEntry {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("ActorEntry")
            .field("name", &self.name)
            .field("methods", &self.methods)
            .finish()
    }
}

impl fmt::Debug for MethodEntry {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let params = self.params.iter().map(|param| param.name);
        write!(f, "{}(", self.name)?;
        f.debug_list().entries(params).finish()?;
        f.write_str(")")
    }
}
