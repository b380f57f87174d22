//! Reads one method: the constructor or an operation.

use proc_macro2::TokenStream;
use quote::quote;
use syn::{Attribute, FnArg, Ident, ImplItemFn, Type};

use super::param::{Param, params};
use crate::edge_type::{help, result_type};

/// The constructor.
pub(crate) struct Constructor {
    pub(crate) params: Vec<Param>,
    pub(crate) fallible: bool,
}

/// A method that can be bound.
pub(crate) struct Operation {
    pub(crate) name: Ident,
    /// The `doc`, `cfg` and `deprecated` attributes of the method, which the handle's method gets too.
    pub(crate) attributes: Vec<Attribute>,
    /// The `cfg` attributes of the method, for all generated code that names it.
    pub(crate) cfgs: Vec<Attribute>,
    /// The position of the method among those that are compiled in, as an expression.
    pub(crate) index: TokenStream,
    pub(crate) params: Vec<Param>,
    pub(crate) result: Type,
    pub(crate) fallible: bool,
    pub(crate) is_async: bool,
    /// True if the method takes `&mut self`.
    pub(crate) is_exclusive: bool,
}

impl Operation {
    /// Returns the types that must be able to travel along edges for the operation to run.
    pub(crate) fn travellers(&self) -> impl Iterator<Item = &Type> {
        self.params.iter().map(|param| &param.edge).chain([&self.result])
    }
}

/// Reads the constructor.
pub(super) fn constructor(function: &ImplItemFn) -> syn::Result<Constructor> {
    plain(function)?;
    if let Some(asyncness) = &function.sig.asyncness {
        return Err(help(
            asyncness,
            "a constructor is not async",
            "do the waiting in an operation",
        ));
    }
    let (_, fallible) = result_type(&function.sig.output)?;
    Ok(Constructor {
        params: params(function)?,
        fallible,
    })
}

/// Reads an operation that follows the operations `before`.
pub(super) fn operation(function: &ImplItemFn, before: &[Operation]) -> syn::Result<Operation> {
    plain(function)?;
    let name = function.sig.ident.clone();
    if let Some(FnArg::Receiver(receiver)) = function.sig.inputs.first()
        && !matches!(receiver.kind, syn::ReceiverKind::Reference(..))
    {
        let message = "an operation borrows its actor, which goes on living";
        return Err(help(receiver, message, "take `&mut self`"));
    }
    if name == "call" || name == "actor" {
        let message = format!("`{name}` is the name of a method of every handle");
        return Err(help(&name, message, "choose another name"));
    }
    let params = params(function)?;
    let (result, fallible) = result_type(&function.sig.output)?;
    if let Type::Path(path) = &result
        && path.path.is_ident("Self")
    {
        return Err(help(
            &result,
            "an actor does not travel along an edge",
            "return data",
        ));
    }
    let copied = |names: &[&str]| -> Vec<Attribute> {
        let named = |attribute: &&Attribute| names.iter().any(|name| attribute.path().is_ident(name));
        function.attrs.iter().filter(named).cloned().collect()
    };
    Ok(Operation {
        name,
        attributes: copied(&["doc", "cfg", "deprecated"]),
        cfgs: copied(&["cfg"]),
        index: index(before)?,
        params,
        result,
        fallible,
        is_async: function.sig.asyncness.is_some(),
        is_exclusive: is_exclusive(function),
    })
}

/// Tells whether a method takes `&mut self`.
fn is_exclusive(function: &ImplItemFn) -> bool {
    match function.sig.inputs.first() {
        Some(FnArg::Receiver(receiver)) => match &receiver.kind {
            syn::ReceiverKind::Reference(_, _, mutability) => mutability.is_some(),
            _ => true,
        },
        _ => true,
    }
}

/// Returns, as an expression, the position of the method that follows `before`; methods behind a `cfg` may be compiled
/// out.
fn index(before: &[Operation]) -> syn::Result<TokenStream> {
    let (sometimes, always): (Vec<_>, Vec<_>) =
        before.iter().partition(|operation| !operation.cfgs.is_empty());
    let always = always.len() as u16;
    let mut index = quote!(#always);
    for operation in sometimes {
        let conditions = operation.cfgs.iter().map(|cfg| cfg.parse_args::<TokenStream>());
        let conditions = conditions.collect::<syn::Result<Vec<_>>>()?;
        index.extend(quote!(+ ::core::cfg!(all(#(#conditions),*)) as u16));
    }
    Ok(index)
}

/// Refuses a method that has generic parameters.
fn plain(function: &ImplItemFn) -> syn::Result<()> {
    match function.sig.generics.params.first() {
        None => Ok(()),
        Some(param) => {
            let message = "what is found by name in a worker process has no generic parameters";
            Err(help(param, message, "name concrete types"))
        }
    }
}
