//! Reads the parameters of a method.

use quote::format_ident;
use syn::{Attribute, FnArg, Ident, Pat, PatType, Signature, Type};

use crate::edge_type::{Pass, edge_type, help};

/// A parameter of an operation or constructor.
#[derive(Clone)]
pub(crate) struct Param {
    pub(crate) name: Ident,
    pub(crate) edge: Type,
    pub(crate) pass: Pass,
    pub(crate) constant: bool,
    /// Of a remote function's parameter that is not passed by value: what is passed.
    pub(crate) marked: Option<Marked>,
}

/// A parameter of a remote function whose value is not passed, with the type of the value.
#[derive(Clone)]
pub(crate) enum Marked {
    /// With `#[here]`: a reference to a value, which stays where it lives.
    Here(Box<Type>),
    /// With `#[global]`: a global, of which the process has a copy.
    Global(Box<Type>),
}

/// Removes the attribute `#[constant]` from the parameters of signatures that have been read.
pub(crate) fn strip<'a>(signatures: impl Iterator<Item = &'a mut Signature>) {
    for input in signatures.flat_map(|signature| &mut signature.inputs) {
        if let FnArg::Typed(input) = input {
            input.attrs.retain(|attribute| !is_constant(attribute));
        }
    }
}

/// Tells whether an attribute is `#[constant]`.
fn is_constant(attribute: &Attribute) -> bool {
    attribute.path().is_ident("constant")
}

/// Reads the parameters of a method, without its receiver.
pub(crate) fn params(signature: &Signature) -> syn::Result<Vec<Param>> {
    let mut params = Vec::new();
    for (position, input) in signature.inputs.iter().enumerate() {
        let FnArg::Typed(input) = input else { continue };
        params.push(param(position, input)?);
    }
    Ok(params)
}

/// Reads the parameter at a position of a method's signature.
fn param(position: usize, input: &PatType) -> syn::Result<Param> {
    let constant = input.attrs.iter().any(is_constant);
    let name = match &*input.pat {
        Pat::Ident(pattern) if pattern.subpat.is_none() && pattern.by_ref.is_none() => pattern.ident.clone(),
        Pat::Wild(_) => format_ident!("_{position}"),
        other => {
            return Err(help(
                other,
                "a parameter of an actor has a name",
                "take the value apart in the body",
            ));
        }
    };
    let (edge, pass) = edge_type(&input.ty)?;
    Ok(Param {
        name,
        edge,
        pass,
        constant,
        marked: None,
    })
}
