//! `#[worker_init]`: a function that runs once in each process before its first remote function.

use proc_macro2::TokenStream;
use quote::quote;
use syn::ItemFn;

use crate::edge_type::{help, result_type};
use crate::entry::error::failure;
use crate::refused;

/// Expands `#[worker_init]`.
pub(crate) fn attribute(arguments: TokenStream, item: TokenStream) -> TokenStream {
    match syn::parse2::<ItemFn>(item.clone()) {
        Ok(function) => match registered(arguments, &function) {
            Ok(registered) => quote!(#function #registered),
            Err(error) => refused(&quote!(#function), &error),
        },
        Err(error) => {
            let message = "`#[worker_init]` goes on a function with a body";
            refused(
                &item,
                &help(error.span(), message, "write it above `fn name() { .. }`"),
            )
        }
    }
}

fn registered(arguments: TokenStream, function: &ItemFn) -> syn::Result<TokenStream> {
    if !arguments.is_empty() {
        let message = "`#[worker_init]` takes no arguments";
        return Err(help(arguments, message, "write `#[worker_init]` alone"));
    }
    let signature = &function.sig;
    let has_more = signature.asyncness.is_some() || !signature.inputs.is_empty();
    if has_more || !signature.generics.params.is_empty() {
        let message = "a function that prepares a process has no parameters, and is not `async`";
        return Err(help(
            signature,
            message,
            "write `fn name()` or `fn name() -> Result<()>`",
        ));
    }
    let (name, text) = (&signature.ident, signature.ident.to_string());
    let (_, fallible) = result_type(&signature.output)?;
    let value = if fallible {
        let failure = failure();
        quote!(result.map(|_| ()) #failure)
    } else {
        quote!({
            let _ = result;
            ::std::result::Result::Ok(())
        })
    };
    Ok(quote! {
        const _: () = {
            #[allow(unused_imports)]
            use ::selvedge::__private::{OpaqueError as _, TypedError as _};

            #[allow(clippy::needless_borrow, clippy::let_unit_value)]
            fn __selvedge_init() -> ::std::result::Result<(), ::selvedge::__private::Failure> {
                let result = #name();
                #value
            }

            #[::selvedge::__private::linkme::distributed_slice(::selvedge::__private::WORKER_INITS)]
            #[linkme(crate = ::selvedge::__private::linkme)]
            static __SELVEDGE_INIT: ::selvedge::__private::InitEntry = ::selvedge::__private::InitEntry {
                path: ::std::concat!(::std::module_path!(), "::", #text),
                run: __selvedge_init,
            };
        };
    })
}
