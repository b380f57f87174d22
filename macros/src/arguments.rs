//! The arguments of the attribute.

use syn::parse::{Parse, ParseStream};
use syn::punctuated::Punctuated;
use syn::{Error, Ident, Token, Type, parenthesized};

/// The arguments of `#[actor(..)]`, a list in any order.
#[derive(Default)]
pub(crate) struct Arguments {
    /// `local`: the block needs no constructor.
    pub(crate) local: bool,
    /// `more`: the block is a further one of its actor.
    pub(crate) more: bool,
    /// `for(Type, ..)`: the instances of a generic actor that worker processes can find.
    pub(crate) instances: Vec<Type>,
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
            _ => {
                let message = format!(
                    "`#[actor]` has no argument `{name}`\nhelp: it has `local`, `more` and `for(Type, ..)`"
                );
                return Err(Error::new(name.span(), message));
            }
        }
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_arguments_are_a_list_in_any_order() {
        let read = |text: &str| syn::parse_str::<Arguments>(text);
        let all = read("for(Sum<u32>, Sum<f64>), local, more,").expect("arguments");
        assert!(all.local && all.more && all.instances.len() == 2);
        assert!(!read("").expect("none").local);
        let refused = read("remote").err().expect("an error").to_string();
        assert!(refused.contains("no argument `remote`"), "{refused}");
        assert!(read("local more").is_err());
    }
}
