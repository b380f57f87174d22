//! The handle, which users call: its methods bind tasks, and it gives access to ordinary calls.

use proc_macro2::TokenStream;
use quote::{format_ident, quote};

use crate::edge_type::{probes, traits, travel};
use crate::generics::{declared, phantom, where_clause};
use crate::parse::{ActorType, Mistaken, Operation, Operations, Parsed};

/// The code that names an actor and a method in the methods of a handle.
pub(crate) struct Reach {
    /// The expression of the actor, in a method of the handle or of the type of calls.
    pub(crate) actor: TokenStream,
    /// The expression of the extension that has the methods, if they are not the entry's.
    pub(crate) extension: Option<TokenStream>,
}

impl Reach {
    /// Returns the expression of the method with this index.
    fn method(&self, index: &TokenStream) -> TokenStream {
        match &self.extension {
            None => quote!(#index),
            Some(extension) => quote!((#extension, #index)),
        }
    }
}

/// Generates the handle of an actor and the type of its ordinary calls.
pub(crate) fn handle(parsed: &Parsed) -> TokenStream {
    let actor = &parsed.actor;
    let (name, calls_name) = (actor.sibling_name("Handle"), actor.sibling_name("Call"));
    let about = format!(
        " A handle to a [`{}`]: its methods bind tasks into a graph.",
        actor.name
    );
    let about_calls = format!(" Ordinary calls of a [`{}`], outside any graph.", actor.name);
    let reach = Reach {
        actor: quote!(self.__selvedge_actor()),
        extension: None,
    };
    let (handle, calls) = (
        holder(actor, &name, &about),
        holder(actor, &calls_name, &about_calls),
    );
    let methods = methods(actor, &parsed.methods, &reach, &TokenStream::new());
    let own = own(actor);
    quote! {
        #handle

        #own

        #calls

        #methods
    }
}

/// Generates a type that holds a reference to an actor.
fn holder(actor: &ActorType, name: &syn::Ident, about: &str) -> TokenStream {
    let generics = &actor.generics;
    let (declared, phantom) = (declared(generics), phantom(generics));
    let (_, arguments, _) = generics.split_for_impl();
    let text = name.to_string();
    quote! {
        #[doc = #about]
        #[allow(missing_docs, unreachable_pub, private_interfaces, dead_code)]
        pub struct #name #declared {
            actor: ::selvedge::ActorRef,
            types: #phantom,
        }

        impl #declared #name #arguments {
            #[doc(hidden)]
            #[allow(unreachable_pub, dead_code)]
            pub fn __selvedge_of(actor: ::selvedge::ActorRef) -> Self {
                Self { actor, types: ::std::marker::PhantomData }
            }

            #[doc(hidden)]
            #[allow(unreachable_pub, dead_code)]
            pub fn __selvedge_actor(&self) -> &::selvedge::ActorRef {
                &self.actor
            }
        }

        impl #declared ::std::clone::Clone for #name #arguments {
            fn clone(&self) -> Self {
                Self::__selvedge_of(::std::clone::Clone::clone(&self.actor))
            }
        }

        impl #declared ::std::fmt::Debug for #name #arguments {
            fn fmt(&self, f: &mut ::std::fmt::Formatter<'_>) -> ::std::fmt::Result {
                f.debug_struct(#text).field("actor", &self.actor).finish()
            }
        }
    }
}

/// Generates the methods that every handle has.
fn own(actor: &ActorType) -> TokenStream {
    let (declared, handle, calls) = (
        declared(&actor.generics),
        actor.sibling("Handle"),
        actor.sibling("Call"),
    );
    quote! {
        #[allow(unreachable_pub, private_interfaces, dead_code)]
        impl #declared #handle {
            /// Ordinary calls outside any graph: the same methods, with values in place of edges.
            pub fn call(&self) -> #calls {
                <#calls>::__selvedge_of(::std::clone::Clone::clone(&self.actor))
            }

            /// The actor behind this handle.
            pub fn actor(&self) -> &::selvedge::ActorRef {
                &self.actor
            }
        }
    }
}

/// Generates the methods of a handle that bind tasks, and those of the type of calls.
pub(crate) fn methods(
    actor: &ActorType,
    methods: &Operations,
    reach: &Reach,
    bounds: &TokenStream,
) -> TokenStream {
    let (handle, calls) = (actor.sibling("Handle"), actor.sibling("Call"));
    let (parameters, ..) = actor.generics.split_for_impl();
    let bounds = where_clause(&actor.generics, bounds);
    let (binds, calling) = (binds(methods, reach), calling(methods, reach));
    quote! {
        #[allow(missing_docs, unreachable_pub, private_interfaces, dead_code, deprecated, clippy::multiple_bound_locations, clippy::ptr_arg, clippy::too_many_arguments)]
        impl #parameters #handle #bounds {
            #binds
        }

        #[allow(missing_docs, unreachable_pub, private_interfaces, dead_code, deprecated, clippy::multiple_bound_locations, clippy::too_many_arguments)]
        impl #parameters #calls #bounds {
            #calling
        }
    }
}

/// Generates the methods that bind tasks.
pub(crate) fn binds(methods: &Operations, reach: &Reach) -> TokenStream {
    let binds = methods.operations.iter().map(|operation| bind(operation, reach));
    // A method with the name of one of the handle's own methods has an error of its own, and would clash here.
    let ours = |method: &&Mistaken| method.name == "call" || method.name == "actor";
    let mistaken = methods
        .mistaken
        .iter()
        .filter(|method| !ours(method))
        .map(mistaken);
    quote!(#(#binds)* #(#mistaken)*)
}

/// Generates the methods that call the actor.
pub(crate) fn calling(methods: &Operations, reach: &Reach) -> TokenStream {
    let calls = methods.operations.iter().map(|operation| call(operation, reach));
    quote!(#(#calls)*)
}

fn bind(operation: &Operation, reach: &Reach) -> TokenStream {
    let Operation {
        name,
        attributes,
        index,
        result,
        ..
    } = operation;
    let params = operation.params.iter().map(|param| {
        let (name, edge) = (&param.name, &param.edge);
        if param.constant {
            quote!(#name: #edge)
        } else {
            quote!(#name: &::selvedge::Edge<#edge>)
        }
    });
    let args = operation.params.iter().map(|param| {
        let name = &param.name;
        if param.constant {
            quote!(.constant(#name))
        } else {
            quote!(.arg(#name))
        }
    });
    let constants = operation.params.iter().filter(|param| param.constant);
    let travel = where_clause(&Default::default(), &travel(constants.map(|param| &param.edge)));
    let (actor, method) = (&reach.actor, reach.method(index));
    quote! {
        #(#attributes)*
        #[track_caller]
        #[must_use]
        pub fn #name(&self, #(#params),*) -> ::selvedge::Edge<#result> #travel {
            ::selvedge::__private::bind(#actor, #method)#(#args)*.finish::<#result>()
        }
    }
}

/// Generates a method that accepts any arguments. The mistake in the method has been reported; its uses must cause no
/// further errors.
fn mistaken(method: &Mistaken) -> TokenStream {
    let (name, result) = (&method.name, &method.result);
    let types: Vec<_> = (0..method.params)
        .map(|i| format_ident!("__Selvedge{i}"))
        .collect();
    quote! {
        pub fn #name<#(#types),*>(&self, #(_: #types),*) -> ::selvedge::Edge<#result> {
            ::std::unreachable!()
        }
    }
}

fn call(operation: &Operation, reach: &Reach) -> TokenStream {
    let Operation {
        name,
        attributes,
        index,
        result,
        ..
    } = operation;
    let names: Vec<_> = operation.params.iter().map(|param| &param.name).collect();
    let edges: Vec<_> = operation.params.iter().map(|param| &param.edge).collect();
    let travel = where_clause(&Default::default(), &travel(operation.travellers()));
    let (probes, of_arguments, of_result) = (probes(), traits(&quote!((#(#edges,)*))), traits(result));
    let (actor, method) = (&reach.actor, reach.method(index));
    quote! {
        #(#attributes)*
        #[allow(clippy::needless_borrow)]
        pub fn #name(&self, #(#names: #edges),*) -> ::selvedge::Call<#result> #travel {
            #probes
            #actor.call_with::<(#(#edges,)*), #result>(#method, (#(#names,)*), (#of_arguments, #of_result))
        }
    }
}
