//! How many workers a machine gets.

use std::fmt;
use std::num::{NonZeroU16, NonZeroUsize};
use std::str::FromStr;

use super::address::number;
use super::part_error::PartError;
use super::printable::excerpt;

/// The number of workers on one machine.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Count {
    /// A number of workers.
    Exactly(NonZeroU16),
    /// One for each logical core of the machine.
    Auto,
}

impl Count {
    /// One worker.
    pub const ONE: Count = Count::Exactly(NonZeroU16::MIN);

    /// The number of workers on a machine with so many logical cores. The first worker on a machine knows its cores, so
    /// this worker is asked, and starts the others.
    pub fn on(self, logical_cores: NonZeroUsize) -> NonZeroU16 {
        match self {
            Count::Exactly(count) => count,
            Count::Auto => NonZeroU16::try_from(logical_cores).unwrap_or(NonZeroU16::MAX),
        }
    }
}

impl Default for Count {
    /// One worker.
    fn default() -> Self {
        Count::ONE
    }
}

impl FromStr for Count {
    type Err = PartError;

    fn from_str(text: &str) -> Result<Self, PartError> {
        match text {
            "auto" => Ok(Count::Auto),
            digits => number(digits)
                .map(Count::Exactly)
                .ok_or_else(|| PartError::Count(excerpt(digits))),
        }
    }
}

impl fmt::Display for Count {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Count::Exactly(count) => write!(f, "{count}"),
            Count::Auto => f.write_str("auto"),
        }
    }
}
