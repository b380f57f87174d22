//! A remote function as a task of graphs: the actor without state that the function stands for.
//!
//! The type beside the function is that actor, with one operation of the function's name, so `Runtime::spawn` gives it any place
//! that an actor may have. `name::bind(..)` binds it without a place: the compiler builds it inline, once for each graph.

use proc_macro2::{Ident, Span, TokenStream};
use quote::{format_ident, quote, quote_spanned};
use syn::{FnArg, Generics, Signature};

use super::function::Function;
use crate::arguments::Arguments;
use crate::edge_type::travel;
use crate::entry::{Site, entry};
use crate::generics::where_clause;
use crate::handle::handle;
use crate::parse::{ActorType, Constructor, Operation, Operations, Param, Parsed};

/// Generates the actor, and the function that binds a task.
pub(super) fn task(function: &Function<'_>) -> TokenStream {
    if function.params.iter().any(|param| param.marked.is_some()) {
        return refused(function);
    }
    let name = &function.signature.ident;
    let parsed = parsed(function);
    let site = Site {
        actor: quote!(#name),
        path: quote!(<__SelvedgeTask>),
        generics: &parsed.actor.generics,
    };
    let (bind, body) = (bind(function), body(function.signature));
    let entry = entry(&parsed, &site, &Arguments::default(), |actor| {
        entry_of(function, &actor)
    });
    let handle = handle(&parsed);
    quote! {
        #bind

        #[allow(non_camel_case_types, non_snake_case, deprecated, dead_code, unreachable_pub, clippy::needless_borrow)]
        const _: () = {
            struct __SelvedgeTask;

            #body

            #handle

            #entry
        };
    }
}

/// Generates the function that returns the entry. If a type cannot travel, which is an error beside the function, it asks for none.
fn entry_of(function: &Function<'_>, actor: &TokenStream) -> TokenStream {
    let (edges, result) = (function.params.iter().map(|param| &param.edge), &function.result);
    quote! {
        || {
            use ::selvedge::__private::{BindableTask as _, UnbindableTask as _};
            (&::selvedge::__private::TypeProbe::<(#(#edges,)* #result,)>::of()).entry::<#actor>()
        }
    }
}

/// Generates the function that binds a task in the graph that is being compiled.
fn bind(function: &Function<'_>) -> TokenStream {
    let Function {
        visibility, result, ..
    } = function;
    let (name, text) = (&function.signature.ident, function.signature.ident.to_string());
    let names: Vec<_> = function.params.iter().map(|param| &param.name).collect();
    let edges: Vec<_> = function.params.iter().map(|param| &param.edge).collect();
    // A variable of the macro's own, which hides no parameter of that name.
    let actor = Ident::new("actor", Span::mixed_site());
    let travel = where_clause(
        &Generics::default(),
        &travel(edges.iter().copied().chain([result])),
    );
    quote! {
        #[allow(missing_docs, dead_code, deprecated, clippy::ptr_arg, clippy::too_many_arguments)]
        impl #name {
            /// Binds a call of this function as a task of the graph that is being compiled. It runs on the thread that executes the
            /// graph; spawn this type as an actor for another place.
            #[track_caller]
            #[must_use]
            #visibility fn bind(#(#names: &::selvedge::Edge<#edges>),*) -> ::selvedge::Edge<#result> #travel {
                match ::selvedge::__private::bind::function_actor::<#name, #result>(#text) {
                    ::std::result::Result::Ok(#actor) => {
                        ::selvedge::__private::bind(&#actor, 0u16)#(.arg(#names))*.finish::<#result>().named(#text)
                    }
                    ::std::result::Result::Err(mistake) => mistake,
                }
            }
        }
    }
}

/// Generates a function `bind` that refuses its use, for a function that borrows values of the process where it runs.
fn refused(function: &Function<'_>) -> TokenStream {
    let Function {
        visibility,
        params,
        result,
        ..
    } = function;
    let name = &function.signature.ident;
    let names = params.iter().map(|param| &param.name);
    let edges = params.iter().map(Param::described);
    let marked = params.iter().filter(|param| param.marked.is_some());
    let bounds = marked.map(|param| {
        let edge = &param.edge;
        quote_spanned!(param.name.span()=> for<'__selvedge> #edge: ::selvedge::__private::bind::TaskParameter<'__selvedge>,)
    });
    let bounds = where_clause(&Generics::default(), &quote!(#(#bounds)*));
    quote! {
        #[allow(missing_docs, dead_code, deprecated, unused_variables, clippy::too_many_arguments)]
        impl #name {
            #[doc(hidden)]
            #visibility fn bind(#(#names: &::selvedge::Edge<#edges>),*) -> ::selvedge::Edge<#result> #bounds {
                ::std::unreachable!()
            }
        }
    }
}

/// The function as an actor: one constructor without arguments, and one operation.
fn parsed(function: &Function<'_>) -> Parsed {
    let signature = function.signature;
    let constructor = Constructor {
        name: Ident::new("new", Span::call_site()),
        attributes: Vec::new(),
        cfgs: Vec::new(),
        index: quote!(0u16),
        params: Vec::new(),
        fallible: false,
        is_async: false,
    };
    let operation = Operation {
        name: operation_name(&signature.ident),
        attributes: Vec::new(),
        cfgs: Vec::new(),
        index: quote!(0u16),
        params: function.params.clone(),
        result: function.result.clone(),
        fallible: function.fallible,
        is_async: signature.asyncness.is_some(),
        is_exclusive: false,
    };
    Parsed {
        actor: ActorType::function(&signature.ident),
        constructors: vec![constructor],
        methods: Operations {
            operations: vec![operation],
            mistaken: Vec::new(),
        },
        error: None,
    }
}

/// The name of the operation: the function's, unless every handle has a method or function of that name.
fn operation_name(function: &Ident) -> Ident {
    if ["new", "call", "actor"].iter().any(|taken| function == taken) {
        format_ident!("{function}_")
    } else {
        function.clone()
    }
}

/// Generates what the actor's entry calls: a function without arguments that builds the actor, and one that calls the user's function.
fn body(signature: &Signature) -> TokenStream {
    let (name, operation) = (&signature.ident, operation_name(&signature.ident));
    let (asyncness, output) = (&signature.asyncness, &signature.output);
    let types = signature.inputs.iter().filter_map(|input| match input {
        FnArg::Typed(input) => Some(&input.ty),
        FnArg::Receiver(_) => None,
    });
    let arguments: Vec<_> = (0..signature.inputs.len())
        .map(|i| format_ident!("arg_{i}"))
        .collect();
    let awaited = asyncness.map(|_| quote!(.await));
    quote! {
        impl __SelvedgeTask {
            fn new() -> #name {
                #name {}
            }

            #asyncness fn #operation(_: &#name, #(#arguments: #types),*) #output {
                #name(#(#arguments),*) #awaited
            }
        }
    }
}
