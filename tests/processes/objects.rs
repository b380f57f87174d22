//! The object store as the kernel sees it: one memory in all processes, which nobody can write to by way of a view, and of which
//! nothing is left.

use std::os::unix::process::ExitStatusExt;
use std::process::{Command, Stdio};
use std::sync::{Arc, Mutex};

use crate::alone::alone;
use crate::census::{Census, settled, wait_until};
use selvedge::prelude::*;
use selvedge::{DType, StoreOptions};

const MIB: usize = 1 << 20;
const PAGE: usize = 4096;

/// The values that a process has fetched and keeps.
static KEPT: Mutex<Vec<Arc<Tensor>>> = Mutex::new(Vec::new());

fn tensor(bytes: usize) -> Tensor {
    Tensor::filled(DType::U8, [bytes], |bytes| {
        let pages = bytes.chunks_mut(PAGE).enumerate();
        pages.for_each(|(number, page)| page.fill((number % 251) as u8));
    })
    .unwrap()
}

/// One mapping in `/proc/self/smaps`: its range, its rights, its offset, its inode, and what of it is in memory and charged.
#[derive(Debug)]
struct Mapping {
    begin: usize,
    end: usize,
    rights: String,
    offset: usize,
    inode: u64,
    pss_kib: u64,
}

/// The mappings of memory that processes share, in this process.
fn mappings() -> Vec<Mapping> {
    let smaps = std::fs::read_to_string("/proc/self/smaps").unwrap();
    let mut found: Vec<Mapping> = Vec::new();
    let mut is_store = false;
    for line in smaps.lines() {
        let fields: Vec<&str> = line.split_whitespace().collect();
        if let [range, rights, offset, _, inode, ..] = fields[..]
            && let Some((begin, end)) = range.split_once('-')
        {
            let number = |text| usize::from_str_radix(text, 16).unwrap();
            is_store = line.contains("memfd:selvedge");
            if is_store {
                found.push(Mapping {
                    begin: number(begin),
                    end: number(end),
                    rights: rights.to_owned(),
                    offset: number(offset),
                    inode: inode.parse().unwrap(),
                    pss_kib: 0,
                });
            }
        } else if let ["Pss:", kib, ..] = fields[..]
            && is_store
        {
            found.last_mut().unwrap().pss_kib = kib.parse().unwrap();
        }
    }
    found
}

/// Fetches, reads every page, and keeps the value. Returns the inode of the memory, the offset of the bytes in it, and whether they
/// are right.
#[remote]
fn keeps(value: Ref<Tensor>) -> Result<(u64, u64, bool)> {
    let fetched = value.fetch()?;
    let bytes = fetched.bytes();
    let mut pages = bytes.chunks(PAGE).enumerate();
    let is_right = pages.all(|(number, page)| page[number % PAGE % page.len()] == (number % 251) as u8);
    let address = bytes.as_ptr().addr();
    let mappings = mappings();
    let mapping = mappings.iter().find(|it| (it.begin..it.end).contains(&address));
    let mapping = mapping.ok_or("the value does not lie in the store")?;
    let offset = mapping.offset + address - mapping.begin;
    KEPT.lock().unwrap().push(fetched);
    Ok((mapping.inode, offset as u64, is_right && mapping.rights == "r--s"))
}

/// The memory that this process is charged for its mappings of a file.
#[remote]
fn charged_kib(inode: u64) -> u64 {
    let mappings = mappings().into_iter().filter(|it| it.inode == inode);
    mappings.map(|it| it.pss_kib).sum()
}

#[remote]
fn writes_through_a_view() -> u64 {
    let kept = KEPT.lock().unwrap();
    let place = kept[0].bytes().as_ptr().cast_mut();
    #[allow(unsafe_code)] // the test shows that the kernel refuses it
    // SAFETY: none. The memory is mapped without the right to write, which is what the test shows.
    unsafe {
        place.write_volatile(99);
    }
    0
}

#[test]
fn rstore_09_eight_processes_share_a_tensor_of_256_mib_that_none_can_write() -> Result<()> {
    alone(|| {
        const BYTES: usize = 256 * MIB;
        let runtime = Runtime::new().store(StoreOptions::new().bytes(1 << 30));
        let put = runtime.put(tensor(BYTES))?;
        let names: Vec<String> = (0..8).map(|number| format!("reader{number}")).collect();
        let workers: Result<Vec<_>, _> = names.iter().map(|name| runtime.worker(name.as_str())).collect();
        let workers = workers?;
        let mut places = Vec::new();
        for worker in &workers {
            let (inode, offset, is_right) = runtime.call(keeps::remote(&put).on(worker)).wait()?;
            assert!(is_right);
            places.push((inode, offset));
        }
        places.dedup();
        assert_eq!(places.len(), 1, "one file, one place in it: {places:?}");
        let mut charged = charged_kib(places[0].0);
        for worker in &workers {
            charged += runtime.call(charged_kib::remote(places[0].0).on(worker)).wait()?;
        }
        let one = BYTES as u64 / 1024;
        assert!(charged <= one + one / 10, "{charged} KiB for {one}");
        assert!(charged >= one - one / 10, "{charged} KiB for {one}");
        let victim = &workers[3];
        let died = runtime
            .call(writes_through_a_view::remote().on(victim))
            .wait()
            .unwrap_err();
        assert!(died.to_string().contains("reader3"), "{died}");
        for worker in workers.iter().filter(|worker| worker.name() != "reader3") {
            assert!(runtime.call(keeps::remote(&put).on(worker)).wait()?.2);
        }
        assert!(*put.fetch()? == tensor(BYTES));
        Ok(())
    })
}

#[remote]
fn reads(value: Ref<Tensor>) -> Result<u64> {
    Ok(value.fetch()?.bytes().len() as u64)
}

#[test]
fn a_store_is_made_by_the_first_large_value_and_leaves_nothing() -> Result<()> {
    alone(|| {
        let work = |bytes: usize| -> Result<Census> {
            let runtime = Runtime::new().store(StoreOptions::new().bytes(8 * MIB as u64));
            let worker = runtime.worker("reader")?;
            let put: Result<Vec<_>, _> = (0..20).map(|_| runtime.put(tensor(bytes))).collect();
            for put in put? {
                assert_eq!(put.fetch()?.bytes().len(), bytes);
                let there = runtime.call(reads::remote(&put).on(&worker)).wait()?;
                assert_eq!(there, bytes as u64);
            }
            Ok(settled(Census::beside_functions))
        };
        work(100)?;
        let before = settled(Census::take);
        let (small, large) = (work(100)?, work(MIB)?);
        assert_eq!(
            large.segments,
            small.segments + 2,
            "the memory, mapped to read and to write"
        );
        assert_eq!(large.threads, small.threads + 1, "the thread for the file");
        assert_eq!(
            large.descriptors,
            small.descriptors + 2,
            "the memory and the file"
        );
        let after = wait_until(&before, Census::take);
        assert_eq!(after, before);
        Ok(())
    })
}

/// Set in the process that puts objects until it is killed.
const ENV_PUTS: &str = "SELVEDGE_TEST_PUTS_UNTIL_KILLED";

#[test]
fn kill_9_of_a_driver_with_spilled_objects_leaves_no_file_and_no_worker() -> Result<()> {
    if std::env::var_os(ENV_PUTS).is_some() {
        let folder = std::env::var(ENV_PUTS)?;
        let runtime = Runtime::new().store(StoreOptions::new().bytes(4 * MIB as u64).spill(folder));
        let worker = runtime.worker("reader")?;
        let put: Result<Vec<_>, _> = (0..16).map(|_| runtime.put(tensor(MIB))).collect();
        let put = put?;
        runtime.call(keeps::remote(&put[15]).on(&worker)).wait()?;
        println!("ready {}", worker.pid().unwrap_or(0));
        loop {
            std::thread::park();
        }
    }
    let folder = std::env::temp_dir().join(format!("selvedge-spill-{}", std::process::id()));
    std::fs::create_dir(&folder)?;
    let name = "objects::kill_9_of_a_driver_with_spilled_objects_leaves_no_file_and_no_worker";
    let mut driver = Command::new(std::env::current_exe()?)
        .args(["--exact", name, "--nocapture"])
        .env(ENV_PUTS, &folder)
        .stdout(Stdio::piped())
        .spawn()?;
    let out = std::io::BufReader::new(driver.stdout.take().ok_or("no output")?);
    let ready = std::io::BufRead::lines(out)
        .map_while(Result::ok)
        .find_map(|line| {
            let (_, pid) = line.split_once("ready ")?;
            pid.trim().parse::<u32>().ok()
        });
    let worker = ready.ok_or("the driver has not put its objects")?;
    assert!(std::fs::read_dir(&folder)?.next().is_none(), "a file with a name");
    driver.kill()?;
    assert_eq!(driver.wait()?.signal(), Some(9));
    let gone = wait_until(&false, || crate::census::is_alive(worker));
    assert!(!gone, "the worker lives on");
    std::fs::remove_dir(&folder)?;
    Ok(())
}
