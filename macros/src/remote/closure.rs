//! `remote_fn!`: a remote function as a value.

use proc_macro2::{Ident, Span, TokenStream};
use quote::{format_ident, quote};
use syn::parse::{Parse, ParseStream};
use syn::punctuated::Punctuated;
use syn::{
    Error, Expr, ExprClosure, FnArg, Pat, PatType, Path, ReturnType, Signature, Token, Type, bracketed,
    parse_quote,
};

use super::facts::submitted;
use super::function::{described, item, read, strip};
use crate::edge_type::help;
use crate::entry::argument::variables;
use crate::parse::Param;

/// The contents of `remote_fn!(..)`.
enum Value {
    /// The path of a function with `#[remote]`.
    Named(Path),
    /// A closure with its captures.
    Closure(Vec<Capture>, Box<ExprClosure>),
}

/// A captured variable, with the type in which it is sent.
struct Capture {
    name: Ident,
    ty: Type,
}

impl Parse for Capture {
    fn parse(input: ParseStream<'_>) -> syn::Result<Self> {
        let name: Ident = input.parse()?;
        if !input.peek(Token![:]) {
            let message = format!("the type of the capture `{name}` is missing");
            return Err(help(&name, message, format!("write `[{name}: T]`")));
        }
        input.parse::<Token![:]>()?;
        let ty = input.parse()?;
        Ok(Capture { name, ty })
    }
}

impl Parse for Value {
    fn parse(input: ParseStream<'_>) -> syn::Result<Self> {
        let mut captures = Vec::new();
        if input.peek(syn::token::Bracket) {
            let listed;
            bracketed!(listed in input);
            captures.extend(Punctuated::<Capture, Token![,]>::parse_terminated(&listed)?);
        }
        let at = input.span();
        match input.parse::<Expr>()? {
            Expr::Closure(closure) => Ok(Value::Closure(captures, Box::new(closure))),
            Expr::Path(path) if captures.is_empty() && path.qself.is_none() => Ok(Value::Named(path.path)),
            _ => Err(help(
                at,
                "this is no remote function",
                "write `remote_fn!(name)` for a function with `#[remote]`, or \
                 `remote_fn!([captured: T] |argument: U| -> V { .. })`",
            )),
        }
    }
}

/// Expands `remote_fn!`.
pub(crate) fn value(input: TokenStream) -> TokenStream {
    let expanded = match syn::parse2(input) {
        Ok(Value::Named(path)) => Ok(quote!(#path {})),
        Ok(Value::Closure(captures, closure)) => expanded(&captures, &closure),
        Err(error) => Err(error),
    };
    expanded.unwrap_or_else(|error: Error| error.to_compile_error())
}

/// Generates a nested function, and a value with its captures.
fn expanded(captures: &[Capture], closure: &ExprClosure) -> syn::Result<TokenStream> {
    let signature = signature(captures, closure)?;
    let block = match &*closure.body {
        Expr::Block(body) if body.label.is_none() && body.attrs.is_empty() => body.block.clone(),
        body => parse_quote!({ #body }),
    };
    let function = item(signature, block);
    let path = quote!(::std::concat!(
        ::std::module_path!(),
        "::{closure ",
        ::std::file!(),
        ":",
        ::std::line!(),
        ":",
        ::std::column!(),
        "}"
    ));
    let read = read(&function, path)?;
    let described = described(&read);
    let (captured, taken) = read.params.split_at(captures.len());
    let (fields, of_fields): (Vec<_>, Vec<_>) =
        captured.iter().map(|param| (&param.name, &param.edge)).unzip();
    let arguments: Vec<_> = variables(&read.params).split_off(captures.len());
    let (of_arguments, of_described) = (
        taken.iter().map(Param::taken).collect::<Vec<_>>(),
        taken.iter().map(Param::described).collect::<Vec<_>>(),
    );
    let (name, result) = (&read.signature.ident, &read.result);
    let submitted = submitted(result);
    let mut plain = function.clone();
    strip(&mut plain.sig);
    Ok(quote! {
        {
            #[allow(clippy::too_many_arguments)]
            #plain
            #described

            #[derive(Clone, Debug)]
            struct __SelvedgeCaptures { #(#fields: ::selvedge::__private::Argument<#of_fields>,)* }

            #[allow(dead_code)]
            impl __SelvedgeCaptures {
                /// Describes a call with these arguments.
                fn remote(&self, #(#arguments: impl #of_arguments),*) -> ::selvedge::RemoteCall<#result, #submitted> {
                    #name::remote(#(::std::clone::Clone::clone(&self.#fields),)* #(#arguments),*)
                }
            }

            impl ::selvedge::RemoteFunction for __SelvedgeCaptures {
                type Arguments = (#(#of_described,)*);
                type Output = #result;

                fn describe(&self, (#(#arguments,)*): Self::Arguments) -> ::selvedge::RemoteCall<#result> {
                    #name::remote(#(::std::clone::Clone::clone(&self.#fields),)* #(#arguments),*).plain()
                }
            }

            __SelvedgeCaptures { #(#fields: ::selvedge::IntoArgument::<#of_fields>::into_argument(#fields),)* }
        }
    })
}

/// The signature of the nested function: the captures, and then the arguments.
fn signature(captures: &[Capture], closure: &ExprClosure) -> syn::Result<Signature> {
    let mut inputs: Punctuated<FnArg, Token![,]> = Punctuated::new();
    for Capture { name, ty } in captures {
        inputs.push(parse_quote!(#name: #ty));
    }
    for input in &closure.inputs {
        match input {
            Pat::Type(PatType { .. }) => inputs.push(parse_quote!(#input)),
            other => {
                let message = "the type of this argument is missing";
                return Err(help(other, message, "write `|argument: T| -> U { .. }`"));
            }
        }
    }
    if let (ReturnType::Default, body) = (&closure.output, &*closure.body)
        && !matches!(body, Expr::Block(_))
    {
        let message = "the type of the value is missing";
        return Err(help(body, message, "write `|argument: T| -> U { .. }`"));
    }
    let (name, output) = (
        format_ident!("__selvedge_closure", span = Span::call_site()),
        &closure.output,
    );
    let mut signature: Signature = parse_quote!(fn #name(#inputs) #output);
    signature.asyncness = closure.asyncness;
    Ok(signature)
}
