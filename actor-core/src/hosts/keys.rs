//! The secrets that the driver gives to its workers.

use std::net::{Ipv4Addr, SocketAddr};

use postcard::ser_flavors::Size;
use selvedge_cluster::handshake::{Cookie, CookieSource};
use selvedge_cluster::manager::WorkerTls;
use serde::{Deserialize, Serialize};

use super::identity::Means;
use super::link_transport::of_worker;
use crate::hub::notice::Secret;

/// The standard input of a worker: the cookie in a line, and credentials behind it if it has the flag for that.
pub(super) struct WorkerInput(Secret);

/// The bytes for which there is room: the memory must not grow, which would leave a copy behind.
const INPUT_BYTES: usize = 256 << 10;

impl WorkerInput {
    pub(super) fn of(cookie: &Cookie) -> Self {
        WorkerInput(Secret(Vec::with_capacity(INPUT_BYTES))).with(cookie.text().as_ref())
    }

    pub(super) fn with(mut self, bytes: &[u8]) -> Self {
        self.0.0.extend_from_slice(bytes);
        self
    }

    pub(super) fn bytes(&self) -> &[u8] {
        &self.0.0
    }
}

/// All that a worker of the driver's host needs to dial a worker of another one. It comes over the worker's control link.
#[derive(Serialize, Deserialize)]
pub(super) enum Keys {
    Of {
        /// The bytes of a [`WorkerInput`].
        input: Secret,
        tls: Option<WorkerTls>,
    },
    /// A transport of the user's own, which a worker of this host does not have.
    None { transport: String },
}

impl Keys {
    /// The keys as the hub passes them on.
    pub(super) fn secret(&self) -> Secret {
        // The memory must not grow, so the length is found out first. Plain data always encodes.
        let length = postcard::serialize_with_flavor(self, Size::default()).unwrap_or_default();
        Secret(postcard::to_extend(self, Vec::with_capacity(length)).unwrap_or_default())
    }

    /// The means by which this worker dials others.
    ///
    /// # Errors
    /// A text: there is no way to another worker.
    pub(super) fn of(secret: &Secret) -> Result<Means, String> {
        let keys = postcard::from_bytes(&secret.0).map_err(|_| "the driver sends no keys".to_owned())?;
        let (input, tls) = match keys {
            Keys::Of { input, tls } => (WorkerInput(input), tls),
            Keys::None { transport } => {
                return Err(format!(
                    "the other worker is reached over the transport `{transport}` of the driver's own, which a worker of \
                     `Runtime::worker` does not have (help: add all workers by a manager with this transport)"
                ));
            }
        };
        let mut input = input.bytes();
        let cookie = CookieSource::Stdin
            .read(&mut input)
            .map_err(|error| error.to_string())?;
        let nowhere = SocketAddr::from((Ipv4Addr::LOCALHOST, 0));
        let transport = of_worker(nowhere, tls.as_ref(), &mut input)?;
        Ok(Means { cookie, transport })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_secret_that_is_encoded_leaves_no_copy_in_memory_that_was_too_short() {
        for length in [0, 64, 5_000, INPUT_BYTES] {
            let input = Secret(vec![7; length]);
            let keys = Keys::Of {
                input,
                tls: Some(WorkerTls::Input),
            };
            let secret = keys.secret();
            assert!(secret.0.len() > length);
            assert_eq!(secret.0.capacity(), secret.0.len(), "the memory has grown");
        }
    }
}
