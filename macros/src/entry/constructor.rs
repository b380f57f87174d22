//! The functions that build an actor: a type-erased one for each constructor, and the handle's function that names the
//! constructor with its arguments.

use proc_macro2::{Ident, TokenStream};
use quote::{format_ident, quote};

use super::Site;
use super::argument::{passed, variables};
use crate::edge_type::{traits, travel};
use crate::generics::where_clause;
use crate::parse::{Constructor, Parsed};

fn build_name(index: usize) -> Ident {
    format_ident!("__selvedge_build_{index}")
}

/// Generates the functions of all constructors.
pub(super) fn constructors(parsed: &Parsed, site: &Site<'_>) -> TokenStream {
    let numbered = parsed.constructors.iter().enumerate();
    let builds = numbered
        .clone()
        .map(|(index, constructor)| build(index, constructor, site));
    let named = numbered.map(|(index, constructor)| named(index, constructor, parsed, site));
    if parsed.constructors.is_empty() {
        return TokenStream::new();
    }
    let handle = parsed.actor.sibling("Handle");
    let (parameters, ..) = site.generics.split_for_impl();
    let bounds = where_clause(site.generics, &super::bounds(parsed));
    quote! {
        #(#builds)*

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
    let mut built = quote!(#path::#name(#(#passed),*));
    if constructor.is_async {
        built = quote!(driver.block_on(#built).map_err(::selvedge::__private::Failure::from)?);
    }
    if constructor.fallible {
        built = quote!(#built.map_err(::std::convert::Into::into));
    } else {
        built = quote!(::std::result::Result::Ok(#built));
    }
    quote! {
        #(#cfgs)*
        #[allow(unused_variables)]
        fn #function #parameters(
            args: #args,
            driver: &::selvedge::__private::AsyncDriver,
        ) -> ::std::result::Result<#ty, ::selvedge::__private::BoxError> #bounds {
            let (#(#names,)*) = args;
            #built
        }
    }
}

/// Generates the function of the handle that names one constructor with its arguments.
fn named(index: usize, constructor: &Constructor, parsed: &Parsed, site: &Site<'_>) -> TokenStream {
    let (function, ty) = (build_name(index), &parsed.actor.ty);
    let Constructor {
        name,
        attributes,
        index,
        params,
        ..
    } = constructor;
    let names: Vec<_> = params.iter().map(|param| &param.name).collect();
    let edges: Vec<_> = params.iter().map(|param| &param.edge).collect();
    let (_, arguments, _) = site.generics.split_for_impl();
    let (turbofish, of_arguments) = (arguments.as_turbofish(), traits(&constructor.args()));
    let bounds = where_clause(&Default::default(), &travel(edges.iter().copied()));
    quote! {
        #(#attributes)*
        pub fn #name(#(#names: #edges),*) -> ::selvedge::Construction<#ty> #bounds {
            ::selvedge::Construction::new(#index, (#(#names,)*), #of_arguments, |args, driver| {
                ::std::result::Result::Ok(::selvedge::Actor::state(#function #turbofish(args, driver)?))
            })
        }
    }
}

/// Generates the table of the constructors.
pub(super) fn table(parsed: &Parsed, site: &Site<'_>) -> TokenStream {
    let (_, arguments, _) = site.generics.split_for_impl();
    let turbofish = arguments.as_turbofish();
    let rows = parsed.constructors.iter().enumerate().map(|(index, constructor)| {
        let (function, cfgs, name) = (build_name(index), &constructor.cfgs, constructor.name.to_string());
        let args = constructor.args();
        let traits = traits(&args);
        quote! {
            #(#cfgs)*
            ::selvedge::__private::ConstructorEntry {
                name: #name,
                create: |bytes, driver| {
                    let args = ::selvedge::__private::decoded::<#args>(bytes, #traits)?;
                    ::std::result::Result::Ok(::selvedge::Actor::state(#function #turbofish(args, driver)?))
                },
            }
        }
    });
    quote!(&[#(#rows),*])
}

/// Generates the bounds on the arguments of a generic actor's constructors: those of `new` can cross processes.
pub(super) fn bounds(parsed: &Parsed) -> TokenStream {
    let always = parsed
        .constructors
        .iter()
        .filter(|constructor| constructor.cfgs.is_empty());
    let mut bounds = travel(
        always
            .flat_map(|constructor| &constructor.params)
            .map(|param| &param.edge),
    );
    let args = super::args(parsed);
    bounds.extend(quote!(#args: ::selvedge::Wire,));
    bounds
}

/// Generates the call of `new` with `args`, as an expression of type `Result<Self, BoxError>`.
pub(super) fn created(parsed: &Parsed, site: &Site<'_>) -> TokenStream {
    if parsed
        .constructors
        .first()
        .is_none_or(|first| first.name != "new")
    {
        return quote!(match args {});
    }
    let (_, arguments, _) = site.generics.split_for_impl();
    let (new, turbofish) = (build_name(0), arguments.as_turbofish());
    quote!(#new #turbofish(args, driver))
}
