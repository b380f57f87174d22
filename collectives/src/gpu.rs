//! The NVIDIA libraries of a machine, found at run time (feature `cuda`): the driver, by the layer below, and NCCL.

use std::fmt;

use selvedge_channels::device::{self, Ability};

pub use crate::nccl::Nccl;
use crate::nccl::nccl;
pub use selvedge_channels::device::{Device, Driver, Unavailable};

/// The NVIDIA libraries of a machine.
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub struct Probe {
    /// The driver, or the reason why there is none.
    pub driver: Result<Driver, Unavailable>,
    /// The NCCL library, or the reason why there is none.
    pub nccl: Result<Nccl, Unavailable>,
}

/// Searches for the driver and for NCCL. Never panics, and needs no device.
pub fn probe() -> Probe {
    Probe {
        driver: device::probe(),
        nccl: nccl(),
    }
}

fn said(ability: &Ability) -> String {
    let value = ability
        .value
        .map_or_else(|| "unknown".to_owned(), |value| value.to_string());
    format!("{} {value}", ability.name)
}

impl fmt::Display for Probe {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match &self.driver {
            Err(error) => writeln!(f, "CUDA       none: {error}")?,
            Ok(driver) => {
                let (major, minor) = (driver.version / 1000, driver.version % 1000 / 10);
                writeln!(f, "CUDA       {major}.{minor}, {}", driver.path)?;
                if driver.devices.is_empty() {
                    writeln!(f, "devices    none")?;
                }
                for (index, device) in driver.devices.iter().enumerate() {
                    let (major, minor) = device.compute_capability;
                    let gib = device.memory_bytes as f64 / f64::from(1 << 30);
                    let shares = if device.shares_memory {
                        "shares memory"
                    } else {
                        "shares no memory"
                    };
                    let name = &device.name;
                    writeln!(
                        f,
                        "device {index}   {name}, {gib:.1} GiB, compute capability {major}.{minor}, {shares}"
                    )?;
                    let abilities: Vec<String> = device.abilities.iter().map(said).collect();
                    writeln!(f, "           {}", abilities.join(", "))?;
                }
            }
        }
        match &self.nccl {
            Err(error) => write!(f, "NCCL       none: {error}"),
            Ok(nccl) => {
                let (major, minor, patch) = (
                    nccl.version / 10_000,
                    nccl.version / 100 % 100,
                    nccl.version % 100,
                );
                write!(f, "NCCL       {major}.{minor}.{patch}, {}", nccl.path)
            }
        }
    }
}
