//! Topologies: which workers of managers have links with each other.

use std::fmt;

/// The rule by which workers of managers have links with each other. Each worker has one with the process that made the runtime. Workers of
/// [`Runtime::worker`](crate::Runtime::worker) have links with each other in every topology.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
#[non_exhaustive]
pub enum Topology {
    /// Each with each.
    AllToAll {
        /// Whether the link of two workers is made when one of them has something for the other, and not when they join.
        lazy: bool,
    },
    /// None with another.
    MasterWorker,
    /// Each with those of its configuration (`WorkerConfig::ident`, `WorkerConfig::connect_idents`): a link is made when both
    /// have joined, if one of the two names the other.
    Custom,
}

impl Default for Topology {
    /// Each with each, when it is needed.
    fn default() -> Self {
        Topology::AllToAll { lazy: true }
    }
}

impl fmt::Display for Topology {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Topology::AllToAll { lazy: true } => f.write_str("all to all, lazy"),
            Topology::AllToAll { lazy: false } => f.write_str("all to all"),
            Topology::MasterWorker => f.write_str("master and workers"),
            Topology::Custom => f.write_str("custom"),
        }
    }
}

/// A worker that makes links by dialling.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(crate) struct Station {
    /// The place where others dial it; `None` if they cannot.
    pub(crate) listens_at: Option<String>,
    pub(crate) names: Names,
}

/// The names by which a worker is found in a custom topology.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(crate) struct Names {
    pub(crate) ident: Option<String>,
    pub(crate) connect_idents: Vec<String>,
}

impl Names {
    fn connects_to(&self, other: &Names) -> bool {
        let is_named = |ident: &String| self.connect_idents.contains(ident);
        other.ident.as_ref().is_some_and(is_named)
    }
}

impl Topology {
    /// Whether two workers may have a link; `None` is a worker of this host that nobody dials.
    pub(crate) fn allows(self, one: Option<&Station>, other: Option<&Station>) -> bool {
        match (self, one, other) {
            (Topology::AllToAll { .. }, ..) | (_, None, None) => true,
            (Topology::Custom, Some(one), Some(other)) => {
                one.names.connects_to(&other.names) || other.names.connects_to(&one.names)
            }
            (Topology::MasterWorker | Topology::Custom, ..) => false,
        }
    }

    /// Whether a worker that has just joined is dialled by another one: that one names it, and not the other way round.
    pub(crate) fn is_dialled(self, joined: &Station, other: &Station) -> bool {
        self == Topology::Custom
            && other.names.connects_to(&joined.names)
            && !joined.names.connects_to(&other.names)
    }

    /// Whether links are made before somebody asks for them.
    pub(crate) fn is_eager(self) -> bool {
        matches!(self, Topology::AllToAll { lazy: false } | Topology::Custom)
    }
}
