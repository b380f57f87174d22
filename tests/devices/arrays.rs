//! A generic function over vectors on a device. The trait is implemented here, as a user does it for memory of their own: the elements lie on
//! the device, each operation makes a new tensor there, and the arithmetic between two copies is the host's.

use selvedge::device::DeviceError;
use selvedge::parallel::{ArrayLike, LocalMatrix};

use super::*;

/// A vector or a matrix on a device.
struct OnDevice {
    tensor: DeviceTensor,
    stream: Stream,
}

#[derive(Debug, thiserror::Error)]
enum OnDeviceError {
    #[error(transparent)]
    Device(#[from] DeviceError),
    #[error("{0}")]
    Elements(String),
}

fn refused(error: impl std::error::Error) -> OnDeviceError {
    OnDeviceError::Elements(error.to_string())
}

impl OnDevice {
    fn new(elements: &[f64]) -> Result<Self, OnDeviceError> {
        let stream = Stream::compute(&Gpu::open(0)?)?;
        let host = Tensor::from_slice(elements, &[elements.len()]).map_err(refused)?;
        let tensor = DeviceTensor::upload(&stream, &host)?;
        Ok(OnDevice { tensor, stream })
    }
}

impl ArrayLike for OnDevice {
    type Matrix = OnDevice;
    type Error = OnDeviceError;

    fn times(&self, matrix: &OnDevice) -> Result<Self, OnDeviceError> {
        let rows = LocalMatrix {
            elements: matrix.elements()?,
        };
        OnDevice::new(&self.elements()?.times(&rows).map_err(refused)?)
    }

    fn divided(&self, by: f64) -> Result<Self, OnDeviceError> {
        OnDevice::new(&self.elements()?.divided(by).map_err(refused)?)
    }

    fn norm_max(&self) -> Result<f64, OnDeviceError> {
        self.elements()?.norm_max().map_err(refused)
    }

    fn elements(&self) -> Result<Vec<f64>, OnDeviceError> {
        let host = self.tensor.download(&self.stream, LONG)?;
        host.to_vec().map_err(refused)
    }
}

/// The greatest eigenvalue of a symmetric matrix, by von Mises's power iteration.
fn power_method<A: ArrayLike>(matrix: &A::Matrix, mut vector: A) -> Result<(f64, Vec<f64>), A::Error> {
    for _ in 0..30 {
        let product = vector.times(matrix)?;
        vector = product.divided(product.norm_max()?)?;
    }
    Ok((vector.times(matrix)?.norm_max()?, vector.elements()?))
}

#[test]
fn jext_04_the_power_method_gives_the_same_bits_on_arrays_of_a_device() {
    if !there() {
        return;
    }
    const LEN: usize = 24;
    // A Hilbert matrix.
    let elements: Vec<f64> = (0..LEN * LEN)
        .map(|place| 1.0 / (1 + place / LEN + place % LEN) as f64)
        .collect();
    let vector = vec![1.0; LEN];
    let there = power_method(
        &OnDevice::new(&elements).unwrap(),
        OnDevice::new(&vector).unwrap(),
    )
    .unwrap();
    let here = power_method(&LocalMatrix { elements }, vector).unwrap();
    let bits = |(norm, vector): &(f64, Vec<f64>)| {
        let vector = vector.iter().map(|element| element.to_bits());
        (norm.to_bits(), vector.collect::<Vec<_>>())
    };
    assert_eq!(bits(&there), bits(&here));
}
