//! The end of a question about names.

use std::sync::Arc;

use selvedge_objects::names::{NameAnswer, NamedObject};

use crate::reference::handle::Handle;

/// The end of a question.
pub(super) enum NameReply {
    Answered(NameAnswer),
    Listed(Vec<NamedObject>),
    /// The owner's answer: the object, if it is held there.
    Taken(Option<Arc<Handle>>),
    /// The process that was asked is dead.
    Died,
}
