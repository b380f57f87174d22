//! Reads an `impl` block: its constructor and its operations.
//!
//! `actor_type` reads the block's type, `method` each of its methods, and `param` the parameters of a method. This file
//! finds the methods in the block and collects their mistakes. `options` reads the arguments of the attribute.

mod actor_type;
mod method;
mod options;
mod param;

use syn::{Error, FnArg, Ident, ImplItem, ImplItemFn, ItemImpl, Type, Visibility, parse_quote};

use crate::edge_type::{help, result_type};

pub(crate) use method::{Constructor, Operation};
pub(crate) use options::Options;
pub(crate) use param::{Param, strip};

/// A method with a mistake, with the data for a stand-in, so that uses of the method cause no further errors.
pub(crate) struct Mistaken {
    pub(crate) name: Ident,
    pub(crate) params: usize,
    pub(crate) result: Type,
}

/// A parsed actor.
pub(crate) struct Parsed {
    pub(crate) name: Ident,
    /// `None` for a local actor, which closures build.
    pub(crate) constructor: Option<Constructor>,
    pub(crate) operations: Vec<Operation>,
    /// The number of async methods that may be in flight at a time.
    pub(crate) concurrency: u32,
    pub(crate) mistaken: Vec<Mistaken>,
    /// All mistakes in the block, combined.
    pub(crate) error: Option<Error>,
}

/// Reads an `impl` block. The block of a local actor has no constructor; a function `new` in it is like any other.
pub(crate) fn parse(block: &ItemImpl, options: &Options) -> syn::Result<Parsed> {
    let name = actor_type::name(block)?;
    let mut errors = Vec::new();
    let (operations, mistaken) = operations(block, &mut errors);
    let constructor = (!options.is_local).then(|| {
        constructor(block, &name).unwrap_or_else(|error| {
            errors.push(error);
            Constructor {
                params: Vec::new(),
                fallible: false,
            }
        })
    });
    let error = errors.into_iter().reduce(|mut all, error| {
        all.combine(error);
        all
    });
    Ok(Parsed {
        name,
        constructor,
        operations,
        concurrency: options.concurrency,
        mistaken,
        error,
    })
}

/// Reads the operations of a block. A method with a mistake adds its error to `errors`.
fn operations(block: &ItemImpl, errors: &mut Vec<Error>) -> (Vec<Operation>, Vec<Mistaken>) {
    let (mut operations, mut mistaken) = (Vec::new(), Vec::new());
    for function in public_functions(block).filter(|function| takes_self(function)) {
        match method::operation(function, &operations) {
            Ok(operation) => operations.push(operation),
            Err(error) => {
                errors.push(error);
                mistaken.push(stand_in(function));
            }
        }
    }
    (operations, mistaken)
}

/// Reads the constructor of the block of the actor `name`. The last one counts; rustc reports that there are several.
fn constructor(block: &ItemImpl, name: &Ident) -> syn::Result<Constructor> {
    let is_constructor = |function: &&ImplItemFn| !takes_self(function) && function.sig.ident == "new";
    match public_functions(block).filter(is_constructor).last() {
        Some(function) => method::constructor(function),
        None => Err(help(
            name,
            format!("actor `{name}` has no constructor in this block"),
            "add `pub fn new(..) -> Self` to its one `#[actor]` block, or write `#[actor(local)]` and spawn it with `spawn_with`",
        )),
    }
}

/// Returns the public functions of a block.
fn public_functions(block: &ItemImpl) -> impl Iterator<Item = &ImplItemFn> {
    block.items.iter().filter_map(|item| match item {
        ImplItem::Fn(function) if matches!(function.vis, Visibility::Public(_)) => Some(function),
        _ => None,
    })
}

/// Tells whether a function has a receiver.
fn takes_self(function: &ImplItemFn) -> bool {
    matches!(function.sig.inputs.first(), Some(FnArg::Receiver(_)))
}

/// Returns the data for the stand-in of a method with a mistake and a receiver.
fn stand_in(function: &ImplItemFn) -> Mistaken {
    Mistaken {
        name: function.sig.ident.clone(),
        params: function.sig.inputs.len() - 1,
        result: result_type(&function.sig.output).map_or_else(|_| parse_quote!(()), |(ty, _)| ty),
    }
}

#[cfg(test)]
mod tests {
    use quote::quote;

    use super::*;

    fn options() -> Options {
        Options {
            is_local: false,
            concurrency: 1,
        }
    }

    fn refused(block: ItemImpl) -> String {
        let error = match parse(&block, &options()) {
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
        let parsed = parse(&block, &options()).expect("an actor");
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
