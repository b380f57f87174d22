//! Objects of this process whose values futures make: the results of graphs.

use std::future::Future;
use std::sync::{Arc, Weak};

use selvedge_channels::{Traits, Wire, dispose};
use selvedge_objects::refs::RefId;

use crate::body::Body;
use crate::failure::Failure;
use crate::reference::Ref;
use crate::reference::content::{Content, ObjectValue};
use crate::reference::references::References;
use crate::reference::stored_value::StoredValue;
use crate::reference::transit;
use crate::remote::service::Remote;
use crate::runtime::Runtime;

impl Runtime {
    /// Makes an object of this process whose value `value` returns, and returns a reference to it at once. A value of more than 16 KiB
    /// lies in the store of this process, if it has one with room. The future runs to its end, also without a reference;
    /// others of its kind wait while it is polled.
    #[doc(hidden)] // for the compiler
    pub fn object_of<T: Wire, F>(&self, value: F) -> Ref<T>
    where
        F: Future<Output = Result<T, Failure>> + Send + 'static,
    {
        Ref::of(self.remote().object_of(value))
    }
}

/// An object that has no content yet. Its drop is the failure of the object.
struct Awaited {
    references: Arc<References>,
    id: RefId,
    is_made: bool,
}

impl Awaited {
    fn fill(mut self, content: Content) {
        self.is_made = true;
        // Nobody may want it any more.
        let _ = self.references.fill(self.id, content);
    }
}

impl Drop for Awaited {
    fn drop(&mut self) {
        if !self.is_made {
            let text = "what was to make the value has ended without one: the runtime was shut down, or has no thread";
            let failure = Arc::new(Failure::from_error(text.to_owned()));
            let _ = self.references.fill(self.id, Err(failure));
        }
    }
}

impl Remote {
    fn object_of<T: Wire, F>(&self, value: F) -> Arc<crate::reference::handle::Handle>
    where
        F: Future<Output = Result<T, Failure>> + Send + 'static,
    {
        let handle = self.references.create();
        let awaited = Awaited {
            references: Arc::clone(&self.references),
            id: handle.id(),
            is_made: false,
        };
        let remote = self.this();
        let future = move || async move {
            let made = value.await;
            // Encodes the value and waits for the store: not here, where the next value is awaited.
            match remote.upgrade() {
                Some(service) => service.do_soon(move || awaited.fill(content_of(made, &remote))),
                None => drop((made, awaited)),
            }
        };
        // A refusal drops the future, which is the failure of the object.
        if let Ok(queue) = self.results.get() {
            queue.spawn(future);
        }
        handle
    }
}

fn content_of<T: Wire>(made: Result<T, Failure>, remote: &Weak<Remote>) -> Content {
    let value = made.map_err(Arc::new)?;
    let (body, handles) =
        transit::leaving(|| Failure::catch(|| Body::encoded(&value, const { &Traits::LETTER })));
    // A value that cannot be encoded is good in this process.
    let stored = body
        .ok()
        .zip(remote.upgrade())
        .and_then(|(body, remote)| remote.stored_here(&body));
    Ok(match stored {
        Some(object) => {
            dispose(value);
            StoredValue::of::<T>(object, handles).into_object()
        }
        None => ObjectValue::new(value, const { &Traits::LETTER }),
    })
}
