//! What an actor type is to the runtime: a constructor and methods, described by plain data.
//!
//! `#[actor]` generates these items from an `impl` block; anybody may write them by hand. An [`ActorEntry`] knows
//! the types of its actor, its users do not: arguments come as positions in an [`Invocation`], alone in a [`Hop`],
//! or as a tuple in [`Arguments`], and the functions in the entry know the type of the [`State`] they get.

use std::fmt;

use selvedge_channels::{PayloadType, Wire};

use crate::{
    ActorRef, Arguments, AsyncDriver, BoxError, Failure, Hop, Invocation, ListLevel, Returned, State,
};

/// Decodes the arguments and calls the constructor.
pub type Create = fn(&[u8]) -> Result<State, BoxError>;

/// Runs a method from where its one argument lies to where its result goes.
pub type ComputeHop = fn(&mut State, &mut Hop<'_>) -> Result<(), Box<Failure>>;

/// A type whose values live on a lane and are worked on by calls and by programs.
pub trait Actor: Sized + Send + 'static {
    /// The constructor's arguments, as a tuple. They are kept, encoded, to build the actor anew after a panic or
    /// after the death of its worker.
    type Args: Wire;

    /// What the user holds: one method per public method of the actor.
    type Handle: Clone;

    /// The type's name, as its entry has it: `concat!(module_path!(), "::", "Tok")`.
    const NAME: &'static str;

    /// The actor's description. The same one that is registered in [`ACTORS`](crate::ACTORS).
    fn entry() -> &'static ActorEntry;

    /// Builds a value.
    ///
    /// # Errors
    /// Whatever the user's constructor returns.
    fn create(args: Self::Args) -> Result<Self, BoxError>;

    /// Wraps a reference into the typed handle.
    fn handle(actor: ActorRef) -> Self::Handle;
}

/// Everything the runtime knows of an actor type.
pub struct ActorEntry {
    /// The type's name: its module and what it is called there. Types inside functions and two versions of one crate
    /// can have one name.
    pub name: &'static str,
    /// Where the type is written, as `file:line:column`, which tells types of one name apart. May be empty.
    pub place: &'static str,
    /// Decodes the constructor's arguments and builds a value.
    pub create: Create,
    /// The methods; a method is named by its index here.
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
    /// Runs the method inside a program: arguments from values, result into outlets.
    pub compute: fn(&mut State, &mut Invocation<'_>) -> Result<(), Box<Failure>>,
    /// The same for tasks that are no more than a hop; `None` where the method has not exactly one parameter, or is async.
    pub hop: Option<ComputeHop>,
    /// Runs the method for an ordinary call.
    pub call: fn(&mut State, Arguments, &AsyncDriver) -> Result<Returned, Failure>,
}

/// The methods of an actor type, as a trait: what all of them ask of their types is asked once, where the table is used.
pub trait MethodTable {
    /// The table.
    const METHODS: &'static [MethodEntry];
}

/// One parameter of a method.
pub struct ParamEntry {
    /// The parameter's name in the source.
    pub name: &'static str,
    /// The owned type that travels to it (`String` for a `&str`).
    pub payload: fn() -> PayloadType,
    /// What a list of edges is put together by, the outermost level first; empty for what is not written as a `Vec` or
    /// a slice.
    pub lists: fn() -> Vec<ListLevel>,
}

impl ActorEntry {
    /// The method with this index.
    #[must_use]
    #[inline]
    pub fn method(&self, index: u16) -> Option<&'static MethodEntry> {
        self.methods.get(usize::from(index))
    }

    /// The method's name, or `"?"` for an index the type does not have.
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
