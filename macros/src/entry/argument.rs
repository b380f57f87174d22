//! Arguments: the variables that hold them, and the code that brings them from a frame to a method.

use proc_macro2::{Ident, TokenStream};
use quote::{format_ident, quote};

use crate::edge_type::Pass;
use crate::parse::Param;

/// Returns the variables that hold the arguments, named by position: a parameter's own name could clash with another
/// variable of the generated code.
pub(super) fn variables(params: &[Param]) -> Vec<Ident> {
    (0..params.len()).map(|i| format_ident!("arg_{i}")).collect()
}

/// Returns the arguments in the form in which the method takes them, from owned variables.
pub(super) fn passed(params: &[Param]) -> Vec<TokenStream> {
    let pass = |(param, name): (&Param, Ident)| match param.pass {
        Pass::Owned => quote!(#name),
        Pass::Reference | Pass::Slice(_) | Pass::Text => quote!(&#name),
    };
    params.iter().zip(variables(params)).map(pass).collect()
}

/// Generates a statement for each argument that the method takes by value. The statement moves the argument out of the
/// frame.
pub(super) fn taken(params: &[Param]) -> Vec<TokenStream> {
    let take = |(i, (param, name)): (usize, (&Param, Ident))| {
        let edge = &param.edge;
        match param.pass {
            Pass::Owned => Some(quote!(let #name = frame.take::<#edge>(#i)?;)),
            Pass::Reference | Pass::Slice(_) | Pass::Text => None,
        }
    };
    let numbered = params.iter().zip(variables(params)).enumerate();
    numbered.filter_map(take).collect()
}

/// Generates a statement for each argument that the method takes by reference. The statement borrows the argument from
/// the frame.
pub(super) fn borrowed(params: &[Param]) -> Vec<TokenStream> {
    let borrow = |(i, (param, name)): (usize, (&Param, Ident))| {
        let edge = &param.edge;
        match &param.pass {
            Pass::Owned => None,
            Pass::Reference => Some(quote!(let #name = frame.get::<#edge>(#i)?;)),
            Pass::Slice(element) => Some(quote!(let #name = frame.slice::<#element>(#i)?;)),
            Pass::Text => Some(quote!(let #name = frame.text(#i)?;)),
        }
    };
    let numbered = params.iter().zip(variables(params)).enumerate();
    numbered.filter_map(borrow).collect()
}
