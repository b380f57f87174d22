//! The attribute that makes an ordinary `impl` block an actor.
//!
//! `parse` reads the block, `edge_type` decides the type that travels for each parameter, `handle` generates the types
//! that users call, and `entry` generates the functions that the runtime calls. If the block has a mistake, `stub`
//! takes the place of `entry`.

mod arguments;
mod edge_type;
mod entry;
mod handle;
mod parse;
mod stub;

use proc_macro::TokenStream;
use proc_macro2::TokenStream as TokenStream2;
use quote::quote;
use syn::ItemImpl;

use crate::arguments::Arguments;

/// Makes the type of an `impl` block an actor.
///
/// The block itself stays plain Rust and can be tested like any other. The attribute adds `TypeHandle`, whose methods
/// bind tasks into graphs, and `TypeHandle::call`, which returns an object whose methods call the actor at once.
///
/// - `pub fn new(..) -> Self` or `-> Result<Self, E>` is the constructor; its arguments are those of `Runtime::spawn`.
/// - `#[actor(local)]` needs no constructor: `Runtime::spawn_with` builds the actor by a closure. It lives in the process
///   that spawns it, inline or on a thread, and may hold what serde does not know: a `Sender`, a file, a loaded model.
/// - Every `pub fn` with `&mut self` or `&self` is an operation. Other functions are left unchanged.
/// - A parameter of type `T` or `&T` takes an `Edge<T>`, one of type `&str` an `Edge<String>`, and one of type `&[T]`
///   an `Edge<Vec<T>>`. A reference is a view of the value: nothing is copied for it.
/// - A parameter marked `#[constant]` takes a plain value when the task is bound.
/// - An operation that returns `Result<T, E>` gives an `Edge<T>`; an `Err` is the error of that execution.
/// - An `async fn` is driven on the actor's own thread. It is dropped at an await point when its execution is dropped
///   or its graph ends.
#[proc_macro_attribute]
pub fn actor(attributes: TokenStream, item: TokenStream) -> TokenStream {
    expand(attributes.into(), item.into()).into()
}

fn expand(attributes: TokenStream2, item: TokenStream2) -> TokenStream2 {
    let mut block: ItemImpl = match syn::parse2(item.clone()) {
        Ok(block) => block,
        Err(error) => {
            let error = error.into_compile_error();
            return quote!(#item #error);
        }
    };
    let arguments = syn::parse2::<Arguments>(attributes);
    let parsed = arguments.and_then(|arguments| parse::parse(&block, arguments.local));
    parse::strip(&mut block);
    match parsed {
        Ok(parsed) => {
            let handle = handle::handle(&parsed);
            let rest = match &parsed.error {
                None => entry::entry(&parsed),
                Some(error) => stub::stub(&parsed, error),
            };
            quote!(#block #handle #rest)
        }
        Err(error) => {
            let error = error.into_compile_error();
            quote!(#block #error)
        }
    }
}
