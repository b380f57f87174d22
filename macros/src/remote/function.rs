//! Remote functions: the function stays, and a type of its name describes calls of it.
//!
//! The type has braces and no fields, so it lies beside the function in the other namespace: `square(3.0)` is the function,
//! and `square::remote(3.0)` the description of a call. Unlike a module, it may stand in the body of a function.

use proc_macro2::{Ident, TokenStream};
use quote::{quote, quote_spanned};
use syn::{Attribute, FnArg, ItemFn, Signature, Visibility, parse_quote};

use crate::edge_type::{Pass, help, probes, result_type, traits};
use crate::entry::argument::{passed, variables};
use crate::entry::error::{Failing, error_codec, failure};
use crate::entry::place;
use crate::parse::{Param, copied};
use crate::refused;
use crate::remote::facts::{Facts, submitted};
use crate::remote::parameter::remote_params;
use crate::remote::task::task;

/// A remote function that has been read.
pub(super) struct Function<'a> {
    pub(super) signature: &'a Signature,
    pub(super) visibility: &'a Visibility,
    /// The `doc`, `cfg` and `deprecated` attributes of the function, which the type gets too.
    pub(super) attributes: Vec<Attribute>,
    pub(super) params: Vec<Param>,
    pub(super) result: syn::Type,
    pub(super) fallible: bool,
    /// The path under which the function is registered, as an expression.
    pub(super) path: TokenStream,
    pub(super) facts: Facts,
}

/// Expands `#[remote]`. `is_task` says whether the function may be a task of a graph.
pub(crate) fn attribute(arguments: TokenStream, item: TokenStream, is_task: bool) -> TokenStream {
    let mut function: ItemFn = match syn::parse2(item.clone()) {
        Ok(function) => function,
        Err(error) => {
            let message = "`#[remote]` goes on a function with a body";
            return refused(
                &item,
                &help(error.span(), message, "write it above `fn name(..) { .. }`"),
            );
        }
    };
    let name = function.sig.ident.to_string();
    let path = quote!(::std::concat!(::std::module_path!(), "::", #name));
    let read = syn::parse2(arguments).and_then(|facts: Facts| {
        let facts = facts.check(function.sig.asyncness.is_some())?;
        let read = read(&function, path)?;
        Ok(Function { facts, ..read })
    });
    match read {
        Ok(read) => {
            let described = described(&read);
            let task = is_task.then(|| task(&read));
            strip(&mut function.sig);
            quote!(#function #described #task)
        }
        Err(error) => {
            strip(&mut function.sig);
            refused(&quote!(#function), &error)
        }
    }
}

/// Removes the attributes of parameters, which no compiler knows.
pub(super) fn strip(signature: &mut Signature) {
    for input in &mut signature.inputs {
        match input {
            FnArg::Typed(input) => input.attrs.clear(),
            FnArg::Receiver(receiver) => receiver.attrs.clear(),
        }
    }
}

/// Reads a function.
pub(super) fn read(function: &ItemFn, path: TokenStream) -> syn::Result<Function<'_>> {
    let signature = &function.sig;
    plain(signature)?;
    let (result, fallible) = result_type(&signature.output)?;
    Ok(Function {
        signature,
        visibility: &function.vis,
        attributes: copied(&function.attrs, &["doc", "cfg", "deprecated"]),
        params: remote_params(signature)?,
        result,
        fallible,
        path,
        facts: Facts::default(),
    })
}

/// Refuses functions that cannot be found by name, or that take what cannot be sent.
fn plain(signature: &Signature) -> syn::Result<()> {
    if let Some(FnArg::Receiver(receiver)) = signature.inputs.first() {
        let message = "a remote function has no `self`: no object is sent with a call";
        return Err(help(
            receiver,
            message,
            "write a function outside of `impl`, which takes what it needs; or make the type an actor by `#[actor]`",
        ));
    }
    if let Some(param) = signature.generics.params.first() {
        let message = "a remote function has no generic parameters: it is found by name in another process";
        return Err(help(param, message, "name concrete types"));
    }
    if let Some(bounds) = &signature.generics.where_clause {
        let message = "a remote function has no bounds: it is found by name in another process";
        return Err(help(bounds, message, "name concrete types"));
    }
    if !matches!(signature.safety, syn::Safety::Default) {
        let message = "a remote function is safe: its arguments come from another process";
        return Err(help(
            &signature.safety,
            message,
            "check the arguments in a safe function",
        ));
    }
    Ok(())
}

/// Generates what stands beside a function.
pub(super) fn described(function: &Function<'_>) -> TokenStream {
    let Function {
        visibility,
        attributes,
        params,
        result,
        ..
    } = function;
    let (name, variables) = (&function.signature.ident, variables(params));
    let (shown, names) = (shown(function), names(params));
    let taken = params.iter().map(Param::taken);
    let converted = params
        .iter()
        .zip(&names)
        .map(|(param, name)| param.converted(name));
    let described = params.iter().map(Param::described);
    let of_described = params
        .iter()
        .zip(&variables)
        .map(|(param, name)| param.of_described(name));
    let (body, entry, probes, submitted) = (body(function), entry(function), probes(), submitted(result));
    quote! {
        #(#attributes)*
        #[doc = #shown]
        #[allow(non_camel_case_types, dead_code)]
        #[derive(Clone, Copy, Debug)]
        #visibility struct #name {}

        #[allow(deprecated, clippy::needless_borrow)]
        const _: () = {
            #[allow(unused_imports)]
            use ::selvedge::__private::{OpaqueError as _, TypedError as _};
            #probes

            #entry

            #body

            #[allow(dead_code)]
            impl #name {
                /// Describes a call with these arguments.
                #visibility fn remote(#(#names: impl #taken),*) -> ::selvedge::RemoteCall<#result, #submitted> {
                    ::selvedge::RemoteCall::new(&__SELVEDGE_ENTRY, (#(#converted,)*))
                }
            }

            impl ::selvedge::RemoteFunction for #name {
                type Arguments = (#(#described,)*);
                type Output = #result;

                fn describe(&self, (#(#variables,)*): Self::Arguments) -> ::selvedge::RemoteCall<#result> {
                    ::selvedge::RemoteCall::new(&__SELVEDGE_ENTRY, (#(#of_described,)*))
                }
            }
        };
    }
}

/// The first sentence of the type's documentation.
fn shown(function: &Function<'_>) -> String {
    let name = &function.signature.ident;
    format!("\n\n`{name}::remote(..)` describes a call of this function in another process.")
}

/// The names of the parameters of `remote`.
fn names(params: &[Param]) -> Vec<&Ident> {
    params.iter().map(|param| &param.name).collect()
}

/// Generates the function's entry, and its registration.
fn entry(function: &Function<'_>) -> TokenStream {
    let (signature, name, path) = (function.signature, &function.signature.ident, &function.path);
    let (text, place, error) = (quote!(#signature).to_string(), place(), error(function));
    let facts = function.facts.expression();
    let edges = function.params.iter().map(|param| &param.edge);
    let on_their_way = function.params.iter().map(Param::on_its_way);
    // An argument that cannot be sent is an error at the parameters.
    let of = quote_spanned!(signature.paren_token.span.join()=> ::selvedge::__private::TypedEntry::of::<#name>(#path, #text, #place, #error));
    quote! {
        static __SELVEDGE_ENTRY: ::selvedge::__private::TypedEntry<(#(#edges,)*), (#(#on_their_way,)*)> = #of.with(#facts);

        #[::selvedge::__private::linkme::distributed_slice(::selvedge::__private::FUNCTIONS)]
        #[linkme(crate = ::selvedge::__private::linkme)]
        static __SELVEDGE_REGISTERED: &'static ::selvedge::__private::FunctionEntry = __SELVEDGE_ENTRY.entry();
    }
}

/// Generates the function that tells the codec of the errors.
fn error(function: &Function<'_>) -> TokenStream {
    let (params, signature) = (&function.params, function.signature);
    let (name, variables, passed) = (&signature.ident, variables(params), passed(params));
    let is_async = signature.asyncness.is_some();
    // The future of an async function borrows from its arguments.
    let held = params.iter().map(|Param { edge, pass, .. }| match pass {
        Pass::Reference | Pass::Slice(_) | Pass::Text if is_async => quote!(&'static #edge),
        _ => quote!(#edge),
    });
    error_codec(&Failing {
        fallible: function.fallible,
        is_async,
        arguments: quote!((#(#variables,)*): (#(#held,)*)),
        call: quote!(#name(#(#passed),*)),
    })
}

/// Generates the function for generic code.
fn body(function: &Function<'_>) -> TokenStream {
    let params = &function.params;
    let (name, result) = (&function.signature.ident, &function.result);
    let (variables, passed, of_result) = (variables(params), passed(params), traits(result));
    let edges = params.iter().map(|param| &param.edge);
    let is_async = function.signature.asyncness.is_some();
    let value = if function.fallible {
        let failure = failure();
        quote!(result #failure)
    } else {
        quote!(::std::result::Result::Ok(result))
    };
    let started = if is_async {
        quote! {
            ::selvedge::__private::Begun::Future(::std::boxed::Box::pin(async move {
                let result = #name(#(#passed),*).await;
                #value
            }))
        }
    } else {
        quote! {
            let result = #name(#(#passed),*);
            ::selvedge::__private::Begun::Done(#value)
        }
    };
    quote! {
        impl ::selvedge::__private::RemoteBody for #name {
            type Arguments = (#(#edges,)*);
            type Output = #result;
            const IS_ASYNC: bool = #is_async;

            fn traits() -> &'static ::selvedge::__private::Traits<#result> {
                #of_result
            }

            #[allow(clippy::let_unit_value, clippy::unit_arg)]
            fn start((#(#variables,)*): Self::Arguments) -> ::selvedge::__private::Begun<#result> {
                #started
            }
        }
    }
}

/// An item function without attributes, for a closure.
pub(super) fn item(signature: Signature, block: syn::Block) -> ItemFn {
    ItemFn {
        attrs: Vec::new(),
        vis: Visibility::Inherited,
        sig: signature,
        block: Box::new(block),
        ..parse_quote!(
            fn f() {}
        )
    }
}
