//! Counts the results of the digits graph, shows the progress, and summarises.

use std::fmt;
use std::time::Instant;

use indicatif::ProgressBar;

/// The lowest accuracy with correct weights.
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
    /// Starts the clock with nothing counted. The progress bar is drawn on standard error if that is a terminal.
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

    /// Counts the classes found by one execution; `right` of them are correct.
    pub fn add(&mut self, classes: &[u8], right: usize) {
        self.right += right;
        self.digits += classes.len();
        self.executions += 1;
        for class in classes {
            self.checksum = (self.checksum ^ u64::from(*class)).wrapping_mul(0x0100_0000_01b3);
        }
        self.bar.inc(1);
    }

    /// Stops the clock and removes the progress bar.
    ///
    /// # Errors
    /// [`Inaccurate`] below [`ACCURACY_MIN`], and if there were no digits.
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

/// The error of an accuracy below [`ACCURACY_MIN`].
#[derive(Clone, Copy, Debug, PartialEq, thiserror::Error)]
#[error("accuracy {accuracy:.4} is below {ACCURACY_MIN}: are these weights for these digits?")]
pub struct Inaccurate {
    /// The fraction of digits that were recognised.
    pub accuracy: f64,
}

/// The summary of a run.
#[derive(Clone, Copy, Debug)]
pub struct Summary {
    /// The fraction of digits that were recognised.
    pub accuracy: f64,
    /// Executions of the graph.
    pub executions: usize,
    /// Executions per second.
    pub per_second: f64,
    /// The checksum of the predictions in their order: equal for equal predictions.
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
