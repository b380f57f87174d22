//! The errors of an operation, a constructor or a remote function.

use proc_macro2::TokenStream;
use quote::quote;

/// A function that may fail, as far as a probe needs it.
pub(crate) struct Failing {
    /// Whether the function returns a `Result`.
    pub(crate) fallible: bool,
    pub(crate) is_async: bool,
    /// The variables that hold the arguments, and their types: `(a, b): (A, B)`.
    pub(crate) arguments: TokenStream,
    /// The call with these variables.
    pub(crate) call: TokenStream,
}

/// Generates the function that tells the codec of a function's errors. A closure that is never called gives the type of the
/// errors, which a macro does not know.
pub(crate) fn error_codec(function: &Failing) -> TokenStream {
    if !function.fallible {
        return quote!(|| ::std::option::Option::None);
    }
    let Failing { arguments, call, .. } = function;
    let probe = match function.is_async {
        true => quote!(of_async_method),
        false => quote!(of_method),
    };
    quote! {
        || {
            #[allow(unreachable_code, unused_variables, clippy::diverging_sub_expression, clippy::let_unit_value)]
            let probe = ::selvedge::__private::ErrorProbe::#probe(|| {
                let #arguments = ::std::unreachable!();
                #call
            });
            (&probe).codec()
        }
    }
}

/// Generates the call that makes the error of a `Result` a failure, with its codec if it has one.
pub(crate) fn failure() -> TokenStream {
    quote!(.map_err(|error| (&::selvedge::__private::ErrorProbe::of(&error)).failure(error)))
}
