//! The attribute that makes an ordinary `impl` block an actor.
//!
//! `parse` reads the block, `edge_type` decides what travels for each parameter, `handle` writes what users call,
//! `entry` writes what the runtime calls. `stub` stands in for that beside a mistake.

mod edge_type;
mod entry;
mod handle;
mod parse;
mod stub;

use proc_macro::TokenStream;
use proc_macro2::TokenStream as TokenStream2;
use quote::quote;
use syn::{Error, ItemImpl};

/// Makes the type of an `impl` block an actor.
///
/// The block stays what it is: plain Rust, to be tested like any other. Beside it stand `TypeHandle`, whose methods
/// bind tasks into graphs, and `TypeHandle::call`, whose methods call the actor at once.
///
/// - `pub fn new(..) -> Self` or `-> Result<Self, E>` is the constructor; its arguments are those of `Runtime::spawn`.
/// - Every `pub fn` with `&mut self` or `&self` is an operation. Other functions are left alone.
/// - A parameter `T` or `&T` takes an `Edge<T>`, `&str` an `Edge<String>`, `&[T]` an `Edge<Vec<T>>`. References are
///   views: nothing is copied for them.
/// - A parameter marked `#[constant]` takes a plain value when the task is bound.
/// - `-> Result<T, E>` gives an `Edge<T>`; an `Err` is the error of that execution. `async fn` is driven on the
///   actor's own thread, and dropped where it awaits when its execution is dropped or its graph ends.
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
    let parsed = if attributes.is_empty() {
        parse::parse(&block)
    } else {
        Err(Error::new_spanned(attributes, "`#[actor]` takes no arguments"))
    };
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
