//! Letters about values in the store of a host: where one lies, and that one was put.

use std::sync::Arc;

use selvedge_cluster::peer::Peer;
use selvedge_objects::refs::{Event, Parcel, RefId};
use selvedge_objects::store::StoreError;
use selvedge_objects::transfer::CopyName;

use super::content::ObjectValue;
use super::effect::EffectThread;
use super::fetch::{FetchMessage, Fetched, PutPlace, Wish};
use super::handle::{Handle, ReferenceTable};
use super::letters::{send_answer, send_value, tell};
use super::references::References;
use super::set_value::SetValue;
use super::stored_value::StoredValue;
use crate::body::Body;
use crate::failure::Failure;
use crate::hub::post::Letter;
use crate::store::message::ObjectSpot;
use crate::store::placed::PlacedObject;

/// Answers a question of another process for a stored value: with its place in the store, if that process can map it, with its name,
/// by which that process finds it in the store of its own host, or with its bytes. If the stores have lost the value, the question waits
/// for the one in its place.
pub(super) fn answer_stored(
    table: &Arc<References>,
    (to, question): (Peer, u64),
    (id, value): (RefId, ObjectValue),
    stored: &StoredValue,
) {
    let (refs, handles) = (Arc::clone(table), stored.handles().to_vec());
    let refuse = move |refs: &Arc<References>, error: StoreError| {
        if !Arc::clone(refs).refused(id, &value, &error) {
            return tell(refs, to, &FetchMessage::Unstored { question, error });
        }
        let from = to;
        refs.event(EffectThread::Link, Event::Fetch { from, question, id });
    };
    if Wish::is_by_letter(question) {
        return stored.object().read(move |bytes| match bytes {
            Ok(bytes) => send_value(&refs, (to, question), bytes.into(), &handles),
            Err(error) => refuse(&refs, error),
        });
    }
    if !table.post().is_near(to) {
        return send_name(table, (to, question), stored.object().name(), &handles);
    }
    stored.object().with_held(move |held| match held {
        Ok(held) => held.open_for(to, move |granted| match granted {
            Ok(spot) => send_spot(&refs, (to, question), spot, &handles),
            Err(error) => refuse(&refs, error),
        }),
        Err(error) => refuse(&refs, error),
    });
}

/// Tells a process of another host by which name the stores know the value.
fn send_name(table: &Arc<References>, (to, question): (Peer, u64), name: CopyName, handles: &[Arc<Handle>]) {
    send_answer(table, (to, question), handles, |parcels| {
        let message = FetchMessage::Elsewhere {
            question,
            parcels,
            name,
        };
        message.letter(Body::EMPTY)
    });
}

/// The value that was asked for is in stores: the agent of this host gets it, if it does not have it.
pub(super) fn elsewhere(
    references: &Arc<References>,
    (from, question): (Peer, u64),
    parcels: Vec<Parcel>,
    name: CopyName,
) {
    let table = Arc::clone(references);
    references.arrived(from, parcels, move |handles| {
        let handles = match handles {
            Ok(handles) => handles,
            Err(error) => {
                let report = Failure::from_error(error).into_report();
                return table.answered(from, question, Fetched::Unreadable(report));
            }
        };
        let Some(stores) = table.stores().cloned() else {
            return table.answered(from, question, Fetched::OutOfReach);
        };
        stores.open_copy(name, from, move |opened| {
            let fetched = match opened {
                Ok(pin) => Fetched::Stored { pin, handles },
                // The owner knows whether there is another way.
                Err(_) => Fetched::OutOfReach,
            };
            table.answered(from, question, fetched);
        });
    });
}

/// Tells another process where the value lies. If it cannot be told, or is dead, the agent's death of it ends its pin.
fn send_spot(
    table: &Arc<References>,
    (to, question): (Peer, u64),
    spot: ObjectSpot,
    handles: &[Arc<Handle>],
) {
    let is_told = send_answer(table, (to, question), handles, |parcels| {
        let message = FetchMessage::Stored {
            question,
            parcels,
            spot: spot.clone(),
        };
        message.letter(Body::EMPTY)
    });
    if !is_told {
        table.release(to, &spot);
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
    (place, body): (PutPlace, Body),
) {
    let Some(Parcel::Keep { id }) = parcels.first().copied() else {
        let why = "it puts a value without an object for it".to_owned();
        return references.post().cut(from, why);
    };
    // Sealed or noted at once, so that the death of its author does not take it.
    let stores = references.stores();
    let placed = match place {
        PutPlace::Letter => Some(None),
        PutPlace::Store(object) => stores.and_then(|stores| {
            let held = stores.seal(from, object)?;
            Some(Some(PlacedObject::here(stores, held)))
        }),
        PutPlace::Far(far) => stores
            .filter(|_| far.name.maker == from)
            .map(|stores| Some(PlacedObject::elsewhere(stores, far))),
    };
    let Some(placed) = placed else {
        let why = "it puts an object into a store that it has not filled".to_owned();
        return references.post().cut(from, why);
    };
    let table = Arc::clone(references);
    references.arrived(from, parcels, move |handles| {
        let content = match (handles, placed) {
            (Ok(handles), Some(object)) => Ok(StoredValue::untyped(object, handles).into_object()),
            (Ok(handles), None) => Ok(SetValue::new(body.to_bytes(), handles).into_object()),
            (Err(error), _) => Err(Arc::new(Failure::from_error(error))),
        };
        // An object that nobody wants any more is freed at once.
        let _ = table.fill(id, content);
    });
}

/// Has another process hold an object with a value, which lies in a store or in the body.
pub(crate) fn put_letter(parcels: Vec<Parcel>, (place, body): (PutPlace, Body)) -> Letter {
    FetchMessage::Put { parcels, place }.letter(body)
}
