//! Reads an `impl` block or a trait: its constructors and its operations.
//!
//! `actor_type` reads the block's type, `method` each of its methods, and `param` the parameters of a method. `own_type`
//! finds `Self` in signatures. This file finds the methods in the block and collects their mistakes.

mod actor_type;
mod method;
mod own_type;
mod param;

use syn::{
    Attribute, Error, FnArg, Ident, ImplItem, ImplItemFn, ItemImpl, ItemTrait, Signature, TraitItem, Type,
    Visibility, parse_quote,
};

use crate::edge_type::{help, result_type};

pub(crate) use actor_type::{ActorType, actor_type, sibling};
pub(crate) use method::{Constructor, Operation, copied};
pub(crate) use param::{Marked, Param, params, strip};

/// A method with a mistake, with the data for a stand-in, so that uses of the method cause no further errors.
pub(crate) struct Mistaken {
    pub(crate) name: Ident,
    pub(crate) params: usize,
    pub(crate) result: Type,
}

/// The operations of a block or a trait.
pub(crate) struct Operations {
    pub(crate) operations: Vec<Operation>,
    pub(crate) mistaken: Vec<Mistaken>,
}

/// A parsed block of an actor.
pub(crate) struct Parsed {
    pub(crate) actor: ActorType,
    /// The constructors, `new` first. Empty for a local actor, which closures build, and for a further block.
    pub(crate) constructors: Vec<Constructor>,
    pub(crate) methods: Operations,
    /// All mistakes in the block, combined.
    pub(crate) error: Option<Error>,
}

/// The constructors that a block has.
#[derive(Clone, Copy, PartialEq, Eq)]
pub(crate) enum Constructors {
    /// At least one.
    Some,
    /// None: functions without a receiver are like any other. For the block of a local actor, and for a further block.
    None,
}

/// Reads an `impl` block.
pub(crate) fn parse(block: &ItemImpl, wanted: Constructors, mistake: Option<Error>) -> syn::Result<Parsed> {
    let (actor, lifetimes) = actor_type(block)?;
    let mut errors: Vec<Error> = mistake.into_iter().chain(lifetimes).collect();
    let functions = public_functions(block).map(|function| (&function.attrs[..], &function.sig));
    let methods = operations(functions, Some(&actor), &mut errors);
    let constructors = match wanted {
        Constructors::None => Vec::new(),
        Constructors::Some => constructors(block, &actor, &mut errors),
    };
    Ok(Parsed {
        actor,
        constructors,
        methods,
        error: combined(errors),
    })
}

/// Reads the operations of a trait, and their mistakes.
pub(crate) fn parse_trait(item: &ItemTrait, mistake: Option<Error>) -> (Operations, Option<Error>) {
    let mut errors: Vec<Error> = mistake.into_iter().collect();
    if let Some(param) = item.generics.params.first() {
        let message = "a trait of actors has no generic parameters: its handle is one type";
        errors.push(help(param, message, "name concrete types in its methods"));
    }
    let functions = item.items.iter().filter_map(|item| match item {
        TraitItem::Fn(function) => Some((&function.attrs[..], &function.sig)),
        _ => None,
    });
    if let Some(TraitItem::Type(ty)) = item.items.iter().find(|item| matches!(item, TraitItem::Type(_))) {
        let message = "a trait of actors has no associated types: its handle is one type for all actors";
        errors.push(help(ty, message, "name a concrete type in its methods"));
    }
    (operations(functions, None, &mut errors), combined(errors))
}

fn combined(errors: Vec<Error>) -> Option<Error> {
    errors.into_iter().reduce(|mut all, error| {
        all.combine(error);
        all
    })
}

/// Reads the operations among functions, of an actor or, without one, of a trait. A method with a mistake adds its error
/// to `errors`.
fn operations<'a>(
    functions: impl Iterator<Item = (&'a [Attribute], &'a Signature)>,
    actor: Option<&ActorType>,
    errors: &mut Vec<Error>,
) -> Operations {
    let (mut operations, mut mistaken) = (Vec::new(), Vec::new());
    for (attributes, signature) in functions.filter(|(_, signature)| takes_self(signature)) {
        match method::operation(attributes, signature, actor, &operations) {
            Ok(operation) => operations.push(operation),
            Err(error) => {
                errors.push(error);
                mistaken.push(stand_in(signature, actor));
            }
        }
    }
    Operations { operations, mistaken }
}

/// Reads the constructors of a block, `new` first. Several functions `new` exclude each other by `cfg`; the last one
/// counts.
fn constructors(block: &ItemImpl, actor: &ActorType, errors: &mut Vec<Error>) -> Vec<Constructor> {
    let free = || public_functions(block).filter(|function| !takes_self(&function.sig));
    let mut constructors = Vec::new();
    if let Some(new) = free().filter(|function| function.sig.ident == "new").last() {
        match method::constructor(new, actor, &[]) {
            Ok(new) => constructors.push(Constructor {
                cfgs: Vec::new(),
                ..new
            }),
            Err(error) => errors.push(error),
        }
    }
    for function in free().filter(|function| builds(function, actor)) {
        // A function that cannot be a constructor is like any other.
        if let Ok(constructor) = method::constructor(function, actor, &constructors) {
            constructors.push(constructor);
        }
    }
    if constructors.is_empty() && errors.is_empty() {
        let name = &actor.name;
        errors.push(help(
            name,
            format!("actor `{name}` has no constructor in this block"),
            "add `pub fn new(..) -> Self`; write `#[actor(local)]` if only closures build it, or `#[actor(more)]` on a \
             further block of an actor",
        ));
    }
    constructors
}

/// Tells whether a function is a further constructor: it returns the actor, and takes none.
fn builds(function: &ImplItemFn, actor: &ActorType) -> bool {
    let name = &function.sig.ident;
    if name == "new" || name == "call" || name == "actor" {
        return false;
    }
    let Ok((Type::Path(path), _)) = result_type(&function.sig.output) else {
        return false;
    };
    if own_type::takes(&function.sig) {
        return false;
    }
    path.path.is_ident("Self") || quote::quote!(#path).to_string() == actor.ty.to_string()
}

/// Returns the public functions of a block.
fn public_functions(block: &ItemImpl) -> impl Iterator<Item = &ImplItemFn> {
    block.items.iter().filter_map(|item| match item {
        ImplItem::Fn(function) if matches!(function.vis, Visibility::Public(_)) => Some(function),
        _ => None,
    })
}

/// Tells whether a function has a receiver.
fn takes_self(signature: &Signature) -> bool {
    matches!(signature.inputs.first(), Some(FnArg::Receiver(_)))
}

/// Returns the data for the stand-in of a method with a mistake and a receiver.
fn stand_in(signature: &Signature, actor: Option<&ActorType>) -> Mistaken {
    let named = own_type::named(signature, actor);
    let result = named.and_then(|signature| result_type(&signature.output));
    Mistaken {
        name: signature.ident.clone(),
        params: signature.inputs.len() - 1,
        result: result.map_or_else(|_| parse_quote!(()), |(ty, _)| ty),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn refused(block: ItemImpl) -> String {
        let error = match parse(&block, Constructors::Some, None) {
            Ok(parsed) => parsed.error,
            Err(error) => Some(error),
        };
        error.expect("an error").to_string()
    }

    #[test]
    fn operations_are_public_functions_with_self() {
        let block = parse_quote! {
            impl Tok {
                pub fn new(vocab: u32) -> Self { Tok }
                pub fn encode(&mut self, text: &str, #[constant] limit: usize) -> Result<Vec<u32>> { todo!() }
                pub fn helper(x: u8) -> u8 { x }
                fn private(&mut self) {}
            }
        };
        let parsed = parse(&block, Constructors::Some, None).expect("an actor");
        let operations = &parsed.methods.operations;
        assert_eq!(operations.len(), 1);
        assert!(operations[0].fallible && operations[0].params[1].constant);
        let mut signature: Signature = parse_quote!(fn f(&self, #[constant] x: u8));
        strip([&mut signature].into_iter());
        assert!(signature.inputs.iter().all(|input| match input {
            FnArg::Typed(input) => input.attrs.is_empty(),
            FnArg::Receiver(_) => true,
        }));
    }

    #[test]
    fn constructors_are_public_functions_that_return_the_actor() {
        let block = parse_quote! {
            impl Tok {
                pub async fn open(path: &str) -> Result<Self> { todo!() }
                pub fn generic<T>(x: T) -> Self { Tok }
                pub unsafe fn raw(x: u8) -> Self { Tok }
                pub fn twin(x: u8) -> Tok { Tok }
                pub fn other() -> Other { Other }
                pub fn join(one: &Self, other: Vec<Self>) -> Self { Tok }
                pub fn sized(x: [u8; Self::SIZE]) -> Self { Tok }
                fn private() -> Self { Tok }
                pub fn new() -> Self { Tok }
            }
        };
        let parsed = parse(&block, Constructors::Some, None).expect("an actor");
        let names: Vec<_> = parsed
            .constructors
            .iter()
            .map(|constructor| constructor.name.to_string())
            .collect();
        assert_eq!(names, ["new", "open", "twin", "sized"]);
        assert!(parsed.constructors[1].is_async && parsed.constructors[1].fallible);
    }

    #[test]
    fn self_in_a_signature_is_the_actor_and_is_refused_in_a_trait() {
        let block = parse_quote! {
            impl<T: Wire> Keep<T> {
                pub fn new(first: [T; Self::SIZE]) -> Self { Keep }
                pub fn merge(&mut self, other: &Self, rest: Vec<Self>) -> Option<Self> { None }
            }
        };
        let parsed = parse(&block, Constructors::Some, None).expect("an actor");
        assert!(parsed.error.is_none());
        let types = |params: &[Param]| -> Vec<String> {
            let types = params.iter().map(|param| &param.edge);
            types.map(|ty| quote::quote!(#ty).to_string()).collect()
        };
        let merge = &parsed.methods.operations[0];
        assert_eq!(types(&merge.params), ["Keep < T >", "Vec < Keep < T > >"]);
        let result = &merge.result;
        assert_eq!(quote::quote!(#result).to_string(), "Option < Keep < T > >");
        assert_eq!(
            types(&parsed.constructors[0].params),
            ["[T ; < Keep < T > > :: SIZE]"]
        );
        let (_, error) = parse_trait(
            &parse_quote!(
                trait Op {
                    fn merge(&mut self, other: &Self);
                }
            ),
            None,
        );
        let error = error.expect("an error").to_string();
        assert!(error.contains("`Self`") && error.contains("help"), "{error}");
    }

    #[test]
    fn mistakes_are_refused_with_a_help() {
        assert!(
            refused(parse_quote!(impl A { pub fn f(&mut self, x: u8) {} })).contains("has no constructor")
        );
        let lifetimes = parse_quote!(
            impl<'a> A<'a> {
                pub fn new() -> Self {
                    A
                }
            }
        );
        assert!(refused(lifetimes).contains("lifetimes"));
        let call =
            refused(parse_quote!(impl A { pub fn new() -> Self { A } pub fn call(&mut self, x: u8) {} }));
        assert!(call.contains("every handle"));
    }
}
