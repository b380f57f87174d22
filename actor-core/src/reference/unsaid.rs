//! The reason that a letter with references was not sent.

use selvedge_objects::refs::RefError;
use thiserror::Error;

use crate::failure::Failure;
use crate::hub::post::PostError;

/// The reason that a letter with references was not sent.
#[derive(Debug, Error)]
pub(crate) enum Unsaid {
    #[error(transparent)]
    Reference(RefError),
    #[error(transparent)]
    Post(PostError),
}

impl Unsaid {
    pub(crate) fn into_failure(self) -> Failure {
        match self {
            Unsaid::Reference(error) => Failure::from_error(error),
            Unsaid::Post(error) => Failure::from_error(error),
        }
    }
}
