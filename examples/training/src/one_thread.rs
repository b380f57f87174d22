//! Keeps candle to one thread: its pool would compete with the lanes for the cores, and these matrices are too small
//! for it.
//!
//! Candle reads `RAYON_NUM_THREADS` at every product of matrices, and `/proc/cpuinfo` if the variable is not set, which
//! takes longer than the product. A process may set its own variables only while no other thread reads them, which
//! cannot be guaranteed here; so the program starts again, with the variable.

use std::env;
use std::os::unix::process::CommandExt;
use std::process::Command;

use rayon::ThreadPoolBuilder;

const THREADS: &str = "RAYON_NUM_THREADS";

/// Keeps candle, here and in all worker processes, to one thread, unless the environment already sets the number: call
/// it first in `main`. To set the number it replaces the running program by a new run of the same program (`exec`: same
/// process, same arguments), and does not return. If this fails, the program continues, only slower.
pub fn keep_candle_to_one_thread() {
    if env::var_os(THREADS).is_some_and(|threads| !threads.is_empty()) {
        return;
    }
    let Ok(program) = env::current_exe() else { return };
    let mut again = Command::new(program);
    again.args(env::args_os().skip(1)).env(THREADS, "1");
    let error = again.exec();
    eprintln!("warning: candle keeps its threads: {error}");
}

/// Makes this thread a pool of one thread, if the environment limits candle to one thread: call it where an actor is
/// made. Candle's norms and softmax go through rayon, which would pass each of them to the one thread of its own pool
/// and wait for it: two thread switches for microseconds of work.
///
/// Rayon never frees the state that it keeps for such a thread, some hundred bytes.
pub fn compute_on_this_thread() {
    if env::var_os(THREADS).is_some_and(|threads| threads == "1") {
        // The error is ignored: it means that this thread is already in a pool.
        let _ = ThreadPoolBuilder::new()
            .num_threads(1)
            .use_current_thread()
            .build();
    }
}
