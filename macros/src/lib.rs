//! The attribute that makes an ordinary `impl` block an actor.
//!
//! `parse` reads the block, `edge_type` decides what travels for each parameter, `handle` writes what users call,
//! `entry` writes what the runtime calls.

mod edge_type;
mod entry;
mod handle;
mod parse;

use proc_macro::TokenStream;
use quote::quote;

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
///   actor's own thread, and dropped where it awaits when its graph has to end.
#[proc_macro_attribute]
pub fn actor(attributes: TokenStream, item: TokenStream) -> TokenStream {
    match expand(attributes.into(), item.into()) {
        Ok(tokens) => tokens.into(),
        Err(error) => error.into_compile_error().into(),
    }
}

fn expand(
    attributes: proc_macro2::TokenStream,
    item: proc_macro2::TokenStream,
) -> syn::Result<proc_macro2::TokenStream> {
    if !attributes.is_empty() {
        return Err(syn::Error::new_spanned(
            attributes,
            "`#[actor]` takes no arguments",
        ));
    }
    let parsed = parse::parse(syn::parse2(item)?)?;
    let (block, handle, entry) = (&parsed.block, handle::handle(&parsed), entry::entry(&parsed));
    Ok(quote!(#block #handle #entry))
}
