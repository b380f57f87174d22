//! Kernels that the simulator knows by name. PTX is not executed.
//!
//! | kernel | what it does |
//! |---|---|
//! | `selvedge_fill_f32(out, n: u64, value: f32)` | `out[i] = value` |
//! | `selvedge_spin(n: u64)` | is busy until `selvedge_sim_release` is called with `n` or more |

use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;

use crate::code::{Cu, INVALID_VALUE, NOT_FOUND};
use crate::engine::{Key, Operation, Reach};
use crate::ffi::In;
use crate::history::Intent;
use crate::memory::{self, Use};
use crate::{engine, space};

/// A kernel.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Kernel {
    Fill,
    Spin,
}

static RELEASED: AtomicU64 = AtomicU64::new(0);

/// Ends busy kernels up to this number.
pub(crate) fn release(upto: u64) {
    RELEASED.fetch_max(upto, Ordering::Relaxed);
    engine::notify(Key::Release);
}

/// Returns an operation that is busy until kernels up to this number are released.
pub(crate) fn hold(until: u64) -> Operation {
    Operation::new("selvedge_spin", move |turn| {
        turn.wait_polling(Key::Release, Reach::Process, Duration::MAX, || {
            RELEASED.load(Ordering::Relaxed) >= until
        });
    })
}

/// The arguments of a launch: an array of their addresses.
pub(crate) struct Arguments(pub(crate) In<usize>);

impl Arguments {
    fn nth<T: Copy>(&self, index: usize) -> Cu<T> {
        In::<T>::of(self.0.nth(index)?).get()
    }
}

impl Kernel {
    /// Returns the kernel with this name.
    pub(crate) fn named(name: &str) -> Cu<Self> {
        match name {
            "selvedge_fill_f32" => Ok(Kernel::Fill),
            "selvedge_spin" => Ok(Kernel::Spin),
            _ => Err(NOT_FOUND),
        }
    }

    /// Returns the operation of a launch with these arguments.
    pub(crate) fn launch(self, arguments: &Arguments) -> Cu<Operation> {
        if self == Kernel::Spin {
            return Ok(hold(arguments.nth(0)?));
        }
        let (count, value): (u64, f32) = (arguments.nth(1)?, arguments.nth(2)?);
        let bytes = count.checked_mul(4).ok_or(INVALID_VALUE)?;
        let output = space::resolve(arguments.nth(0)?, bytes)?;
        Ok(Operation {
            name: "selvedge_fill_f32".into(),
            uses: Use::all(&output, Intent::Write).collect(),
            run: Box::new(move |_| {
                memory::write(&output, &value.to_ne_bytes().repeat(count as usize));
            }),
            done: None,
        })
    }
}
