//! Values of user programs that can be contributed to a collective: tensors, numbers, and lists of both.

use selvedge_channels::{Tensor, TensorError};

use crate::parts::Part;

/// A value that ranks contribute to a collective and get from it: one or several dense arrays of numbers.
///
/// | type | arrays |
/// |---|---|
/// | [`Tensor`] | one, of its shape |
/// | `Vec` of numbers | one, of one dimension |
/// | a number | one, without dimensions: it can be reduced and broadcast, not gathered |
/// | `Vec<Tensor>` | one each; all go in one operation |
/// | `()` | none: for barriers |
/// | `DeviceTensor`, `Vec<DeviceTensor>` | like `Tensor`; on the device with `nccl`, else by way of the host (`cuda`) |
///
/// Implement the trait for a user-defined type that is made of such arrays, and register the type for graphs with
/// `selvedge::contributes!(MyType)`.
pub trait Contribute: Sized {
    /// Passes the arrays to `read`, once.
    fn parts(&self, read: &mut dyn FnMut(&[Part<'_>]));

    /// Creates the value from its arrays.
    ///
    /// # Errors
    /// [`TensorError`] if the arrays have other types or another number than [`parts`](Self::parts) shows.
    fn from_parts(parts: Vec<Tensor>) -> Result<Self, TensorError>;
}

/// Returns the only part; an error if there are no parts or several.
fn only(mut parts: Vec<Tensor>) -> Result<Tensor, TensorError> {
    match (parts.pop(), parts.len()) {
        (Some(part), 0) => Ok(part),
        (_, others) => Err(TensorError::Shape {
            shape: vec![1],
            expected: Some(1),
            found: others,
        }),
    }
}

impl Contribute for Tensor {
    fn parts(&self, read: &mut dyn FnMut(&[Part<'_>])) {
        read(&[Part::from(self)]);
    }

    fn from_parts(parts: Vec<Tensor>) -> Result<Self, TensorError> {
        only(parts)
    }
}

impl Contribute for Vec<Tensor> {
    fn parts(&self, read: &mut dyn FnMut(&[Part<'_>])) {
        read(&self.iter().map(Part::from).collect::<Vec<_>>());
    }

    fn from_parts(parts: Vec<Tensor>) -> Result<Self, TensorError> {
        Ok(parts)
    }
}

impl Contribute for () {
    fn parts(&self, read: &mut dyn FnMut(&[Part<'_>])) {
        read(&[]);
    }

    fn from_parts(_: Vec<Tensor>) -> Result<Self, TensorError> {
        Ok(())
    }
}

/// Tensors on a device that go through the host, for communicators without device support. A result goes to the device
/// of the thread's last contribution.
#[cfg(feature = "cuda")]
mod on_device {
    use std::cell::RefCell;
    use std::time::Duration;

    use selvedge_channels::device::{DeviceError, DeviceTensor, Gpu, Stream};
    use selvedge_channels::{Tensor, TensorError};

    use super::{Contribute, only};
    use crate::parts::Part;

    /// The time limit for the copy of a tensor to the host, including the work that the device has to do before.
    const TIME_LIMIT: Duration = Duration::from_secs(60);

    thread_local! {
        static LAST: RefCell<Option<Gpu>> = const { RefCell::new(None) };
    }

    /// Calls `read` only if the copies to the host succeed; the caller recognises a failure by the missing call.
    fn show(tensors: &[DeviceTensor], read: &mut dyn FnMut(&[Part<'_>])) {
        let download = |tensor: &DeviceTensor| {
            LAST.set(Some(tensor.gpu().clone()));
            tensor.download(&Stream::communication(tensor.gpu())?, TIME_LIMIT)
        };
        let host: Result<Vec<Tensor>, DeviceError> = tensors.iter().map(download).collect();
        if let Ok(host) = host {
            read(&host.iter().map(Part::from).collect::<Vec<_>>());
        }
    }

    fn upload(tensor: &Tensor) -> Result<DeviceTensor, TensorError> {
        let upload = || {
            let gpu = match LAST.with_borrow(Clone::clone) {
                Some(gpu) => gpu,
                None => Gpu::open(0)?,
            };
            DeviceTensor::upload(&Stream::communication(&gpu)?, tensor)
        };
        // There is no device, or no memory on it.
        upload().map_err(|_| TensorError::Memory {
            len_bytes: Some(tensor.bytes().len()),
        })
    }

    impl Contribute for DeviceTensor {
        fn parts(&self, read: &mut dyn FnMut(&[Part<'_>])) {
            show(std::slice::from_ref(self), read);
        }

        fn from_parts(parts: Vec<Tensor>) -> Result<Self, TensorError> {
            upload(&only(parts)?)
        }
    }

    impl Contribute for Vec<DeviceTensor> {
        fn parts(&self, read: &mut dyn FnMut(&[Part<'_>])) {
            show(self, read);
        }

        fn from_parts(parts: Vec<Tensor>) -> Result<Self, TensorError> {
            parts.iter().map(upload).collect()
        }
    }
}

macro_rules! numbers {
    ($($type:ty),+) => {$(
        impl Contribute for Vec<$type> {
            fn parts(&self, read: &mut dyn FnMut(&[Part<'_>])) {
                read(&[Part {
                    dtype: <$type as selvedge_channels::Element>::DTYPE,
                    shape: &[self.len()],
                    bytes: selvedge_channels::bytes_of(self.as_slice()),
                }]);
            }

            fn from_parts(parts: Vec<Tensor>) -> Result<Self, TensorError> {
                only(parts)?.to_vec::<$type>()
            }
        }

        impl Contribute for $type {
            fn parts(&self, read: &mut dyn FnMut(&[Part<'_>])) {
                read(&[Part {
                    dtype: <$type as selvedge_channels::Element>::DTYPE,
                    shape: &[],
                    bytes: selvedge_channels::bytes_of(std::slice::from_ref(self)),
                }]);
            }

            fn from_parts(parts: Vec<Tensor>) -> Result<Self, TensorError> {
                let part = only(parts)?;
                let values = part.as_slice::<$type>()?;
                values.first().copied().ok_or(TensorError::Shape {
                    shape: Vec::new(),
                    expected: Some(1),
                    found: values.len(),
                })
            }
        }
    )+};
}

numbers!(u8, u16, u32, u64, i8, i16, i32, i64, f32, f64);
