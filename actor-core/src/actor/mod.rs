//! Actor types, described by plain data: a constructor and methods.
//!
//! `#[actor]` generates these items from an `impl` block; they can also be written by hand. The functions in an
//! [`ActorEntry`] know the types of their actor, and the callers of the functions do not: arguments are passed
//! in a [`Frame`], or as a tuple in [`Arguments`], and the actor is passed as an [`ActorState`].

pub(crate) mod actor_type;
pub(crate) mod arguments;
pub(crate) mod checkpoint;
pub(crate) mod construction;
pub(crate) mod error_probe;
pub(crate) mod extension;
pub(crate) mod list;
pub(crate) mod parts;
pub(crate) mod probe;
pub(crate) mod registry;
pub(crate) mod sharing;
pub(crate) mod state_probe;
pub(crate) mod task_probe;

use std::any::TypeId;
use std::fmt;

use selvedge_channels::PayloadType;

use crate::actor::arguments::{Arguments, Returned};
use crate::actor::checkpoint::CheckpointEntry;
use crate::actor::list::ListLevel;
use crate::actor::sharing::Sharing;
use crate::cell::async_driver::AsyncDriver;
use crate::cell::frame::Frame;
use crate::cell::state::ActorState;
use crate::error_codec::ErrorCodec;
use crate::failure::Failure;

/// Decodes the arguments and calls a constructor; the driver runs the future of an async one.
pub type Create = fn(&[u8], &AsyncDriver) -> Result<ActorState, Failure>;

/// Runs a method inside a program, from the values of its arguments to the destinations of its result.
pub type Compute = fn(&mut ActorState, &mut Frame<'_>) -> Result<(), Box<Failure>>;

/// The data that the runtime has about an actor type.
pub struct ActorEntry {
    /// The path of the type: its module and its name there. Types inside functions, and types of two versions of one
    /// crate, can have the same path.
    pub name: &'static str,
    /// The full name of an instance of a generic type, such as `sums::Sum<u32>`. `None` for other types.
    pub instance: Option<fn() -> &'static str>,
    /// The type itself.
    pub id: TypeId,
    /// The place of the type in the source, as `file:line:column`, which distinguishes types of the same name. May be
    /// empty.
    pub place: &'static str,
    /// Whether values of the type must stay on the thread that built them: the type is not `Send`.
    pub is_pinned: fn() -> bool,
    /// The functions that save and restore the state; `None` if the type is not [`Checkpoint`](crate::Checkpoint).
    pub checkpoint: fn() -> Option<&'static CheckpointEntry>,
    /// The constructors. A constructor is identified by its index here; `new` has index 0.
    pub constructors: &'static [ConstructorEntry],
    /// The number of async methods that may be in flight at a time, unless the actor is spawned with another one. 0 and
    /// 1 mean one after the other.
    pub concurrency: u32,
    /// The methods of the type's main block. A method is identified by its index here.
    pub methods: &'static [MethodEntry],
}

/// One constructor of an actor type.
pub struct ConstructorEntry {
    /// The constructor's name in the source.
    pub name: &'static str,
    /// The codec of the constructor's errors, if serde knows their type.
    pub error: fn() -> Option<&'static ErrorCodec>,
    /// Decodes the arguments and builds a value.
    pub create: Create,
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
    /// The entry of no actor.
    pub(crate) const NONE: ActorEntry = ActorEntry {
        name: "",
        instance: None,
        id: TypeId::of::<()>(),
        place: "",
        checkpoint: || None,
        is_pinned: || false,
        constructors: &[],
        concurrency: 1,
        methods: &[],
    };

    /// The full name of the type, with the arguments of a generic one.
    #[must_use]
    pub fn full_name(&self) -> &'static str {
        self.instance.map_or(self.name, |name| name())
    }

    /// The constructor with this index.
    #[must_use]
    pub fn constructor(&self, index: u16) -> Option<&'static ConstructorEntry> {
        self.constructors.get(usize::from(index))
    }

    /// The method with this index.
    #[must_use]
    #[inline]
    pub fn method(&self, index: u16) -> Option<&'static MethodEntry> {
        self.methods.get(usize::from(index))
    }
}

impl fmt::Debug for ActorEntry {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("ActorEntry")
            .field("name", &self.full_name())
            .field("methods", &self.methods)
            .finish()
    }
}

impl fmt::Debug for ConstructorEntry {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.name)
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
