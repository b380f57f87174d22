//! The actor's entry: the functions that the runtime calls, found by name in every process of the program.

use proc_macro2::{Ident, TokenStream};
use quote::{format_ident, quote};

use crate::edge_type::{Pass, list_elements, travel};
use crate::parse::{Operation, Param, Parsed};

/// Generates the entry, its functions, and its registration.
pub(crate) fn entry(parsed: &Parsed) -> TokenStream {
    let (name, text) = (&parsed.name, parsed.name.to_string());
    let handle = format_ident!("{name}Handle");
    let args: Vec<_> = parsed
        .constructor
        .params
        .iter()
        .map(|param| &param.edge)
        .collect();
    let names = variables(&parsed.constructor.params);
    let passed = passed(&parsed.constructor.params);
    let created = quote!(#name::new(#(#passed),*));
    let created = if parsed.constructor.fallible {
        quote!(#created.map_err(::std::convert::Into::into))
    } else {
        quote!(::std::result::Result::Ok(#created))
    };
    let functions = parsed
        .operations
        .iter()
        .enumerate()
        .map(|(index, operation)| functions(index, operation, parsed));
    let methods = parsed
        .operations
        .iter()
        .enumerate()
        .map(|(index, operation)| method(index, operation));
    // Operations behind a `cfg` may name types that exist only under that `cfg`, so they are not listed in the bounds;
    // the bodies of their functions check their types.
    let always = parsed
        .operations
        .iter()
        .filter(|operation| operation.cfgs.is_empty());
    let travel_all = travel(always.flat_map(Operation::travellers));
    quote! {
        #[allow(deprecated)]
        const _: () = {
            // Only traits are imported, as `_`, for their methods. Everything else has a full path, so that no
            // user-defined name can take its place.
            #[allow(unused_imports)]
            use ::selvedge::__private::{PlainResult as _, TupleResult as _};

            fn __selvedge_create(bytes: &[u8]) -> ::std::result::Result<::selvedge::__private::ActorState, ::selvedge::__private::BoxError> {
                let args = ::selvedge::__private::decode::<<#name as ::selvedge::Actor>::Args>(bytes)?;
                ::std::result::Result::Ok(::selvedge::__private::ActorState::new(<#name as ::selvedge::Actor>::create(args)?))
            }

            #[inline]
            fn __selvedge_receiver(actor: &mut ::selvedge::__private::ActorState) -> ::std::result::Result<&mut #name, ::std::boxed::Box<::selvedge::__private::Failure>> {
                actor.typed_mut::<#name>().ok_or_else(|| {
                    ::std::boxed::Box::new(::selvedge::__private::Failure::Internal(::std::format!("an actor is not the `{}` it should be", #text)))
                })
            }

            #(#functions)*

            struct __SelvedgeMethods;

            impl ::selvedge::__private::MethodTable for __SelvedgeMethods #travel_all {
                const METHODS: &'static [::selvedge::__private::MethodEntry] = &[#(#methods),*];
            }

            static __SELVEDGE_ENTRY: ::selvedge::__private::ActorEntry = ::selvedge::__private::ActorEntry {
                name: ::std::concat!(::std::module_path!(), "::", #text),
                place: ::std::concat!(::std::file!(), ":", ::std::line!(), ":", ::std::column!()),
                create: __selvedge_create,
                methods: <__SelvedgeMethods as ::selvedge::__private::MethodTable>::METHODS,
            };

            impl ::selvedge::Actor for #name {
                type Args = (#(#args,)*);
                type Handle = #handle;
                const NAME: &'static str = ::std::concat!(::std::module_path!(), "::", #text);

                fn entry() -> &'static ::selvedge::__private::ActorEntry {
                    &__SELVEDGE_ENTRY
                }

                fn create(args: Self::Args) -> ::std::result::Result<Self, ::selvedge::__private::BoxError> {
                    let (#(#names,)*) = args;
                    #created
                }

                fn handle(actor: ::selvedge::ActorRef) -> Self::Handle {
                    #handle { actor }
                }
            }

            #[::selvedge::__private::linkme::distributed_slice(::selvedge::__private::ACTORS)]
            #[linkme(crate = ::selvedge::__private::linkme)]
            static __SELVEDGE_REGISTERED: fn() -> &'static ::selvedge::__private::ActorEntry = <#name as ::selvedge::Actor>::entry;
        };
    }
}

/// Returns the variables that hold the arguments, named by position: a parameter's own name could clash with another
/// variable of the generated code.
fn variables(params: &[Param]) -> Vec<Ident> {
    (0..params.len()).map(|i| format_ident!("arg_{i}")).collect()
}

/// Returns the arguments in the form in which the method takes them, from owned variables.
fn passed(params: &[Param]) -> Vec<TokenStream> {
    let pass = |(param, name): (&Param, Ident)| match param.pass {
        Pass::Owned => quote!(#name),
        Pass::Reference | Pass::Slice(_) | Pass::Text => quote!(&#name),
    };
    params.iter().zip(variables(params)).map(pass).collect()
}

/// Generates the type-erased functions of one operation.
fn functions(index: usize, operation: &Operation, parsed: &Parsed) -> TokenStream {
    let (compute, call) = (
        format_ident!("__selvedge_compute_{index}"),
        format_ident!("__selvedge_call_{index}"),
    );
    let (actor, method, result) = (&parsed.name, &operation.name, &operation.result);
    let cfgs = &operation.cfgs;
    let names = variables(&operation.params);
    let numbered = || operation.params.iter().zip(&names).enumerate();
    let taken = numbered()
        .filter(|(_, (param, _))| matches!(param.pass, Pass::Owned))
        .map(|(i, (param, name))| {
            let edge = &param.edge;
            quote!(let #name = frame.take::<#edge>(#i)?;)
        });
    let borrowed = numbered().filter_map(|(i, (param, name))| {
        let edge = &param.edge;
        match &param.pass {
            Pass::Owned => None,
            Pass::Reference => Some(quote!(let #name = frame.get::<#edge>(#i)?;)),
            Pass::Slice(element) => Some(quote!(let #name = frame.slice::<#element>(#i)?;)),
            Pass::Text => Some(quote!(let #name = frame.text(#i)?;)),
        }
    });
    let edges: Vec<_> = operation.params.iter().map(|param| &param.edge).collect();
    let passed = passed(&operation.params);
    let in_graph = quote!(#actor::#method(receiver, #(#names),*));
    let in_call = quote!(#actor::#method(receiver, #(#passed),*));
    let (in_graph, in_call) = if operation.is_async {
        (
            quote!(frame.block_on(#in_graph)?),
            quote!(driver.block_on(#in_call)?),
        )
    } else {
        (in_graph, in_call)
    };
    let value = if operation.fallible {
        quote!(result.map_err(::selvedge::__private::Failure::from_error)?)
    } else {
        quote!(result)
    };
    let travel = if cfgs.is_empty() {
        travel(operation.travellers())
    } else {
        TokenStream::new()
    };
    quote! {
        #(#cfgs)*
        #[allow(clippy::let_unit_value, clippy::unit_arg, clippy::needless_borrow)]
        #[inline]
        fn #compute(actor: &mut ::selvedge::__private::ActorState, frame: &mut ::selvedge::__private::Frame<'_>) -> ::std::result::Result<(), ::std::boxed::Box<::selvedge::__private::Failure>> #travel {
            let receiver = __selvedge_receiver(actor)?;
            #(#taken)*
            let result = {
                #(#borrowed)*
                #in_graph
            };
            (&::selvedge::__private::PartsProbe::<#result>::new()).finish(frame, #value)
        }

        #(#cfgs)*
        #[allow(unused_variables, clippy::let_unit_value, clippy::unit_arg)]
        fn #call(
            actor: &mut ::selvedge::__private::ActorState,
            arguments: ::selvedge::__private::Arguments,
            driver: &::selvedge::__private::AsyncDriver,
        ) -> ::std::result::Result<::selvedge::__private::Returned, ::selvedge::__private::Failure> #travel {
            let receiver = __selvedge_receiver(actor).map_err(|failure| *failure)?;
            let kind = arguments.kind();
            let (#(#names,)*) = arguments.into::<(#(#edges,)*)>()?;
            let result = #in_call;
            ::selvedge::__private::Returned::new::<#result>(#value, kind)
        }
    }
}

/// Generates one row of the entry's table of methods.
fn method(index: usize, operation: &Operation) -> TokenStream {
    let (compute, call) = (
        format_ident!("__selvedge_compute_{index}"),
        format_ident!("__selvedge_call_{index}"),
    );
    let (name, result) = (operation.name.to_string(), &operation.result);
    let cfgs = &operation.cfgs;
    let params = operation.params.iter().map(|param| {
        let (name, edge) = (param.name.to_string(), &param.edge);
        let levels = list_elements(edge);
        quote!(::selvedge::__private::ParamEntry {
            name: #name,
            payload: ::selvedge::__private::PayloadType::of::<#edge>,
            lists: || ::std::vec![#(::selvedge::__private::ListLevel::of::<#levels>()),*],
        })
    });
    quote! {
        #(#cfgs)*
        ::selvedge::__private::MethodEntry {
            name: #name,
            params: &[#(#params),*],
            result: ::selvedge::__private::PayloadType::of::<#result>,
            parts: || (&::selvedge::__private::PartsProbe::<#result>::new()).types(),
            compute: #compute,
            call: #call,
        }
    }
}
