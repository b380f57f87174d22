//! Kernels that the simulator knows by name. PTX is not executed.
//!
//! | kernel | what it does |
//! |---|---|
//! | `selvedge_fill_f32(out, n: u64, value: f32)` | `out[i] = value` |
//! | `selvedge_scale_f32(in, out, n: u64, factor: f32)` | `out[i] = in[i] * factor` |
//! | `selvedge_add_f32(a, b, out, n: u64)` | `out[i] = a[i] + b[i]` |
//! | `selvedge_spin(n: u64)` | is busy until `selvedge_sim_release` is called with `n` or more |

use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;

use crate::code::{Cu, INVALID_VALUE, NOT_FOUND};
use crate::engine::{Key, Operation, Reach, Run, Turn};
use crate::ffi::In;
use crate::history::Intent;
use crate::memory::{self, Span, Use};
use crate::{engine, space};

/// A kernel.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Kernel {
    Fill,
    Scale,
    Add,
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

    /// Returns the memory of the floats that the `index`-th argument points to; the `count`-th argument is their
    /// number.
    fn floats(&self, index: usize, count: usize) -> Cu<Vec<Span>> {
        let count: u64 = self.nth(count)?;
        space::resolve(self.nth(index)?, count.checked_mul(4).ok_or(INVALID_VALUE)?)
    }
}

fn floats(spans: &[Span]) -> Vec<f32> {
    let bytes = memory::read(spans);
    bytes
        .as_chunks()
        .0
        .iter()
        .map(|bytes| f32::from_ne_bytes(*bytes))
        .collect()
}

fn store(spans: &[Span], values: impl Iterator<Item = f32>) {
    let bytes: Vec<u8> = values.flat_map(f32::to_ne_bytes).collect();
    memory::write(spans, &bytes);
}

impl Kernel {
    /// Returns the kernel with this name.
    pub(crate) fn named(name: &str) -> Cu<Self> {
        match name {
            "selvedge_fill_f32" => Ok(Kernel::Fill),
            "selvedge_scale_f32" => Ok(Kernel::Scale),
            "selvedge_add_f32" => Ok(Kernel::Add),
            "selvedge_spin" => Ok(Kernel::Spin),
            _ => Err(NOT_FOUND),
        }
    }

    fn name(self) -> &'static str {
        match self {
            Kernel::Fill => "selvedge_fill_f32",
            Kernel::Scale => "selvedge_scale_f32",
            Kernel::Add => "selvedge_add_f32",
            Kernel::Spin => "selvedge_spin",
        }
    }

    /// Returns the operation of a launch with these arguments.
    pub(crate) fn launch(self, arguments: &Arguments) -> Cu<Operation> {
        let (inputs, output, run): (Vec<Vec<Span>>, Vec<Span>, Run) = match self {
            Kernel::Fill => {
                let output = arguments.floats(0, 1)?;
                let (value, to): (f32, _) = (arguments.nth(2)?, output.clone());
                let run = move |_: &mut Turn| {
                    let count = to.iter().map(|span| span.len as usize / 4).sum();
                    store(&to, std::iter::repeat_n(value, count));
                };
                (vec![], output, Box::new(run))
            }
            Kernel::Scale => {
                let (input, output) = (arguments.floats(0, 2)?, arguments.floats(1, 2)?);
                let factor: f32 = arguments.nth(3)?;
                let (from, to) = (input.clone(), output.clone());
                let run =
                    move |_: &mut Turn| store(&to, floats(&from).into_iter().map(|value| value * factor));
                (vec![input], output, Box::new(run))
            }
            Kernel::Add => {
                let (a, b) = (arguments.floats(0, 3)?, arguments.floats(1, 3)?);
                let output = arguments.floats(2, 3)?;
                let (left, right, to) = (a.clone(), b.clone(), output.clone());
                let run = move |_: &mut Turn| {
                    store(
                        &to,
                        floats(&left).into_iter().zip(floats(&right)).map(|(a, b)| a + b),
                    );
                };
                (vec![a, b], output, Box::new(run))
            }
            Kernel::Spin => {
                return Ok(hold(arguments.nth(0)?));
            }
        };
        let mut uses: Vec<Use> = inputs
            .iter()
            .flat_map(|input| Use::all(input, Intent::Read))
            .collect();
        uses.extend(Use::all(&output, Intent::Write));
        Ok(Operation {
            name: self.name().into(),
            uses,
            run,
            done: None,
        })
    }
}
