//! Traits of actors: the handle of a trait, and the actors that provide it.
//!
//! A trait's handle stands for any actor whose type implements the trait, so a `Vec` of handles may hold different actors.
//! The operations are generated once, at the trait, for every type that implements it; an `impl` block registers its type
//! and converts its handle.

use proc_macro2::TokenStream;
use quote::{ToTokens, format_ident, quote};
use syn::{Error, Generics, Ident, ItemImpl, ItemTrait, Path, Type, parse_quote};

use crate::entry::{Site, hidden, methods, registrations};
use crate::generics::where_clause;
use crate::handle::{Reach, binds, calling};
use crate::more::{extension, register};
use crate::parse::{ActorType, Operations, sibling};

/// Generates the handle of a trait, the type of its calls, and the functions that run its operations. A trait with a
/// mistake gets no functions.
pub(crate) fn declare(item: &ItemTrait, operations: &Operations, mistake: Option<&Error>) -> TokenStream {
    let name = &item.ident;
    let (handle, calls) = (format_ident!("{name}Handle"), format_ident!("{name}Call"));
    let reach = Reach {
        actor: quote!((&self.actor)),
        extension: Some(quote!(self.operations)),
    };
    let (binds, calling) = (binds(operations, &reach), calling(operations, &reach));
    let about =
        format!(" A handle to an actor that provides [`{name}`]: its methods bind tasks into a graph.");
    let about_calls = format!(" Ordinary calls of an actor that provides [`{name}`], outside any graph.");
    let (held, held_calls) = (holder(&handle, &about), holder(&calls, &about_calls));
    let functions = functions(item, operations, mistake);
    quote! {
        #held

        #[allow(missing_docs, unreachable_pub, private_interfaces, dead_code, deprecated, clippy::ptr_arg, clippy::too_many_arguments)]
        impl #handle {
            #binds

            /// Ordinary calls outside any graph: the same methods, with values in place of edges.
            pub fn call(&self) -> #calls {
                #calls { actor: ::std::clone::Clone::clone(&self.actor), operations: self.operations }
            }

            /// The actor behind this handle.
            pub fn actor(&self) -> &::selvedge::ActorRef {
                &self.actor
            }
        }

        #held_calls

        #[allow(missing_docs, unreachable_pub, private_interfaces, dead_code, deprecated, clippy::too_many_arguments)]
        impl #calls {
            #calling
        }

        #functions
    }
}

/// Generates a type that holds a reference to an actor, and the actor's operations of the trait.
fn holder(name: &Ident, about: &str) -> TokenStream {
    quote! {
        #[doc = #about]
        #[allow(missing_docs, unreachable_pub, dead_code)]
        #[derive(Clone, Debug)]
        pub struct #name {
            actor: ::selvedge::ActorRef,
            operations: &'static ::selvedge::__private::Extension,
        }
    }
}

/// Generates the functions that run the operations of any type with the trait, and the handle's functions that find them.
fn functions(item: &ItemTrait, operations: &Operations, mistake: Option<&Error>) -> TokenStream {
    let name = &item.ident;
    let handle = format_ident!("{name}Handle");
    let (functions, found) = match mistake {
        Some(_) => (TokenStream::new(), quote!(::std::unreachable!())),
        None => {
            let mut generics = Generics::default();
            generics
                .params
                .push(parse_quote!(__SelvedgeActor: #name + 'static));
            let site = Site {
                actor: quote!(__SelvedgeActor),
                path: quote!(<__SelvedgeActor as #name>),
                generics: &generics,
            };
            let (methods, extension) = (
                methods(&operations.operations, &site),
                extension(&site, &TokenStream::new()),
            );
            (
                quote!(#methods #extension),
                quote!(__selvedge_extension::<__SelvedgeActor>()),
            )
        }
    };
    let mistakes = mistake.map(Error::to_compile_error);
    let bound = if mistake.is_none() {
        quote!(#name +)
    } else {
        TokenStream::new()
    };
    let hidden = hidden(quote! {
        #functions

        #[allow(unreachable_pub, private_bounds, dead_code)]
        impl #handle {
            #[doc(hidden)]
            pub fn __selvedge_operations<__SelvedgeActor: #bound 'static>() -> &'static ::selvedge::__private::Extension {
                #found
            }

            #[doc(hidden)]
            pub fn __selvedge_of<__SelvedgeActor: #bound 'static>(actor: ::selvedge::ActorRef) -> Self {
                Self { actor, operations: Self::__selvedge_operations::<__SelvedgeActor>() }
            }
        }
    });
    quote! {
        #mistakes

        #hidden
    }
}

/// Generates the conversions from the handle of an actor to the handle of a trait that the actor provides, and the
/// registration.
pub(crate) fn provide(block: &ItemImpl, of: &Path, actor: &ActorType, instances: &[Type]) -> TokenStream {
    let (ty, provider, provided) = (&actor.ty, actor.sibling("Handle"), sibling(of, "Handle"));
    let as_trait = format_ident!("as_{}", snake(&provided_name(of)));
    let about = format!(" A handle of the trait `{}` to this actor.", provided_name(of));
    let (parameters, arguments, _) = actor.generics.split_for_impl();
    let declared = crate::generics::declared(&actor.generics);
    let bounds = where_clause(&actor.generics, &quote!(#ty: #of,));
    let registered = registrations(actor, instances, |instance| {
        let instance = instance.map_or_else(|| ty.clone(), |instance| instance.to_token_stream());
        register(quote!(__SelvedgeProvided::__selvedge_operations::<#instance>))
    });
    let cfgs = block
        .attrs
        .iter()
        .filter(|attribute| attribute.path().is_ident("cfg"));
    quote! {
        #(#cfgs)*
        #[allow(clippy::multiple_bound_locations)]
        const _: () = {
            // A handle that does not exist is one error, here.
            type __SelvedgeProvided = #provided;
            type __SelvedgeProvider #declared = #provider;

            impl #parameters __SelvedgeProvider #arguments #bounds {
                #[doc = #about]
                #[allow(unreachable_pub, private_interfaces, dead_code)]
                pub fn #as_trait(&self) -> __SelvedgeProvided {
                    __SelvedgeProvided::__selvedge_of::<#ty>(::std::clone::Clone::clone(self.__selvedge_actor()))
                }
            }

            impl #parameters ::std::convert::From<&__SelvedgeProvider #arguments> for __SelvedgeProvided #bounds {
                fn from(handle: &__SelvedgeProvider #arguments) -> Self {
                    handle.#as_trait()
                }
            }

            impl #parameters ::std::convert::From<__SelvedgeProvider #arguments> for __SelvedgeProvided #bounds {
                fn from(handle: __SelvedgeProvider #arguments) -> Self {
                    handle.#as_trait()
                }
            }

            #registered
        };
    }
}

fn provided_name(of: &Path) -> String {
    of.segments
        .last()
        .map(|last| last.ident.to_string())
        .unwrap_or_default()
}

/// Returns a name in snake case: `PartOfSpeech` gives `part_of_speech`.
fn snake(name: &str) -> String {
    let mut snake = String::new();
    for (i, c) in name.char_indices() {
        if c.is_uppercase() && i > 0 {
            snake.push('_');
        }
        snake.extend(c.to_lowercase());
    }
    snake
}
