//! The functions that build an actor: a type-erased one for each constructor, and the handle's function that names the
//! constructor with its arguments.

use proc_macro2::{Ident, TokenStream};
use quote::{format_ident, quote};
use syn::Generics;

use super::Site;
use super::argument::{passed, variables};
use super::error::{Failing, error_codec, failure};
use crate::edge_type::{traits, travel};
use crate::generics::{declared, phantom, where_clause};
use crate::parse::{Constructor, Parsed};

fn build_name(index: usize) -> Ident {
    format_ident!("__selvedge_build_{index}")
}

/// Generates the functions of all constructors, and the table that lists them.
pub(super) fn constructors(parsed: &Parsed, site: &Site<'_>) -> TokenStream {
    let numbered = parsed.constructors.iter().enumerate();
    let builds = numbered
        .clone()
        .map(|(index, constructor)| build(index, constructor, site));
    let named = numbered.map(|(index, constructor)| named(index, constructor, site));
    let (handle, table) = (parsed.actor.sibling("Handle"), table(parsed, site));
    let (parameters, ..) = site.generics.split_for_impl();
    let bounds = where_clause(site.generics, &super::bounds(parsed));
    quote! {
        #(#builds)*

        #table

        /// The constructors of the actor, for `Runtime::spawn_from`.
        #[allow(missing_docs, unreachable_pub, private_interfaces, dead_code, deprecated, clippy::too_many_arguments, clippy::new_ret_no_self)]
        impl #parameters #handle #bounds {
            #(#named)*
        }
    }
}

/// Generates the function that calls one constructor.
fn build(index: usize, constructor: &Constructor, site: &Site<'_>) -> TokenStream {
    let (function, ty, path) = (build_name(index), &site.actor, &site.path);
    let Constructor {
        name, cfgs, params, ..
    } = constructor;
    let (names, passed, args) = (variables(params), passed(params), constructor.args());
    let (parameters, ..) = site.generics.split_for_impl();
    let bounds = where_clause(site.generics, &TokenStream::new());
    let made = quote!(#path::#name(#(#passed),*));
    let awaited = quote!(driver.block_on(#made).map_err(::selvedge::__private::Failure::from));
    let failure = failure();
    let built = match (constructor.is_async, constructor.fallible) {
        (true, true) => quote!(#awaited? #failure),
        (true, false) => awaited,
        (false, true) => quote!(#made #failure),
        (false, false) => quote!(::std::result::Result::Ok(#made)),
    };
    quote! {
        #(#cfgs)*
        #[allow(unused_variables)]
        fn #function #parameters(
            args: #args,
            driver: &::selvedge::__private::AsyncDriver,
        ) -> ::std::result::Result<#ty, ::selvedge::__private::Failure> #bounds {
            let (#(#names,)*) = args;
            #built
        }
    }
}

/// Generates the expression that names a constructor with its arguments, a tuple.
fn construction(
    number: usize,
    constructor: &Constructor,
    site: &Site<'_>,
    args: &TokenStream,
) -> TokenStream {
    let (_, arguments, _) = site.generics.split_for_impl();
    let (build, turbofish) = (build_name(number), arguments.as_turbofish());
    let (index, of_arguments) = (&constructor.index, traits(&constructor.args()));
    quote! {
        ::selvedge::Construction::new(#index, #args, #of_arguments, |args, driver| {
            ::std::result::Result::Ok(::selvedge::Actor::into_actor_state(#build #turbofish(args, driver)?))
        })
    }
}

/// Generates the function of the handle that names one constructor with its arguments.
fn named(number: usize, constructor: &Constructor, site: &Site<'_>) -> TokenStream {
    let (ty, name, attributes) = (&site.actor, &constructor.name, &constructor.attributes);
    let names: Vec<_> = constructor.params.iter().map(|param| &param.name).collect();
    let edges: Vec<_> = constructor.params.iter().map(|param| &param.edge).collect();
    let construction = construction(number, constructor, site, &quote!((#(#names,)*)));
    let bounds = where_clause(&Generics::default(), &travel(edges.iter().copied()));
    quote! {
        #(#attributes)*
        pub fn #name(#(#names: #edges),*) -> ::selvedge::Construction<#ty, (#(#edges,)*)> #bounds {
            #construction
        }
    }
}

/// Generates the table of the constructors.
fn table(parsed: &Parsed, site: &Site<'_>) -> TokenStream {
    let (ty, generics) = (&site.actor, site.generics);
    let (declared, phantom) = (declared(generics), phantom(generics));
    let (parameters, arguments, _) = generics.split_for_impl();
    let turbofish = arguments.as_turbofish();
    let mut all = bounds(parsed);
    all.extend(super::operation_bounds(parsed));
    let all = where_clause(generics, &all);
    let rows = parsed
        .constructors
        .iter()
        .enumerate()
        .map(|(number, constructor)| {
            let (build, cfgs, name) = (
                build_name(number),
                &constructor.cfgs,
                constructor.name.to_string(),
            );
            let args = constructor.args();
            let traits = traits(&args);
            let error = error(constructor, site);
            quote! {
                #(#cfgs)*
                ::selvedge::__private::ConstructorEntry {
                    name: #name,
                    error: #error,
                    create: |bytes, driver| {
                        let args = ::selvedge::__private::decoded::<#args>(bytes, #traits)?;
                        ::std::result::Result::Ok(::selvedge::Actor::into_actor_state(#build #turbofish(args, driver)?))
                    },
                }
            }
        });
    let new = parsed.constructors.first().filter(|first| first.name == "new");
    let new = match new {
        Some(new) => construction(0, new, site, &quote!(args)),
        None => quote!(match args {}),
    };
    quote! {
        struct __SelvedgeConstructors #declared(#phantom);

        impl #parameters ::selvedge::__private::ConstructorTable<#ty> for __SelvedgeConstructors #arguments #all {
            const CONSTRUCTORS: &'static [::selvedge::__private::ConstructorEntry] = &[#(#rows),*];

            fn construction(args: <#ty as ::selvedge::Actor>::Args) -> ::selvedge::Construction<#ty, <#ty as ::selvedge::Actor>::Args> {
                #new
            }
        }
    }
}

/// Generates the function that tells the codec of a constructor's errors.
fn error(constructor: &Constructor, site: &Site<'_>) -> TokenStream {
    let (path, name, args) = (&site.path, &constructor.name, constructor.args());
    let (names, passed) = (variables(&constructor.params), passed(&constructor.params));
    error_codec(&Failing {
        fallible: constructor.fallible,
        is_async: constructor.is_async,
        arguments: quote!((#(#names,)*): #args),
        call: quote!(#path::#name(#(#passed),*)),
    })
}

/// Generates the bounds on the arguments of all constructors.
pub(super) fn bounds(parsed: &Parsed) -> TokenStream {
    let always = parsed
        .constructors
        .iter()
        .filter(|constructor| constructor.cfgs.is_empty());
    travel(
        always
            .flat_map(|constructor| &constructor.params)
            .map(|param| &param.edge),
    )
}
