//! The terms that all managers of a runtime have in common.

use super::agreement::NoTurn;
use super::link_transport::LinkTransport;
use crate::topology::Topology;

/// The terms that the first manager of a runtime decides.
#[derive(Clone, Debug, Default)]
pub(super) struct Terms {
    pub(super) topology: Topology,
    pub(super) transport: LinkTransport,
}

impl Terms {
    /// Refuses terms that differ.
    ///
    /// # Errors
    /// [`NoTurn::Topology`], [`NoTurn::Transport`].
    pub(super) fn check(&self, wanted: &Terms) -> Result<(), NoTurn> {
        if self.topology != wanted.topology {
            let (fixed, wanted) = (self.topology, wanted.topology);
            return Err(NoTurn::Topology { fixed, wanted });
        }
        if !self.transport.is(&wanted.transport) {
            let (fixed, wanted) = (self.transport.to_string(), wanted.transport.to_string());
            return Err(NoTurn::Transport { fixed, wanted });
        }
        Ok(())
    }
}

/// Makes the setters of a manager with a field `terms`.
macro_rules! terms_setters {
    ($manager:ty) => {
        impl $manager {
            /// Sets the transport of the links: by default TCP, which is not encrypted.
            #[must_use]
            pub fn transport(mut self, transport: $crate::hosts::LinkTransport) -> Self {
                self.terms.transport = transport;
                self
            }

            /// Sets which workers have links with each other.
            #[must_use]
            pub fn topology(mut self, topology: $crate::hosts::Topology) -> Self {
                self.terms.topology = topology;
                self
            }
        }
    };
}

/// Makes the functions of a [`ClusterManager`](super::ClusterManager) that tell its terms.
macro_rules! terms_getters {
    () => {
        fn topology(&self) -> $crate::hosts::Topology {
            self.terms.topology
        }

        fn transport(&self) -> $crate::hosts::LinkTransport {
            self.terms.transport.clone()
        }
    };
}

pub(super) use {terms_getters, terms_setters};
