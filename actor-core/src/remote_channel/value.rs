//! A value of a channel: as it was put in this process, or encoded. And the deferral of its drop.
//!
//! The drop of a value may be user code, and values are dropped where no user code may run: under the lock of a queue, and
//! on the thread that reads links. There, [`deferring`] collects them.

use std::sync::Arc;

use selvedge_channels::{Scope, ScopePlace, Traits, Wire, dispose};

use crate::body::Body;
use crate::failure::Failure;
use crate::reference::content::{ObjectValue, decoded};
use crate::reference::handle::Handle;
use crate::reference::transit;

/// A value that the queue may clone.
pub(super) type SharedValue = Arc<ChannelValue>;

/// A value of a channel.
pub(super) struct ChannelValue(Option<ValueForm>);

/// The form of a value.
pub(super) enum ValueForm {
    /// The value itself, which was put in this process.
    Here(ObjectValue),
    /// Bytes, and the references in the value.
    Encoded(EncodedValue),
}

/// An encoded value, with the references in it.
#[derive(Clone, Default)]
pub(super) struct EncodedValue {
    pub(super) body: Body,
    pub(super) handles: Vec<Arc<Handle>>,
}

thread_local! {
    static SPENT: ScopePlace<Vec<ValueForm>> = const { ScopePlace::new() };
}

/// Runs `work`; returns the values that it has dropped as well, still to be dropped.
pub(super) fn deferring<R>(work: impl FnOnce() -> R) -> (R, Vec<ValueForm>) {
    let scope = Scope::open(&SPENT, Vec::new());
    let result = work();
    (result, scope.close().unwrap_or_default())
}

impl Drop for ChannelValue {
    fn drop(&mut self) {
        let Some(form) = self.0.take().filter(ValueForm::may_run_user_code) else {
            return;
        };
        let here = ScopePlace::look(&SPENT, |spent| match spent {
            Some(spent) => {
                spent.push(form);
                None
            }
            None => Some(form),
        });
        dispose(here);
    }
}

impl ValueForm {
    /// Whether the drop may run user code: that of the value itself, or of an object that is freed by it.
    fn may_run_user_code(&self) -> bool {
        match self {
            ValueForm::Here(_) => true,
            ValueForm::Encoded(value) => !value.handles.is_empty(),
        }
    }
}

impl ChannelValue {
    /// A value as it is.
    pub(super) fn here<T: Wire>(value: T) -> SharedValue {
        let value = ObjectValue::new(value, const { &Traits::LETTER });
        Arc::new(ChannelValue(Some(ValueForm::Here(value))))
    }

    /// A value that came from another process, or goes there.
    pub(super) fn encoded(value: EncodedValue) -> SharedValue {
        Arc::new(ChannelValue(Some(ValueForm::Encoded(value))))
    }

    /// Whether the value is not encoded yet.
    pub(super) fn is_here(&self) -> bool {
        matches!(self.0, Some(ValueForm::Here(_)))
    }

    /// The encoded value. This may run user code.
    ///
    /// # Errors
    /// The value cannot be encoded.
    pub(super) fn to_encoded(&self) -> Result<EncodedValue, Failure> {
        match &self.0 {
            Some(ValueForm::Here(value)) => {
                let (body, handles) = transit::leaving(|| value.to_body());
                let body = body?;
                Ok(EncodedValue { body, handles })
            }
            Some(ValueForm::Encoded(value)) => Ok(value.clone()),
            None => Ok(EncodedValue::default()),
        }
    }
}

/// Reads a value. One of this process is moved if nobody else has it, and else cloned. This runs user code.
///
/// # Errors
/// The value cannot be decoded.
pub(super) fn read<T: Wire>(value: SharedValue) -> Result<T, Failure> {
    match &value.0 {
        Some(ValueForm::Here(here)) => {
            let shared = here.get::<T>();
            drop(value);
            let shared = shared.ok_or_else(|| Failure::Internal("a value of another type".to_owned()))?;
            Failure::catch(|| Ok(Arc::unwrap_or_clone(shared)))
        }
        Some(ValueForm::Encoded(encoded)) => transit::arriving(encoded.handles.clone(), || {
            decoded(&encoded.body.to_bytes(), const { &Traits::LETTER })
        }),
        None => Err(Failure::Internal("a value that was dropped".to_owned())),
    }
}
