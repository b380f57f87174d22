//! A call to be made: whether its process can run it, and the form in which its arguments go there.

use std::sync::Arc;
use std::time::Duration;

use selvedge_cluster::peer::ProcessId;

use crate::actor::arguments::Arguments;
use crate::body::Body;
use crate::call::remote_error::RemoteError;
use crate::failure::Failure;
use crate::process_name::NameBook;
use crate::reference::NamedRef;
use crate::reference::handle::Handle;
use crate::reference::transit::CARRIED_BYTES_MAX;
use crate::remote::argument_store::ArgumentStore;
use crate::remote::function::{FunctionEntry, Invocation, Wants};

/// A call to be made.
pub(crate) struct Request {
    pub(crate) function: &'static FunctionEntry,
    pub(crate) arguments: Arguments,
    /// The references whose owner the function has to run in.
    pub(crate) homes: Vec<NamedRef>,
    pub(crate) deadline: Option<Duration>,
    pub(crate) is_copied: bool,
}

/// Encoded arguments, and the references in them.
#[derive(Clone)]
pub(crate) struct EncodedArguments {
    pub(crate) body: Body,
    pub(crate) handles: Vec<Arc<Handle>>,
}

impl Request {
    /// Whether the function may run in this process: all its `#[here]` values live there.
    pub(crate) fn check(&self, process: ProcessId, names: &NameBook) -> Result<(), RemoteError> {
        let mut homes = self.homes.iter().copied();
        let Some(first) = homes.next() else { return Ok(()) };
        let home = |value: NamedRef| names.name(value.id().owner.process);
        if let Some(second) = homes.find(|other| other.id().owner != first.id().owner) {
            return Err(RemoteError::Apart {
                first,
                first_home: home(first),
                second,
                second_home: home(second),
            });
        }
        match first.id().owner.process == process {
            true => Ok(()),
            false => Err(RemoteError::Elsewhere {
                value: first,
                home: home(first),
                called: names.name(process),
            }),
        }
    }

    pub(crate) fn encode(&self) -> Result<EncodedArguments, RemoteError> {
        self.encode_with(CARRIED_BYTES_MAX)
    }

    /// Encodes the arguments, with at most so many bytes of values that were fetched.
    pub(crate) fn encode_with(&self, room: usize) -> Result<EncodedArguments, RemoteError> {
        let encoded = self.function.encode_with(room, &self.arguments);
        let (body, handles) = encoded.map_err(refused)?;
        Ok(EncodedArguments { body, handles })
    }

    /// Has the large ones of the arguments travel by reference.
    pub(crate) fn stored(self, store: &mut ArgumentStore<'_>) -> Result<Self, RemoteError> {
        let arguments = self.function.store(self.arguments, store).map_err(refused)?;
        Ok(Request { arguments, ..self })
    }

    /// The invocation of a function of this process.
    pub(crate) fn here(self, wants: Wants) -> Result<Invocation, RemoteError> {
        let (arguments, handles) = if self.is_copied {
            let (body, handles) = self.function.encode(&self.arguments).map_err(refused)?;
            (Arguments::Bytes(body), handles)
        } else {
            (self.arguments, Vec::new())
        };
        Ok(Invocation {
            arguments,
            handles,
            wants,
        })
    }
}

fn refused(failure: Failure) -> RemoteError {
    RemoteError::Arguments(failure.into_report())
}
