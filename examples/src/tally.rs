//! Counts what comes out of the digits graph, shows how far it is, and sums it up.

use std::fmt;
use std::time::Instant;

use indicatif::ProgressBar;

/// The accuracy below which something is wrong with the weights.
pub const ACCURACY_MIN: f64 = 0.92;

/// The results so far.
#[derive(Debug)]
pub struct Tally {
    bar: ProgressBar,
    started: Instant,
    right: usize,
    digits: usize,
    executions: usize,
    checksum: u64,
}

impl Tally {
    /// Nothing counted; the clock runs. The progress bar is drawn on standard error where that is a terminal.
    pub fn start(executions: usize, progress: bool) -> Tally {
        Tally {
            bar: if progress {
                ProgressBar::new(executions as u64)
            } else {
                ProgressBar::hidden()
            },
            started: Instant::now(),
            right: 0,
            digits: 0,
            executions: 0,
            // FNV-1a (Fowler, Noll, Vo): its offset here, its prime below.
            checksum: 0xcbf2_9ce4_8422_2325,
        }
    }

    /// Counts the classes found by one execution; `right` of them are.
    pub fn add(&mut self, classes: &[u8], right: usize) {
        self.right += right;
        self.digits += classes.len();
        self.executions += 1;
        for class in classes {
            self.checksum = (self.checksum ^ u64::from(*class)).wrapping_mul(0x0100_0000_01b3);
        }
        self.bar.inc(1);
    }

    /// Stops the clock and takes the progress bar away.
    ///
    /// # Errors
    /// [`Inaccurate`] below [`ACCURACY_MIN`], and when there was nothing to recognise.
    pub fn finish(self) -> Result<Summary, Inaccurate> {
        let seconds = self.started.elapsed().as_secs_f64();
        self.bar.finish_and_clear();
        let accuracy = self.right as f64 / self.digits.max(1) as f64;
        if accuracy < ACCURACY_MIN {
            return Err(Inaccurate { accuracy });
        }
        Ok(Summary {
            accuracy,
            executions: self.executions,
            per_second: self.executions as f64 / seconds,
            checksum: self.checksum,
        })
    }
}

/// Too many digits were taken for others.
#[derive(Clone, Copy, Debug, PartialEq, thiserror::Error)]
#[error("accuracy {accuracy:.4} is below {ACCURACY_MIN}: are these weights for these digits?")]
pub struct Inaccurate {
    /// The share of digits recognised.
    pub accuracy: f64,
}

/// What came of a run.
#[derive(Clone, Copy, Debug)]
pub struct Summary {
    /// The share of digits recognised.
    pub accuracy: f64,
    /// Executions of the graph.
    pub executions: usize,
    /// Executions in a second.
    pub per_second: f64,
    /// Of the predictions in their order: equal for equal predictions.
    pub checksum: u64,
}

impl fmt::Display for Summary {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        writeln!(f, "accuracy     {:.4}", self.accuracy)?;
        writeln!(f, "predictions  {:016x}", self.checksum)?;
        write!(
            f,
            "executions   {}, {:.0} a second",
            self.executions, self.per_second
        )
    }
}
