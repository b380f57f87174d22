//! Stubs for blocks with mistakes: an actor that compiles, so that code which uses the actor causes no further errors.

use proc_macro2::TokenStream;
use quote::quote;
use syn::Error;

use crate::entry::args;
use crate::generics::where_clause;
use crate::parse::Parsed;

/// Generates the errors, and an implementation of `Actor` whose functions are never called.
pub(crate) fn stub(parsed: &Parsed, error: &Error) -> TokenStream {
    let actor = &parsed.actor;
    let (ty, handle, args) = (&actor.ty, actor.sibling("Handle"), args(parsed));
    let (parameters, ..) = actor.generics.split_for_impl();
    let bounds = if actor.is_generic() {
        quote!(#args: ::selvedge::Wire,)
    } else {
        TokenStream::new()
    };
    let bounds = where_clause(&actor.generics, &bounds);
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

            fn create(
                _: Self::Args,
                _: &::selvedge::__private::AsyncDriver,
            ) -> ::std::result::Result<Self, ::selvedge::__private::BoxError> {
                ::std::unreachable!()
            }

            fn state(self) -> ::selvedge::__private::ActorState {
                ::std::unreachable!()
            }

            fn handle(_: ::selvedge::ActorRef) -> Self::Handle {
                ::std::unreachable!()
            }
        }
    }
}
