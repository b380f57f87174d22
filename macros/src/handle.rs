//! The handle, which users call: its methods bind tasks, and it gives access to ordinary calls.

use proc_macro2::TokenStream;
use quote::{format_ident, quote};

use crate::edge_type::{probes, traits, travel};
use crate::parse::{Mistaken, Operation, Parsed};

/// Generates the handle of an actor and the type of its ordinary calls.
pub(crate) fn handle(parsed: &Parsed) -> TokenStream {
    let (handle, calls) = (
        format_ident!("{}Handle", parsed.name),
        format_ident!("{}Call", parsed.name),
    );
    let binds = parsed.operations.iter().map(bind);
    let call = parsed.operations.iter().map(call);
    // A method with the name of one of the handle's own methods has an error of its own, and would clash here.
    let ours = |method: &&Mistaken| method.name == "call" || method.name == "actor";
    let mistaken = parsed
        .mistaken
        .iter()
        .filter(|method| !ours(method))
        .map(mistaken);
    let (about_handle, about_calls) = (
        format!(
            " A handle to a [`{}`]: its methods bind tasks into a graph.",
            parsed.name
        ),
        format!(" Ordinary calls of a [`{}`], outside any graph.", parsed.name),
    );
    quote! {
        #[doc = #about_handle]
        #[allow(missing_docs, unreachable_pub, private_interfaces, dead_code)]
        #[derive(Clone, Debug)]
        pub struct #handle {
            actor: ::selvedge::ActorRef,
        }

        #[allow(missing_docs, unreachable_pub, private_interfaces, dead_code, deprecated, clippy::ptr_arg, clippy::too_many_arguments)]
        impl #handle {
            #(#binds)*

            #(#mistaken)*

            /// Ordinary calls outside any graph: the same methods, with values in place of edges.
            pub fn call(&self) -> #calls {
                #calls { actor: ::std::clone::Clone::clone(&self.actor) }
            }

            /// The actor behind this handle.
            pub fn actor(&self) -> &::selvedge::ActorRef {
                &self.actor
            }
        }

        #[doc = #about_calls]
        #[allow(missing_docs, unreachable_pub, private_interfaces, dead_code)]
        #[derive(Clone, Debug)]
        pub struct #calls {
            actor: ::selvedge::ActorRef,
        }

        #[allow(missing_docs, unreachable_pub, private_interfaces, dead_code, deprecated, clippy::too_many_arguments)]
        impl #calls {
            #(#call)*
        }
    }
}

fn bind(operation: &Operation) -> TokenStream {
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
    let travel = travel(constants.map(|param| &param.edge));
    quote! {
        #(#attributes)*
        #[track_caller]
        #[must_use]
        pub fn #name(&self, #(#params),*) -> ::selvedge::Edge<#result> #travel {
            ::selvedge::__private::bind(&self.actor, #index)#(#args)*.finish::<#result>()
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

fn call(operation: &Operation) -> TokenStream {
    let Operation {
        name,
        attributes,
        index,
        result,
        ..
    } = operation;
    let names: Vec<_> = operation.params.iter().map(|param| &param.name).collect();
    let edges: Vec<_> = operation.params.iter().map(|param| &param.edge).collect();
    let travel = travel(operation.travellers());
    let (probes, of_arguments, of_result) = (probes(), traits(&quote!((#(#edges,)*))), traits(result));
    quote! {
        #(#attributes)*
        #[allow(clippy::needless_borrow)]
        pub fn #name(&self, #(#names: #edges),*) -> ::selvedge::Call<#result> #travel {
            #probes
            self.actor.call_with::<(#(#edges,)*), #result>(#index, (#(#names,)*), (#of_arguments, #of_result))
        }
    }
}
