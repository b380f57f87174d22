//! Arrays within one process: views and parts of several slots.
#![cfg(all(target_os = "linux", not(selvedge_portable)))]

use std::sync::Arc;

use super::*;
use crate::payload::DType;

const SPEC: ArraySpec = ArraySpec {
    dtype: DType::F64,
    len: 14,
    parts: 3,
    slots: 4,
};

/// The mappings of all slots.
fn mapped() -> Vec<Arc<ArrayMemory>> {
    let first = ArrayMemory::create(SPEC, 0).unwrap();
    let id = first.id().unwrap();
    let others = (1..SPEC.slots).map(|slot| ArrayMemory::open(&id, slot).unwrap());
    std::iter::once(first).chain(others).map(Arc::new).collect()
}

#[test]
#[cfg_attr(miri, ignore = "Miri has no memfd")]
fn jsa_01_every_mapping_shows_all_elements() {
    let slots = mapped();
    let (one, other) = (
        ArrayView::<f64>::open(&slots[0]).unwrap(),
        ArrayView::<f64>::open(&slots[3]).unwrap(),
    );
    assert_eq!(one.read(0..14).unwrap(), [0.0; 14]);
    one.set(13, 2.5).unwrap();
    assert_eq!(other.get(13).unwrap(), 2.5);
    other.write(2, &[1.0, -1.0]).unwrap();
    other.fill(4..6, 9.0).unwrap();
    assert_eq!(one.read(1..7).unwrap(), [0.0, 1.0, -1.0, 9.0, 9.0, 0.0]);
    assert!(matches!(
        one.set(14, 0.0),
        Err(ArrayError::OutOfBounds { index: 14, len: 14 })
    ));
    assert!(
        one.get(usize::MAX).is_err() && one.write(13, &[0.0; 2]).is_err() && one.fill(3..15, 0.0).is_err()
    );
    let (start, end) = (5, 3);
    for refused in [one.read(start..end).map(drop), one.fill(start..end, 0.0)] {
        assert!(matches!(refused, Err(ArrayError::Reversed { start: 5, end: 3 })));
    }
    assert!(matches!(
        ArrayView::<i64>::open(&slots[0]),
        Err(ArrayError::WrongType {
            has: DType::F64,
            wanted: DType::I64
        })
    ));
}

#[test]
#[cfg_attr(miri, ignore = "Miri has no memfd")]
fn jsa_03_parts_are_claimed_beside_each_other_and_never_beside_a_view() {
    let slots = mapped();
    let mut parts: Vec<_> = slots
        .iter()
        .map(|slot| ArrayPart::<f64>::claim(slot).unwrap())
        .collect();
    let ranges: Vec<_> = parts.iter().map(ArrayPart::range).collect();
    assert_eq!(ranges, [0..4, 4..8, 8..14, 14..14]);
    for (part, value) in parts.iter_mut().zip([1.0, 2.0, 3.0, 4.0]) {
        part.fill(value);
    }
    let own = std::process::id();
    assert!(matches!(ArrayView::<f64>::open(&slots[1]), Err(ArrayError::Claimed { pid }) if pid == own));
    assert!(matches!(
        ArrayPart::<f64>::claim(&slots[1]),
        Err(ArrayError::Claimed { .. })
    ));
    drop(parts);
    let view = ArrayView::<f64>::open(&slots[3]).unwrap();
    let all: Vec<f64> = [[1.0; 4].as_slice(), &[2.0; 4], &[3.0; 6]].concat();
    assert_eq!(view.read(0..14).unwrap(), all);
    // SAFETY: nobody writes.
    #[allow(unsafe_code)]
    let slice = unsafe { view.as_slice() };
    assert_eq!(slice, all);
    assert!(matches!(ArrayPart::<f64>::claim(&slots[0]), Err(ArrayError::InUse { pid }) if pid == own));
    drop(view);
    assert!(ArrayPart::<f64>::claim(&slots[0]).is_ok());
}

#[test]
#[cfg_attr(miri, ignore = "Miri has no memfd")]
fn jsa_03_a_view_that_is_refused_refuses_no_claim() {
    let slots = mapped();
    let part = ArrayPart::<f64>::claim(&slots[0]).unwrap();
    let ended = std::sync::atomic::AtomicBool::new(false);
    std::thread::scope(|scope| {
        scope.spawn(|| {
            // Relaxed: it says only when to end.
            while !ended.load(std::sync::atomic::Ordering::Relaxed) {
                assert!(ArrayView::<f64>::open(&slots[3]).is_err());
            }
        });
        let claims: Vec<_> = (0..20_000)
            .map(|_| ArrayPart::<f64>::claim(&slots[1]).map(drop))
            .filter_map(Result::err)
            .collect();
        ended.store(true, std::sync::atomic::Ordering::Relaxed);
        assert!(claims.is_empty(), "{claims:?}");
    });
    drop(part);
}

#[test]
#[cfg_attr(miri, ignore = "Miri has no memfd")]
fn a_slot_is_entered_once_and_what_is_no_array_is_refused() {
    let slots = mapped();
    let id = slots[0].id().unwrap();
    for slot in [0, 3, 4, usize::MAX] {
        assert!(ArrayMemory::open(&id, slot).is_err(), "{slot}");
    }
    let segment = crate::Segment::create(crate::Provider::Memfd, 4096).unwrap();
    let bytes = postcard::to_allocvec(&(segment.id().unwrap(), None::<u8>)).unwrap();
    let id: ArrayMemoryId = postcard::from_bytes(&bytes).unwrap();
    let refused = ArrayMemory::open(&id, 0).unwrap_err();
    assert!(refused.to_string().contains("no array"), "{refused}");
    for spec in [
        ArraySpec {
            len: usize::MAX,
            ..SPEC
        },
        ArraySpec {
            slots: usize::MAX,
            ..SPEC
        },
        ArraySpec {
            len: 1 << 60,
            dtype: DType::U8,
            ..SPEC
        },
    ] {
        assert!(ArrayMemory::create(spec, 0).is_err(), "{spec:?}");
    }
}

#[test]
#[cfg_attr(miri, ignore = "Miri has no memfd")]
fn jsa_14_an_element_is_one_of_the_values_that_were_written() {
    let slots = mapped();
    let values = [
        f64::from_bits(0),
        f64::from_bits(u64::MAX >> 1),
        f64::from_bits(0x5555_5555_5555_5555),
    ];
    std::thread::scope(|scope| {
        for (slot, value) in slots.iter().zip(values) {
            scope.spawn(move || {
                let view = ArrayView::<f64>::open(slot).unwrap();
                for _ in 0..2000 {
                    view.fill(0..14, value).unwrap();
                    let seen = view.read(0..14).unwrap();
                    assert!(
                        seen.iter()
                            .all(|seen| values.map(f64::to_bits).contains(&seen.to_bits()))
                    );
                }
            });
        }
    });
}
