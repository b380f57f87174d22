//! The terms on which a worker that has dialled in outlives its head.

use std::time::Duration;

use serde::{Deserialize, Serialize};

/// The terms of a head with a log. A worker gets them with the welcome of its handshake, so it knows them from the moment on at which the
/// head can lose it.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) struct RejoinTerms {
    /// The time that the next life of the head has to let the worker in.
    pub(crate) within: Duration,
    /// The id of the cluster, by which the two know that they mean the same one.
    pub(crate) cluster_id: String,
}

/// The note of a welcome that has these terms, or none.
///
/// # Errors
/// A text: the terms cannot be encoded.
pub(crate) fn note_of(terms: Option<&RejoinTerms>) -> Result<Vec<u8>, String> {
    let note = terms.map(postcard::to_stdvec).transpose();
    let note = note.map_err(|error| format!("the terms of the head cannot be encoded: {error}"))?;
    Ok(note.unwrap_or_default())
}

/// The terms in the note of a welcome.
///
/// # Errors
/// A text: the note is no such terms.
pub(super) fn terms_of(note: &[u8]) -> Result<Option<RejoinTerms>, String> {
    if note.is_empty() {
        return Ok(None);
    }
    let terms = postcard::from_bytes(note);
    terms
        .map(Some)
        .map_err(|error| format!("the terms of the head cannot be read: {error}"))
}

#[cfg(test)]
mod tests {
    use selvedge_cluster::handshake::NOTE_BYTES_MAX;

    use super::*;

    #[test]
    fn terms_and_none_come_back_and_other_bytes_are_refused() {
        let terms = RejoinTerms {
            within: Duration::MAX,
            cluster_id: "x".repeat(64),
        };
        let note = note_of(Some(&terms)).unwrap();
        assert!(note.len() <= NOTE_BYTES_MAX, "{}", note.len());
        assert_eq!(terms_of(&note).unwrap(), Some(terms));
        assert_eq!(terms_of(&note_of(None).unwrap()).unwrap(), None);
        assert!(terms_of(&[255; 9]).unwrap_err().contains("terms of the head"));
    }
}
