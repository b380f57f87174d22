//! Candle on one thread: its pool would compete with the lanes for the cores, and these matrices are too small for it.
//!
//! Candle reads `RAYON_NUM_THREADS` at every product of matrices, and `/proc/cpuinfo` where it is not set, which takes
//! longer than the product. A variable of the own process can only be set where no other thread may read it, which
//! nobody can promise; so the program starts again, with the variable.

use std::env;
use std::os::unix::process::CommandExt;
use std::process::Command;

use rayon::ThreadPoolBuilder;

const THREADS: &str = "RAYON_NUM_THREADS";

/// Keeps candle, here and in all worker processes, to one thread, unless the environment already says how many: call
/// it first in `main`. Replaces the running program by itself (`exec`: same process, same arguments), so that it does
/// not return when it has something to do. Where that fails, the program goes on, only slower.
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

/// Makes this thread a pool of one, where the environment says that candle has one thread: call it where an actor is made. Candle's
/// norms and softmax go through rayon, which would hand each of them to the one thread of its own pool and wait for it: two
/// changes of threads for microseconds of work.
///
/// Rayon never frees what it keeps of such a thread, some hundred bytes.
pub fn compute_on_this_thread() {
    if env::var_os(THREADS).is_some_and(|threads| threads == "1") {
        // An error says that this thread is in a pool already.
        let _ = ThreadPoolBuilder::new()
            .num_threads(1)
            .use_current_thread()
            .build();
    }
}
