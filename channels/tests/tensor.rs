//! Tensors of every type, and tensors of other libraries.
#![cfg(not(loom))]
#![allow(
    missing_docs,
    clippy::unwrap_used,
    clippy::expect_used,
    clippy::panic,
    clippy::indexing_slicing
)] // a test may panic

use selvedge_channels::{DType, Tensor, TensorError, decode, encode};

fn there_and_back(tensor: &Tensor) -> Tensor {
    decode(&encode(tensor).unwrap().to_vec()).unwrap()
}

#[test]
fn type_01_every_type_travels() {
    let types = [
        (DType::U8, 1),
        (DType::U16, 2),
        (DType::U32, 4),
        (DType::U64, 8),
        (DType::I8, 1),
        (DType::I16, 2),
        (DType::I32, 4),
        (DType::I64, 8),
        (DType::F16, 2),
        (DType::BF16, 2),
        (DType::F32, 4),
        (DType::F64, 8),
        (DType::Bool, 1),
    ];
    for (dtype, size) in types {
        assert_eq!(dtype.size_bytes(), size);
        let bytes: Vec<u8> = (0..6 * size as u8).collect();
        let tensor = Tensor::from_raw(dtype, &[2, 3], &bytes).unwrap();
        let back = there_and_back(&tensor);
        assert_eq!(
            (back.dtype(), back.shape(), back.bytes()),
            (dtype, &[2, 3][..], &bytes[..])
        );
        assert_eq!(back.bytes().as_ptr().addr() % 64, 0);
        let refused = Tensor::from_raw(dtype, &[7], &bytes).unwrap_err();
        assert!(
            matches!(refused, TensorError::Shape { found: 6, .. }),
            "{refused}"
        );
    }
}

#[test]
fn truth_values_are_decoded() {
    let tensor = Tensor::from_bools(&[true, false, true], &[3]).unwrap();
    assert_eq!(there_and_back(&tensor).to_bools().unwrap(), [true, false, true]);
    let of_others = Tensor::from_raw(DType::Bool, &[2], &[0, 255]).unwrap();
    assert_eq!(of_others.to_bools().unwrap(), [false, true]);
    assert!(tensor.as_slice::<u8>().is_err() && Tensor::zeros::<u8>(&[1]).unwrap().to_bools().is_err());
}

#[test]
fn strides_are_row_major() {
    let strides = |shape: &[usize]| Tensor::zeros::<u8>(shape).unwrap().strides();
    assert_eq!(strides(&[2, 3, 4]), [12, 4, 1]);
    assert_eq!(strides(&[5]), [1]);
    assert!(strides(&[]).is_empty());
    assert_eq!(strides(&[0, 7]), [7, 1]);
}

#[test]
#[cfg(feature = "half")]
fn sixteen_bit_floats_are_elements() {
    use half::{bf16, f16};
    let halves: Vec<f16> = [1.5, -2.0, 65504.0].map(f16::from_f32).to_vec();
    let tensor = Tensor::from_slice(&halves, &[3]).unwrap();
    assert_eq!(tensor.dtype(), DType::F16);
    assert_eq!(there_and_back(&tensor).as_slice::<f16>().unwrap(), halves);
    assert_eq!(
        decode::<Vec<f16>>(&encode(&halves).unwrap().to_vec()).unwrap(),
        halves
    );
    let brains: Vec<bf16> = [1.0, 3e38].map(bf16::from_f32).to_vec();
    let tensor = Tensor::from_slice(&brains, &[2, 1]).unwrap();
    assert_eq!(there_and_back(&tensor).as_slice::<bf16>().unwrap(), brains);
    assert!(matches!(
        tensor.as_slice::<f16>(),
        Err(TensorError::DType {
            expected: DType::F16,
            found: DType::BF16
        })
    ));
}

#[cfg(feature = "bytes")]
mod bytes {
    use super::*;
    use ::bytes::Bytes;

    /// Bytes that begin on a 64-byte boundary, like those of a tensor.
    fn aligned(len: usize) -> Bytes {
        Tensor::zeros::<u8>(&[len]).unwrap().into_bytes().unwrap()
    }

    #[test]
    fn bytes_go_in_and_out_without_a_copy() {
        let bytes = aligned(24);
        let tensor = Tensor::from_bytes(DType::F32, &[2, 3], bytes.clone()).unwrap();
        assert_eq!(tensor.bytes().as_ptr(), bytes.as_ptr());
        assert_eq!(tensor.clone().bytes().as_ptr(), bytes.as_ptr());
        assert_eq!(there_and_back(&tensor), tensor);
        let out = tensor.into_bytes().unwrap();
        assert_eq!(out.as_ptr(), bytes.as_ptr());
        drop(bytes);
        assert_eq!(out.len(), 24, "kept by whoever is left");
    }

    #[test]
    fn what_lies_elsewhere_is_copied_and_what_is_shared_is_not_written() {
        let odd = aligned(25).slice(1..);
        let tensor = Tensor::from_bytes(DType::U8, &[24], odd.clone()).unwrap();
        assert_ne!(tensor.bytes().as_ptr(), odd.as_ptr());
        assert_eq!(tensor.bytes().as_ptr().addr() % 64, 0);
        let shared = aligned(4);
        let mut tensor = Tensor::from_bytes(DType::U8, &[4], shared.clone()).unwrap();
        tensor.as_mut_slice::<u8>().unwrap().fill(9);
        assert_eq!((&shared[..], tensor.bytes()), (&[0; 4][..], &[9; 4][..]));
        assert!(Tensor::from_bytes(DType::F64, &[1], aligned(7)).is_err());
    }
}

#[cfg(feature = "ndarray")]
mod ndarray {
    use super::*;
    use ::ndarray::{Array2, Axis, arr2};

    #[test]
    fn arrays_are_views_of_tensors() {
        let mut tensor = Tensor::from_slice(&[1_i32, 2, 3, 4, 5, 6], &[2, 3]).unwrap();
        assert_eq!(
            tensor.as_ndarray::<i32>().unwrap(),
            arr2(&[[1, 2, 3], [4, 5, 6]]).into_dyn()
        );
        tensor.as_ndarray_mut::<i32>().unwrap()[[1, 2]] = 7;
        assert_eq!(tensor.as_slice::<i32>().unwrap(), [1, 2, 3, 4, 5, 7]);
        assert!(tensor.as_ndarray::<f32>().is_err());
        let scalar = Tensor::from_slice(&[1_u8], &[]).unwrap();
        assert_eq!(scalar.as_ndarray::<u8>().unwrap().ndim(), 0);
    }

    #[test]
    fn an_array_in_any_order_becomes_a_row_major_tensor() {
        let array: Array2<u16> = arr2(&[[1, 2, 3], [4, 5, 6]]);
        assert_eq!(
            Tensor::from_ndarray(&array).unwrap().as_slice::<u16>().unwrap(),
            [1, 2, 3, 4, 5, 6]
        );
        let turned = Tensor::from_ndarray(&array.t()).unwrap();
        assert_eq!(
            (turned.shape(), turned.as_slice::<u16>().unwrap()),
            (&[3, 2][..], &[1, 4, 2, 5, 3, 6][..])
        );
        let row = Tensor::from_ndarray(&array.index_axis(Axis(0), 1)).unwrap();
        assert_eq!(row.as_slice::<u16>().unwrap(), [4, 5, 6]);
    }
}

#[cfg(feature = "dlpack")]
mod dlpack {
    #![allow(unsafe_code, clippy::multiple_unsafe_ops_per_block)] // acts as another framework

    use super::*;
    use selvedge_channels::dlpack::{CPU, DLDataType, DLDevice, DLManagedTensor, DLTensor};
    use selvedge_channels::{DlPack, DlPackError};
    use std::sync::atomic::{AtomicUsize, Ordering};

    #[test]
    fn a_tensor_goes_out_and_comes_back_without_a_copy() {
        let tensor = Tensor::from_slice(&[1.5_f32, 2.5, 3.5, 4.5, 5.5, 6.5], &[2, 3]).unwrap();
        let at = tensor.bytes().as_ptr();
        let pack = tensor.clone().into_dlpack().unwrap();
        let seen = pack.tensor();
        assert_eq!(
            (seen.ndim, seen.dtype, seen.device.device_type),
            (
                2,
                DLDataType {
                    code: 2,
                    bits: 32,
                    lanes: 1
                },
                CPU
            )
        );
        // The pack passes through a raw pointer, as in a capsule.
        let raw = pack.into_raw();
        // SAFETY: the pointer was handed out just now, and to no other owner.
        let pack = unsafe { DlPack::from_raw(raw) }.unwrap();
        let back = Tensor::from_dlpack(pack).unwrap();
        assert_eq!(back.bytes().as_ptr(), at);
        assert_eq!(back, tensor);
        drop(tensor);
        assert_eq!(back.as_slice::<f32>().unwrap()[5], 6.5);
        assert_eq!(there_and_back(&back), back);
        let scalar = Tensor::from_slice(&[7_i64], &[]).unwrap();
        assert_eq!(
            Tensor::from_dlpack(scalar.clone().into_dlpack().unwrap()).unwrap(),
            scalar
        );
    }

    static DELETED: AtomicUsize = AtomicUsize::new(0);

    /// A tensor of another framework.
    struct Foreign {
        data: Vec<u16>,
        shape: Vec<i64>,
        strides: Vec<i64>,
        managed: DLManagedTensor,
    }

    unsafe extern "C" fn delete(managed: *mut DLManagedTensor) {
        DELETED.fetch_add(1, Ordering::Relaxed);
        // SAFETY: the pointer is the box that `pack` below has leaked, and the deleter runs once.
        drop(unsafe { Box::from_raw((*managed).manager_ctx.cast::<Foreign>()) });
    }

    fn pack(shape: &[i64], strides: &[i64], change: impl FnOnce(&mut DLTensor)) -> DlPack {
        let dl_tensor = DLTensor {
            data: std::ptr::null_mut(),
            device: DLDevice {
                device_type: CPU,
                device_id: 0,
            },
            ndim: shape.len() as i32,
            dtype: DLDataType {
                code: 1,
                bits: 16,
                lanes: 1,
            },
            shape: std::ptr::null_mut(),
            strides: std::ptr::null_mut(),
            byte_offset: 2,
        };
        let managed = DLManagedTensor {
            dl_tensor,
            manager_ctx: std::ptr::null_mut(),
            deleter: Some(delete),
        };
        let foreign = Foreign {
            data: vec![0, 1, 2, 3, 4, 5, 6],
            shape: shape.into(),
            strides: strides.into(),
            managed,
        };
        let foreign = Box::into_raw(Box::new(foreign));
        // SAFETY: the box was made just now; the vectors do not move.
        unsafe {
            let tensor = &mut (*foreign).managed.dl_tensor;
            tensor.data = (*foreign).data.as_mut_ptr().cast();
            tensor.shape = (*foreign).shape.as_mut_ptr();
            if !strides.is_empty() {
                tensor.strides = (*foreign).strides.as_mut_ptr();
            }
            change(tensor);
            (*foreign).managed.manager_ctx = foreign.cast();
            DlPack::from_raw(&raw mut (*foreign).managed).unwrap()
        }
    }

    #[test]
    fn another_frameworks_tensor_is_taken_over_or_refused_and_deleted_once() {
        let before = DELETED.load(Ordering::Relaxed);
        let taken = Tensor::from_dlpack(pack(&[2, 3], &[], |_| {})).unwrap();
        assert_eq!(
            (taken.shape(), taken.as_slice::<u16>().unwrap()),
            (&[2, 3][..], &[1, 2, 3, 4, 5, 6][..])
        );
        drop(taken);
        let taken = Tensor::from_dlpack(pack(&[1, 6], &[99, 1], |_| {})).unwrap();
        assert_eq!(taken.len(), 6);
        drop(taken);
        let refuse = |pack| Tensor::from_dlpack(pack).unwrap_err();
        assert!(matches!(
            refuse(pack(&[3, 2], &[1, 3], |_| {})),
            DlPackError::Strides { .. }
        ));
        assert!(matches!(
            refuse(pack(&[6], &[], |tensor| tensor.device.device_type = 2)),
            DlPackError::Device { device_type: 2 }
        ));
        assert!(matches!(
            refuse(pack(&[6], &[], |tensor| tensor.dtype.lanes = 4)),
            DlPackError::DType { lanes: 4, .. }
        ));
        let nonsense: [fn(&mut DLTensor); 3] = [
            |tensor| tensor.ndim = -1,
            |tensor| tensor.shape = std::ptr::null_mut(),
            |tensor| tensor.data = std::ptr::null_mut(),
        ];
        for change in nonsense {
            assert!(matches!(
                refuse(pack(&[6], &[], change)),
                DlPackError::Malformed { .. }
            ));
        }
        assert!(matches!(
            refuse(pack(&[-1], &[], |_| {})),
            DlPackError::Malformed { .. }
        ));
        assert!(matches!(
            refuse(pack(&[i64::MAX, 4], &[], |_| {})),
            DlPackError::Malformed { .. }
        ));
        assert_eq!(DELETED.load(Ordering::Relaxed) - before, 10, "each once");
    }
}
