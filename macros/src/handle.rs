//! What users call: the handle, whose methods bind tasks, and its calls.

use proc_macro2::TokenStream;
use quote::{format_ident, quote};

use crate::parse::{Operation, Parsed};

/// The handle and the calls of an actor.
pub(crate) fn handle(parsed: &Parsed) -> TokenStream {
    let (handle, calls) = (
        format_ident!("{}Handle", parsed.name),
        format_ident!("{}Call", parsed.name),
    );
    let binds = parsed
        .operations
        .iter()
        .enumerate()
        .map(|(index, operation)| bind(index as u16, operation));
    let call = parsed
        .operations
        .iter()
        .enumerate()
        .map(|(index, operation)| call(index as u16, operation));
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

        #[allow(missing_docs, unreachable_pub, private_interfaces, dead_code, clippy::ptr_arg, clippy::too_many_arguments)]
        impl #handle {
            #(#binds)*

            /// Calls outside any graph: the same methods, over values.
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

        #[allow(missing_docs, unreachable_pub, private_interfaces, dead_code, clippy::too_many_arguments)]
        impl #calls {
            #(#call)*
        }
    }
}

fn bind(index: u16, operation: &Operation) -> TokenStream {
    let Operation {
        name,
        attributes,
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
            quote!(.constant(&#name))
        } else {
            quote!(.arg(#name))
        }
    });
    quote! {
        #(#attributes)*
        #[track_caller]
        #[must_use]
        pub fn #name(&self, #(#params),*) -> ::selvedge::Edge<#result> {
            ::selvedge::__private::bind(&self.actor, #index)#(#args)*.finish::<#result>()
        }
    }
}

fn call(index: u16, operation: &Operation) -> TokenStream {
    let Operation {
        name,
        attributes,
        result,
        ..
    } = operation;
    let names: Vec<_> = operation.params.iter().map(|param| &param.name).collect();
    let edges: Vec<_> = operation.params.iter().map(|param| &param.edge).collect();
    quote! {
        #(#attributes)*
        pub fn #name(&self, #(#names: #edges),*) -> ::selvedge::Call<#result> {
            self.actor.call::<(#(#edges,)*), #result>(#index, (#(#names,)*))
        }
    }
}
