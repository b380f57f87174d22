//! Stubs for blocks with mistakes: an actor that compiles, so that code which uses the actor causes no further errors.

use proc_macro2::TokenStream;
use quote::{format_ident, quote};
use syn::Error;

use crate::entry::args;
use crate::parse::Parsed;

/// Generates the errors, and an implementation of `Actor` whose functions are never called.
pub(crate) fn stub(parsed: &Parsed, error: &Error) -> TokenStream {
    let (name, handle) = (&parsed.name, format_ident!("{}Handle", parsed.name));
    let args = args(parsed);
    let mistakes = error.to_compile_error();
    quote! {
        #mistakes

        impl ::selvedge::Actor for #name {
            type Args = #args;
            type Handle = #handle;
            const NAME: &'static str = "";

            fn entry() -> &'static ::selvedge::__private::ActorEntry {
                ::std::unreachable!()
            }

            fn create(_: Self::Args) -> ::std::result::Result<Self, ::selvedge::__private::BoxError> {
                ::std::unreachable!()
            }

            fn handle(_: ::selvedge::ActorRef) -> Self::Handle {
                ::std::unreachable!()
            }
        }
    }
}
