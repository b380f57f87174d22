//! Overlap: the functions with which an async operation with `&self` runs beside others of its actor.

use proc_macro2::{Ident, TokenStream};
use quote::{format_ident, quote};

use super::Site;
use super::argument::{passed, variables};
use super::function::{bounds, value};
use crate::edge_type::traits;
use crate::generics::where_clause;
use crate::parse::Operation;
use syn::Turbofish;

/// Returns the names of the functions that take the arguments, begin the method, and finish with its result.
fn names(index: usize) -> [Ident; 3] {
    ["take", "begin", "finish"].map(|part| format_ident!("__selvedge_{part}_{index}"))
}

/// Tells whether an operation may overlap with others.
fn overlaps(operation: &Operation) -> bool {
    operation.is_async && !operation.is_exclusive
}

/// Generates the expression that says what may run beside an operation.
pub(super) fn sharing(index: usize, operation: &Operation, turbofish: &Turbofish<'_>) -> TokenStream {
    if overlaps(operation) {
        let [take, begin, finish] = names(index);
        quote! {
            ::selvedge::__private::Sharing::Overlapping(::selvedge::__private::Overlap {
                take: #take #turbofish,
                begin: #begin #turbofish,
                finish: #finish #turbofish,
            })
        }
    } else if operation.is_exclusive {
        quote!(::selvedge::__private::Sharing::Exclusive)
    } else {
        quote!(::selvedge::__private::Sharing::Shared)
    }
}

/// Generates the functions of an operation that may overlap; nothing for any other.
pub(super) fn overlap(index: usize, operation: &Operation, site: &Site<'_>) -> TokenStream {
    if !overlaps(operation) {
        return TokenStream::new();
    }
    let [take, begin, finish] = names(index);
    let Operation {
        name: method,
        cfgs,
        params,
        result,
        ..
    } = operation;
    let (names, passed) = (variables(params), passed(params));
    let edges: Vec<_> = params.iter().map(|param| &param.edge).collect();
    let taken = edges
        .iter()
        .enumerate()
        .map(|(i, edge)| quote!(frame.take::<#edge>(#i)?));
    let (of_arguments, of_result) = (traits(&quote!((#(#edges,)*))), traits(result));
    let (actor, path) = (&site.actor, &site.path);
    let (parameters, ..) = site.generics.split_for_impl();
    let (value, travel) = (value(operation), where_clause(site.generics, &bounds(operation)));
    quote! {
        #(#cfgs)*
        #[allow(unused_variables)]
        fn #take #parameters(frame: &mut ::selvedge::__private::Frame<'_>) -> ::std::result::Result<::selvedge::__private::Arguments, ::std::boxed::Box<::selvedge::__private::Failure>> #travel {
            ::std::result::Result::Ok(::selvedge::__private::Arguments::local::<(#(#edges,)*)>((#(#taken,)*)))
        }

        #(#cfgs)*
        #[allow(unused_variables, clippy::let_unit_value, clippy::unit_arg)]
        fn #begin #parameters(
            actor: &mut ::selvedge::__private::ActorState,
            arguments: ::selvedge::__private::Arguments,
        ) -> ::std::result::Result<::selvedge::__private::MethodFuture, ::selvedge::__private::Failure> #travel {
            let receiver = actor.lend::<#actor>().map_err(|failure| *failure)?;
            let kind = arguments.kind();
            let (#(#names,)*) = arguments.into::<(#(#edges,)*)>(#of_arguments)?;
            ::std::result::Result::Ok(::std::boxed::Box::pin(async move {
                let result = #path::#method(receiver.get(), #(#passed),*).await;
                ::selvedge::__private::Returned::new::<#result>(#value, kind, #of_result)
            }))
        }

        #(#cfgs)*
        #[allow(clippy::let_unit_value, clippy::unit_arg)]
        fn #finish #parameters(
            frame: &mut ::selvedge::__private::Frame<'_>,
            returned: ::selvedge::__private::Returned,
        ) -> ::std::result::Result<(), ::std::boxed::Box<::selvedge::__private::Failure>> #travel {
            let result = returned.into::<#result>(#of_result)?;
            (&&::selvedge::__private::TypeProbe::<#result>::of()).finish(frame, result)
        }
    }
}
