//! Memory that several processes map: one memfd each, found through `/proc/<pid>/fd/<fd>`.
//!
//! A memfd has no name, so nothing is left when its processes are killed. Its content changes under `flock`, which the
//! kernel releases when the owner dies; the last write of a change makes it valid.
#![allow(unsafe_code)] // maps memory, and copies to and from it

use std::fs::{File, OpenOptions};
use std::io;
use std::os::fd::{AsRawFd, FromRawFd};
use std::os::unix::fs::FileExt;
use std::ptr::NonNull;
use std::sync::atomic::{AtomicU32, AtomicU64, Ordering};

use parking_lot::{Mutex, MutexGuard};

/// The first words of every shared memory: the magic number, the nonce and the length.
const MAGIC: u64 = 0x6576_6c65_732d_6d69;
const NONCE_AT: usize = 8;
const LEN_AT: usize = 16;
/// The bytes of the header.
pub(crate) const HEADER_BYTES: usize = 64;

/// A type of which every bit pattern is a value, and that holds no addresses.
///
/// # Safety
/// An implementation promises the above; the type is `repr(C)` or a number.
pub(crate) unsafe trait Plain: Copy + 'static {}

macro_rules! plain {
    ($($type:ty),*) => {
        $(
            // SAFETY: the type is a number.
            unsafe impl Plain for $type {}
        )*
    };
}
plain!(u8, u32, u64);

/// The identity of shared memory: it is sufficient to find the memory from another process.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
#[repr(C)]
pub(crate) struct Address {
    pub(crate) pid: u32,
    pub(crate) fd: u32,
    pub(crate) nonce: u64,
}

// SAFETY: the fields are three numbers, without padding.
unsafe impl Plain for Address {}

impl Address {
    /// Opens the file behind the address if it is still the same file.
    pub(crate) fn open(self) -> io::Result<File> {
        let path = format!("/proc/{}/fd/{}", self.pid, self.fd);
        let file = OpenOptions::new().read(true).write(true).open(path)?;
        let mut words = [0; 16];
        file.read_exact_at(&mut words, 0)?;
        let (magic, nonce) = words.split_at(NONCE_AT);
        if magic == MAGIC.to_ne_bytes() && nonce == self.nonce.to_ne_bytes() {
            return Ok(file);
        }
        Err(io::ErrorKind::NotFound.into())
    }
}

/// A mapped memfd.
#[derive(Debug)]
pub(crate) struct Shared {
    file: File,
    base: NonNull<u8>,
    len: usize,
    nonce: u64,
    /// Excludes the other threads of this process: `flock` belongs to an open file, which all threads share.
    local: Mutex<()>,
}

// SAFETY: the mapping is not bound to a thread; every thread that reads or writes it holds the lock or uses atomics.
unsafe impl Send for Shared {}
// SAFETY: as for `Send`.
unsafe impl Sync for Shared {}

/// A guard that allows changes of the shared content; unlocks when dropped.
pub(crate) struct Guard<'a> {
    file: Option<&'a File>,
    _local: MutexGuard<'a, ()>,
}

impl Drop for Guard<'_> {
    fn drop(&mut self) {
        if let Some(file) = self.file {
            // SAFETY: the system call gets an open descriptor.
            unsafe { libc::flock(file.as_raw_fd(), libc::LOCK_UN) };
        }
    }
}

impl Shared {
    /// Creates memory of `len` bytes, all zero after the header.
    pub(crate) fn create(len: usize) -> io::Result<Self> {
        // SAFETY: the name has a terminating zero, and the call creates a descriptor.
        let fd = unsafe { libc::memfd_create(c"selvedge-simulator".as_ptr(), libc::MFD_CLOEXEC) };
        if fd < 0 {
            return Err(io::Error::last_os_error());
        }
        // SAFETY: the descriptor was just created, and this is its only owner.
        let file = unsafe { File::from_raw_fd(fd) };
        file.set_len(len as u64)?;
        let nonce = fresh_nonce();
        file.write_all_at(&nonce.to_ne_bytes(), NONCE_AT as u64)?;
        file.write_all_at(&(len as u64).to_ne_bytes(), LEN_AT as u64)?;
        file.write_all_at(&MAGIC.to_ne_bytes(), 0)?;
        Self::map(file, len, nonce)
    }

    /// Opens another process's memory.
    pub(crate) fn open(address: Address) -> io::Result<Self> {
        Self::of_file(address.open()?)
    }

    /// Opens the memory behind a received descriptor, which stays with the caller.
    pub(crate) fn of_fd(fd: i32) -> io::Result<Self> {
        let path = format!("/proc/self/fd/{fd}");
        Self::of_file(OpenOptions::new().read(true).write(true).open(path)?)
    }

    fn of_file(file: File) -> io::Result<Self> {
        let mut words = [[0; 8]; 3];
        for (index, word) in words.iter_mut().enumerate() {
            file.read_exact_at(word, index as u64 * 8)?;
        }
        let [magic, nonce, len] = words.map(u64::from_ne_bytes);
        let real = file.metadata()?.len();
        if magic != MAGIC || len != real {
            return Err(io::ErrorKind::InvalidData.into());
        }
        let len = usize::try_from(len).map_err(|_| io::ErrorKind::InvalidData)?;
        Self::map(file, len, nonce)
    }

    fn map(file: File, len: usize, nonce: u64) -> io::Result<Self> {
        let protection = libc::PROT_READ | libc::PROT_WRITE;
        let fd = file.as_raw_fd();
        // SAFETY: the call creates a mapping at an address that the kernel chooses.
        let base = unsafe { libc::mmap(std::ptr::null_mut(), len, protection, libc::MAP_SHARED, fd, 0) };
        if base == libc::MAP_FAILED {
            return Err(io::Error::last_os_error());
        }
        let base = NonNull::new(base.cast()).ok_or(io::ErrorKind::OutOfMemory)?;
        Ok(Shared {
            file,
            base,
            len,
            nonce,
            local: Mutex::new(()),
        })
    }

    pub(crate) fn len(&self) -> usize {
        self.len
    }

    /// Returns the address at which other processes find the memory.
    pub(crate) fn address(&self) -> Address {
        Address {
            pid: std::process::id(),
            fd: self.file.as_raw_fd().unsigned_abs(),
            nonce: self.nonce,
        }
    }

    /// Returns a descriptor for another process. The file is opened again, because a duplicate descriptor would share
    /// the `flock` of this one.
    pub(crate) fn reopen(&self) -> io::Result<File> {
        let path = format!("/proc/self/fd/{}", self.file.as_raw_fd());
        OpenOptions::new().read(true).write(true).open(path)
    }

    /// Excludes other threads and, if `processes`, other processes from changing the memory.
    pub(crate) fn lock(&self, processes: bool) -> Guard<'_> {
        let local = self.local.lock();
        let mut held = false;
        while processes && !held {
            // SAFETY: the system call gets an open descriptor.
            held = unsafe { libc::flock(self.file.as_raw_fd(), libc::LOCK_EX) } == 0
                || io::Error::last_os_error().kind() != io::ErrorKind::Interrupted;
        }
        Guard {
            file: held.then_some(&self.file),
            _local: local,
        }
    }

    /// Returns the address of these bytes if they are inside the memory.
    pub(crate) fn at(&self, offset: usize, len: usize) -> Option<NonNull<u8>> {
        let inside = offset.checked_add(len).is_some_and(|end| end <= self.len);
        // SAFETY: the offset is inside the mapping.
        inside.then(|| unsafe { self.base.add(offset) })
    }

    /// Reads a value at this offset; zeros if the value would not fit.
    pub(crate) fn get<T: Plain + Default>(&self, offset: usize) -> T {
        let Some(at) = self.at(offset, size_of::<T>()) else {
            return T::default();
        };
        // SAFETY: the value is inside the mapping, all bits are a valid `T`, and writers hold the lock.
        unsafe { at.cast::<T>().read_unaligned() }
    }

    /// Writes a value at this offset if it fits.
    pub(crate) fn set<T: Plain>(&self, offset: usize, value: T) {
        if let Some(at) = self.at(offset, size_of::<T>()) {
            // SAFETY: the value is inside the mapping, and the caller holds the lock.
            unsafe { at.cast::<T>().write_unaligned(value) };
        }
    }

    /// Returns the word at this offset, as a futex.
    pub(crate) fn word(&self, offset: usize) -> Option<&AtomicU32> {
        let at = self.at(offset, 4).filter(|_| offset.is_multiple_of(4))?;
        // SAFETY: the word is inside the mapping, aligned because the mapping is, and used only as an atomic.
        Some(unsafe { AtomicU32::from_ptr(at.as_ptr().cast()) })
    }
}

impl Drop for Shared {
    fn drop(&mut self) {
        // SAFETY: this unmaps the whole mapping; no address of it is left, because all of them borrow from `self`.
        unsafe { libc::munmap(self.base.as_ptr().cast(), self.len) };
    }
}

/// Returns a number that no other memory of this machine has had, as far as processes, clocks and counters differ.
fn fresh_nonce() -> u64 {
    static COUNT: AtomicU64 = AtomicU64::new(1);
    let count = COUNT.fetch_add(1, Ordering::Relaxed);
    crate::random::mix(crate::report::now_ns() ^ u64::from(std::process::id()) << 40 ^ count << 8)
}

/// Sleeps while the word holds `expected`, or until the time limit `patience` has passed. May return early.
pub(crate) fn sleep_on(word: &AtomicU32, expected: u32, patience: Option<std::time::Duration>) {
    let timeout = patience.map(|patience| libc::timespec {
        tv_sec: libc::time_t::try_from(patience.as_secs()).unwrap_or(libc::time_t::MAX),
        tv_nsec: patience.subsec_nanos().into(),
    });
    let timeout = timeout.as_ref().map_or(std::ptr::null(), std::ptr::from_ref);
    // SAFETY: `word` is an aligned word that outlives the call; the timeout is null or a value that also outlives it.
    unsafe {
        libc::syscall(
            libc::SYS_futex,
            word.as_ptr(),
            libc::FUTEX_WAIT,
            expected,
            timeout,
        )
    };
}

/// Changes the word, and wakes all threads that sleep on it.
pub(crate) fn ring(word: &AtomicU32) {
    // SYNC rung: Release, so that a woken thread sees the writes before the ring.
    word.fetch_add(1, Ordering::Release);
    // SAFETY: FUTEX_WAKE uses the address only as a key.
    unsafe { libc::syscall(libc::SYS_futex, word.as_ptr(), libc::FUTEX_WAKE, i32::MAX) };
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn memory_is_found_by_its_address_until_it_is_closed() {
        let mine = Shared::create(8192).unwrap();
        mine.set(100, 7_u64);
        let address = mine.address();
        let theirs = Shared::open(address).unwrap();
        assert_eq!(theirs.get::<u64>(100), 7);
        assert_eq!(theirs.get::<u64>(8190), 0, "beyond the end there is nothing");
        drop(mine);
        drop(theirs);
        assert!(Shared::open(address).is_err());
    }

    #[test]
    fn a_lock_keeps_other_open_files_out() {
        let mine = Shared::create(4096).unwrap();
        let theirs = Shared::open(mine.address()).unwrap();
        std::thread::scope(|scope| {
            for shared in [&mine, &theirs] {
                scope.spawn(move || {
                    for _ in 0..1000 {
                        let _guard = shared.lock(true);
                        shared.set(64, shared.get::<u64>(64) + 1);
                    }
                });
            }
        });
        assert_eq!(mine.get::<u64>(64), 2000);
    }
}
