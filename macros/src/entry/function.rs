//! The type-erased functions of an operation: one runs the operation in a graph, the other in an ordinary call.

use proc_macro2::{Ident, TokenStream};
use quote::{format_ident, quote};

use super::Site;
use super::argument::{borrowed, passed, taken, variables};
use super::error::failure;
use super::overlap::overlap;
use crate::edge_type::{traits, travel};
use crate::generics::where_clause;
use crate::parse::Operation;

/// Returns the name of the function that runs an operation in a graph.
pub(super) fn compute_name(index: usize) -> Ident {
    format_ident!("__selvedge_compute_{index}")
}

/// Returns the name of the function that runs an operation in an ordinary call.
pub(super) fn call_name(index: usize) -> Ident {
    format_ident!("__selvedge_call_{index}")
}

/// Generates the functions of one operation.
pub(super) fn functions(index: usize, operation: &Operation, site: &Site<'_>) -> TokenStream {
    let (compute, call) = (
        compute(&compute_name(index), operation, site),
        call(&call_name(index), operation, site),
    );
    let overlap = overlap(index, operation, site);
    quote! {
        #compute

        #call

        #overlap
    }
}

/// Generates the function that runs an operation in a graph.
fn compute(function: &Ident, operation: &Operation, site: &Site<'_>) -> TokenStream {
    let Operation {
        name: method,
        cfgs,
        params,
        result,
        ..
    } = operation;
    let (path, receiver) = (&site.path, receiver(operation, site));
    let (parameters, ..) = site.generics.split_for_impl();
    let names = variables(params);
    let (taken, borrowed) = (taken(params), borrowed(params));
    let returned = driven(
        operation,
        &quote!(frame),
        quote!(#path::#method(receiver, #(#names),*)),
    );
    let (value, travel) = (value(operation), where_clause(site.generics, &bounds(operation)));
    let Saved { begin, end } = saved(operation, site, &TokenStream::new());
    quote! {
        #(#cfgs)*
        #[allow(clippy::let_unit_value, clippy::unit_arg, clippy::needless_borrow)]
        #[inline]
        fn #function #parameters(actor: &mut ::selvedge::__private::ActorState, frame: &mut ::selvedge::__private::Frame<'_>) -> ::std::result::Result<(), ::std::boxed::Box<::selvedge::__private::Failure>> #travel {
            let receiver = #receiver?;
            #(#taken)*
            let result = {
                #(#borrowed)*
                #returned
            };
            #begin
            let value = #value;
            #end
            (&&::selvedge::__private::TypeProbe::<#result>::of()).finish(frame, value)
        }
    }
}

/// Generates the function that runs an operation in an ordinary call.
fn call(function: &Ident, operation: &Operation, site: &Site<'_>) -> TokenStream {
    let Operation {
        name: method,
        cfgs,
        params,
        result,
        ..
    } = operation;
    let (path, receiver) = (&site.path, receiver(operation, site));
    let (parameters, ..) = site.generics.split_for_impl();
    let (names, passed) = (variables(params), passed(params));
    let edges: Vec<_> = params.iter().map(|param| &param.edge).collect();
    let (of_arguments, of_result) = (traits(&quote!((#(#edges,)*))), traits(result));
    let returned = driven(
        operation,
        &quote!(driver),
        quote!(#path::#method(receiver, #(#passed),*)),
    );
    let (value, travel) = (value(operation), where_clause(site.generics, &bounds(operation)));
    let Saved { begin, end } = saved(operation, site, &quote!(.map_err(|failure| *failure)));
    quote! {
        #(#cfgs)*
        #[allow(unused_variables, clippy::let_unit_value, clippy::unit_arg)]
        fn #function #parameters(
            actor: &mut ::selvedge::__private::ActorState,
            arguments: ::selvedge::__private::Arguments,
            driver: &::selvedge::__private::AsyncDriver,
        ) -> ::std::result::Result<::selvedge::__private::Returned, ::selvedge::__private::Failure> #travel {
            let receiver = #receiver.map_err(|failure| *failure)?;
            let kind = arguments.kind();
            let (#(#names,)*) = arguments.into::<(#(#edges,)*)>(#of_arguments)?;
            let result = #returned;
            #begin
            let value = #value;
            #end
            ::selvedge::__private::Returned::new::<#result>(value, kind, #of_result)
        }
    }
}

/// The statements that save the state after a method has run, and that check it once the method's own error has been returned.
struct Saved {
    begin: TokenStream,
    end: TokenStream,
}

/// Generates the statements that save the state; none for a method that cannot change it. `unboxed` converts the failure.
fn saved(operation: &Operation, site: &Site<'_>, unboxed: &TokenStream) -> Saved {
    if !operation.is_exclusive {
        return Saved {
            begin: TokenStream::new(),
            end: TokenStream::new(),
        };
    }
    let changed = site.changed();
    Saved {
        begin: quote!(let saved = #changed;),
        end: quote!(saved #unboxed?;),
    }
}

/// Generates the expression that runs the method to its end: `driver` drives the future of an `async fn`.
fn driven(operation: &Operation, driver: &TokenStream, invoked: TokenStream) -> TokenStream {
    if operation.is_async {
        quote!(#driver.block_on(#invoked)?)
    } else {
        invoked
    }
}

/// Generates the expression that borrows the actor as the method takes it.
fn receiver(operation: &Operation, site: &Site<'_>) -> TokenStream {
    let actor = &site.actor;
    if operation.is_exclusive {
        quote!(actor.receiver::<#actor>())
    } else {
        quote!(actor.shared::<#actor>())
    }
}

/// Generates the expression that takes the operation's value from the variable `result`.
pub(super) fn value(operation: &Operation) -> TokenStream {
    if operation.fallible {
        let failure = failure();
        quote!(result #failure?)
    } else {
        quote!(result)
    }
}

/// Generates the functions' bounds. An operation behind a `cfg` has none, because the table of methods does not
/// list its bounds; the bodies of the functions check its types.
pub(super) fn bounds(operation: &Operation) -> TokenStream {
    if operation.cfgs.is_empty() {
        travel(operation.travellers())
    } else {
        TokenStream::new()
    }
}
