//! Tensors that never leave the device: a writer and a reader, each with a stream of its own, and a host that waits for neither.
//!
//! `cargo run -p selvedge-channels --features cuda --example device`, on a machine with a device; or, without one, with
//! `LD_LIBRARY_PATH=$(scripts/simulated-driver)` before it.

#[cfg(feature = "cuda")]
fn main() -> Result<(), Box<dyn std::error::Error>> {
    use std::thread;
    use std::time::Duration;

    use selvedge_channels::device::{DeviceChannelOptions, Gpu, Stream, TensorLayout};
    use selvedge_channels::{DType, Tensor};

    let gpu = match Gpu::open(0) {
        Ok(gpu) => gpu,
        Err(error) => {
            println!("nothing to show: {error}");
            return Ok(());
        }
    };
    // Four slots of 1 MiB on the device; every message has tensors of the type and shape of the first message.
    let options = DeviceChannelOptions::new(1 << 20).slots(4).static_shape(true);
    let (mut writer, mut readers) = options.threads(&gpu)?;
    let mut reader = readers.remove(0);

    let reads = {
        let gpu = gpu.clone();
        thread::spawn(move || -> Result<f32, String> {
            let say = |error: &dyn std::fmt::Display| error.to_string();
            let stream = Stream::compute(&gpu).map_err(|error| say(&error))?;
            let mut sum = 0.0;
            for _ in 0..100 {
                let message = reader.recv(&stream).map_err(|error| say(&error))?;
                let mut view = message.map_err(|fault| say(&fault))?;
                // From here on, kernels on `stream` may read `view.span(0)`. This example reads it on the host instead.
                let tensor = view
                    .download(0, Duration::from_secs(10))
                    .map_err(|error| say(&error))?;
                sum += tensor
                    .as_slice::<f32>()
                    .map_err(|error| say(&error))?
                    .iter()
                    .sum::<f32>();
            }
            Ok(sum)
        })
    };

    let stream = Stream::compute(&gpu)?;
    let layout = TensorLayout::new(DType::F32, [4, 4])?;
    for number in 0_u8..100 {
        // Waits on the host for a free slot; the operations enqueued below wait on the device for its readers.
        let mut loan = writer.reserve(&stream, std::slice::from_ref(&layout))?;
        // Kernels on `stream` would write to `loan.span(0)?.address()` here.
        loan.upload(0, &Tensor::from_slice(&[f32::from(number); 16], &[4, 4])?)?;
        loan.publish()?;
    }
    let sum = reads.join().map_err(|_| "the reader panicked")??;
    assert!((sum - 16.0 * 4950.0).abs() < 0.5);
    println!("100 tensors on {gpu:?}; their sum is {sum}");
    Ok(())
}

#[cfg(not(feature = "cuda"))]
fn main() {
    println!("build with `--features cuda`");
}
