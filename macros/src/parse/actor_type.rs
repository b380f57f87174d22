//! Reads the type that an `impl` block makes an actor.

use proc_macro2::TokenStream;
use quote::{ToTokens, format_ident, quote};
use syn::{
    Error, GenericArgument, GenericParam, Generics, Ident, ItemImpl, Path, PathArguments, Type,
    WherePredicate, parse_quote,
};

use crate::edge_type::{help, ungrouped};

/// The type of an actor.
pub(crate) struct ActorType {
    /// The name of the type, without its module and its arguments.
    pub(crate) name: Ident,
    /// The type as it is written.
    pub(crate) ty: TokenStream,
    /// The parameters of the block. Each of its types must be `'static`, as every actor.
    pub(crate) generics: Generics,
    /// Whether the type stands for a remote function.
    is_function: bool,
    /// The path of the type, without arguments.
    path: Path,
}

impl ActorType {
    /// The actor that stands for the function with this name.
    pub(crate) fn function(name: &Ident) -> Self {
        ActorType {
            name: name.clone(),
            ty: name.to_token_stream(),
            generics: Generics::default(),
            is_function: true,
            path: name.clone().into(),
        }
    }

    /// Whether the block has parameters, so that it stands for many actor types.
    pub(crate) fn is_generic(&self) -> bool {
        !self.generics.params.is_empty()
    }

    /// Whether generated items say what the types of arguments must be able to do. Types of an actor without parameters are checked
    /// where they are used; those of a function have been checked beside it, and are to be one error.
    pub(crate) fn has_bounds(&self) -> bool {
        self.is_generic() || self.is_function
    }

    /// Returns the name of a type that goes with the actor, such as its handle.
    pub(crate) fn sibling_name(&self, suffix: &str) -> Ident {
        format_ident!("{}{suffix}", self.name)
    }

    /// Returns one `use` of the types that go with the actor, and the actor as code below that `use` names it. If the
    /// types are not there, rustc reports one error for all of them.
    pub(crate) fn imported(&self) -> (TokenStream, Self) {
        let (handle, calls) = (sibling(&self.path, "Handle"), sibling(&self.path, "Call"));
        let import = quote! {
            use {#handle as __SelvedgeHandle, #calls as __SelvedgeCall};
        };
        let imported = ActorType {
            name: self.name.clone(),
            ty: self.ty.clone(),
            generics: self.generics.clone(),
            is_function: self.is_function,
            path: parse_quote!(__Selvedge),
        };
        (import, imported)
    }

    /// Returns a type that goes with the actor and has the block's parameters.
    pub(crate) fn sibling(&self, suffix: &str) -> TokenStream {
        let path = sibling(&self.path, suffix);
        let (_, arguments, _) = self.generics.split_for_impl();
        quote!(#path #arguments)
    }
}

/// Returns the path of a type that is named after the last segment of `path` and lies beside it.
pub(crate) fn sibling(path: &Path, suffix: &str) -> Path {
    let mut path = path.clone();
    if let Some(last) = path.segments.last_mut() {
        last.ident = format_ident!("{}{suffix}", last.ident);
        last.arguments = PathArguments::None;
    }
    path
}

/// Reads the block's type, with the mistake of a type that has lifetimes. Such a type is read as if they were `'static`.
pub(crate) fn actor_type(block: &ItemImpl) -> syn::Result<(ActorType, Option<Error>)> {
    let Type::Path(written) = ungrouped(&block.self_ty) else {
        return Err(unnamed(&block.self_ty));
    };
    let mut written = written.path.clone();
    let mut generics = block.generics.clone();
    let mistake = without_lifetimes(&mut written, &mut generics);
    let Some(last) = written.segments.last() else {
        return Err(unnamed(&block.self_ty));
    };
    let (name, ty) = (last.ident.clone(), written.to_token_stream());
    let mut path = written;
    if let Some(last) = path.segments.last_mut() {
        last.arguments = PathArguments::None;
    }
    let outlives: Vec<WherePredicate> = generics
        .type_params()
        .map(|param| {
            let name = &param.ident;
            parse_quote!(#name: 'static)
        })
        .collect();
    if !outlives.is_empty() {
        generics.make_where_clause().predicates.extend(outlives);
    }
    let actor = ActorType {
        name,
        ty,
        generics,
        is_function: false,
        path,
    };
    Ok((actor, mistake))
}

fn unnamed(ty: &Type) -> Error {
    help(ty, "an actor's type is a struct or an enum", "`impl Type`")
}

/// Removes the lifetimes from the parameters of a block, and replaces those of its type by `'static`. Returns the mistake
/// that they are.
fn without_lifetimes(path: &mut Path, generics: &mut Generics) -> Option<Error> {
    let mut mistake = None;
    for argument in path
        .segments
        .iter_mut()
        .flat_map(|segment| match &mut segment.arguments {
            PathArguments::AngleBracketed(arguments) => arguments.args.iter_mut().collect(),
            _ => Vec::new(),
        })
    {
        if let GenericArgument::Lifetime(lifetime) = argument
            && lifetime.ident != "static"
        {
            let message = "an actor's type has no lifetimes: it lives until its runtime ends";
            mistake.get_or_insert_with(|| help(&*lifetime, message, "own the data, or share it in an `Arc`"));
            *lifetime = parse_quote!('static);
        }
    }
    let params = std::mem::take(&mut generics.params);
    generics.params = params
        .into_iter()
        .filter(|param| !matches!(param, GenericParam::Lifetime(_)))
        .collect();
    if mistake.is_some() {
        generics.where_clause = None;
    }
    mistake
}
