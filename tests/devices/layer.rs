//! The actor of the device tests, and its placements.

use rustix::process::{Resource, Rlimit, getrlimit, setrlimit};
use selvedge::{Lane, Spawn};

use super::*;

/// A value with parts on the device and parts in host memory.
#[derive(Clone, serde::Serialize, serde::Deserialize)]
pub(crate) struct Batch {
    ids: Vec<u32>,
    hidden: DeviceTensor,
    mask: Option<DeviceTensor>,
    scale: Tensor,
}

selvedge::carries_tensors!(Batch);

/// A tensor beside a reference.
#[derive(Clone, serde::Serialize, serde::Deserialize)]
pub(crate) struct Labelled {
    tensor: DeviceTensor,
    label: Option<Ref<String>>,
}

selvedge::carries_tensors!(Labelled);

/// A value with a tensor that `carries_tensors!` does not announce.
#[derive(Clone, serde::Serialize, serde::Deserialize)]
pub(crate) struct Stowaway(DeviceTensor);

/// A tensor, and a number that some readers refuse.
#[derive(Clone, Debug, serde::Serialize, serde::Deserialize)]
pub(crate) struct Fussy {
    tensor: DeviceTensor,
    level: Level,
}

selvedge::carries_tensors!(Fussy);

#[derive(Clone, Debug, serde::Serialize)]
struct Level(i64);

impl<'de> serde::Deserialize<'de> for Level {
    fn deserialize<D: serde::Deserializer<'de>>(deserializer: D) -> std::result::Result<Self, D::Error> {
        match i64::deserialize(deserializer)? {
            2 => panic!("two is not read"),
            3 => Err(serde::de::Error::custom("three is refused")),
            level => Ok(Level(level)),
        }
    }
}

/// A layer with a stream of its own.
pub(crate) struct Layer {
    stream: Stream,
    hoard: Vec<DeviceMemory>,
}

impl Layer {
    fn upload(&self, values: &[i64]) -> Result<DeviceTensor> {
        let host = Tensor::from_slice(values, &[values.len()])?;
        Ok(DeviceTensor::upload(&self.stream, &host)?)
    }

    fn download(&self, tensor: &DeviceTensor) -> Result<Vec<i64>> {
        Ok(tensor.download(&self.stream, LONG)?.to_vec::<i64>()?)
    }
}

#[actor]
impl Layer {
    pub fn new(device: u32) -> Result<Self> {
        let stream = Stream::compute(&Gpu::open(device)?)?;
        Ok(Layer {
            stream,
            hoard: Vec::new(),
        })
    }

    /// Allocates all of the device's memory, or releases it.
    pub fn hoard(&mut self, all: bool) -> Result<()> {
        self.hoard.clear();
        let mut len = 1 << 40;
        while all && len > 0 {
            match DeviceMemory::new(self.stream.gpu(), len) {
                Ok(memory) => self.hoard.push(memory),
                Err(_) => len /= 2,
            }
        }
        Ok(())
    }

    /// Limits this process to no descriptors, or lifts that limit.
    pub fn starve(&mut self, all: bool) -> Result<()> {
        let maximum = getrlimit(Resource::Nofile).maximum;
        let current = if all { Some(0) } else { maximum };
        Ok(setrlimit(Resource::Nofile, Rlimit { current, maximum })?)
    }

    pub fn fussy(&mut self, level: i64) -> Result<Fussy> {
        Ok(Fussy {
            tensor: self.make(100)?,
            level: Level(level),
        })
    }

    pub fn level(&mut self, x: &Fussy) -> Result<i64> {
        Ok(self.total(&x.tensor)? + x.level.0)
    }

    pub fn level_of(&mut self, x: Fussy) -> Result<i64> {
        self.level(&x)
    }

    /// Returns `x % 5000` numbers: `x + at` at position `at`. A negative `x` is an error.
    pub fn make(&mut self, x: i64) -> Result<DeviceTensor> {
        if x < 0 {
            return Err("there are no negative lengths".into());
        }
        self.upload(&(0..x % 5000).map(|at| x + at).collect::<Vec<_>>())
    }

    pub fn double(&mut self, x: &DeviceTensor) -> Result<DeviceTensor> {
        let values = self.download(x)?;
        self.upload(&values.iter().map(|value| 2 * value).collect::<Vec<_>>())
    }

    /// Copies the bytes on the device alone, and the host waits for nothing. The device refuses an `x` on another
    /// device.
    pub fn copy(&mut self, x: &DeviceTensor) -> Result<DeviceTensor> {
        self.stream.order_after(x.ready())?;
        Ok(DeviceTensor::copy_of(
            &self.stream,
            x.layout().clone(),
            x.span()?,
        )?)
    }

    /// Returns its argument.
    pub fn pass(&mut self, x: DeviceTensor) -> DeviceTensor {
        x
    }

    pub fn add(&mut self, x: &DeviceTensor, y: &DeviceTensor) -> Result<DeviceTensor> {
        let (x, y) = (self.download(x)?, self.download(y)?);
        self.upload(&x.iter().zip(&y).map(|(x, y)| x + y).collect::<Vec<_>>())
    }

    pub fn both(&mut self, x: &DeviceTensor) -> Result<Vec<DeviceTensor>> {
        Ok(vec![self.copy(x)?, self.double(x)?])
    }

    pub fn total(&mut self, x: &DeviceTensor) -> Result<i64> {
        Ok(self.download(x)?.iter().sum())
    }

    pub fn totals(&mut self, all: &[DeviceTensor]) -> Result<i64> {
        all.iter().map(|x| self.total(x)).sum()
    }

    pub fn totals_with(&mut self, all: Vec<DeviceTensor>, one: DeviceTensor) -> Result<i64> {
        all.iter().chain([&one]).map(|x| self.total(x)).sum()
    }

    pub fn batch(&mut self, x: i64) -> Result<Batch> {
        Ok(Batch {
            ids: vec![x as u32; 3],
            hidden: self.make(x)?,
            mask: if x % 2 == 0 { Some(self.make(x + 1)?) } else { None },
            scale: Tensor::from_slice(&[x; 2], &[2])?,
        })
    }

    pub fn total_of(&mut self, batch: &Batch) -> Result<i64> {
        let mask = batch.mask.as_ref().map_or(Ok(0), |mask| self.total(mask))?;
        let ids: u32 = batch.ids.iter().sum();
        let scale: i64 = batch.scale.to_vec::<i64>()?.iter().sum();
        Ok(self.total(&batch.hidden)? + mask + i64::from(ids) + scale)
    }

    pub fn label(&mut self, x: i64) -> Result<Labelled> {
        let (tensor, label) = (self.make(x)?, None);
        Ok(Labelled { tensor, label })
    }

    pub fn labelled(&mut self, x: &Labelled) -> Result<(i64, bool)> {
        Ok((self.total(&x.tensor)?, x.label.is_some()))
    }

    pub fn hide(&mut self, x: i64) -> Result<Stowaway> {
        Ok(Stowaway(self.make(x)?))
    }

    pub fn find(&mut self, x: &Stowaway) -> Result<i64> {
        self.total(&x.0)
    }

    /// Returns its argument, and the index of its device.
    pub fn locate(&mut self, x: &DeviceTensor) -> (DeviceTensor, u32) {
        (x.clone(), x.gpu().index())
    }

    pub fn host(&mut self, x: i64) -> Result<Tensor> {
        Ok(Tensor::zeros::<f32>(&[x as usize, 2])?)
    }

    pub fn rows(&mut self, x: &Tensor) -> i64 {
        x.shape()[0] as i64
    }

    pub fn die(&mut self, x: &DeviceTensor, #[constant] at: i64) -> Result<DeviceTensor> {
        if x.layout().shape() == [at as usize] {
            std::process::abort();
        }
        self.copy(x)
    }
}

#[derive(Clone, Copy, Debug)]
pub(crate) enum Where {
    Threads,
    Processes,
    Mixed,
    OneLane,
    Inline,
}

pub(crate) const PLACES: [Where; 5] = [
    Where::Threads,
    Where::Processes,
    Where::Mixed,
    Where::OneLane,
    Where::Inline,
];

impl Where {
    /// Spawns the actor number `index` at this place.
    pub(crate) fn spawn(self, spawn: Spawn<'_, Layer>, lane: &Lane, index: usize) -> LayerHandle {
        match self {
            Where::Threads => spawn.in_thread(),
            Where::Processes => spawn.in_process(),
            Where::Mixed if index.is_multiple_of(2) => spawn.in_thread(),
            Where::Mixed => spawn.in_process(),
            Where::OneLane => spawn.in_lane(lane),
            Where::Inline => spawn.inline(),
        }
        .unwrap()
    }
}

pub(crate) fn layers<const N: usize>(runtime: &Runtime, place: Where) -> [LayerHandle; N] {
    let lane = runtime.lane("layers");
    std::array::from_fn(|index| {
        let spawn = runtime.spawn::<Layer>(format!("layer{index}"), (0,));
        place.spawn(spawn, &lane, index)
    })
}
