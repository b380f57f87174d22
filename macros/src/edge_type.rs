//! Edge types: the type that an edge carries for a parameter, and the form in which the method receives it.

use std::collections::BTreeSet;

use proc_macro2::{TokenStream, TokenTree};
use quote::{ToTokens, quote, quote_spanned};
use syn::punctuated::Punctuated;
use syn::spanned::Spanned;
use syn::{Error, GenericArgument, PathArguments, ReturnType, Token, Type, parse_quote};

/// The form in which a method takes an argument.
#[derive(Clone)]
pub(crate) enum Pass {
    /// By value.
    Owned,
    /// `&T`.
    Reference,
    /// `&[T]`, with the element type.
    Slice(Box<Type>),
    /// `&str`.
    Text,
    /// `Arc<T>`, of the value of a parameter with `#[here]`.
    Shared,
    /// A `Cow` of what one of the other forms borrows.
    Cow(Box<Pass>),
}

/// Returns a type without the parentheses around it, and without the invisible group in which a macro by example passes
/// a type.
pub(crate) fn ungrouped(ty: &Type) -> &Type {
    match ty {
        Type::Group(group) => ungrouped(&group.elem),
        Type::Paren(paren) => ungrouped(&paren.elem),
        other => other,
    }
}

/// Returns the edge type for a parameter of type `ty`, and the form in which the method takes the argument.
pub(crate) fn edge_type(ty: &Type) -> syn::Result<(Type, Pass)> {
    let ty = ungrouped(ty);
    if let Some(borrowed) = cow(ty) {
        owned(borrowed)?;
        let (edge, pass) = view(borrowed);
        return Ok((edge, Pass::Cow(Box::new(pass))));
    }
    let Type::Reference(reference) = ty else {
        if let Type::ImplTrait(_) = ty {
            return Err(help(
                ty,
                "`impl Trait` cannot travel along an edge",
                "name a concrete type",
            ));
        }
        owned(ty)?;
        return Ok((ty.clone(), Pass::Owned));
    };
    owned(&reference.elem)?;
    if reference.mutability.is_some() {
        let message = "a method or function cannot change its arguments in place";
        return Err(help(ty, message, "take `T` by value, or `&T`"));
    }
    if let Some(lifetime) = &reference.lifetime {
        return Err(help(
            lifetime,
            "a view lives as long as the call",
            "leave the lifetime out",
        ));
    }
    Ok(view(&reference.elem))
}

/// Returns the edge type for a view of type `&ty`, and the form of the view.
fn view(ty: &Type) -> (Type, Pass) {
    match ungrouped(ty) {
        Type::Slice(slice) => {
            let element = &slice.elem;
            (
                parse_quote!(::std::vec::Vec<#element>),
                Pass::Slice(element.clone()),
            )
        }
        Type::Path(path) if path.path.is_ident("str") => (parse_quote!(::std::string::String), Pass::Text),
        other => (other.clone(), Pass::Reference),
    }
}

/// Returns the arguments of a type `name<..>`. Types are recognised by their spelling, because a macro has no other knowledge
/// of a type.
pub(crate) fn arguments<'a>(ty: &'a Type, name: &str) -> Option<&'a Punctuated<GenericArgument, Token![,]>> {
    let Type::Path(path) = ungrouped(ty) else {
        return None;
    };
    let last = path.path.segments.last().filter(|last| last.ident == name)?;
    match &last.arguments {
        PathArguments::AngleBracketed(arguments) => Some(&arguments.args),
        _ => None,
    }
}

/// Returns the `T` of a type `name<T, ..>`.
pub(crate) fn argument<'a>(ty: &'a Type, name: &str) -> Option<&'a Type> {
    match arguments(ty, name)?.first()? {
        GenericArgument::Type(ty) => Some(ty),
        _ => None,
    }
}

/// Returns the `T` of a `Cow<'_, T>`. A `Cow<'static, T>` owns its data for a graph and travels as itself.
fn cow(ty: &Type) -> Option<&Type> {
    let mut arguments = arguments(ty, "Cow")?.iter();
    let mut first = arguments.next()?;
    if let GenericArgument::Lifetime(lifetime) = first {
        if lifetime.ident != "_" {
            return None;
        }
        first = arguments.next()?;
    }
    match first {
        GenericArgument::Type(ty) => Some(ty),
        _ => None,
    }
}

/// Refuses a type that borrows, such as `Cow<'_, str>` or `(&str, u8)`.
fn owned(ty: &Type) -> syn::Result<()> {
    match borrow(ty.to_token_stream()) {
        None => Ok(()),
        Some(lifetime) => Err(help(
            lifetime,
            "what travels along an edge owns its data",
            "take `&str`, `&[T]`, `&T` or a `Cow<'_, T>` as the parameter itself, or an owned type",
        )),
    }
}

/// Returns the first token of a borrow: a lifetime other than `'static`, or a reference without a lifetime. The search
/// stops at `fn`, `for` and `dyn`, because references in a function's signature borrow nothing.
fn borrow(tokens: TokenStream) -> Option<TokenTree> {
    let mut tokens = tokens.into_iter().peekable();
    // After an operand, `&` is an operator of a constant expression, not a reference.
    let mut operand = false;
    while let Some(token) = tokens.next() {
        let after_operand = std::mem::replace(&mut operand, !matches!(token, TokenTree::Punct(_)));
        let borrows = match &token {
            TokenTree::Ident(name) if name == "fn" || name == "for" || name == "dyn" => return None,
            TokenTree::Punct(mark) if mark.as_char() == '\'' => {
                tokens.next().is_some_and(|name| name.to_string() != "static")
            }
            TokenTree::Punct(mark) if mark.as_char() == '&' && !after_operand => {
                !matches!(tokens.peek(), Some(TokenTree::Punct(mark)) if mark.as_char() == '\'')
            }
            TokenTree::Group(group) => match borrow(group.stream()) {
                None => false,
                found => return found,
            },
            _ => false,
        };
        if borrows {
            return Some(token);
        }
    }
    None
}

/// Returns the type of a method's value, and whether the method returns a `Result`. `Result<T, ..>` is recognised by
/// its spelling and has the value type `T`.
pub(crate) fn result_type(output: &ReturnType) -> syn::Result<(Type, bool)> {
    let ReturnType::Type(_, ty) = output else {
        return Ok((parse_quote!(()), false));
    };
    let ty = ungrouped(ty);
    if let Type::Reference(_) = ty {
        return Err(help(
            ty,
            "a result travels on without its actor",
            "return an owned value",
        ));
    }
    if let Type::ImplTrait(_) = ty {
        return Err(help(
            ty,
            "`impl Trait` cannot travel along an edge",
            "name a concrete type",
        ));
    }
    Ok(match argument(ty, "Result") {
        Some(value) => (ungrouped(value).clone(), true),
        None => (ty.clone(), false),
    })
}

/// Returns the types of a list's elements, outermost first: `Vec<Vec<T>>` gives `Vec<T>` and `T`.
pub(crate) fn list_elements(ty: &Type) -> Vec<Type> {
    let elements = std::iter::successors(argument(ty, "Vec"), |element| argument(element, "Vec"));
    elements.map(|element| ungrouped(element).clone()).collect()
}

/// Generates the payload type of an edge type, with the traits that method lookup finds.
pub(crate) fn payload_type(ty: &Type) -> TokenStream {
    quote!((&&&&::selvedge::__private::PayloadProbe::<#ty>::new()).payload_type())
}

/// Generates the traits of a type, which method lookup finds.
pub(crate) fn traits(ty: &impl ToTokens) -> TokenStream {
    quote!((&&&&::selvedge::__private::PayloadProbe::<#ty>::new()).traits())
}

/// Generates the imports of the traits whose methods [`payload_type`] and [`traits`] call.
pub(crate) fn probes() -> TokenStream {
    quote! {
        #[allow(unused_imports)]
        use ::selvedge::__private::{CloneablePayload as _, MovablePayload as _, ShareablePayload as _, UnmovablePayload as _, WirePayload as _};
    }
}

/// Returns predicates that require each type to travel along edges; for a list, it requires this of the
/// innermost elements. Each spelling is listed once. The types in `PLAIN` are left out: they always travel, and the
/// bounds would clutter the documentation of the handle.
pub(crate) fn travel<'a>(types: impl Iterator<Item = &'a Type>) -> TokenStream {
    let mut known = BTreeSet::new();
    let mut bounds = TokenStream::new();
    for ty in types {
        let ty = list_elements(ty).pop().unwrap_or_else(|| ty.clone());
        let spelled = ty.to_token_stream().to_string();
        if !PLAIN.contains(&spelled.as_str()) && known.insert(spelled) {
            bounds.extend(quote_spanned!(ty.span()=> for<'__selvedge> #ty: ::selvedge::__private::Travels<'__selvedge>,));
        }
    }
    bounds
}

/// Spellings of types that travel along edges, unless the user has defined other types with these names.
const PLAIN: [&str; 13] = [
    "()", "bool", "i8", "i16", "i32", "i64", "u8", "u16", "u32", "u64", "usize", "f32", "f64",
];

/// Builds an error at a span, with a line that says how to correct the mistake.
pub(crate) fn help(at: impl Spanned, message: impl std::fmt::Display, help: impl std::fmt::Display) -> Error {
    Error::new(at.span(), format!("{message}\nhelp: {help}"))
}

#[cfg(test)]
mod tests {
    use proc_macro2::{Delimiter, Group};

    use super::*;

    fn edge(ty: Type) -> String {
        edge_type(&ty)
            .expect("an edge type")
            .0
            .to_token_stream()
            .to_string()
    }

    #[test]
    fn references_travel_as_what_they_borrow_from() {
        assert_eq!(edge(parse_quote!(&str)), ":: std :: string :: String");
        assert_eq!(edge(parse_quote!(&[f32])), ":: std :: vec :: Vec < f32 >");
        assert_eq!(edge(parse_quote!(&Tensor)), "Tensor");
        assert_eq!(edge(parse_quote!(Vec<u8>)), "Vec < u8 >");
        assert_eq!(edge(parse_quote!(Cow<'_, str>)), ":: std :: string :: String");
        assert_eq!(edge(parse_quote!(Cow<[f32]>)), ":: std :: vec :: Vec < f32 >");
        assert_eq!(edge(parse_quote!(std::borrow::Cow<'_, Config>)), "Config");
        assert_eq!(edge(parse_quote!(Cow<'static, str>)), "Cow < 'static , str >");
    }

    #[test]
    fn a_type_that_a_macro_by_example_passes_is_known_as_if_it_were_written_there() {
        let passed = |tokens: TokenStream| Group::new(Delimiter::None, tokens);
        let (text, list) = (passed(quote!(str)), passed(quote!(Vec<u8>)));
        assert_eq!(edge(parse_quote!(&#text)), ":: std :: string :: String");
        assert_eq!(edge(parse_quote!(#list)), "Vec < u8 >");
        assert_eq!(edge(parse_quote!(Cow<'_, #text>)), ":: std :: string :: String");
        assert_eq!(list_elements(&parse_quote!(#list)).len(), 1);
        assert_eq!(list_elements(&parse_quote!(Vec<#list>)).len(), 2);
        let result = passed(quote!(Result<(u8)>));
        let (ty, fallible) = result_type(&parse_quote!(-> #result)).expect("a type");
        assert_eq!(
            (ty.to_token_stream().to_string().as_str(), fallible),
            ("u8", true)
        );
    }

    #[test]
    fn a_list_is_known_by_its_spelling() {
        let of = |ty: Type| -> Vec<String> {
            list_elements(&ty)
                .iter()
                .map(|element| element.to_token_stream().to_string())
                .collect()
        };
        assert_eq!(of(parse_quote!(Vec<Vec<f32>>)), ["Vec < f32 >", "f32"]);
        assert_eq!(of(parse_quote!(::std::vec::Vec<Tensor>)), ["Tensor"]);
        assert!(of(parse_quote!(Tensor)).is_empty() && of(parse_quote!([u8; 3])).is_empty());
    }

    #[test]
    fn a_mutable_reference_is_refused_with_a_help() {
        let error = edge_type(&parse_quote!(&mut u8)).err().expect("an error");
        assert!(error.to_string().contains("help: take `T` by value"));
    }

    #[test]
    fn a_type_that_borrows_is_refused_with_a_help() {
        let refused = |ty: Type| edge_type(&ty).err().map(|error| error.to_string());
        for ty in [
            parse_quote!(Cow<'a, str>),
            parse_quote!(Cow<'_, &str>),
            parse_quote!((u8, &str)),
            parse_quote!(&[&str]),
        ] {
            assert!(refused(ty).is_some_and(|text| text.contains("help: take `&str`")));
        }
        for ty in [
            parse_quote!(Cow<'static, str>),
            parse_quote!([u8; 3]),
            parse_quote!(&'static str),
        ] {
            let text = refused(ty);
            assert!(text.is_none_or(|text| !text.contains("owns its data")));
        }
    }

    #[test]
    fn a_result_is_known_by_its_spelling() {
        let of = |output: ReturnType| {
            let (ty, fallible) = result_type(&output).expect("a type");
            (ty.to_token_stream().to_string(), fallible)
        };
        assert_eq!(of(parse_quote!(-> Result<u8>)), ("u8".into(), true));
        assert_eq!(of(parse_quote!(-> std::io::Result<u8>)), ("u8".into(), true));
        assert_eq!(
            of(parse_quote!(-> Result<Vec<u8>, String>)),
            ("Vec < u8 >".into(), true)
        );
        assert_eq!(of(parse_quote!(-> u8)), ("u8".into(), false));
        assert_eq!(of(ReturnType::Default), ("()".into(), false));
    }
}
