//! Parameters of remote functions: what a call takes for each one, and the form in which it travels.
//!
//! A parameter with `#[here]` takes a reference to a value, and the function borrows the value where it lives.

use proc_macro2::TokenStream;
use quote::{ToTokens, quote};
use syn::{Attribute, FnArg, GenericArgument, Meta, PathArguments, Signature, Type, parse_quote};

use crate::edge_type::{Pass, help};
use crate::parse::{Param, params};

/// Reads the parameters of a remote function.
pub(super) fn remote_params(signature: &Signature) -> syn::Result<Vec<Param>> {
    let mut params = params(signature)?;
    let typed = signature.inputs.iter().filter_map(|input| match input {
        FnArg::Typed(input) => Some(input),
        FnArg::Receiver(_) => None,
    });
    for (param, input) in params.iter_mut().zip(typed) {
        if is_here(&input.attrs)? {
            stay(param, &input.ty)?;
        }
    }
    Ok(params)
}

/// Whether a parameter has the attribute `#[here]`. It may have no other attribute.
fn is_here(attributes: &[Attribute]) -> syn::Result<bool> {
    let is_here =
        |attribute: &&Attribute| matches!(&attribute.meta, Meta::Path(path) if path.is_ident("here"));
    match attributes.iter().find(|attribute| !is_here(attribute)) {
        None => Ok(!attributes.is_empty()),
        Some(attribute) => Err(help(
            attribute,
            "a parameter of a remote function has no attribute but `#[here]`",
            "leave the attribute out",
        )),
    }
}

/// Makes a parameter one whose value stays where it lives.
fn stay(param: &mut Param, ty: &Type) -> syn::Result<()> {
    let value = match &param.pass {
        Pass::Reference | Pass::Slice(_) | Pass::Text => param.edge.clone(),
        Pass::Owned if let Some(value) = shared(ty) => {
            param.pass = Pass::Shared;
            value.clone()
        }
        Pass::Owned | Pass::Shared | Pass::Cow(_) => {
            let message = "a parameter with `#[here]` borrows its value, which stays where it lives";
            return Err(help(ty, message, "take `&T`, or `Arc<T>`"));
        }
    };
    param.edge = parse_quote!(::selvedge::__private::ValueHere<#value>);
    param.here = Some(Box::new(value));
    Ok(())
}

/// The `T` of an `Arc<T>`, recognised by its spelling.
fn shared(ty: &Type) -> Option<&Type> {
    let Type::Path(path) = ty else { return None };
    let last = path.path.segments.last().filter(|last| last.ident == "Arc")?;
    let PathArguments::AngleBracketed(arguments) = &last.arguments else {
        return None;
    };
    match arguments.args.first() {
        Some(GenericArgument::Type(ty)) => Some(ty),
        _ => None,
    }
}

impl Param {
    /// The type of the argument on its way.
    pub(super) fn on_its_way(&self) -> TokenStream {
        let edge = &self.edge;
        match &self.here {
            None => quote!(::selvedge::__private::Argument<#edge>),
            Some(value) => quote!(::selvedge::Ref<#value>),
        }
    }

    /// The trait of what a call takes.
    pub(super) fn taken(&self) -> TokenStream {
        let edge = &self.edge;
        match &self.here {
            None => quote!(::selvedge::IntoArgument<#edge>),
            Some(value) => quote!(::selvedge::IntoReference<#value>),
        }
    }

    /// Converts what a call takes.
    pub(super) fn converted(&self, name: &impl ToTokens) -> TokenStream {
        let edge = &self.edge;
        match &self.here {
            None => quote!(::selvedge::IntoArgument::<#edge>::into_argument(#name)),
            Some(value) => quote!(::selvedge::IntoReference::<#value>::into_reference(#name)),
        }
    }

    /// The type of the argument for generic code: the value, or the reference to it.
    pub(super) fn described(&self) -> TokenStream {
        match &self.here {
            None => self.edge.to_token_stream(),
            Some(_) => self.on_its_way(),
        }
    }

    /// Converts the argument of generic code.
    pub(super) fn of_described(&self, name: &impl ToTokens) -> TokenStream {
        match &self.here {
            None => quote!(::selvedge::__private::Argument::Value(#name)),
            Some(_) => name.to_token_stream(),
        }
    }
}
