//! Values that travel along with their references.

use std::sync::Arc;

use super::super::transit::{CARRIED_BYTES_MAX, arriving, leaving};
use super::network::{TestMember, TestNetwork};
use super::{Album, Ref, assert_empty, fetched, three};

/// Passes a reference in an encoded message.
fn passed<T>(network: &TestNetwork, from: &TestMember, reference: &Ref<T>, to: &TestMember) -> Ref<T> {
    let (bytes, _) = leaving(|| postcard::to_allocvec(reference).unwrap());
    opened(network, from, reference, to, &bytes)
}

/// Receives a reference in this message.
fn opened<T>(
    network: &TestNetwork,
    from: &TestMember,
    reference: &Ref<T>,
    to: &TestMember,
    bytes: &[u8],
) -> Ref<T> {
    from.give(reference, to);
    network.settle();
    let [given]: [Ref<T>; 1] = to.taken().try_into().unwrap();
    arriving(vec![Arc::clone(given.handle())], || {
        postcard::from_bytes(bytes).unwrap()
    })
}

#[test]
fn jrem_22_a_fetched_value_travels_along_with_its_reference() {
    let (network, a, b, c) = three();
    let x = b.put("text".to_owned());
    let at_a = passed(&network, &b, &x, &a);
    assert!(
        !at_a.handle().has_value(),
        "the owner lends its value to nobody unasked"
    );
    fetched(&network, &at_a).unwrap();
    let at_c = passed(&network, &a, &at_a, &c);
    assert_eq!(b.table.stats().forks, 2, "the owner counts both");
    drop((x, at_a));
    network.settle();
    let sent = network.letters();
    assert!(at_c.is_ready().unwrap());
    assert_eq!(*at_c.fetch().unwrap(), "text");
    assert!(Arc::ptr_eq(
        &at_c.fetch().unwrap(),
        &at_c.clone().fetch().unwrap()
    ));
    let home = passed(&network, &c, &at_c, &b);
    assert!(
        Arc::ptr_eq(&home.fetch().unwrap(), &home.local().unwrap()),
        "the owner has its own"
    );
    let again = passed(&network, &c, &at_c, &a);
    assert_eq!(*again.fetch().unwrap(), "text");
    assert!(network.letters() > sent, "of the references");
    assert_eq!(network.questions_at(&b), 1, "of the first fetch");
    drop((home, at_c, again));
    network.settle();
    assert_empty(&[&a, &b, &c]);
}

#[test]
fn long_values_and_values_with_references_stay() {
    let (network, a, b, c) = three();
    let long = b.put(vec![7_u8; CARRIED_BYTES_MAX]);
    let pages = vec![b.put(1_u64)];
    let album = b.put(Album {
        title: "summer".to_owned(),
        pages,
    });
    let (long_at_a, album_at_a) = (passed(&network, &b, &long, &a), passed(&network, &b, &album, &a));
    fetched(&network, &long_at_a).unwrap();
    fetched(&network, &album_at_a).unwrap();
    let (long_at_c, album_at_c) = (
        passed(&network, &a, &long_at_a, &c),
        passed(&network, &a, &album_at_a, &c),
    );
    assert!(!long_at_c.handle().has_value() && !album_at_c.handle().has_value());
    assert_eq!(fetched(&network, &long_at_c).unwrap().len(), CARRIED_BYTES_MAX);
    let read = fetched(&network, &album_at_c).unwrap();
    assert_eq!(*fetched(&network, &read.pages[0]).unwrap(), 1);
    drop((long, album, long_at_a, album_at_a, long_at_c, album_at_c, read));
    network.settle();
    assert_empty(&[&a, &b, &c]);
}

#[test]
fn a_message_carries_values_up_to_a_limit() {
    let (network, a, b, _) = three();
    let values: Vec<Ref<Vec<u8>>> = (0..100).map(|_| b.put(vec![7_u8; 1000])).collect();
    let at_a: Vec<_> = values
        .iter()
        .map(|value| passed(&network, &b, value, &a))
        .collect();
    for value in &at_a {
        fetched(&network, value).unwrap();
    }
    let (bytes, handles) = leaving(|| postcard::to_allocvec(&at_a).unwrap());
    assert_eq!(handles.len(), 100);
    assert!((10_000..20_000).contains(&bytes.len()), "{}", bytes.len());
    let read: Vec<Ref<Vec<u8>>> = arriving(handles, || postcard::from_bytes(&bytes).unwrap());
    assert_eq!(read.len(), 100);
    drop((values, at_a, read));
    network.settle();
    assert_empty(&[&a, &b]);
}

#[test]
fn a_value_that_cannot_be_decoded_is_fetched() {
    let (network, a, b, c) = three();
    let x = b.put("text".to_owned());
    let at_a = passed(&network, &b, &x, &a);
    for carried in [vec![200_u8; 3], vec![0; CARRIED_BYTES_MAX + 1]] {
        let bytes = postcard::to_allocvec(&(0_u32, Some(carried))).unwrap();
        let at_c: Ref<String> = opened(&network, &a, &at_a, &c, &bytes);
        assert_eq!(*fetched(&network, &at_c).unwrap(), "text");
    }
    drop((x, at_a));
    network.settle();
    assert_empty(&[&a, &b, &c]);
}
