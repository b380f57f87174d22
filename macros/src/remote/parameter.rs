//! Parameters of remote functions: what a call takes for each one, and the form in which it travels.
//!
//! A parameter with `#[here]` takes a reference to a value, and the function borrows the value where it lives. A parameter with
//! `#[global]` takes a global, and the function borrows the copy of its process.

use proc_macro2::TokenStream;
use quote::{ToTokens, quote};
use syn::{Attribute, FnArg, Meta, Signature, Type, parse_quote};

use crate::edge_type::{Pass, argument, help};
use crate::parse::{Marked, Param, params};

/// Reads the parameters of a remote function.
pub(super) fn remote_params(signature: &Signature) -> syn::Result<Vec<Param>> {
    let mut params = params(signature)?;
    let typed = signature.inputs.iter().filter_map(|input| match input {
        FnArg::Typed(input) => Some(input),
        FnArg::Receiver(_) => None,
    });
    for (param, input) in params.iter_mut().zip(typed) {
        if let Some(mark) = mark(&input.attrs)? {
            borrow(param, &input.ty, mark)?;
        }
    }
    Ok(params)
}

/// The attributes of parameters.
#[derive(Clone, Copy)]
enum Mark {
    Here,
    Global,
}

/// The attribute of a parameter. Others than `#[here]` and `#[global]` are refused, and so are both at once.
fn mark(attributes: &[Attribute]) -> syn::Result<Option<Mark>> {
    let [attribute, rest @ ..] = attributes else {
        return Ok(None);
    };
    let of = |attribute: &Attribute| match &attribute.meta {
        Meta::Path(path) if path.is_ident("here") => Some(Mark::Here),
        Meta::Path(path) if path.is_ident("global") => Some(Mark::Global),
        _ => None,
    };
    match (of(attribute), rest.first()) {
        (Some(mark), None) => Ok(Some(mark)),
        (Some(_), Some(second)) => Err(help(
            second,
            "a parameter of a remote function has one attribute at most",
            "leave this one out",
        )),
        (None, _) => Err(help(
            attribute,
            "a parameter of a remote function has no attribute but `#[here]` or `#[global]`",
            "leave the attribute out",
        )),
    }
}

/// Makes a parameter one that borrows a value of the process.
fn borrow(param: &mut Param, ty: &Type, mark: Mark) -> syn::Result<()> {
    let value = match &param.pass {
        Pass::Reference | Pass::Slice(_) | Pass::Text => param.edge.clone(),
        Pass::Owned if let Some(value) = argument(ty, "Arc") => {
            param.pass = Pass::Shared;
            value.clone()
        }
        Pass::Owned | Pass::Shared | Pass::Cow(_) => {
            let message = match mark {
                Mark::Here => "a parameter with `#[here]` borrows its value, which stays where it lives",
                Mark::Global => {
                    "a parameter with `#[global]` borrows its value, of which the process keeps a copy"
                }
            };
            return Err(help(ty, message, "take `&T`, or `Arc<T>`"));
        }
    };
    (param.edge, param.marked) = match mark {
        Mark::Here => (
            parse_quote!(::selvedge::__private::ValueHere<#value>),
            Some(Marked::Here(Box::new(value))),
        ),
        Mark::Global => (
            parse_quote!(::selvedge::__private::GlobalValue<#value>),
            Some(Marked::Global(Box::new(value))),
        ),
    };
    Ok(())
}

impl Param {
    /// The type of the argument on its way.
    pub(super) fn on_its_way(&self) -> TokenStream {
        match &self.marked {
            Some(Marked::Here(value)) => quote!(::selvedge::Ref<#value>),
            None | Some(Marked::Global(_)) => {
                let described = self.described();
                quote!(::selvedge::__private::Argument<#described>)
            }
        }
    }

    /// The trait of what a call takes.
    pub(super) fn taken(&self) -> TokenStream {
        match &self.marked {
            Some(Marked::Here(value)) => quote!(::selvedge::IntoReference<#value>),
            None | Some(Marked::Global(_)) => {
                let described = self.described();
                quote!(::selvedge::IntoArgument<#described>)
            }
        }
    }

    /// Converts what a call takes.
    pub(super) fn converted(&self, name: &impl ToTokens) -> TokenStream {
        match &self.marked {
            Some(Marked::Here(value)) => quote!(::selvedge::IntoReference::<#value>::into_reference(#name)),
            None | Some(Marked::Global(_)) => {
                let described = self.described();
                quote!(::selvedge::IntoArgument::<#described>::into_argument(#name))
            }
        }
    }

    /// The type of the argument for generic code: the value, the reference to it, or the global.
    pub(super) fn described(&self) -> TokenStream {
        match &self.marked {
            None => self.edge.to_token_stream(),
            Some(Marked::Here(_)) => self.on_its_way(),
            Some(Marked::Global(value)) => quote!(::selvedge::parallel::Global<#value>),
        }
    }

    /// Converts the argument of generic code.
    pub(super) fn of_described(&self, name: &impl ToTokens) -> TokenStream {
        match &self.marked {
            Some(Marked::Here(_)) => name.to_token_stream(),
            None | Some(Marked::Global(_)) => quote!(::selvedge::__private::Argument::Value(#name)),
        }
    }
}
