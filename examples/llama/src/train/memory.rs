//! Memory that was freed stays with the program: the tensors of a step have the sizes of the last one's.
//!
//! By default the allocator of glibc hands large blocks back to the system and asks for them again, which here took as
//! long as the arithmetic. What it should keep it reads from the environment, before `main`; so the program starts again.

use std::env;
use std::os::unix::process::CommandExt;
use std::process::Command;

/// Blocks up to this size come from the heap.
const THRESHOLD: (&str, &str) = ("MALLOC_MMAP_THRESHOLD_", "4294967296");
/// So much may lie unused at its end.
const TRIM: (&str, &str) = ("MALLOC_TRIM_THRESHOLD_", "8589934592");
/// Threads of a step come and go; what they free is for the next.
const ARENAS: (&str, &str) = ("MALLOC_ARENA_MAX", "1");

/// Keeps freed memory, unless the environment already says how much: call it first in `main`. Replaces the running
/// program by itself, so that it does not return when it has something to do. Where that fails, the program goes on,
/// only slower; other allocators than glibc's take no notice.
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
