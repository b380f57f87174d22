//! A router within this process.

use std::fmt;
use std::io;
use std::thread;

use ::zenoh::{Session, Wait};

use super::error::ZenohError;
use super::settings;

/// A router of zenoh in this process, as `selvedge router` runs one: processes that cannot dial each other meet at it. It ends with this
/// object. The router `zenohd` of zenoh serves as well.
pub struct ZenohRouter {
    /// Taken when the router is dropped.
    session: Option<Session>,
    endpoints: Vec<String>,
}

impl ZenohRouter {
    /// Starts a router that listens at these endpoints, such as `tcp/0.0.0.0:7447`, with further entries of zenoh's configuration: the
    /// path of each, and its value in JSON5. Other routers to connect to and rules of access are given in this way.
    ///
    /// # Errors
    /// [`ZenohError`].
    ///
    /// ```
    /// # use selvedge_cluster::net::{ZenohError, ZenohRouter};
    /// # fn main() -> Result<(), ZenohError> {
    /// # let free = || Some(std::net::TcpListener::bind("127.0.0.1:0").ok()?.local_addr().ok()?.port());
    /// # let port = free().unwrap_or(7447);
    /// let router = ZenohRouter::start(&[format!("tcp/127.0.0.1:{port}")], &[])?;
    /// # drop(router);
    /// # Ok(())
    /// # }
    /// ```
    pub fn start(endpoints: &[String], entries: &[(String, String)]) -> Result<Self, ZenohError> {
        let config = settings::of_router(endpoints, entries)?;
        if endpoints.is_empty() {
            return Err(ZenohError::NoRouter);
        }
        let opened = on_a_thread(move || ::zenoh::open(config).wait().map_err(|error| error.to_string()));
        let session = opened.map_err(|error| ZenohError::system(&error))?;
        let session = session.map_err(|text| ZenohError::NotListening {
            endpoints: endpoints.join(", "),
            text,
        })?;
        Ok(ZenohRouter {
            session: Some(session),
            endpoints: endpoints.to_vec(),
        })
    }

    /// The endpoints at which it listens.
    pub fn endpoints(&self) -> &[String] {
        &self.endpoints
    }
}

/// Calls a function on a thread of its own, and waits for it: what blocks in zenoh may not be called by a thread of a runtime.
///
/// # Errors
/// There is no thread, or the function panics.
fn on_a_thread<T: Send>(call: impl FnOnce() -> T + Send) -> io::Result<T> {
    thread::scope(|scope| {
        let called = thread::Builder::new().spawn_scoped(scope, call)?;
        called.join().map_err(|_| io::Error::other("zenoh has panicked"))
    })
}

impl Drop for ZenohRouter {
    fn drop(&mut self) {
        if let Some(session) = self.session.take() {
            // Without a thread, the router ends with the process.
            let _ = on_a_thread(move || {
                let _ = session.close().wait();
            });
        }
    }
}

impl fmt::Debug for ZenohRouter {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("ZenohRouter")
            .field("endpoints", &self.endpoints)
            .finish_non_exhaustive()
    }
}
