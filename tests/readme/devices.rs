use std::time::Duration;
use selvedge::device::{DeviceTensor, Gpu, Stream};
use selvedge::prelude::*;

struct Layer { stream: Stream }

#[actor]
impl Layer {
    pub fn new() -> Result<Self> { Ok(Layer { stream: Stream::compute(&Gpu::open(0)?)? }) }
    pub fn load(&mut self, x: f32) -> Result<DeviceTensor> {
        Ok(DeviceTensor::upload(&self.stream, &Tensor::from_slice(&[x; 1024], &[1024])?)?)
    }
    /// `x` need not be ready: the stream is ordered behind it, and the host goes on. Kernels of yours go here.
    pub fn forward(&mut self, x: &DeviceTensor) -> Result<DeviceTensor> {
        self.stream.order_after(x.ready())?;
        Ok(DeviceTensor::copy_of(&self.stream, x.layout().clone(), x.span()?)?)
    }
    pub fn sum(&mut self, x: &DeviceTensor) -> Result<f32> {
        Ok(x.download(&self.stream, Duration::from_secs(10))?.to_vec::<f32>()?.iter().sum())
    }
}

fn main() -> Result<()> {
    let runtime = Runtime::new();
    let [a, b] = [runtime.spawn::<Layer>("a", ()).in_process()?, runtime.spawn::<Layer>("b", ()).in_process()?];
    let graph = runtime.compile(|x: Edge<f32>| {
        let [x, _] = allreduce(ReduceOp::Sum, [a.load(&x), b.load(&x)]);   // Edge<DeviceTensor>
        b.sum(&a.forward(&x))
    })?;
    assert_eq!(graph.run(1.0)?, 2048.0);
    Ok(())
}
