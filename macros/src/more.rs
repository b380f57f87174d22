//! A further `impl` block of an actor: its operations are an extension of the actor's entry, and methods of the same
//! handle.

use proc_macro2::TokenStream;
use quote::quote;
use syn::Type;

use crate::entry::{Site, hidden, method_table, methods, operation_bounds, place, registrations};
use crate::generics::where_clause;
use crate::handle::{self, Reach};
use crate::parse::Parsed;

/// Generates the extension, the methods of the handle, and the registration.
pub(crate) fn more(parsed: &Parsed, instances: &[Type]) -> TokenStream {
    let (actor, site) = (&parsed.actor, Site::of(&parsed.actor));
    let (_, arguments, _) = site.generics.split_for_impl();
    let turbofish = arguments.as_turbofish();
    let reach = Reach {
        actor: quote!(self.__selvedge_actor()),
        extension: Some(quote!(__selvedge_extension #turbofish())),
    };
    let operations = &parsed.methods.operations;
    let (methods, extension) = (
        methods(operations, &site),
        extension(&site, &operation_bounds(parsed)),
    );
    let (import, imported) = actor.imported();
    let bound = handle::methods(&imported, &parsed.methods, &reach, &operation_bounds(parsed));
    let registered = registrations(actor, instances, |instance| match instance {
        None => register(quote!(__selvedge_extension #turbofish)),
        Some(instance) => register(quote!(<#instance as __SelvedgeExtended>::extension)),
    });
    let extended = if actor.is_generic() {
        extended(&site, &operation_bounds(parsed))
    } else {
        TokenStream::new()
    };
    hidden(quote! {
        #import

        #methods

        #extension

        #extended

        #bound

        #registered
    })
}

/// Generates the function that returns the extension of an actor's type.
pub(crate) fn extension(site: &Site<'_>, bounds: &TokenStream) -> TokenStream {
    let (ty, place, methods) = (&site.actor, place(), method_table(site));
    let (parameters, ..) = site.generics.split_for_impl();
    let bounds = where_clause(site.generics, bounds);
    quote! {
        fn __selvedge_extension #parameters() -> &'static ::selvedge::__private::Extension #bounds {
            const {
                &::selvedge::__private::Extension {
                    actor: || ::std::any::type_name::<#ty>(),
                    id: ::std::any::TypeId::of::<#ty>(),
                    place: #place,
                    methods: #methods,
                }
            }
        }
    }
}

/// Generates a trait by which the extension of an instance is found, whatever the block's parameters are called.
fn extended(site: &Site<'_>, bounds: &TokenStream) -> TokenStream {
    let ty = &site.actor;
    let (parameters, arguments, _) = site.generics.split_for_impl();
    let (turbofish, bounds) = (arguments.as_turbofish(), where_clause(site.generics, bounds));
    quote! {
        trait __SelvedgeExtended {
            fn extension() -> &'static ::selvedge::__private::Extension;
        }

        impl #parameters __SelvedgeExtended for #ty #bounds {
            fn extension() -> &'static ::selvedge::__private::Extension {
                __selvedge_extension #turbofish()
            }
        }
    }
}

/// Generates the static that lists an extension among those of the program.
pub(crate) fn register(extension: TokenStream) -> TokenStream {
    quote! {
        #[::selvedge::__private::linkme::distributed_slice(::selvedge::__private::EXTENSIONS)]
        #[linkme(crate = ::selvedge::__private::linkme)]
        static __SELVEDGE_REGISTERED: fn() -> &'static ::selvedge::__private::Extension = #extension;
    }
}
