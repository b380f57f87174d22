//! The arguments of `#[remote(..)]`, and the type that the value of a submitted call has.

use proc_macro2::TokenStream;
use quote::quote;
use syn::parse::{Parse, ParseStream};
use syn::{Error, Ident, LitInt, Token, Type};

use crate::edge_type::{argument, arguments};

/// The arguments of `#[remote(..)]`, a list in any order.
#[derive(Default)]
pub(super) struct Facts {
    /// `pure`: a call may run again.
    is_pure: bool,
    /// `retries = n`: how often.
    retries: Option<u32>,
    /// `cpus = n`, `gpus = n`: what a submitted call needs.
    cpus: Option<u32>,
    /// The word `cpus`, for an error.
    cpus_at: Option<Ident>,
    gpus: u32,
}

impl Parse for Facts {
    fn parse(input: ParseStream<'_>) -> syn::Result<Self> {
        let mut facts = Self::default();
        let mut retries = None;
        let mut given: Vec<String> = Vec::new();
        while !input.is_empty() {
            let name: Ident = input.parse()?;
            let word = name.to_string();
            if given.contains(&word) {
                let message = format!("`{name}` is given twice\nhelp: remove one");
                return Err(Error::new(name.span(), message));
            }
            match word.as_str() {
                "pure" => facts.is_pure = true,
                "retries" => {
                    facts.retries = Some(number(input)?);
                    retries = Some(name);
                }
                "cpus" => {
                    facts.cpus = Some(number(input)?);
                    facts.cpus_at = Some(name);
                }
                "gpus" => facts.gpus = number(input)?,
                _ => {
                    let message = format!(
                        "`#[remote]` has no argument `{name}`\nhelp: it has `pure`, `retries = n`, `cpus = n` and `gpus = n`; other options \
                         belong to the call"
                    );
                    return Err(Error::new(name.span(), message));
                }
            }
            given.push(word);
            if !input.is_empty() {
                input.parse::<Token![,]>()?;
            }
        }
        match retries.filter(|_| !facts.is_pure) {
            Some(retries) => Err(Error::new(
                retries.span(),
                "a function that is not pure does not run again\nhelp: write `#[remote(pure, retries = n)]` if it gives the same value \
                 whenever it runs with the same arguments, and may run twice",
            )),
            None => Ok(facts),
        }
    }
}

/// Reads a number, with the equals sign before it.
fn number(input: ParseStream<'_>) -> syn::Result<u32> {
    input.parse::<Token![=]>()?;
    input.parse::<LitInt>()?.base10_parse()
}

impl Facts {
    /// Refuses cpus of an `async fn`, which runs on a thread that it shares.
    pub(super) fn check(self, is_async: bool) -> syn::Result<Self> {
        match self.cpus_at.as_ref().filter(|_| is_async) {
            Some(cpus) => Err(Error::new(
                cpus.span(),
                "an `async fn` has no cpu of its own: it shares one thread with all others of its process\nhelp: remove `cpus`, or write a \
                 `fn` if it computes",
            )),
            None => Ok(self),
        }
    }

    /// The facts as an expression.
    pub(super) fn expression(&self) -> TokenStream {
        let retries = match (self.is_pure, self.retries) {
            (false, _) => quote!(::std::option::Option::None),
            (true, None) => quote!(::std::option::Option::Some(
                ::selvedge::__private::FunctionFacts::RETRIES
            )),
            (true, Some(retries)) => quote!(::std::option::Option::Some(#retries)),
        };
        let cpus = match self.cpus {
            None => quote!(::std::option::Option::None),
            Some(cpus) => quote!(::std::option::Option::Some(#cpus)),
        };
        let gpus = self.gpus;
        quote! {
            ::selvedge::__private::FunctionFacts { retries: #retries, cpus: #cpus, gpus: #gpus }
        }
    }
}

/// The type of the value of a submitted call: the `S` of a function that returns a `Ref<S>`, otherwise the value itself. The macro
/// sees it by spelling, as it sees `Result`.
pub(super) fn submitted(result: &Type) -> &Type {
    let alone = arguments(result, "Ref").filter(|arguments| arguments.len() == 1);
    alone.and_then(|_| argument(result, "Ref")).unwrap_or(result)
}
