//! Values as bytes: round trips, views, and hostile bytes.
#![cfg(not(loom))]
#![allow(
    missing_docs,
    clippy::unwrap_used,
    clippy::expect_used,
    clippy::panic,
    clippy::indexing_slicing
)]

use proptest::prelude::*;
use selvedge_channels::{Tensor, Wire, decode, encode, view_slice, view_str};
use serde::{Deserialize, Serialize};

const CASES: u32 = if cfg!(miri) { 8 } else { 512 };

fn round_trip<T: Wire + PartialEq + std::fmt::Debug>(value: &T) {
    let encoded = encode(value).unwrap();
    let bytes = encoded.to_vec();
    assert_eq!(bytes.len(), encoded.len_bytes());
    assert_eq!(&decode::<T>(&bytes).unwrap(), value);
    assert!(encoded.write_to(&mut vec![0; bytes.len() - 1]).is_err());
}

#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
enum Nested {
    Empty,
    Batch {
        name: String,
        tensors: Vec<Tensor>,
        scale: f32,
    },
}

#[test]
fn rser_01_values_make_the_round_trip() {
    round_trip(&());
    round_trip(&7u8);
    round_trip(&i64::MIN);
    round_trip(&(1u32, "text".to_owned(), vec![Some(1.5f64), None]));
    round_trip(&String::new());
    round_trip(&"ünïcode".to_owned());
    round_trip(&Vec::<u8>::new());
    round_trip(&vec![1.0f32, -0.0, f32::INFINITY]);
    round_trip(&vec!["a".to_owned(), String::new()]);
    round_trip(&std::collections::BTreeMap::from([
        (1u8, vec![1u16]),
        (2, vec![]),
    ]));
    round_trip(&Nested::Empty);
    let tensor = Tensor::from_vec(vec![1.0f32, 2.0, 3.0, 4.0, 5.0, 6.0], &[2, 3]).unwrap();
    round_trip(&tensor);
    round_trip(&vec![tensor.clone(); 3]);
    round_trip(&Nested::Batch {
        name: "n".repeat(500),
        tensors: vec![tensor.clone(), tensor],
        scale: 0.5,
    });
}

#[test]
fn rser_04_large_parts_are_views_of_the_bytes() {
    let bytes = encode(&vec![1u32, 2, 3]).unwrap().to_vec();
    // A Vec<u8> is not 64-byte aligned, so a view is possible only where the allocator gave enough alignment.
    if let Some(view) = view_slice::<u32>(&bytes).unwrap() {
        assert_eq!(view, [1, 2, 3]);
        assert!(bytes.as_ptr_range().contains(&view.as_ptr().cast()));
    }
    let text = encode(&"hello".to_owned()).unwrap().to_vec();
    assert_eq!(view_str(&text).unwrap(), "hello");
    assert!(view_slice::<String>(&bytes).unwrap().is_none(), "no primitive");
}

#[test]
fn tensors_know_their_shape_and_type() {
    assert!(Tensor::from_vec(vec![1u8; 5], &[2, 3]).is_err());
    assert!(Tensor::from_vec(vec![1u8; 5], &[usize::MAX, 2]).is_err());
    let tensor = Tensor::zeros::<f64>(&[3, 4]).unwrap();
    assert_eq!((tensor.shape(), tensor.bytes().len()), ([3, 4].as_slice(), 96));
    assert!(tensor.as_slice::<f32>().is_err());
    assert!(tensor.bytes().as_ptr().addr().is_multiple_of(64));
    assert!(
        Tensor::from_vec(Vec::<f32>::new(), &[0, 7])
            .unwrap()
            .as_slice::<f32>()
            .unwrap()
            .is_empty()
    );
}

#[test]
fn chan_14_a_tensor_outside_a_payload_is_refused_with_a_reason() {
    let tensor = Tensor::zeros::<u8>(&[1]).unwrap();
    assert!(postcard::to_allocvec(&tensor).is_err());
}

proptest! {
    #![proptest_config(ProptestConfig { cases: CASES, failure_persistence: None, ..ProptestConfig::default() })]

    #[test]
    fn rser_01_bytes_and_numbers_of_any_length(bytes: Vec<u8>, numbers: Vec<i64>, text: String) {
        round_trip(&bytes);
        round_trip(&numbers);
        round_trip(&text);
        round_trip(&(bytes, numbers, text));
    }

    #[test]
    fn rser_10_random_bytes_are_an_error_or_a_value_never_a_crash(bytes: Vec<u8>) {
        hostile(&bytes);
    }

    #[test]
    fn rser_10_mutated_bytes_are_an_error_or_a_value_never_a_crash(
        numbers: Vec<f32>, at: prop::sample::Index, to: u8, cut: prop::sample::Index
    ) {
        let tensor = Tensor::from_slice(&numbers, &[numbers.len()]).unwrap();
        let value = Nested::Batch { name: "x".into(), tensors: vec![tensor.clone(), tensor], scale: 1.0 };
        for bytes in [encode(&value).unwrap().to_vec(), encode(&numbers).unwrap().to_vec()] {
            let mut mutated = bytes.clone();
            let index = at.index(mutated.len().min(100));
            mutated[index] = to;
            hostile(&mutated);
            hostile(&bytes[..cut.index(bytes.len())]);
        }
    }
}

fn hostile(bytes: &[u8]) {
    let _ = decode::<Vec<u8>>(bytes);
    let _ = decode::<Vec<f64>>(bytes);
    let _ = decode::<String>(bytes);
    let _ = decode::<Tensor>(bytes);
    let _ = decode::<Nested>(bytes);
    let _ = decode::<(u32, Vec<String>)>(bytes);
    let _ = view_slice::<u16>(bytes);
    let _ = view_str(bytes);
}
