//! Parameters of remote functions: the form in which each argument travels, and how it becomes what the function takes.

use std::any::type_name;
use std::future::Future;
use std::pin::Pin;
use std::sync::Arc;

use selvedge_channels::{Traits, Wire, dispose};

use crate::body::Body;
use crate::failure::Failure;
use crate::reference::handle::Handle;
use crate::reference::{FetchError, NamedRef, Ref};
use crate::remote::argument::Argument;
use crate::remote::argument_store::ArgumentStore;
use crate::remote::here::ValueHere;
use crate::short_name::short;

/// A reference whose value is an argument.
#[derive(Clone, Debug)]
pub struct InputRef(pub(crate) Arc<Handle>);

/// An argument, or all arguments, of a function that is to run.
pub enum Arriving<T> {
    /// A value that has come with the call.
    Here(T),
    /// A value that a reference stands for.
    Later(Pin<Box<dyn Future<Output = Result<T, Failure>> + Send>>),
}

impl<T> Arriving<T> {
    /// Waits for the value.
    ///
    /// # Errors
    /// The failure of a reference without a value.
    pub async fn arrived(self) -> Result<T, Failure> {
        match self {
            Arriving::Here(value) => Ok(value),
            Arriving::Later(value) => value.await,
        }
    }
}

/// The argument that a remote function takes: a value that may cross processes, or one that stays where it lives, [`ValueHere`].
#[diagnostic::on_unimplemented(
    message = "`{Self}` cannot cross a process",
    label = "not a wire type",
    note = "its type needs `#[derive(Clone, Serialize, Deserialize)]`, and must be `Send` and `Sync` and borrow nothing",
    note = "a value that stays in the process that keeps it is taken with `#[here]`, and must be `Send` and `Sync` alone"
)]
pub trait Parameter: Send + Sized + 'static {
    /// The argument on its way.
    type Passed: Wire;

    /// The argument, or its way here.
    fn resolved(passed: Self::Passed) -> Arriving<Self>;

    /// The argument, by reference if it is a large value: that is put into the store then.
    fn stored(passed: Self::Passed, _: &mut ArgumentStore<'_>) -> Self::Passed {
        passed
    }

    /// The reason that the argument cannot be encoded. This encodes it, by user code.
    fn unencodable(_: &Self::Passed) -> Option<Failure> {
        None
    }

    /// The reference whose owner the function has to run in.
    fn home(_: &Self::Passed) -> Option<NamedRef> {
        None
    }

    /// The reference whose value is the argument.
    fn input(_: &Self::Passed) -> Option<InputRef> {
        None
    }
}

#[diagnostic::do_not_recommend]
impl<T: Wire> Parameter for T {
    type Passed = Argument<T>;

    fn resolved(passed: Argument<T>) -> Arriving<T> {
        match passed {
            Argument::Value(value) => Arriving::Here(value),
            Argument::Reference(reference) => Arriving::Later(Box::pin(async move {
                given((&reference).await).map(Arc::unwrap_or_clone)
            })),
        }
    }

    fn stored(passed: Argument<T>, store: &mut ArgumentStore<'_>) -> Argument<T> {
        match passed {
            Argument::Value(value) => match store.put(&value) {
                Some(handle) => {
                    // A panic here would leave the object to nobody.
                    dispose(value);
                    Argument::Reference(Ref::of(handle))
                }
                None => Argument::Value(value),
            },
            Argument::Reference(reference) => Argument::Reference(reference),
        }
    }

    fn unencodable(passed: &Argument<T>) -> Option<Failure> {
        let Argument::Value(value) = passed else {
            return None;
        };
        Failure::catch(|| Body::encoded(value, const { &Traits::LETTER })).err()
    }

    fn input(passed: &Argument<T>) -> Option<InputRef> {
        match passed {
            Argument::Value(_) => None,
            Argument::Reference(reference) => Some(InputRef(Arc::clone(reference.handle()))),
        }
    }
}

impl<T: Send + Sync + 'static> Parameter for ValueHere<T> {
    type Passed = Ref<T>;

    fn resolved(passed: Ref<T>) -> Arriving<Self> {
        Arriving::Later(Box::pin(async move {
            match passed.here() {
                Some(made) => given(made.await).map(ValueHere),
                None => Err(Failure::from_error(format!(
                    "{} is no value of this process",
                    passed.id()
                ))),
            }
        }))
    }

    fn home(passed: &Ref<T>) -> Option<NamedRef> {
        Some(passed.named())
    }
}

/// The failure of the function that was to make the value is that of the call.
fn given<T>(fetched: Result<Arc<T>, FetchError>) -> Result<Arc<T>, Failure> {
    fetched.map_err(|error| match error {
        FetchError::Failed { failure, .. } => failure,
        other => Failure::from_error(other),
    })
}

/// An argument that the caller cannot encode.
#[derive(thiserror::Error)]
#[error(
    "argument {number}, of type `{}`, cannot be encoded by the caller: {failure}",
    short(type_name)
)]
pub struct UnencodableArgument {
    /// The place of the argument, from 1.
    number: usize,
    type_name: &'static str,
    failure: Failure,
}

selvedge_channels::debug_is_report!(UnencodableArgument);

/// The arguments of a function: a tuple of values that may cross processes, or that stay where they live.
#[diagnostic::on_unimplemented(
    message = "`{Self}` cannot cross a process",
    label = "not a wire type",
    note = "its type needs `#[derive(Clone, Serialize, Deserialize)]`, and must be `Send` and `Sync` and borrow nothing",
    note = "a value that stays in the process that keeps it is taken with `#[here]`, and must be `Send` and `Sync` alone"
)]
pub trait ArgumentTuple: Send + Sized + 'static {
    /// The arguments on their way.
    type Passed: Wire;

    /// The arguments, as soon as all of them are there.
    ///
    /// # Errors
    /// The failure of the first reference without a value.
    fn resolved(passed: Self::Passed) -> Arriving<Self>;

    /// The arguments, of which the large ones are references to values in the store.
    fn stored(passed: Self::Passed, store: &mut ArgumentStore<'_>) -> Self::Passed;

    /// The first argument that cannot be encoded. This encodes them once more, by user code.
    fn unencodable(passed: &Self::Passed) -> Option<UnencodableArgument>;

    /// The references whose owner the function has to run in.
    fn homes(passed: &Self::Passed) -> Vec<NamedRef>;

    /// The references whose values are arguments.
    fn inputs(passed: &Self::Passed) -> Vec<InputRef>;
}

macro_rules! tuples {
    ($(($($name:ident)*))*) => { $(
        #[diagnostic::do_not_recommend]
        #[allow(non_snake_case, reason = "a name for the type and for the value")]
        impl<$($name: Parameter),*> ArgumentTuple for ($($name,)*) {
            type Passed = ($($name::Passed,)*);

            #[allow(unreachable_patterns, unused_variables, reason = "a function without arguments waits for none")]
            fn resolved(($($name,)*): Self::Passed) -> Arriving<Self> {
                match ($($name::resolved($name),)*) {
                    ($(Arriving::Here($name),)*) => Arriving::Here(($($name,)*)),
                    ($($name,)*) => Arriving::Later(Box::pin(async move { Ok(($($name.arrived().await?,)*)) })),
                }
            }

            #[allow(unused_variables, clippy::unused_unit, reason = "a function without arguments stores none")]
            fn stored(($($name,)*): Self::Passed, store: &mut ArgumentStore<'_>) -> Self::Passed {
                ($($name::stored($name, store),)*)
            }

            #[allow(unused_mut, unused_variables, reason = "a function without arguments has none")]
            fn unencodable(($($name,)*): &Self::Passed) -> Option<UnencodableArgument> {
                let mut number = 0;
                $(
                    number += 1;
                    if let Some(failure) = $name::unencodable($name) {
                        let type_name = type_name::<$name>();
                        return Some(UnencodableArgument { number, type_name, failure });
                    }
                )*
                None
            }

            fn homes(($($name,)*): &Self::Passed) -> Vec<NamedRef> {
                let homes: [Option<NamedRef>; _] = [$($name::home($name)),*];
                homes.into_iter().flatten().collect()
            }

            fn inputs(($($name,)*): &Self::Passed) -> Vec<InputRef> {
                let inputs: [Option<InputRef>; _] = [$($name::input($name)),*];
                inputs.into_iter().flatten().collect()
            }
        }
    )* };
}

tuples! {
    () (A) (A B) (A B C) (A B C D) (A B C D E) (A B C D E F) (A B C D E F G) (A B C D E F G H) (A B C D E F G H I)
    (A B C D E F G H I J) (A B C D E F G H I J K) (A B C D E F G H I J K L) (A B C D E F G H I J K L M)
    (A B C D E F G H I J K L M N) (A B C D E F G H I J K L M N O) (A B C D E F G H I J K L M N O P)
}
