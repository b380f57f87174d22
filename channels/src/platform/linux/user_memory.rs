//! Memory that all processes of one user on a host share, and that has no name: a System V segment that is removed as soon as it is
//! attached. The kernel keeps a removed segment until the last process that has it attached has ended, however that ended, and lets others
//! attach it until then. A process that is killed after it has made a segment and before it has removed it, some microseconds later, leaves
//! it to the next one that starts, which removes it.
//!
//! - `USER-1`: at most one segment is chosen at a time. Whoever chooses one has looked for a chosen one while its own segment had the key,
//!   or was chosen already; no other segment gets the key before that one is removed, and it is removed after it was chosen.
//! - `USER-2`: the memory stays attached as long as the process lives.
//! - `USER-3`: a segment is used only if this user has made it, owns it and alone may access it. Another user can make one that has
//!   the key, and can give one away and go on to access it as its maker.
#![allow(unsafe_code)] // attaches memory, with four system calls through libc

use std::ptr::NonNull;
use std::sync::atomic::{AtomicU32, Ordering};

use crate::wait::spin_permit::CorePermit;

/// The key under which a segment is found until it is chosen: the first bytes of "selvedge", and the version of the layout.
const KEY: libc::key_t = 0x7365_6c01;
/// The cores that have a permit.
const CORES: usize = 1024;
/// The flag of a removed segment, among its rights.
const REMOVED: u32 = 0o1000;
/// The rights of a new segment: this user, and nobody else. One that was there keeps its own (USER-3).
const RIGHTS: u32 = 0o600;

#[repr(C, align(64))]
struct UserMemory {
    /// The key, which names the layout, if this is the segment of all processes.
    chosen: AtomicU32,
    permits: [CorePermit; CORES],
}

/// The permits of the cores, in the memory of this user. `None` if the system refuses. Without `/proc` each process has a memory of its own.
pub(crate) fn core_permits() -> Option<&'static [CorePermit]> {
    if cfg!(miri) {
        // Miri has no such memory, and no cores.
        return None;
    }
    let memory = chosen().or_else(choose)?;
    // SAFETY: USER-2; the segment is as long as the type, begins at a page, and holds atomics only, for which all bytes are valid. Every
    // process accesses it by these atomics.
    let memory: &'static UserMemory = unsafe { memory.as_ref() };
    Some(&memory.permits)
}

/// Attaches the chosen segment.
fn chosen() -> Option<NonNull<UserMemory>> {
    let table = std::fs::read_to_string("/proc/sysvipc/shm").ok()?;
    let removed = table.lines().filter_map(removed_segment);
    removed.filter_map(attached).find(|memory| {
        // SAFETY: it is attached, and as long as the type. Acquire: whoever chose it has looked for others (USER-1).
        let is_chosen = unsafe { memory.as_ref() }.chosen.load(Ordering::Acquire) == KEY.cast_unsigned();
        if !is_chosen {
            detach(*memory);
        }
        is_chosen
    })
}

/// The id of the removed segment in a line of the kernel's table, if it may be the one.
fn removed_segment(line: &str) -> Option<libc::c_int> {
    // key, id, rights, length, two processes, the number of those that have it attached, user, group, maker
    let mut fields = line.split_ascii_whitespace().skip(1);
    let id = fields.next()?.parse().ok()?;
    let rights = u32::from_str_radix(fields.next()?, 8).ok()?;
    let len_bytes: usize = fields.next()?.parse().ok()?;
    let user: u32 = fields.nth(3)?.parse().ok()?;
    let maker: u32 = fields.nth(1)?.parse().ok()?;
    let own = rustix::process::geteuid().as_raw();
    (user == own && maker == own && rights == REMOVED | RIGHTS && len_bytes == size_of::<UserMemory>())
        .then_some(id)
}

/// Makes a segment, or finds one that is about to be chosen, and chooses it unless there is a chosen one (USER-1).
fn choose() -> Option<NonNull<UserMemory>> {
    // SAFETY: the call takes no pointers.
    let id = unsafe {
        libc::shmget(
            KEY,
            size_of::<UserMemory>(),
            libc::IPC_CREAT | RIGHTS as libc::c_int,
        )
    };
    if id < 0 {
        return None;
    }
    let own = attached(id);
    let other = chosen();
    match (own, other) {
        (Some(own), Some(_)) => detach(own),
        // SAFETY: as in `chosen`. Release: it is chosen after others were looked for, and before it is removed.
        (Some(own), None) => unsafe { own.as_ref() }
            .chosen
            .store(KEY.cast_unsigned(), Ordering::Release),
        (None, _) => {}
    }
    // SAFETY: this command reads nothing from its pointer.
    unsafe { libc::shmctl(id, libc::IPC_RMID, std::ptr::null_mut()) };
    other.or(own)
}

/// Attaches a segment, if it is this user's alone (USER-3) and has the length of the type.
fn attached(id: libc::c_int) -> Option<NonNull<UserMemory>> {
    // SAFETY: the kernel chooses the address, so no other memory is replaced.
    let base = unsafe { libc::shmat(id, std::ptr::null(), 0) };
    // The call returns -1 if the system refuses.
    let memory =
        NonNull::new(base.cast()).filter(|base: &NonNull<UserMemory>| base.addr().get() != usize::MAX)?;
    // No segment can take the place of one that is attached, so this is about the same one.
    if is_own(id) {
        return Some(memory);
    }
    detach(memory);
    None
}

fn is_own(id: libc::c_int) -> bool {
    let mut told = std::mem::MaybeUninit::<libc::shmid_ds>::zeroed();
    // SAFETY: the call writes one description to a place for one.
    let refused = unsafe { libc::shmctl(id, libc::IPC_STAT, told.as_mut_ptr()) };
    // SAFETY: numbers, for which zeroes are valid, also if nothing was written.
    let told = unsafe { told.assume_init() };
    let (rights, user) = (told.shm_perm, rustix::process::geteuid().as_raw());
    let is_own = rights.uid == user && rights.cuid == user && u32::from(rights.mode) & 0o777 == RIGHTS;
    refused == 0 && is_own && told.shm_segsz == size_of::<UserMemory>()
}

fn detach(memory: NonNull<UserMemory>) {
    // SAFETY: it was attached here, and no reference to it is left.
    unsafe { libc::shmdt(memory.as_ptr().cast()) };
}

#[cfg(all(test, not(miri)))]
mod tests {
    use super::*;

    #[test]
    fn all_who_look_at_once_find_one_memory_and_no_name_is_left() {
        // Else another test may look at the same time, and have a segment of its own attached until it has found the chosen one.
        crate::wait::spin_permit::prepare();
        std::thread::scope(|scope| {
            for _ in 0..16 {
                scope.spawn(|| core_permits().unwrap());
            }
        });
        // Each has attached it anew. The number of a segment stands where a file has its inode.
        let maps = std::fs::read_to_string("/proc/self/maps").unwrap();
        let attached = maps.lines().filter(|line| line.contains("/SYSV"));
        let numbers: Vec<&str> = attached
            .filter_map(|line| line.split_ascii_whitespace().nth(4))
            .collect();
        assert!(
            numbers.len() >= 16 && numbers.iter().all(|it| *it == numbers[0]),
            "{numbers:?}"
        );
        // SAFETY: the call takes no pointers.
        let with_key = unsafe { libc::shmget(KEY, 0, 0) };
        assert_eq!(with_key, -1, "the key is free again");
    }

    #[test]
    fn lines_of_the_table_are_told_apart() {
        let user = rustix::process::geteuid().as_raw();
        let line = |rights: &str, len_bytes: usize, user: u32| {
            removed_segment(&format!(
                "0 7 {rights} {len_bytes} 11 12 1 {user} 0 {user} 0 0 0 0 0 0"
            ))
        };
        let len_bytes = size_of::<UserMemory>();
        assert_eq!(line("1600", len_bytes, user), Some(7));
        assert_eq!(line("600", len_bytes, user), None, "not removed");
        assert_eq!(line("1666", len_bytes, user), None, "others may write it");
        assert_eq!(line("1600", len_bytes + 1, user), None);
        assert_eq!(line("1600", len_bytes, user + 1), None);
        let given_away = format!("0 7 1600 {len_bytes} 11 12 1 {user} 0 {} 0 0 0 0 0 0", user + 1);
        assert_eq!(removed_segment(&given_away), None, "its maker may write it");
        assert_eq!(removed_segment("key shmid perms"), None);
    }

    #[test]
    fn user_3_memory_that_others_may_write_is_not_used() {
        for (rights, is_used) in [(RIGHTS, true), (0o666, false), (0o620, false)] {
            // SAFETY: the call takes no pointers.
            let id =
                unsafe { libc::shmget(libc::IPC_PRIVATE, size_of::<UserMemory>(), rights as libc::c_int) };
            assert!(id >= 0);
            let memory = attached(id);
            // SAFETY: this command reads nothing from its pointer.
            unsafe { libc::shmctl(id, libc::IPC_RMID, std::ptr::null_mut()) };
            assert_eq!(memory.is_some(), is_used, "{rights:o}");
            memory.into_iter().for_each(detach);
        }
    }
}
