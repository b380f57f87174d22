//! Reads one method: a constructor or an operation.

use proc_macro2::TokenStream;
use quote::quote;
use syn::{Attribute, FnArg, Ident, ImplItemFn, Signature, Type};

use super::actor_type::ActorType;
use super::own_type;
use super::param::{Param, params};
use crate::edge_type::{help, result_type};

/// A function that builds an actor.
pub(crate) struct Constructor {
    pub(crate) name: Ident,
    /// The `doc`, `cfg` and `deprecated` attributes of the function, which the handle's function gets too.
    pub(crate) attributes: Vec<Attribute>,
    /// The `cfg` attributes of the function, for all generated code that names it.
    pub(crate) cfgs: Vec<Attribute>,
    /// The position of the function among the constructors that are compiled in, as an expression.
    pub(crate) index: TokenStream,
    pub(crate) params: Vec<Param>,
    pub(crate) fallible: bool,
    pub(crate) is_async: bool,
}

impl Constructor {
    /// Returns the type of the arguments, a tuple.
    pub(crate) fn args(&self) -> TokenStream {
        let args = self.params.iter().map(|param| &param.edge);
        quote!((#(#args,)*))
    }
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

/// Reads a constructor that follows the constructors `before`.
pub(super) fn constructor(
    function: &ImplItemFn,
    actor: &ActorType,
    before: &[Constructor],
) -> syn::Result<Constructor> {
    let signature = &own_type::named(&function.sig, Some(actor))?;
    plain(signature)?;
    let (_, fallible) = result_type(&signature.output)?;
    Ok(Constructor {
        name: signature.ident.clone(),
        attributes: copied(&function.attrs, &["doc", "cfg", "deprecated"]),
        cfgs: copied(&function.attrs, &["cfg"]),
        index: index(before.iter().map(|constructor| &constructor.cfgs[..]))?,
        params: params(signature)?,
        fallible,
        is_async: signature.asyncness.is_some(),
    })
}

/// Reads an operation of an actor or, without one, of a trait. It follows the operations `before`.
pub(super) fn operation(
    attributes: &[Attribute],
    signature: &Signature,
    actor: Option<&ActorType>,
    before: &[Operation],
) -> syn::Result<Operation> {
    plain(signature)?;
    let name = signature.ident.clone();
    if let Some(FnArg::Receiver(receiver)) = signature.inputs.first()
        && !matches!(receiver.kind, syn::ReceiverKind::Reference(..))
    {
        let message = "an operation borrows its actor, which goes on living";
        return Err(help(receiver, message, "take `&mut self`"));
    }
    if name == "call" || name == "actor" {
        let message = format!("`{name}` is the name of a method of every handle");
        return Err(help(&name, message, "choose another name"));
    }
    let (result, _) = result_type(&signature.output)?;
    if let Type::Path(path) = &result
        && path.path.is_ident("Self")
    {
        return Err(help(
            &result,
            "an actor does not travel along an edge",
            "return data",
        ));
    }
    let signature = &own_type::named(signature, actor)?;
    let params = params(signature)?;
    let (result, fallible) = result_type(&signature.output)?;
    Ok(Operation {
        name,
        attributes: copied(attributes, &["doc", "cfg", "deprecated"]),
        cfgs: copied(attributes, &["cfg"]),
        index: index(before.iter().map(|operation| &operation.cfgs[..]))?,
        params,
        result,
        fallible,
        is_async: signature.asyncness.is_some(),
        is_exclusive: is_exclusive(signature),
    })
}

/// Tells whether a method takes `&mut self`.
fn is_exclusive(signature: &Signature) -> bool {
    match signature.inputs.first() {
        Some(FnArg::Receiver(receiver)) => match &receiver.kind {
            syn::ReceiverKind::Reference(_, _, mutability) => mutability.is_some(),
            _ => true,
        },
        _ => true,
    }
}

/// Returns the attributes with these names.
pub(crate) fn copied(attributes: &[Attribute], names: &[&str]) -> Vec<Attribute> {
    let named = |attribute: &&Attribute| names.iter().any(|name| attribute.path().is_ident(name));
    attributes.iter().filter(named).cloned().collect()
}

/// Returns, as an expression, the position of the method that follows methods with these `cfg` attributes; methods behind a
/// `cfg` may be compiled out.
fn index<'a>(before: impl Iterator<Item = &'a [Attribute]>) -> syn::Result<TokenStream> {
    let (sometimes, always): (Vec<_>, Vec<_>) = before.partition(|cfgs| !cfgs.is_empty());
    let always = always.len() as u16;
    let mut index = quote!(#always);
    for cfgs in sometimes {
        let conditions = cfgs.iter().map(|cfg| cfg.parse_args::<TokenStream>());
        let conditions = conditions.collect::<syn::Result<Vec<_>>>()?;
        index.extend(quote!(+ ::core::cfg!(all(#(#conditions),*)) as u16));
    }
    Ok(index)
}

/// Refuses a method that is unsafe, or that has generic parameters or bounds.
fn plain(signature: &Signature) -> syn::Result<()> {
    if !matches!(signature.safety, syn::Safety::Default) {
        let message = "a method of an actor is safe: its arguments come from another task or process";
        return Err(help(
            &signature.safety,
            message,
            "check the arguments in a safe method, or make this one private",
        ));
    }
    let generics = &signature.generics;
    if let Some(param) = generics.params.first() {
        let message =
            "a method of an actor has no generic parameters: it is found by name in a worker process";
        return Err(help(
            param,
            message,
            "name concrete types, or give the parameters to the actor's type",
        ));
    }
    match &generics.where_clause {
        None => Ok(()),
        Some(bounds) => {
            let message = "a method of an actor has no bounds: each instance of the type has all methods";
            Err(help(bounds, message, "write the bounds on the `impl` block"))
        }
    }
}
