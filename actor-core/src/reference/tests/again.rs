//! Objects that were freed and are made again.

use parking_lot::Mutex;
use std::sync::Arc;

use selvedge_objects::refs::Parcel;

use super::super::Ref;
use super::super::content::ObjectValue;
use super::super::references::Object;
use super::{AT_ONCE, assert_empty, three};

/// A reference comes home after the object was freed, as that of a child of a process that has died, and gets an error. Then the object
/// is made again.
#[test]
fn an_object_that_came_home_with_an_error_takes_the_value_of_the_next_run() {
    let (network, a, b, _) = three();
    let object = a.table.create();
    let id = object.id();
    a.table.fill(id, Ok(ObjectValue::wire(1_u64))).unwrap();
    drop(object);
    assert!(matches!(a.table.object(id), Object::Unknown));
    let home = Arc::new(Mutex::new(Vec::new()));
    let taken = Arc::clone(&home);
    let parcels = vec![Parcel::Lent { id, fork: 1 }];
    a.table
        .arrived(b.peer, parcels, move |handles| *taken.lock() = handles.unwrap());
    assert!(matches!(a.table.object(id), Object::Content(Err(_))));
    let (again, was_freed) = a.table.hold_again(id);
    assert!(was_freed && matches!(a.table.object(id), Object::Empty));
    a.table.fill(id, Ok(ObjectValue::wire(2_u64))).unwrap();
    let came_home = home.lock().pop().unwrap();
    for handle in [again, came_home] {
        assert_eq!(*Ref::<u64>::of(handle).fetch_timeout(AT_ONCE).unwrap(), 2);
    }
    network.settle();
    assert_empty(&[&a, &b]);
}
