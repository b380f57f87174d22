//! The macros of selvedge: `#[actor]` makes the type of an `impl` block an actor, `#[remote]` makes a function one that other processes can
//! call, `#[worker_init]` has a function run once in each process, and `remote_fn!` makes a remote function a value.
//!
//! Of actors, `arguments` reads the attribute and `parse` the block; `edge_type` decides the type that travels for each parameter,
//! `handle` generates the types that users call, and `entry` generates the functions that the runtime calls. `more` does this
//! for a further block of an actor, and `provided` for traits. `remote` has everything of remote functions. If a block has a mistake, `stub` takes the place of `entry`.

mod arguments;
mod edge_type;
mod entry;
mod generics;
mod handle;
mod more;
mod parse;
mod provided;
mod remote;
mod seen;
mod stub;

use proc_macro::TokenStream;
use proc_macro2::TokenStream as TokenStream2;
use quote::quote;
use syn::{Error, ImplItem, Item, ItemImpl, ItemTrait, Path, TraitItem};

use crate::arguments::Arguments;
use crate::entry::Site;
use crate::parse::Constructors;

/// Makes the type of an `impl` block an actor.
///
/// The block itself stays plain Rust and can be tested like any other. The attribute adds `TypeHandle`, whose methods
/// bind tasks into graphs, and `TypeHandle::call`, which returns an object whose methods call the actor at once. The guide's
/// page on actors shows each form with a program.
///
/// - Every `pub fn` with `&mut self` or `&self` is an operation.
/// - Every `pub fn` that returns `Self` or `Result<Self, E>` is a constructor, and may be `async`. The arguments of `new` are
///   those of `Runtime::spawn`; `TypeHandle::name(..)` names any constructor for `Runtime::spawn_from`. Other functions are
///   left unchanged.
/// - `#[actor(local)]` needs no constructor: `Runtime::spawn_with` builds the actor by a closure. It lives in the process
///   that spawns it, inline or on a thread, and may hold what serde does not know: a `Sender`, a file, a loaded model.
/// - `#[actor(more)]` marks each further block of an actor. Its operations are methods of the same handle.
/// - `#[actor] trait Op` adds `OpHandle`, and `#[actor] impl Op for Type` lets `TypeHandle::as_op` and `From` convert to it.
/// - A block may be generic; `TypeHandle` then has its parameters. `#[actor(for(Type<u32>))]` names the instances that worker
///   processes can find.
/// - The type need not be `Send`. If it is not, the actor stays on the thread that built it.
/// - A parameter of type `T` or `&T` takes an `Edge<T>`, one of type `&str` an `Edge<String>`, and one of type `&[T]`
///   an `Edge<Vec<T>>`. A reference is a view of the value: nothing is copied for it. A `Cow<'_, T>` takes the edge of `&T`.
/// - A parameter marked `#[constant]` takes a plain value when the task is bound.
/// - An operation that returns `Result<T, E>` gives an `Edge<T>`; an `Err` is the error of that execution.
/// - An `async fn` is driven on the actor's own thread. It is dropped at an await point when its execution or call is
///   dropped, or its graph ends.
/// - `#[actor(concurrency = 8)]` lets up to eight `async fn(&self, ..)` be in flight at a time, of several executions of a
///   graph and of ordinary calls; results keep their order. A method with `&mut self` waits until none is in flight, so
///   the state needs no lock. `Spawn::concurrency` sets another number for one actor. By default, and for an inline
///   actor, one method runs after the other.
#[proc_macro_attribute]
pub fn actor(attributes: TokenStream, item: TokenStream) -> TokenStream {
    expand(attributes.into(), item.into()).into()
}

/// Makes a function one that other processes can call.
///
/// The function stays as it is. Beside it stands a type of its name, and `name::remote(..)` describes a call, which
/// `Runtime::call`, `cast`, `submit`, `keep`, `everywhere` and `scope` take, and `Worker::keep` too. A process finds the function by its path and the text of its
/// signature. In a graph, `name::bind(..)` makes a call a task: the type is an actor without state, and `Runtime::spawn::<name>` gives
/// it another place than the thread that executes the graph.
///
/// - A parameter of type `T` takes a `T` or a `&T`, one of type `&T` too; `&str` takes a `&str` or a `String`, and `&[T]` a `&[T]`,
///   an array or a `Vec<T>`. Arguments are `Clone`, `Serialize` and `Deserialize`.
/// - A parameter `#[here] name: &T`, or `#[here] name: Arc<T>`, takes a `Ref<T>`. The call goes to the process where the value lives,
///   and the function borrows the value there, once it is made. `T` needs no serde.
/// - A parameter `#[global] name: &T`, or `#[global] name: Arc<T>`, takes a `Global<T>` (feature `parallel`): the function borrows the copy
///   of its process, which is fetched if it is not there.
/// - `#[remote(pure)]` says that the function gives the same value for the same arguments and may run again: a submitted call of it runs
///   again when its worker dies, up to 4 times, or `n` times with `#[remote(pure, retries = n)]`.
/// - `#[remote(cpus = n, gpus = n)]` says what a submitted call needs while it runs. By default that is one cpu, and nothing for an
///   `async fn`, which takes no `cpus`.
/// - A function that returns `Result<T, E>` gives a `T`; an `Err` is the error of the call, and keeps its type if serde
///   knows it.
/// - An `async fn` shares one thread of its process with the others. It is dropped at an await point when its call is dropped.
/// - A function that blocks gets a thread of its process; there are as many threads as the process has cores. While it waits
///   for another call, its place is free for others.
#[proc_macro_attribute]
pub fn remote(attributes: TokenStream, item: TokenStream) -> TokenStream {
    remote::attribute(attributes.into(), item.into(), true).into()
}

/// [`macro@remote`] for functions of the library itself, in crates that know no graphs: `name::bind` is missing.
#[doc(hidden)]
#[proc_macro_attribute]
pub fn remote_below_graphs(attributes: TokenStream, item: TokenStream) -> TokenStream {
    remote::attribute(attributes.into(), item.into(), false).into()
}

/// Runs a function once in each process, before its first remote function. If the function fails, no remote function runs
/// there.
#[proc_macro_attribute]
pub fn worker_init(attributes: TokenStream, item: TokenStream) -> TokenStream {
    remote::worker_init(attributes.into(), item.into()).into()
}

/// A remote function as a value: `remote_fn!(square)`, or a closure whose captures are listed with their types,
/// `remote_fn!([scale: f64] |i: u64| -> f64 { scale * i as f64 })`.
#[proc_macro]
pub fn remote_fn(input: TokenStream) -> TokenStream {
    remote::value(input.into()).into()
}

fn expand(attributes: TokenStream2, item: TokenStream2) -> TokenStream2 {
    let (arguments, mistake) = match syn::parse2::<Arguments>(attributes) {
        Ok(arguments) => (arguments, None),
        Err(error) => (Arguments::default(), Some(error)),
    };
    match syn::parse2(item.clone()) {
        Ok(Item::Impl(block)) => match block.trait_.clone() {
            Some((of, _)) => provided(block, &of, &arguments, mistake),
            None => inherent(block, &arguments, mistake),
        },
        Ok(Item::Trait(item)) => declared(item, mistake),
        Ok(other) => {
            let message = "`#[actor]` goes on an `impl` block or a trait";
            refused(
                &item,
                &edge_type::help(other, message, "write it above `impl Type`"),
            )
        }
        Err(error) => refused(&item, &error),
    }
}

/// Leaves an item as it is, with an error.
fn refused(item: &TokenStream2, error: &Error) -> TokenStream2 {
    let error = error.to_compile_error();
    quote!(#item #error)
}

/// Expands an `impl` block without a trait.
fn inherent(mut block: ItemImpl, arguments: &Arguments, mistake: Option<Error>) -> TokenStream2 {
    let wanted = if arguments.local || arguments.more {
        Constructors::None
    } else {
        Constructors::Some
    };
    let parsed = parse::parse(&block, wanted, mistake);
    strip(&mut block);
    let parsed = match parsed {
        Ok(parsed) => parsed,
        Err(error) => return refused(&quote!(#block), &error),
    };
    if arguments.more {
        let more = match &parsed.error {
            None => more::more(&parsed, &arguments.instances),
            Some(error) => error.to_compile_error(),
        };
        return quote!(#block #more);
    }
    let is_first = seen::note(&parsed.actor.name.to_string());
    if parsed.constructors.is_empty() && !arguments.local && !is_first {
        let name = &parsed.actor.name;
        let message = format!("actor `{name}` has an `#[actor]` block already, with its constructor");
        let error = edge_type::help(name, message, "write `#[actor(more)]` on each further block");
        return refused(&quote!(#block), &error);
    }
    let handle = handle::handle(&parsed);
    let rest = match &parsed.error {
        None => entry::entry(&parsed, &Site::of(&parsed.actor), arguments, entry::own_entry),
        Some(error) => stub::stub(&parsed, error),
    };
    quote!(#block #handle #rest)
}

/// Expands an `impl` block of a trait.
fn provided(mut block: ItemImpl, of: &Path, arguments: &Arguments, mistake: Option<Error>) -> TokenStream2 {
    let actor = parse::actor_type(&block);
    strip(&mut block);
    match (actor, mistake) {
        (Ok((actor, None)), None) => {
            let provide = provided::provide(&block, of, &actor, &arguments.instances);
            quote!(#block #provide)
        }
        (Ok((_, Some(error))) | Err(error), _) | (_, Some(error)) => refused(&quote!(#block), &error),
    }
}

/// Expands a trait.
fn declared(mut item: ItemTrait, mistake: Option<Error>) -> TokenStream2 {
    let (operations, mistake) = parse::parse_trait(&item, mistake);
    parse::strip(item.items.iter_mut().filter_map(|item| match item {
        TraitItem::Fn(function) => Some(&mut function.sig),
        _ => None,
    }));
    let declared = provided::declare(&item, &operations, mistake.as_ref());
    quote!(#item #declared)
}

/// Removes our attributes from the parameters of a block that has been read.
fn strip(block: &mut ItemImpl) {
    parse::strip(block.items.iter_mut().filter_map(|item| match item {
        ImplItem::Fn(function) => Some(&mut function.sig),
        _ => None,
    }));
}
