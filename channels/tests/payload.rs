//! Encoding of values as bytes, and decoding.
#![cfg(not(loom))]
#![allow(
    missing_docs,
    clippy::unwrap_used,
    clippy::expect_used,
    clippy::panic,
    clippy::indexing_slicing
)] // a test may panic

#[path = "payload/deep.rs"]
mod deep;
#[path = "payload/shared_values.rs"]
mod shared_values;

use proptest::prelude::*;
use proptest::test_runner::{Config, TestRunner};
use selvedge_channels::{
    DType, DecodeError, EncodeError, Tensor, TensorError, Wire, decode, encode, view_slice, view_str,
};

/// A value with every shape that serde knows, and tensors inside.
#[derive(Clone, Debug, PartialEq, serde::Serialize, serde::Deserialize)]
struct Sample {
    small: u8,
    children: Vec<Sample>,
    name: Option<String>,
    tensors: Vec<Tensor>,
    kind: Kind,
}

#[derive(Clone, Debug, PartialEq, serde::Serialize, serde::Deserialize)]
enum Kind {
    Unit,
    Tuple(i64, char),
    Struct { floats: Vec<f32> },
}

fn bytes_of<T: Wire>(value: &T) -> Vec<u8> {
    let encoded = encode(value).unwrap();
    let bytes = encoded.to_vec();
    assert_eq!(bytes.len(), encoded.len_bytes());
    bytes
}

fn round_trip<T: Wire + PartialEq + std::fmt::Debug>(value: &T) {
    assert_eq!(&decode::<T>(&bytes_of(value)).unwrap(), value);
}

#[test]
fn rser_01_values_come_back_as_they_were() {
    round_trip(&());
    round_trip(&7u64);
    round_trip(&(1u8, -2i64, "x".to_owned(), Some(2.5f32), [1u16; 3]));
    round_trip(&vec![Some("a".to_owned()), None]);
    round_trip(&String::new());
    round_trip(&"Würde".repeat(1000));
    round_trip(&vec![true, false]);
    round_trip(&std::collections::BTreeMap::from([
        (1u8, vec![1u8, 2]),
        (2, vec![]),
    ]));
    round_trip(&Box::new(5u8));
}

#[test]
fn rser_01_sizes_around_every_boundary_come_back() {
    let large = if cfg!(miri) { 2000 } else { 64 << 20 };
    for len in (0..200)
        .step_by(if cfg!(miri) { 13 } else { 1 })
        .chain([999, 1000, 1001, 4095, 4096, large])
    {
        round_trip(&vec![7u8; len]);
        round_trip(&(1u8, vec![7u8; len.min(5000)]));
        round_trip(&"a".repeat(len));
    }
}

#[test]
fn rser_04_vectors_of_numbers_and_text_are_views() {
    fn check<E: Wire + Copy + PartialEq + std::fmt::Debug>(values: Vec<E>) {
        let bytes = Tensor::from_slice(&bytes_of(&values), &[bytes_of(&values).len()]).unwrap();
        let view = view_slice::<E>(bytes.bytes()).unwrap().unwrap();
        assert_eq!(view, values);
        assert_eq!(view.as_ptr().addr() % 64, 0);
        round_trip(&values);
    }
    check(vec![1u8, 2, 3]);
    check(vec![1u16, 2, 3]);
    check(vec![1u32, 2, 3]);
    check(vec![1u64, 2, 3]);
    check(vec![-1i8, 2, 3]);
    check(vec![-1i16, 2, 3]);
    check(vec![-1i32, 2, 3]);
    check(vec![-1i64, 2, 3]);
    check(vec![1.5f32, 2.0, f32::INFINITY]);
    check(vec![1.5f64, 2.0, f64::MIN_POSITIVE]);
    check(Vec::<f32>::new());
    let bytes = bytes_of(&"a view".to_owned());
    assert_eq!(view_str(&bytes).unwrap(), "a view");
    assert_eq!(
        view_slice::<String>(&bytes_of(&vec![String::new()])).unwrap(),
        None
    );
}

#[test]
fn an_unaligned_vector_is_decoded_instead_of_viewed() {
    let mut shifted = vec![0u8];
    shifted.extend(bytes_of(&vec![1.0f64, 2.0]));
    let unaligned = if shifted[1..].as_ptr().addr() % 8 == 0 {
        shifted.remove(0);
        &shifted[..]
    } else {
        &shifted[1..]
    };
    assert_eq!(decode::<Vec<f64>>(unaligned).unwrap(), [1.0, 2.0]);
    assert!(matches!(
        view_slice::<f64>(unaligned),
        Ok(None | Some(&[1.0, 2.0]))
    ));
}

#[test]
fn rser_10_one_type_is_not_read_as_another() {
    let bytes = bytes_of(&vec![1u32, 2]);
    assert!(matches!(
        decode::<Vec<f32>>(&bytes),
        Err(DecodeError::Malformed(_))
    ));
    assert!(view_slice::<i32>(&bytes).is_err());
    assert!(view_str(&bytes).is_err());
    assert!(decode::<u64>(&bytes).is_err());
    assert!(matches!(
        decode::<(u64, u64)>(&bytes_of(&(5u64,))),
        Err(DecodeError::Deserialize { type_name, .. }) if type_name.contains("u64")
    ));
    assert!(
        decode::<(u8,)>(&bytes_of(&(5u8, 6u8))).is_err(),
        "bytes are left over"
    );
    // The bytes of a number state its type, even where another type has equally many bytes, and a truncated number is
    // refused.
    let number = bytes_of(&5u32);
    assert!(decode::<f32>(&number).is_err() && decode::<u64>(&number).is_err());
    assert!(decode::<(u32,)>(&number).is_err());
    for cut in 0..number.len() {
        assert!(decode::<u32>(&number[..cut]).is_err());
    }
    assert!(decode::<u32>(&[number.as_slice(), &[0]].concat()).is_err());
}

#[test]
fn a_buffer_that_is_too_small_is_refused() {
    let value = vec![1u8; 100];
    let encoded = encode(&value).unwrap();
    assert_eq!(encoded.len_bytes(), 164);
    assert!(matches!(
        encoded.write_to(&mut [0; 163]),
        Err(EncodeError::Buffer {
            need_bytes: 164,
            have_bytes: 163
        })
    ));
    assert!(encoded.write_to(&mut [1; 200]).is_ok());
}

#[test]
fn what_lay_in_the_buffer_before_does_not_show() {
    let value = (3u8, Tensor::from_slice(&[1u8, 2, 3], &[3]).unwrap());
    let encoded = encode(&value).unwrap();
    let mut dirty = vec![0xaa; encoded.len_bytes()];
    encoded.write_to(&mut dirty).unwrap();
    assert_eq!(dirty, encoded.to_vec());
}

#[test]
fn rser_01_tensors_come_back_alone_and_inside_other_values() {
    let tensor = |len: usize| Tensor::from_vec((0..len as u32).collect(), &[len / 2, 2]).unwrap();
    round_trip(&tensor(6));
    round_trip(&tensor(0));
    round_trip(&vec![tensor(2), tensor(0), tensor(40)]);
    round_trip(&(1u8, Some((tensor(8), "x".to_owned())), vec![tensor(4); 3]));
    let scalar = Tensor::from_slice(&[1.5f64], &[]).unwrap();
    round_trip(&scalar);
}

#[test]
fn rser_04_a_tensor_inside_a_value_is_not_copied_when_it_is_encoded() {
    let tensor = Tensor::zeros::<u8>(&[1 << 20]).unwrap();
    let bytes = bytes_of(&(1u8, tensor));
    assert!(bytes.len() < (1 << 20) + 256);
    let head = u32::from_le_bytes(bytes[..4].try_into().unwrap());
    assert!(head < 32, "the bytes are in a part");
}

#[test]
fn tensors_check_type_and_shape() {
    let tensor = Tensor::from_slice(&[1i16, 2, 3, 4], &[2, 2]).unwrap();
    assert_eq!(
        (tensor.dtype(), tensor.shape(), tensor.len()),
        (DType::I16, &[2, 2][..], 4)
    );
    assert_eq!(tensor.bytes().as_ptr().addr() % 64, 0);
    assert!(matches!(
        tensor.as_slice::<u16>(),
        Err(TensorError::DType {
            expected: DType::U16,
            found: DType::I16
        })
    ));
    assert!(matches!(
        Tensor::from_slice(&[0u8; 3], &[2, 2]),
        Err(TensorError::Shape { found: 3, .. })
    ));
    let overflow = Tensor::from_slice(&[0u8; 3], &[usize::MAX, 2]);
    assert!(matches!(overflow, Err(TensorError::Shape { expected: None, .. })));
    assert!(matches!(
        Tensor::zeros::<u64>(&[usize::MAX]),
        Err(TensorError::Memory { len_bytes: None })
    ));
    let reshaped = tensor.clone().reshape(&[4]).unwrap();
    assert_eq!(reshaped.bytes().as_ptr(), tensor.bytes().as_ptr());
    assert!(tensor.clone().reshape(&[5]).is_err());
    assert_eq!(tensor.into_vec::<i16>().unwrap(), [1, 2, 3, 4]);
}

#[test]
fn cache_07_writing_a_shared_tensor_leaves_its_clones_alone() {
    let mut mine = Tensor::from_slice(&[1u8, 2], &[2]).unwrap();
    let pointer = mine.bytes().as_ptr();
    mine.as_mut_slice::<u8>().unwrap()[0] = 9;
    assert_eq!(mine.bytes().as_ptr(), pointer, "nobody shared it");
    let theirs = mine.clone();
    mine.as_mut_slice::<u8>().unwrap()[0] = 7;
    assert_eq!((mine.bytes(), theirs.bytes()), (&[7, 2][..], &[9, 2][..]));
}

#[test]
fn chan_14_a_tensor_travels_only_inside_a_payload() {
    let tensor = Tensor::from_slice(&[1u8], &[1]).unwrap();
    assert!(postcard::to_allocvec(&tensor).is_err());
    let lost: Result<Tensor, _> = postcard::from_bytes(&[0, 1, 1, 0]);
    assert!(lost.is_err());
}

#[test]
fn a_serialize_that_panics_leaves_no_scope_behind() {
    #[derive(Clone, serde::Deserialize)]
    struct Panics(Tensor);
    impl serde::Serialize for Panics {
        fn serialize<S: serde::Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
            let _ = self.0.serialize(serializer)?;
            panic!("as asked");
        }
    }
    let tensor = Tensor::from_slice(&[1u8], &[1]).unwrap();
    let value = Panics(tensor.clone());
    assert!(std::panic::catch_unwind(|| encode(&value).map(drop)).is_err());
    assert!(postcard::to_allocvec(&tensor).is_err(), "no scope is open");
}

#[test]
fn a_value_that_encodes_another_keeps_its_own_parts() {
    #[derive(Clone, Debug, PartialEq)]
    struct Outer(Tensor, Tensor);
    impl serde::Serialize for Outer {
        fn serialize<S: serde::Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
            let inner = encode(&vec![self.1.clone()]).unwrap().to_vec();
            (&self.0, inner).serialize(serializer)
        }
    }
    impl<'de> serde::Deserialize<'de> for Outer {
        fn deserialize<D: serde::Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
            let (first, inner) = <(Tensor, Vec<u8>)>::deserialize(deserializer)?;
            let mut second: Vec<Tensor> = decode(&inner).unwrap();
            Ok(Outer(first, second.remove(0)))
        }
    }
    let tensor = |value: u8| Tensor::from_slice(&[value], &[1]).unwrap();
    round_trip(&Outer(tensor(1), tensor(2)));
}

/// A part that could be taken twice would let a few bytes of head claim any amount of memory.
#[test]
fn rser_10_a_part_is_given_out_once() {
    let tensor = Tensor::from_slice(&[5u8; 100], &[100]).unwrap();
    let honest = vec![tensor.clone(), tensor];
    let mut bytes = bytes_of(&honest);
    // Head: count, then (dtype, rank, dimension, part) twice; the last byte is the second part's index.
    let head_len = u32::from_le_bytes(bytes[..4].try_into().unwrap()) as usize;
    let index = 8 + 2 * 8 + head_len - 1;
    assert_eq!(bytes[index], 1);
    bytes[index] = 0;
    assert!(matches!(
        decode::<Vec<Tensor>>(&bytes),
        Err(DecodeError::Deserialize { .. })
    ));
}

fn tensor() -> impl Strategy<Value = Tensor> {
    proptest::collection::vec(any::<u32>(), 0..40)
        .prop_map(|values| Tensor::from_slice(&values, &[values.len(), 1]).unwrap())
}

fn kind() -> impl Strategy<Value = Kind> {
    prop_oneof![
        Just(Kind::Unit),
        any::<(i64, char)>().prop_map(|(number, letter)| Kind::Tuple(number, letter)),
        proptest::collection::vec(any::<f32>(), 0..9).prop_map(|floats| Kind::Struct { floats }),
    ]
}

fn sample() -> impl Strategy<Value = Sample> {
    let leaf = (
        any::<u8>(),
        any::<Option<String>>(),
        proptest::collection::vec(tensor(), 0..4),
        kind(),
    )
        .prop_map(|(small, name, tensors, kind)| Sample {
            small,
            name,
            tensors,
            kind,
            children: vec![],
        });
    leaf.prop_recursive(3, 20, 4, |inner| {
        (inner.clone(), proptest::collection::vec(inner, 0..4))
            .prop_map(|(parent, children)| Sample { children, ..parent })
    })
}

#[test]
fn rser_10_any_value_comes_back_and_any_cut_of_it_is_an_error() {
    let mut runner = TestRunner::new(Config {
        cases: if cfg!(miri) { 3 } else { 256 },
        failure_persistence: None,
        ..Config::default()
    });
    let scenario = (sample(), any::<prop::sample::Index>());
    runner
        .run(&scenario, |(value, cut)| {
            let bytes = bytes_of(&value);
            let again = decode::<Sample>(&bytes).unwrap();
            prop_assert_eq!(bytes_of(&again), &bytes[..]);
            let cut = cut.index(bytes.len());
            prop_assert!(decode::<Sample>(&bytes[..cut]).is_err());
            Ok(())
        })
        .unwrap();
}
