//! Reads the arguments of the attribute: `local`, `concurrency = n`, or nothing.

use proc_macro2::TokenStream;
use syn::parse::Parser;
use syn::punctuated::Punctuated;
use syn::{Error, Expr, Lit, Meta, Token};

/// The arguments of the attribute.
#[derive(Debug)]
pub(crate) struct Options {
    /// True for an actor that closures build.
    pub(crate) is_local: bool,
    /// The number of async methods that may be in flight at a time.
    pub(crate) concurrency: u32,
}

impl Options {
    /// Reads the arguments.
    pub(crate) fn parse(attributes: TokenStream) -> syn::Result<Self> {
        let mut options = Options {
            is_local: false,
            concurrency: 1,
        };
        let all = attributes.clone();
        let unknown = || {
            Error::new_spanned(
                &all,
                "`#[actor]` takes no arguments except `local` and `concurrency = n`",
            )
        };
        let metas = Punctuated::<Meta, Token![,]>::parse_terminated.parse2(attributes);
        for meta in metas.map_err(|_| unknown())? {
            match &meta {
                Meta::Path(path) if path.is_ident("local") => options.is_local = true,
                Meta::NameValue(pair) if pair.path.is_ident("concurrency") => {
                    options.concurrency = concurrency(&pair.value)?;
                }
                _ => return Err(unknown()),
            }
        }
        Ok(options)
    }
}

/// Reads the number of async methods that may be in flight at a time.
fn concurrency(value: &Expr) -> syn::Result<u32> {
    let refused = || {
        Error::new_spanned(
            value,
            "`concurrency` is the number of async methods in flight, from 1 on",
        )
    };
    match value {
        Expr::Lit(literal) => match &literal.lit {
            Lit::Int(number) => match number.base10_parse() {
                Ok(number) if number > 0 => Ok(number),
                _ => Err(refused()),
            },
            _ => Err(refused()),
        },
        _ => Err(refused()),
    }
}

#[cfg(test)]
mod tests {
    use quote::quote;

    use super::*;

    #[test]
    fn arguments_are_read_in_any_order_and_others_are_refused() {
        let options = Options::parse(quote!(concurrency = 8, local)).expect("options");
        assert!(options.is_local && options.concurrency == 8);
        let options = Options::parse(quote!()).expect("options");
        assert!(!options.is_local && options.concurrency == 1);
        for wrong in [
            quote!(concurrency = 0),
            quote!(concurrency = "8"),
            quote!(concurrency),
            quote!(remote),
        ] {
            assert!(Options::parse(wrong.clone()).is_err(), "{wrong}");
        }
    }
}
