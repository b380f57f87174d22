//! Reads an `impl` block: its constructor and its operations.

use proc_macro2::TokenStream;
use quote::{format_ident, quote};
use syn::{
    Attribute, Error, FnArg, GenericParam, Ident, ImplItem, ImplItemFn, ItemImpl, Pat, Type, Visibility,
    parse_quote,
};

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
}

impl Operation {
    /// Returns the types that must be able to travel along edges for the operation to run.
    pub(crate) fn travellers(&self) -> impl Iterator<Item = &Type> {
        self.params.iter().map(|param| &param.edge).chain([&self.result])
    }
}

/// A method with a mistake, with the data for a stand-in, so that uses of the method cause no further errors.
pub(crate) struct Mistaken {
    pub(crate) name: Ident,
    pub(crate) params: usize,
    pub(crate) result: Type,
}

/// A parsed actor.
pub(crate) struct Parsed {
    pub(crate) name: Ident,
    pub(crate) constructor: Constructor,
    pub(crate) operations: Vec<Operation>,
    pub(crate) mistaken: Vec<Mistaken>,
    /// All mistakes in the block, combined.
    pub(crate) error: Option<Error>,
}

/// Removes the attribute `#[constant]` from the parameters of a block that has been read.
pub(crate) fn strip(block: &mut ItemImpl) {
    let functions = block.items.iter_mut().filter_map(|item| match item {
        ImplItem::Fn(function) => Some(function),
        _ => None,
    });
    for input in functions.flat_map(|function| &mut function.sig.inputs) {
        if let FnArg::Typed(input) = input {
            input.attrs.retain(|attribute| !is_constant(attribute));
        }
    }
}

fn is_constant(attribute: &Attribute) -> bool {
    attribute.path().is_ident("constant")
}

/// Reads an `impl` block.
pub(crate) fn parse(block: &ItemImpl) -> syn::Result<Parsed> {
    if let Some((path, _)) = &block.trait_ {
        return Err(help(
            path,
            "`#[actor]` goes on an inherent `impl` block",
            "put the operations into `impl Type`",
        ));
    }
    match block.generics.params.first() {
        None => {}
        Some(GenericParam::Lifetime(lifetime)) => {
            let message = "an actor's type has no lifetimes: it lives until its runtime ends";
            return Err(help(lifetime, message, "own the data, or share it in an `Arc`"));
        }
        Some(_) => {
            let message =
                "an actor's type has no generic parameters: it is found by name in a worker process";
            return Err(help(
                &block.generics,
                message,
                "write one actor per concrete type",
            ));
        }
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
    let mut mistaken = Vec::new();
    let mut errors = Vec::new();
    for item in &block.items {
        let ImplItem::Fn(function) = item else { continue };
        if !matches!(function.vis, Visibility::Public(_)) {
            continue;
        }
        let takes_self = matches!(function.sig.inputs.first(), Some(FnArg::Receiver(_)));
        if takes_self {
            match operation(function, &operations) {
                Ok(operation) => operations.push(operation),
                Err(error) => {
                    errors.push(error);
                    mistaken.push(Mistaken {
                        name: function.sig.ident.clone(),
                        params: function.sig.inputs.len() - 1,
                        result: result_type(&function.sig.output)
                            .map_or_else(|_| parse_quote!(()), |(ty, _)| ty),
                    });
                }
            }
        } else if function.sig.ident == "new" {
            constructor = Some(new(function));
        }
    }
    let missing = || {
        Err(help(
            &name,
            format!("actor `{name}` has no constructor in this block"),
            "add `pub fn new(..) -> Self`; an actor has one `#[actor]` block, with its constructor and all its operations",
        ))
    };
    let constructor = constructor.unwrap_or_else(missing).unwrap_or_else(|error| {
        errors.push(error);
        Constructor {
            params: Vec::new(),
            fallible: false,
        }
    });
    let error = errors.into_iter().reduce(|mut all, error| {
        all.combine(error);
        all
    });
    Ok(Parsed {
        name,
        constructor,
        operations,
        mistaken,
        error,
    })
}

fn new(function: &ImplItemFn) -> syn::Result<Constructor> {
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

fn operation(function: &ImplItemFn, before: &[Operation]) -> syn::Result<Operation> {
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
    })
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

fn plain(function: &ImplItemFn) -> syn::Result<()> {
    match function.sig.generics.params.first() {
        None => Ok(()),
        Some(param) => {
            let message = "what is found by name in a worker process has no generic parameters";
            Err(help(param, message, "name concrete types"))
        }
    }
}

fn params(function: &ImplItemFn) -> syn::Result<Vec<Param>> {
    let mut params = Vec::new();
    for (position, input) in function.sig.inputs.iter().enumerate() {
        let FnArg::Typed(input) = input else { continue };
        let constant = input.attrs.iter().any(is_constant);
        let name = match &*input.pat {
            Pat::Ident(pattern) if pattern.subpat.is_none() && pattern.by_ref.is_none() => {
                pattern.ident.clone()
            }
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
    use super::*;

    fn refused(block: ItemImpl) -> String {
        let error = match parse(&block) {
            Ok(parsed) => parsed.error,
            Err(error) => Some(error),
        };
        error.expect("an error").to_string()
    }

    #[test]
    fn operations_are_public_functions_with_self() {
        let mut block = parse_quote! {
            impl Tok {
                pub fn new(vocab: u32) -> Self { Tok }
                pub fn encode(&mut self, text: &str, #[constant] limit: usize) -> Result<Vec<u32>> { todo!() }
                pub fn helper(x: u8) -> u8 { x }
                fn private(&mut self) {}
            }
        };
        let parsed = parse(&block).expect("an actor");
        assert_eq!(parsed.operations.len(), 1);
        assert!(parsed.operations[0].fallible && parsed.operations[0].params[1].constant);
        strip(&mut block);
        assert!(
            !quote!(#block).to_string().contains("constant"),
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
