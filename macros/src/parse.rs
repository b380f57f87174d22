//! Reads an `impl` block: its constructor and its operations.

use syn::{Attribute, FnArg, Ident, ImplItem, ImplItemFn, ItemImpl, Pat, Type, Visibility};

use crate::edge_type::{Pass, edge_type, help, result_type};

/// A parameter of an operation or constructor.
pub(crate) struct Param {
    pub(crate) name: Ident,
    pub(crate) edge: Type,
    pub(crate) pass: Pass,
    pub(crate) constant: bool,
}

/// The constructor.
pub(crate) struct Constructor {
    pub(crate) params: Vec<Param>,
    pub(crate) fallible: bool,
}

/// A method that can be bound.
pub(crate) struct Operation {
    pub(crate) name: Ident,
    /// Documentation and `cfg` of the method, for the handle's.
    pub(crate) attributes: Vec<Attribute>,
    pub(crate) params: Vec<Param>,
    pub(crate) result: Type,
    pub(crate) fallible: bool,
    pub(crate) is_async: bool,
}

/// An actor.
pub(crate) struct Parsed {
    pub(crate) block: ItemImpl,
    pub(crate) name: Ident,
    pub(crate) constructor: Constructor,
    pub(crate) operations: Vec<Operation>,
}

/// Reads the block, and takes our own attributes off its parameters.
pub(crate) fn parse(mut block: ItemImpl) -> syn::Result<Parsed> {
    if let Some((path, _)) = &block.trait_ {
        return Err(help(
            path,
            "`#[actor]` goes on an inherent `impl` block",
            "put the operations into `impl Type`",
        ));
    }
    if !block.generics.params.is_empty() {
        let message = "an actor's type has no generic parameters: it is found by name in a worker process";
        return Err(help(
            &block.generics,
            message,
            "write one actor per concrete type",
        ));
    }
    let name = match &*block.self_ty {
        Type::Path(path) => path.path.get_ident().cloned(),
        _ => None,
    };
    let name = name.ok_or_else(|| {
        help(
            &block.self_ty,
            "an actor's type is named by one identifier",
            "`impl Type`",
        )
    })?;
    let mut constructor = None;
    let mut operations = Vec::new();
    for item in &mut block.items {
        let ImplItem::Fn(function) = item else { continue };
        if !matches!(function.vis, Visibility::Public(_)) {
            continue;
        }
        let takes_self = matches!(function.sig.inputs.first(), Some(FnArg::Receiver(_)));
        if takes_self {
            operations.push(operation(function)?);
        } else if function.sig.ident == "new" {
            constructor = Some(new(function)?);
        }
    }
    let constructor = constructor.ok_or_else(|| {
        help(
            &name,
            format!("actor `{name}` has no constructor"),
            "add `pub fn new(..) -> Self`",
        )
    })?;
    Ok(Parsed {
        block,
        name,
        constructor,
        operations,
    })
}

fn new(function: &mut ImplItemFn) -> syn::Result<Constructor> {
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

fn operation(function: &mut ImplItemFn) -> syn::Result<Operation> {
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
    let copied =
        |attribute: &&Attribute| attribute.path().is_ident("doc") || attribute.path().is_ident("cfg");
    let attributes = function.attrs.iter().filter(copied).cloned().collect();
    Ok(Operation {
        name,
        attributes,
        params,
        result,
        fallible,
        is_async: function.sig.asyncness.is_some(),
    })
}

fn plain(function: &ImplItemFn) -> syn::Result<()> {
    match function.sig.generics.params.first() {
        None => Ok(()),
        Some(param) => {
            let message = "what is found by name in a worker process has no generic parameters";
            Err(help(param, message, "name concrete types"))
        }
    }
}

fn params(function: &mut ImplItemFn) -> syn::Result<Vec<Param>> {
    let mut params = Vec::new();
    for (position, input) in function.sig.inputs.iter_mut().enumerate() {
        let FnArg::Typed(input) = input else { continue };
        let constant = input
            .attrs
            .iter()
            .any(|attribute| attribute.path().is_ident("constant"));
        input
            .attrs
            .retain(|attribute| !attribute.path().is_ident("constant"));
        let name = match &*input.pat {
            Pat::Ident(pattern) if pattern.subpat.is_none() && pattern.by_ref.is_none() => {
                pattern.ident.clone()
            }
            Pat::Wild(_) => quote::format_ident!("_{position}"),
            other => {
                return Err(help(
                    other,
                    "a parameter of an actor has a name",
                    "take the value apart in the body",
                ));
            }
        };
        let (edge, pass) = edge_type(&input.ty)?;
        params.push(Param {
            name,
            edge,
            pass,
            constant,
        });
    }
    Ok(params)
}

#[cfg(test)]
mod tests {
    use syn::parse_quote;

    use super::*;

    fn refused(block: ItemImpl) -> String {
        parse(block).err().expect("an error").to_string()
    }

    #[test]
    fn operations_are_public_functions_with_self() {
        let parsed = parse(parse_quote! {
            impl Tok {
                pub fn new(vocab: u32) -> Self { Tok }
                pub fn encode(&mut self, text: &str, #[constant] limit: usize) -> Result<Vec<u32>> { todo!() }
                pub fn helper(x: u8) -> u8 { x }
                fn private(&mut self) {}
            }
        })
        .expect("an actor");
        assert_eq!(parsed.operations.len(), 1);
        assert!(parsed.operations[0].fallible && parsed.operations[0].params[1].constant);
        let block = &parsed.block;
        assert!(
            !quote::quote!(#block).to_string().contains("constant"),
            "our attribute is taken off"
        );
    }

    #[test]
    fn mistakes_are_refused_with_a_help() {
        assert!(
            refused(parse_quote!(impl A { pub fn f(&mut self, x: u8) {} })).contains("has no constructor")
        );
        assert!(
            refused(parse_quote!(
                impl<T> A<T> {
                    pub fn new() -> Self {
                        A
                    }
                }
            ))
            .contains("generic")
        );
        assert!(refused(parse_quote!(impl Clone for A {})).contains("inherent"));
        let call =
            refused(parse_quote!(impl A { pub fn new() -> Self { A } pub fn call(&mut self, x: u8) {} }));
        assert!(call.contains("every handle"));
    }
}
