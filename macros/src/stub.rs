//! Stubs for blocks with mistakes: an actor that compiles, so that code which uses the actor causes no further errors.

use proc_macro2::TokenStream;
use quote::quote;
use syn::Error;

use crate::generics::where_clause;
use crate::parse::{Constructor, Parsed};

/// Generates the errors, and an implementation of `Actor` whose functions are never called.
pub(crate) fn stub(parsed: &Parsed, error: &Error) -> TokenStream {
    let actor = &parsed.actor;
    let (ty, handle) = (&actor.ty, actor.sibling("Handle"));
    let args = parsed
        .constructors
        .first()
        .map_or_else(|| quote!(()), Constructor::args);
    let (parameters, ..) = actor.generics.split_for_impl();
    let bounds = where_clause(&actor.generics, &TokenStream::new());
    let mistakes = error.to_compile_error();
    quote! {
        #mistakes

        impl #parameters ::selvedge::Actor for #ty #bounds {
            type Args = #args;
            type Handle = #handle;
            const NAME: &'static str = "";

            fn entry() -> &'static ::selvedge::__private::ActorEntry {
                ::std::unreachable!()
            }

            fn construction(_: Self::Args) -> ::selvedge::Construction<Self, Self::Args> {
                ::std::unreachable!()
            }

            fn into_actor_state(self) -> ::selvedge::__private::ActorState {
                ::std::unreachable!()
            }

            fn handle(_: ::selvedge::ActorRef) -> Self::Handle {
                ::std::unreachable!()
            }
        }
    }
}
