//! The actor's entry: the functions that the runtime calls, found by name in every process of the program.
//!
//! `function` generates the functions of each operation, and `overlap` those of an operation that may overlap with others.
//! `argument` passes them their arguments, `table` lists them, and `constructor` generates the functions that build the
//! actor. `error` tells the codecs of their errors. This file generates the rest: the code that all operations
//! share, the implementation of `Actor`, and the registration.

pub(crate) mod argument;
mod constructor;
pub(crate) mod error;
mod function;
mod overlap;
mod table;

use proc_macro2::TokenStream;
use quote::quote;
use syn::{Generics, Type};

use crate::arguments::Arguments;
use crate::edge_type::probes;
use crate::generics::where_clause;
use crate::parse::{ActorType, Operation, Parsed};

/// The actor of which generated functions speak.
pub(crate) struct Site<'a> {
    /// The type of the actor.
    pub(crate) actor: TokenStream,
    /// The path of its methods: `<Tok>`, or `<A as Op>`.
    pub(crate) path: TokenStream,
    /// The parameters of the functions.
    pub(crate) generics: &'a Generics,
}

impl Site<'_> {
    /// Generates the expression that notes a change of the actor's state. A probe knows whether a type without parameters
    /// has checkpoints; for other types the state itself knows it.
    pub(crate) fn changed(&self) -> TokenStream {
        let actor = &self.actor;
        if self.generics.params.is_empty() {
            quote!((&::selvedge::__private::TypeProbe::<#actor>::of()).changed(actor))
        } else {
            quote!(actor.changed())
        }
    }
}

impl<'a> Site<'a> {
    /// The site of a block that has no trait.
    pub(crate) fn of(actor: &'a ActorType) -> Self {
        let ty = &actor.ty;
        Site {
            actor: quote!(#ty),
            path: quote!(<#ty>),
            generics: &actor.generics,
        }
    }
}

/// Generates the entry, its functions, and its registration. `entry_of` returns the expression of the entry of a type.
pub(crate) fn entry(
    parsed: &Parsed,
    site: &Site<'_>,
    arguments: &Arguments,
    entry_of: impl Fn(TokenStream) -> TokenStream,
) -> TokenStream {
    let operations = &parsed.methods.operations;
    let (methods, constructors) = (methods(operations, site), constructor::constructors(parsed, site));
    let concurrency = arguments.concurrency.unwrap_or(1);
    let (record, implementation) = (record(parsed, site, concurrency), implementation(parsed, site));
    let ty = &site.actor;
    let registrations = registrations(&parsed.actor, &arguments.instances, |instance| {
        let entry = entry_of(instance.map_or_else(|| ty.clone(), |instance| quote!(#instance)));
        quote! {
            #[::selvedge::__private::linkme::distributed_slice(::selvedge::__private::ACTORS)]
            #[linkme(crate = ::selvedge::__private::linkme)]
            static __SELVEDGE_REGISTERED: fn() -> &'static ::selvedge::__private::ActorEntry = #entry;
        }
    });
    hidden(quote! {
        #methods

        #constructors

        #record

        #implementation

        #registrations
    })
}

/// Generates the function that returns the entry of a type.
pub(crate) fn own_entry(actor: TokenStream) -> TokenStream {
    quote!(<#actor as ::selvedge::Actor>::entry)
}

/// Puts generated items where they clash with no other, with the traits that they need in scope.
pub(crate) fn hidden(items: TokenStream) -> TokenStream {
    let probes = probes();
    quote! {
        #[allow(deprecated, clippy::needless_borrow, clippy::multiple_bound_locations)]
        const _: () = {
            // Only traits are imported, as `_`, for their methods. Everything else has a full path, so that no
            // user-defined name can take its place.
            #[allow(unused_imports)]
            use ::selvedge::__private::{
                OpaqueError as _, PinnedState as _, PlainResult as _, SavedType as _, SendState as _, TupleResult as _,
                TypedError as _, UnsavedType as _, WireTupleResult as _,
            };
            #probes

            #items
        };
    }
}

/// Generates the functions of operations, and the table that lists them.
pub(crate) fn methods(operations: &[Operation], site: &Site<'_>) -> TokenStream {
    let functions = operations
        .iter()
        .enumerate()
        .map(|(index, operation)| function::functions(index, operation, site));
    let table = table::table(operations, site);
    quote! {
        #(#functions)*

        #table
    }
}

/// Generates the expression of the table of methods.
pub(crate) fn method_table(site: &Site<'_>) -> TokenStream {
    let (_, arguments, _) = site.generics.split_for_impl();
    quote!(<__SelvedgeMethods #arguments as ::selvedge::__private::MethodTable>::METHODS)
}

/// Generates the place of the attribute in the source.
pub(crate) fn place() -> TokenStream {
    quote!(::std::concat!(
        ::std::file!(),
        ":",
        ::std::line!(),
        ":",
        ::std::column!()
    ))
}

/// Generates a registration for each named instance, or one for a type without parameters. The function returns the
/// registration of an instance; `None` stands for the type without parameters.
pub(crate) fn registrations(
    actor: &ActorType,
    instances: &[Type],
    registration: impl Fn(Option<&Type>) -> TokenStream,
) -> TokenStream {
    if !actor.is_generic() {
        return registration(None);
    }
    let registered = instances.iter().map(|instance| registration(Some(instance)));
    quote!(#(const _: () = { #registered };)*)
}

/// Generates the function that returns the entry. The entry of a type without parameters is a static.
fn record(parsed: &Parsed, site: &Site<'_>, concurrency: u32) -> TokenStream {
    let (actor, ty) = (&parsed.actor, &site.actor);
    let (text, place, methods) = (actor.name.to_string(), place(), method_table(site));
    let (parameters, ..) = site.generics.split_for_impl();
    let bounds = where_clause(site.generics, &bounds(parsed));
    let instance = if actor.is_generic() {
        quote!(::std::option::Option::Some(|| ::std::any::type_name::<#ty>()))
    } else {
        quote!(::std::option::Option::None)
    };
    let (_, arguments, _) = site.generics.split_for_impl();
    let constructors = quote!(<__SelvedgeConstructors #arguments as ::selvedge::__private::ConstructorTable<#ty>>::CONSTRUCTORS);
    let entry = quote! {
        ::selvedge::__private::ActorEntry {
            name: ::std::concat!(::std::module_path!(), "::", #text),
            instance: #instance,
            id: ::std::any::TypeId::of::<#ty>(),
            place: #place,
            checkpoint: || (&::selvedge::__private::TypeProbe::<#ty>::of()).checkpoint(),
            is_pinned: || (&::selvedge::__private::TypeProbe::<#ty>::of()).is_pinned(),
            constructors: #constructors,
            concurrency: #concurrency,
            methods: #methods,
        }
    };
    let body = if actor.has_bounds() {
        quote!(const { &#entry })
    } else {
        quote! {
            static ENTRY: ::selvedge::__private::ActorEntry = #entry;
            &ENTRY
        }
    };
    quote! {
        fn __selvedge_entry #parameters() -> &'static ::selvedge::__private::ActorEntry #bounds {
            #body
        }
    }
}

/// Generates the bounds on the operations of a generic actor; see `bounds`.
pub(crate) fn operation_bounds(parsed: &Parsed) -> TokenStream {
    if parsed.actor.has_bounds() {
        table::travel_all(&parsed.methods.operations)
    } else {
        TokenStream::new()
    }
}

/// Generates the bounds of a generic actor: what its instances' arguments must be. A type without parameters has none,
/// because its own types are checked where they are used.
fn bounds(parsed: &Parsed) -> TokenStream {
    let mut bounds = operation_bounds(parsed);
    if parsed.actor.has_bounds() {
        bounds.extend(constructor::bounds(parsed));
    }
    bounds
}

/// Generates the actor's implementation of `Actor`.
fn implementation(parsed: &Parsed, site: &Site<'_>) -> TokenStream {
    let actor = &parsed.actor;
    let (ty, text, handle) = (&actor.ty, actor.name.to_string(), actor.sibling("Handle"));
    let args = args(parsed);
    let (parameters, arguments, _) = site.generics.split_for_impl();
    let turbofish = arguments.as_turbofish();
    let bounds = where_clause(site.generics, &bounds(parsed));
    quote! {
        impl #parameters ::selvedge::Actor for #ty #bounds {
            type Args = #args;
            type Handle = #handle;
            const NAME: &'static str = ::std::concat!(::std::module_path!(), "::", #text);

            fn entry() -> &'static ::selvedge::__private::ActorEntry {
                __selvedge_entry #turbofish()
            }

            fn construction(args: Self::Args) -> ::selvedge::Construction<Self, Self::Args> {
                <__SelvedgeConstructors #arguments as ::selvedge::__private::ConstructorTable<#ty>>::construction(args)
            }

            fn into_actor_state(self) -> ::selvedge::__private::ActorState {
                (&::selvedge::__private::TypeProbe::<#ty>::of()).state(self)
            }

            fn handle(actor: ::selvedge::ActorRef) -> Self::Handle {
                <#handle>::__selvedge_of(actor)
            }
        }
    }
}

/// Generates the type of the arguments of `new`.
fn args(parsed: &Parsed) -> TokenStream {
    match parsed.constructors.first() {
        Some(new) if new.name == "new" => new.args(),
        _ => quote!(::selvedge::__private::NoConstructor),
    }
}
