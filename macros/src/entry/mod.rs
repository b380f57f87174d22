//! The actor's entry: the functions that the runtime calls, found by name in every process of the program.
//!
//! `function` generates the functions of each operation, and `overlap` those of an operation that may overlap with
//! others; `argument` passes them their arguments, and `table` lists them. This file generates the rest: the code that all operations share, the implementation of `Actor`, and the
//! registration.

mod argument;
mod function;
mod overlap;
mod table;

use proc_macro2::{Ident, TokenStream};
use quote::{format_ident, quote};

use crate::edge_type::{probes, traits};
use crate::parse::{Constructor, Parsed};

/// Generates the entry, its functions, and its registration.
pub(crate) fn entry(parsed: &Parsed) -> TokenStream {
    let name = &parsed.name;
    let create = create(name);
    let functions = parsed
        .operations
        .iter()
        .enumerate()
        .map(|(index, operation)| function::functions(index, operation, name));
    let table = table::table(&parsed.operations, name);
    let record = record(parsed);
    let implementation = implementation(parsed);
    let registration = registration(name);
    let probes = probes();
    quote! {
        #[allow(deprecated, clippy::needless_borrow)]
        const _: () = {
            // Only traits are imported, as `_`, for their methods. Everything else has a full path, so that no
            // user-defined name can take its place.
            #[allow(unused_imports)]
            use ::selvedge::__private::{OpaqueError as _, PlainResult as _, TupleResult as _, TypedError as _, WireTupleResult as _};
            #probes

            #create

            #(#functions)*

            #table

            #record

            #implementation

            #registration
        };
    }
}

/// Generates the function that creates the actor from encoded arguments.
fn create(name: &Ident) -> TokenStream {
    quote! {
        fn __selvedge_create(bytes: &[u8]) -> ::std::result::Result<::selvedge::__private::ActorState, ::selvedge::__private::BoxError> {
            let args = (<#name as ::selvedge::Actor>::arguments().codec()?.decode)(bytes)?;
            ::std::result::Result::Ok(::selvedge::__private::ActorState::new(<#name as ::selvedge::Actor>::create(args)?))
        }
    }
}

/// Generates the static that holds the entry.
fn record(parsed: &Parsed) -> TokenStream {
    let (text, concurrency) = (parsed.name.to_string(), parsed.concurrency);
    quote! {
        static __SELVEDGE_ENTRY: ::selvedge::__private::ActorEntry = ::selvedge::__private::ActorEntry {
            name: ::std::concat!(::std::module_path!(), "::", #text),
            place: ::std::concat!(::std::file!(), ":", ::std::line!(), ":", ::std::column!()),
            create: __selvedge_create,
            concurrency: #concurrency,
            methods: <__SelvedgeMethods as ::selvedge::__private::MethodTable>::METHODS,
        };
    }
}

/// Generates the actor's implementation of `Actor`.
fn implementation(parsed: &Parsed) -> TokenStream {
    let (name, text) = (&parsed.name, parsed.name.to_string());
    let handle = format_ident!("{name}Handle");
    let (args, created) = (args(parsed), created(name, parsed.constructor.as_ref()));
    let of_args = traits(&args);
    quote! {
        impl ::selvedge::Actor for #name {
            type Args = #args;
            type Handle = #handle;
            const NAME: &'static str = ::std::concat!(::std::module_path!(), "::", #text);

            fn entry() -> &'static ::selvedge::__private::ActorEntry {
                &__SELVEDGE_ENTRY
            }

            fn arguments() -> &'static ::selvedge::__private::Traits<Self::Args> {
                #of_args
            }

            fn create(args: Self::Args) -> ::std::result::Result<Self, ::selvedge::__private::BoxError> {
                #created
            }

            fn handle(actor: ::selvedge::ActorRef) -> Self::Handle {
                #handle { actor }
            }
        }
    }
}

/// Generates the type of the constructor's arguments.
pub(crate) fn args(parsed: &Parsed) -> TokenStream {
    match &parsed.constructor {
        None => quote!(::selvedge::__private::NoConstructor),
        Some(constructor) => {
            let args = constructor.params.iter().map(|param| &param.edge);
            quote!((#(#args,)*))
        }
    }
}

/// Generates the constructor's call with `args`, as an expression of type `Result<Self, BoxError>`.
fn created(name: &Ident, constructor: Option<&Constructor>) -> TokenStream {
    let Some(constructor) = constructor else {
        return quote!(match args {});
    };
    let (names, passed) = (
        argument::variables(&constructor.params),
        argument::passed(&constructor.params),
    );
    let created = quote!(#name::new(#(#passed),*));
    let created = if constructor.fallible {
        quote!(#created.map_err(::std::convert::Into::into))
    } else {
        quote!(::std::result::Result::Ok(#created))
    };
    quote! {
        let (#(#names,)*) = args;
        #created
    }
}

/// Generates the static that lists the entry among the actors of the program.
fn registration(name: &Ident) -> TokenStream {
    quote! {
        #[::selvedge::__private::linkme::distributed_slice(::selvedge::__private::ACTORS)]
        #[linkme(crate = ::selvedge::__private::linkme)]
        static __SELVEDGE_REGISTERED: fn() -> &'static ::selvedge::__private::ActorEntry = <#name as ::selvedge::Actor>::entry;
    }
}
