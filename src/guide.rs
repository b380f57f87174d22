#![doc = include_str!("../docs/guide/README.md")]

#[doc = include_str!("../docs/guide/actors.md")]
pub mod actors {}

#[doc = include_str!("../docs/guide/async.md")]
pub mod async_methods {}

#[doc = include_str!("../docs/guide/remote.md")]
pub mod remote_functions {}

#[doc = include_str!("../docs/guide/processes.md")]
pub mod processes {}

#[doc = include_str!("../docs/guide/objects.md")]
pub mod objects {}

#[cfg(feature = "parallel")]
#[doc = include_str!("../docs/guide/parallel.md")]
pub mod parallel {}

#[cfg(feature = "parallel")]
#[doc = include_str!("../docs/guide/arrays.md")]
pub mod arrays {}

#[cfg(feature = "hosts")]
#[doc = include_str!("../docs/guide/hosts.md")]
pub mod hosts {}

#[doc = include_str!("../docs/guide/from-pytorch-rpc.md")]
pub mod from_pytorch_rpc {}

#[cfg(feature = "parallel")]
#[doc = include_str!("../docs/guide/from-julia.md")]
pub mod from_julia {}

#[doc = include_str!("../docs/guide/tasks.md")]
pub mod tasks {}

#[doc = include_str!("../docs/guide/from-ray.md")]
pub mod from_ray {}

#[doc = include_str!("../docs/guide/collectives.md")]
pub mod collectives {}

#[doc = include_str!("../docs/guide/batching.md")]
pub mod batching {}

#[doc = include_str!("../docs/guide/devices.md")]
pub mod devices {}

#[doc = include_str!("../docs/guide/compiler.md")]
pub mod compiler {}

#[doc = include_str!("../docs/guide/observing.md")]
pub mod observing {}

#[doc = include_str!("../docs/guide/figures.md")]
pub mod figures {}

#[doc = include_str!("../docs/guide/systems.md")]
pub mod systems {}
