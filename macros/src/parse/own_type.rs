//! `Self` in a signature: generated code stands outside of the block, where `Self` is another type or none.

use proc_macro2::{Group, TokenStream, TokenTree};
use quote::{ToTokens, quote};
use syn::{FnArg, ReturnType, Signature, Type};

use super::actor_type::ActorType;
use crate::edge_type::help;

/// Returns a signature with the actor's type in place of `Self`. In a trait, `Self` is another type for each actor, and is
/// refused.
pub(super) fn named(signature: &Signature, actor: Option<&ActorType>) -> syn::Result<Signature> {
    let mut signature = signature.clone();
    let inputs = signature.inputs.iter_mut().filter_map(|input| match input {
        FnArg::Typed(input) => Some(&mut input.ty),
        FnArg::Receiver(_) => None,
    });
    let output = match &mut signature.output {
        ReturnType::Type(_, ty) => Some(ty),
        ReturnType::Default => None,
    };
    for ty in inputs.chain(output) {
        let tokens = ty.to_token_stream();
        let Some(own) = own(tokens.clone()) else {
            continue;
        };
        let Some(actor) = actor else {
            let message =
                "`Self` in a trait of actors is another type for each actor, and its handle is one type";
            return Err(help(own, message, "name a concrete type"));
        };
        **ty = syn::parse2(replaced(tokens, &actor.ty))?;
    }
    Ok(signature)
}

/// Tells whether a function takes a value of its block's type, by its name `Self`.
pub(super) fn takes(signature: &Signature) -> bool {
    let is_own = |ty: &Type| whole(ty.to_token_stream());
    signature.inputs.iter().any(|input| match input {
        FnArg::Typed(input) => is_own(&input.ty),
        FnArg::Receiver(_) => true,
    })
}

/// Returns the first `Self` in a type.
fn own(tokens: TokenStream) -> Option<TokenTree> {
    tokens.into_iter().find_map(|token| match token {
        TokenTree::Ident(name) if name == "Self" => Some(name.into()),
        TokenTree::Group(group) => own(group.stream()),
        _ => None,
    })
}

/// Tells whether a type has a `Self` that is a type of its own, not the beginning of a path such as `Self::SIZE`.
fn whole(tokens: TokenStream) -> bool {
    let mut tokens = tokens.into_iter().peekable();
    while let Some(token) = tokens.next() {
        let found = match token {
            TokenTree::Ident(name) if name == "Self" => !is_path(tokens.peek()),
            TokenTree::Group(group) => whole(group.stream()),
            _ => false,
        };
        if found {
            return true;
        }
    }
    false
}

/// Tells whether a path goes on with this token.
fn is_path(next: Option<&TokenTree>) -> bool {
    matches!(next, Some(TokenTree::Punct(mark)) if mark.as_char() == ':')
}

/// Replaces each `Self` by a type: by `<Type>` where a path goes on.
fn replaced(tokens: TokenStream, ty: &TokenStream) -> TokenStream {
    let mut replaced_tokens = TokenStream::new();
    let mut tokens = tokens.into_iter().peekable();
    while let Some(token) = tokens.next() {
        match token {
            TokenTree::Ident(name) if name == "Self" && is_path(tokens.peek()) => {
                replaced_tokens.extend(quote!(<#ty>));
            }
            TokenTree::Ident(name) if name == "Self" => replaced_tokens.extend(ty.clone()),
            TokenTree::Group(group) => {
                let mut inner = Group::new(group.delimiter(), replaced(group.stream(), ty));
                inner.set_span(group.span());
                replaced_tokens.extend([TokenTree::Group(inner)]);
            }
            other => replaced_tokens.extend([other]),
        }
    }
    replaced_tokens
}
