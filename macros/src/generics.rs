//! The parameters of generic actors in generated code.

use proc_macro2::TokenStream;
use quote::{ToTokens, quote};
use syn::{GenericParam, Generics};

/// Returns the parameters without bounds, for the declaration of a type.
pub(crate) fn declared(generics: &Generics) -> TokenStream {
    if generics.params.is_empty() {
        return TokenStream::new();
    }
    let params = generics.params.iter().map(|param| match param {
        GenericParam::Type(param) => param.ident.to_token_stream(),
        GenericParam::Lifetime(param) => param.lifetime.to_token_stream(),
        GenericParam::Const(param) => {
            let (name, ty) = (&param.ident, &param.ty);
            quote!(const #name: #ty)
        }
    });
    quote!(<#(#params),*>)
}

/// Returns a type without data that uses every type parameter.
pub(crate) fn phantom(generics: &Generics) -> TokenStream {
    let params = generics.type_params().map(|param| &param.ident);
    quote!(::std::marker::PhantomData<fn() -> (#(#params,)*)>)
}

/// Returns a `where` clause with the predicates of `generics` and further `predicates`.
pub(crate) fn where_clause(generics: &Generics, predicates: &TokenStream) -> TokenStream {
    let own = generics.where_clause.iter().flat_map(|clause| &clause.predicates);
    let own = quote!(#(#own,)*);
    if own.is_empty() && predicates.is_empty() {
        return own;
    }
    quote!(where #own #predicates)
}
