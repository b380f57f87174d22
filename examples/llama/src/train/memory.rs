//! Keeps freed memory in the program: the tensors of a step have the sizes of the last step's tensors.
//!
//! By default the allocator of glibc returns large blocks to the system and requests them again, which took as long as
//! the arithmetic here. It reads the limits for this from the environment, before `main`; so the program starts again.

use std::env;
use std::os::unix::process::CommandExt;
use std::process::Command;

/// The limit up to which blocks come from the heap.
const THRESHOLD: (&str, &str) = ("MALLOC_MMAP_THRESHOLD_", "4294967296");
/// The unused memory that may stay at the heap's end.
const TRIM: (&str, &str) = ("MALLOC_TRIM_THRESHOLD_", "8589934592");
/// One arena for all threads, so that memory freed by the threads of one step serves those of the next.
const ARENAS: (&str, &str) = ("MALLOC_ARENA_MAX", "1");

/// Keeps freed memory, unless the environment already sets the limit: call it first in `main`. To set the limits it
/// replaces the running program by a new run of the same program, and does not return. If this fails, the program
/// continues, only slower; other allocators than glibc's ignore the limits.
pub fn keep_freed_memory() {
    if env::var_os(TRIM.0).is_some() {
        return;
    }
    let Ok(program) = env::current_exe() else { return };
    let mut again = Command::new(program);
    again.args(env::args_os().skip(1)).envs([THRESHOLD, TRIM, ARENAS]);
    let error = again.exec();
    eprintln!("warning: freed memory goes back to the system: {error}");
}
