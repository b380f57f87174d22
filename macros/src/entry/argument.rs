//! Arguments: the variables that hold them, and the code that brings them from a frame to a method.

use proc_macro2::{Ident, TokenStream};
use quote::{format_ident, quote};

use crate::edge_type::Pass;
use crate::parse::Param;

/// Returns the variables that hold the arguments, named by position: a parameter's own name could clash with another
/// variable of the generated code.
pub(crate) fn variables(params: &[Param]) -> Vec<Ident> {
    (0..params.len()).map(|i| format_ident!("arg_{i}")).collect()
}

/// Returns the arguments in the form in which the method takes them, from owned variables.
pub(crate) fn passed(params: &[Param]) -> Vec<TokenStream> {
    let pass = |(param, name): (&Param, Ident)| match param.pass {
        Pass::Owned => quote!(#name),
        Pass::Reference | Pass::Slice(_) | Pass::Text => quote!(&#name),
        Pass::Shared => quote!(#name.shared()),
        Pass::Cow(_) => quote!(::std::borrow::Cow::Owned(#name)),
    };
    params.iter().zip(variables(params)).map(pass).collect()
}

/// Generates a statement for each argument that the method takes by value. The statement moves the argument out of the
/// frame.
pub(super) fn taken(params: &[Param]) -> Vec<TokenStream> {
    let take = |(i, (param, name)): (usize, (&Param, Ident))| {
        let edge = &param.edge;
        matches!(param.pass, Pass::Owned).then(|| quote!(let #name = frame.take::<#edge>(#i)?;))
    };
    let numbered = params.iter().zip(variables(params)).enumerate();
    numbered.filter_map(take).collect()
}

/// Generates a statement for each argument that the method takes by reference or as a `Cow`. The statement borrows the
/// argument from the frame.
pub(super) fn borrowed(params: &[Param]) -> Vec<TokenStream> {
    let borrow = |(i, (param, name)): (usize, (&Param, Ident))| {
        let value = match &param.pass {
            Pass::Cow(pass) => {
                let view = view(i, param, pass)?;
                quote!(::std::borrow::Cow::Borrowed(#view))
            }
            pass => view(i, param, pass)?,
        };
        Some(quote!(let #name = #value;))
    };
    let numbered = params.iter().zip(variables(params)).enumerate();
    numbered.filter_map(borrow).collect()
}

/// Generates the view of argument number `i` in the frame. `None` if the argument is not borrowed.
fn view(i: usize, param: &Param, pass: &Pass) -> Option<TokenStream> {
    let edge = &param.edge;
    match pass {
        Pass::Owned | Pass::Shared | Pass::Cow(_) => None,
        Pass::Reference => Some(quote!(frame.get::<#edge>(#i)?)),
        Pass::Slice(element) => Some(quote!(frame.slice::<#element>(#i)?)),
        Pass::Text => Some(quote!(frame.text(#i)?)),
    }
}
