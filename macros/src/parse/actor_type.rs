//! Reads the type that an `impl` block makes an actor.

use syn::{GenericParam, Ident, ItemImpl, Type};

use crate::edge_type::help;

/// Returns the name of the block's type, and refuses a block whose type cannot be an actor.
pub(super) fn name(block: &ItemImpl) -> syn::Result<Ident> {
    inherent(block)?;
    concrete(block)?;
    let name = match &*block.self_ty {
        Type::Path(path) => path.path.get_ident().cloned(),
        _ => None,
    };
    name.ok_or_else(|| {
        help(
            &block.self_ty,
            "an actor's type is named by one identifier",
            "`impl Type`",
        )
    })
}

/// Refuses a block that implements a trait.
fn inherent(block: &ItemImpl) -> syn::Result<()> {
    match &block.trait_ {
        None => Ok(()),
        Some((path, _)) => Err(help(
            path,
            "`#[actor]` goes on an inherent `impl` block",
            "put the operations into `impl Type`",
        )),
    }
}

/// Refuses a block that has generic parameters.
fn concrete(block: &ItemImpl) -> syn::Result<()> {
    match block.generics.params.first() {
        None => Ok(()),
        Some(GenericParam::Lifetime(lifetime)) => {
            let message = "an actor's type has no lifetimes: it lives until its runtime ends";
            Err(help(lifetime, message, "own the data, or share it in an `Arc`"))
        }
        Some(_) => {
            let message =
                "an actor's type has no generic parameters: it is found by name in a worker process";
            Err(help(
                &block.generics,
                message,
                "write one actor per concrete type",
            ))
        }
    }
}
