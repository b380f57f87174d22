//! The arguments of the attribute.

use syn::parse::{Parse, ParseStream};
use syn::punctuated::Punctuated;
use syn::{Error, Ident, LitInt, Token, Type, parenthesized};

/// The arguments of `#[actor(..)]`, a list in any order.
#[derive(Default)]
pub(crate) struct Arguments {
    /// `local`: the block needs no constructor.
    pub(crate) local: bool,
    /// `more`: the block is a further one of its actor.
    pub(crate) more: bool,
    /// `for(Type, ..)`: the instances of a generic actor that worker processes can find.
    pub(crate) instances: Vec<Type>,
    /// `concurrency = n`: the number of async methods that may be in flight at a time.
    pub(crate) concurrency: Option<u32>,
}

impl Parse for Arguments {
    fn parse(input: ParseStream<'_>) -> syn::Result<Self> {
        let mut arguments = Self::default();
        while !input.is_empty() {
            arguments.argument(input)?;
            if !input.is_empty() {
                input.parse::<Token![,]>()?;
            }
        }
        Ok(arguments)
    }
}

impl Arguments {
    /// Reads one argument.
    fn argument(&mut self, input: ParseStream<'_>) -> syn::Result<()> {
        if input.parse::<Option<Token![for]>>()?.is_some() {
            let types;
            parenthesized!(types in input);
            let types = Punctuated::<Type, Token![,]>::parse_terminated(&types)?;
            self.instances.extend(types);
            return Ok(());
        }
        let name: Ident = input.parse()?;
        match name.to_string().as_str() {
            "local" => self.local = true,
            "more" => self.more = true,
            "concurrency" => self.concurrency = Some(concurrency(input)?),
            _ => {
                let message = format!(
                    "`#[actor]` has no argument `{name}`\nhelp: it has `local`, `more`, `concurrency = n` and `for(Type, ..)`"
                );
                return Err(Error::new(name.span(), message));
            }
        }
        Ok(())
    }
}

/// Reads the number of async methods that may be in flight at a time, with the equals sign before it.
fn concurrency(input: ParseStream<'_>) -> syn::Result<u32> {
    let equals: Token![=] = input.parse()?;
    let number = input.parse::<LitInt>().and_then(|number| number.base10_parse());
    match number {
        Ok(number) if number > 0 => Ok(number),
        _ => {
            let message = "`concurrency` is the number of async methods in flight, from 1 on";
            Err(Error::new_spanned(equals, message))
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_arguments_are_a_list_in_any_order() {
        let read = |text: &str| syn::parse_str::<Arguments>(text);
        let all = read("for(Sum<u32>, Sum<f64>), local, concurrency = 8, more,").expect("arguments");
        assert!(all.local && all.more && all.instances.len() == 2 && all.concurrency == Some(8));
        assert!(!read("").expect("none").local);
        let refused = read("remote").err().expect("an error").to_string();
        assert!(refused.contains("no argument `remote`"), "{refused}");
        for wrong in [
            "local more",
            "concurrency",
            "concurrency = 0",
            "concurrency = \"8\"",
        ] {
            assert!(read(wrong).is_err(), "{wrong}");
        }
    }
}
