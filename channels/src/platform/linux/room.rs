//! Limits of shared memory, checked before memory is requested. A process can make and map a file of any length; only
//! an access would show, by a signal, that there is no memory behind it. So a length that can never fit is refused
//! here, with the name of the limit that it exceeds.

use std::fs;
use std::path::{Path, PathBuf};

use rustix::process::{Resource, getrlimit};

use crate::error::{MemoryLimit, SegmentError};
use crate::memory::segment::Provider;

/// The page size, which is the unit of `statm`. It is the same on every supported platform.
const PAGE: u64 = 4096;

/// Refuses a length that exceeds the tightest limit.
pub(super) fn check(provider: Provider, len_bytes: usize) -> Result<(), SegmentError> {
    match tightest(provider) {
        Some((limit, has_bytes)) if len_bytes as u64 > has_bytes => Err(SegmentError::NoMemory {
            need_bytes: len_bytes as u64,
            has_bytes,
            limit,
        }),
        _ => Ok(()),
    }
}

/// The tightest limit, with the number of bytes that it leaves.
pub(crate) fn tightest(provider: Provider) -> Option<(MemoryLimit, u64)> {
    let limits = [
        Some((MemoryLimit::Machine, machine())),
        control_group().map(|bytes| (MemoryLimit::ControlGroup, bytes)),
        getrlimit(Resource::Fsize)
            .current
            .map(|bytes| (MemoryLimit::FileSize, bytes)),
        getrlimit(Resource::As)
            .current
            .map(|bytes| (MemoryLimit::AddressSpace, bytes.saturating_sub(mapped()))),
        dev_shm(provider).map(|bytes| (MemoryLimit::DevShm, bytes)),
    ];
    limits.into_iter().flatten().min_by_key(|(_, bytes)| *bytes)
}

fn machine() -> u64 {
    let info = rustix::system::sysinfo();
    let units = (info.totalram as u64).saturating_add(info.totalswap as u64);
    units.saturating_mul(info.mem_unit.into())
}

/// The number of bytes that this process has mapped.
fn mapped() -> u64 {
    let statm = fs::read_to_string("/proc/self/statm").unwrap_or_default();
    let pages: Option<u64> = statm
        .split_whitespace()
        .next()
        .and_then(|pages| pages.parse().ok());
    pages.unwrap_or(0).saturating_mul(PAGE)
}

#[cfg(feature = "named")]
fn dev_shm(provider: Provider) -> Option<u64> {
    let free = || {
        let stat = rustix::fs::statvfs("/dev/shm").ok()?;
        Some(stat.f_bavail.saturating_mul(stat.f_frsize))
    };
    (provider == Provider::Named).then(free).flatten()
}

#[cfg(not(feature = "named"))]
fn dev_shm(_: Provider) -> Option<u64> {
    None
}

/// The tightest limit of the process's control groups, of version 2 or 1; `None` if there is no limit.
fn control_group() -> Option<u64> {
    let groups = fs::read_to_string("/proc/self/cgroup").ok()?;
    of_groups(&groups, Path::new("/sys/fs/cgroup"))
}

fn of_groups(groups: &str, root: &Path) -> Option<u64> {
    let file = |line: &str| -> Option<(PathBuf, PathBuf, &'static str)> {
        let mut fields = line.splitn(3, ':').skip(1);
        let (controllers, path) = (fields.next()?, fields.next()?.trim_start_matches('/'));
        if controllers.is_empty() {
            return Some((root.to_owned(), root.join(path), "memory.max"));
        }
        let memory = controllers.split(',').any(|controller| controller == "memory");
        let root = root.join("memory");
        memory.then(|| (root.clone(), root.join(path), "memory.limit_in_bytes"))
    };
    let tightest = |(root, group, name): (PathBuf, PathBuf, &str)| {
        let groups = group.ancestors().take_while(|group| group.starts_with(&root));
        // "max" or a missing file means no limit; in version 1, a number larger than any memory does.
        let limit = |group: &Path| {
            fs::read_to_string(group.join(name))
                .ok()?
                .trim()
                .parse::<u64>()
                .ok()
        };
        groups.filter_map(limit).min()
    };
    groups.lines().filter_map(file).filter_map(tightest).min()
}

#[cfg(test)]
#[cfg(not(miri))] // Miri has neither control groups nor limits
mod tests {
    use super::*;

    #[test]
    fn the_tightest_control_group_counts() {
        let root = std::env::temp_dir().join(format!("selvedge-groups-{}", std::process::id()));
        let inner = root.join("a/b");
        fs::create_dir_all(&inner).unwrap();
        fs::create_dir_all(root.join("memory/job")).unwrap();
        fs::write(inner.join("memory.max"), "max\n").unwrap();
        fs::write(root.join("a/memory.max"), "4096\n").unwrap();
        fs::write(root.join("memory/job/memory.limit_in_bytes"), "8192\n").unwrap();
        assert_eq!(of_groups("0::/a/b\n", &root), Some(4096));
        assert_eq!(of_groups("5:cpu,memory:/job\n3:cpuset:/x\n", &root), Some(8192));
        assert_eq!(of_groups("0::/nowhere\n", &root), None);
        assert_eq!(of_groups("nonsense", &root), None);
        fs::remove_dir_all(root).unwrap();
    }

    #[test]
    fn chan_09_more_than_there_can_be_is_refused_by_name() {
        let (limit, has_bytes) = tightest(Provider::Memfd).unwrap();
        assert!(has_bytes > 1 << 20, "{limit}");
        let refused = check(Provider::Memfd, usize::MAX).unwrap_err();
        assert!(refused.to_string().contains(&limit.to_string()), "{refused}");
        check(Provider::Memfd, 4096).unwrap();
    }
}
