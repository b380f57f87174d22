//! The entry's table of methods: a row for each operation.

use proc_macro2::TokenStream;
use quote::quote;
use syn::Type;

use super::Site;
use super::argument::{passed, variables};
use super::error::{Failing, error_codec};
use super::function::{call_name, compute_name};
use super::overlap::sharing;
use crate::edge_type::{list_elements, payload_type, travel};
use crate::generics::{declared, phantom, where_clause};
use crate::parse::{Operation, Param};

/// Generates the table of methods.
pub(super) fn table(operations: &[Operation], site: &Site<'_>) -> TokenStream {
    let methods = operations
        .iter()
        .enumerate()
        .map(|(index, operation)| method(index, operation, site));
    let generics = site.generics;
    let (declared, phantom) = (declared(generics), phantom(generics));
    let (parameters, arguments, _) = generics.split_for_impl();
    let travel_all = where_clause(generics, &travel_all(operations));
    quote! {
        struct __SelvedgeMethods #declared(#phantom);

        impl #parameters ::selvedge::__private::MethodTable for __SelvedgeMethods #arguments #travel_all {
            const METHODS: &'static [::selvedge::__private::MethodEntry] = &[#(#methods),*];
        }
    }
}

/// Generates the bounds of all operations. Operations behind a `cfg` may name types that exist only under that `cfg`, so they
/// are not listed; the bodies of their functions check their types.
pub(super) fn travel_all(operations: &[Operation]) -> TokenStream {
    let always = operations.iter().filter(|operation| operation.cfgs.is_empty());
    travel(always.flat_map(Operation::travellers))
}

/// Generates one row of the table.
fn method(index: usize, operation: &Operation, site: &Site<'_>) -> TokenStream {
    let (compute, call) = (compute_name(index), call_name(index));
    let (name, result) = (operation.name.to_string(), &operation.result);
    let cfgs = &operation.cfgs;
    let (_, arguments, _) = site.generics.split_for_impl();
    let turbofish = arguments.as_turbofish();
    let params = operation.params.iter().map(param);
    let sharing = sharing(index, operation, &turbofish);
    let (error, of_result, parts) = (error(operation, site), payload_type(result), parts(result));
    quote! {
        #(#cfgs)*
        ::selvedge::__private::MethodEntry {
            name: #name,
            params: &[#(#params),*],
            result: || #of_result,
            parts: || #parts,
            error: #error,
            sharing: #sharing,
            compute: #compute #turbofish,
            call: #call #turbofish,
        }
    }
}

/// Generates the function that tells the codec of an operation's errors.
fn error(operation: &Operation, site: &Site<'_>) -> TokenStream {
    let (actor, path, method) = (&site.actor, &site.path, &operation.name);
    let (names, passed) = (variables(&operation.params), passed(&operation.params));
    let edges = operation.params.iter().map(|param| &param.edge);
    error_codec(&Failing {
        fallible: operation.fallible,
        is_async: operation.is_async,
        arguments: quote!((receiver, #(#names,)*): (&mut #actor, #(#edges,)*)),
        call: quote!(#path::#method(receiver, #(#passed),*)),
    })
}

/// Generates the types of a result's parts: of a tuple that is written as one, with the traits of each part; of any other
/// type, whatever a probe finds.
fn parts(result: &Type) -> TokenStream {
    match result {
        Type::Tuple(tuple) if (2..=8).contains(&tuple.elems.len()) => {
            let parts = tuple.elems.iter().map(payload_type);
            quote!(::std::vec![#(#parts),*])
        }
        _ => quote!((&&&::selvedge::__private::TypeProbe::<#result>::of()).types()),
    }
}

/// Generates the description of one parameter of a row.
fn param(param: &Param) -> TokenStream {
    let (name, edge) = (param.name.to_string(), &param.edge);
    let elements = list_elements(edge);
    let of_lists = std::iter::once(edge).chain(&elements).map(payload_type);
    let of_elements = elements.iter().map(payload_type);
    let payload = payload_type(edge);
    quote!(::selvedge::__private::ParamEntry {
        name: #name,
        payload: || #payload,
        lists: || ::std::vec![#(::selvedge::__private::ListLevel::of::<#elements>(#of_lists, #of_elements)),*],
    })
}
