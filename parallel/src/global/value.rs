//! The argument for a parameter with `#[global]`.

use std::ops::Deref;
use std::sync::Arc;

use selvedge_channels::Wire;
use selvedge_core::{Argument, Arriving, Failure, Parameter};

use super::global_type::Global;

/// The argument for a parameter with `#[global]`: the copy of this process. It is fetched before the function runs, if it is not there.
#[derive(Debug)]
pub struct GlobalValue<T>(Arc<T>);

impl<T> GlobalValue<T> {
    /// The value, for a parameter of type `Arc<T>`.
    #[must_use]
    pub fn shared(self) -> Arc<T> {
        self.0
    }
}

impl<T> Deref for GlobalValue<T> {
    type Target = T;

    fn deref(&self) -> &T {
        &self.0
    }
}

#[diagnostic::do_not_recommend]
impl<T: Wire> Parameter for GlobalValue<T> {
    type Passed = Argument<Global<T>>;

    fn resolved(passed: Argument<Global<T>>) -> Arriving<Self> {
        Arriving::Later(Box::pin(async move {
            let global = Global::<T>::resolved(passed).arrived().await?;
            let value = global.get_async().await;
            value.map(GlobalValue).map_err(Failure::from_error)
        }))
    }
}
