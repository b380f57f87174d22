//! Several calls as one: a scope ends once all calls that were made in it have ended.

use std::sync::Arc;

use parking_lot::Mutex;
use selvedge_channels::{Traits, Wire};

use crate::call::{Call, CallError};
use crate::remote::chosen::Verb;
use crate::remote::composite::Composite;
use crate::remote::function::Wants;
use crate::remote::remote_call::RemoteCall;
use crate::runtime::Runtime;

/// Waits for one call, and says how it has ended.
type Wait = Box<dyn FnOnce() -> Result<(), CallError>>;

/// The calls of a scope; see [`Runtime::scope`].
pub struct CallScope {
    runtime: Runtime,
    waits: Mutex<Vec<Wait>>,
}

/// The value of a call of a scope, there once the scope has ended.
#[derive(Debug)]
pub struct Scoped<T>(Arc<Mutex<Option<T>>>);

impl std::fmt::Debug for CallScope {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("CallScope").finish_non_exhaustive()
    }
}

impl<T> Scoped<T> {
    /// The value; `None` if the call failed, and before the scope has ended.
    #[must_use]
    pub fn take(&self) -> Option<T> {
        self.0.lock().take()
    }
}

impl CallScope {
    /// Calls a remote function. The scope waits for its value.
    pub fn call<T: Wire, S>(&self, call: RemoteCall<T, S>) -> Scoped<T> {
        let traits = const { &Traits::LETTER };
        let call = self.runtime.start(call, Verb::ScopeCall, Wants::Value, traits);
        let value = Arc::new(Mutex::new(None));
        let place = Arc::clone(&value);
        self.add(move || {
            *place.lock() = Some(call.wait()?);
            Ok(())
        });
        Scoped(value)
    }

    /// Runs a remote function whose value nobody wants. The scope waits for its end, and has its error.
    pub fn cast<T, S>(&self, call: RemoteCall<T, S>) {
        let traits = const { &Traits::<()>::WIRE };
        let call: Call<()> = self.runtime.start(call, Verb::ScopeCast, Wants::End, traits);
        self.add(move || call.wait());
    }

    fn add(&self, wait: impl FnOnce() -> Result<(), CallError> + 'static) {
        self.waits.lock().push(Box::new(wait));
    }
}

impl Runtime {
    /// Runs `act`, which makes calls in its scope, and waits for all of them. Returns the value of `act`.
    ///
    /// If `act` panics, its calls are cancelled.
    ///
    /// # Errors
    /// [`Composite`], with the errors of all calls that failed, in the order in which they were made.
    pub fn scope<R>(&self, act: impl FnOnce(&CallScope) -> R) -> Result<R, Composite> {
        let scope = CallScope {
            runtime: self.clone(),
            waits: Mutex::default(),
        };
        let result = act(&scope);
        let waits = scope.waits.into_inner();
        let calls = waits.len();
        let errors: Vec<CallError> = waits.into_iter().filter_map(|wait| wait().err()).collect();
        if errors.is_empty() {
            return Ok(result);
        }
        Err(Composite { errors, calls })
    }
}
