//! Letters about values in the store of a host: where one lies, and that one was put.

use std::sync::Arc;

use selvedge_cluster::peer::Peer;
use selvedge_objects::refs::Parcel;
use selvedge_objects::store::StoreId;

use super::fetch::{FetchMessage, Fetched, Wish};
use super::handle::Handle;
use super::letters::{say, send_value, tell, unreadable};
use super::references::References;
use super::set_value::SetValue;
use super::stored_value::StoredValue;
use crate::body::Body;
use crate::failure::Failure;
use crate::hub::post::PostError;
use crate::store::message::ObjectSpot;

/// Answers a question of another process for a stored value: with its place in the store, if that process can map it, or with its
/// bytes.
pub(super) fn answer_stored(table: &Arc<References>, (to, question): (Peer, u64), value: &StoredValue) {
    let (refs, handles) = (Arc::clone(table), value.handles().to_vec());
    if Wish::is_by_letter(question) || !table.post().is_near(to) {
        return value.object().read_here(move |bytes| match bytes {
            Ok(bytes) => send_value(&refs, (to, question), bytes.into(), &handles),
            Err(error) => tell(&refs, to, &FetchMessage::Unstored { question, error }),
        });
    }
    value.object().open_for(to, move |granted| match granted {
        Ok(spot) => send_spot(&refs, (to, question), spot, &handles),
        Err(error) => tell(&refs, to, &FetchMessage::Unstored { question, error }),
    });
}

/// Tells another process where the value lies. If it cannot be told, or is dead, the agent's death of it ends its pin.
fn send_spot(
    table: &Arc<References>,
    (to, question): (Peer, u64),
    spot: ObjectSpot,
    handles: &[Arc<Handle>],
) {
    let parcels = match table.pass(handles, to) {
        Ok(parcels) => parcels,
        Err(error) => {
            table.release(to, &spot);
            return tell(table, to, &unreadable(question, Failure::from_error(error)));
        }
    };
    let message = FetchMessage::Stored {
        question,
        parcels: parcels.clone(),
        spot: spot.clone(),
    };
    if let Err(error) = say(table, to, &message, Body::EMPTY) {
        table.not_sent(to, &parcels);
        table.release(to, &spot);
        tell(
            table,
            to,
            &unreadable(question, Failure::from_error(error.to_string())),
        );
    }
}

/// The value that was asked for lies in the store of its owner. It counts once the references in it have come to rest.
pub(super) fn stored(
    references: &Arc<References>,
    (from, question): (Peer, u64),
    parcels: Vec<Parcel>,
    spot: ObjectSpot,
) {
    let Some(stores) = references.stores() else { return };
    // From here on the pin ends with this, whatever becomes of the letter.
    let pin = stores.pin(from, spot);
    let table = Arc::clone(references);
    references.arrived(from, parcels, move |handles| {
        let fetched = match handles {
            Ok(handles) => Fetched::Stored { pin, handles },
            Err(error) => Fetched::Unreadable(Failure::from_error(error).into_report()),
        };
        table.answered(from, question, fetched);
    });
}

/// Another process has an object held here, which it has filled in the store or sends.
pub(super) fn put(
    references: &Arc<References>,
    from: Peer,
    parcels: Vec<Parcel>,
    (object, body): (Option<StoreId>, Body),
) {
    let Some(Parcel::Keep { id }) = parcels.first().copied() else {
        let why = "it puts a value without an object for it".to_owned();
        return references.post().cut(from, why);
    };
    // Sealed at once, so that the death of its author does not take it.
    let held = object.map(|object| references.stores().and_then(|stores| stores.seal(from, object)));
    if matches!(held, Some(None)) {
        let why = "it puts an object into the store that it has not borrowed".to_owned();
        return references.post().cut(from, why);
    }
    let table = Arc::clone(references);
    references.arrived(from, parcels, move |handles| {
        let content = match (handles, held.flatten()) {
            (Ok(handles), Some(object)) => Ok(StoredValue::untyped(object, handles).into_object()),
            (Ok(handles), None) => Ok(SetValue::new(body.to_bytes(), handles).into_object()),
            (Err(error), _) => Err(Arc::new(Failure::from_error(error))),
        };
        // An object that nobody wants any more is freed at once.
        let _ = table.fill(id, content);
    });
}

/// Has another process hold an object with a value, which lies in its store or in the body.
///
/// # Errors
/// [`PostError`].
pub(crate) fn say_put(
    table: &References,
    to: Peer,
    parcels: Vec<Parcel>,
    (object, body): (Option<StoreId>, Body),
) -> Result<u64, PostError> {
    say(table, to, &FetchMessage::Put { parcels, object }, body)
}
