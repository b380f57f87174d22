//! The limits of a channel's memory.
#![cfg(not(loom))]
#![allow(
    missing_docs,
    clippy::unwrap_used,
    clippy::expect_used,
    clippy::panic,
    clippy::indexing_slicing
)] // a test may panic

use selvedge_channels::{
    ChannelError, ChannelMemory, ChannelOptions, Doorbell, MemoryLimit, Provider, Segment, SegmentId, ring,
};

#[test]
#[cfg_attr(miri, ignore = "Miri ends where a system would refuse memory")]
fn a_ring_that_no_memory_holds_is_refused_and_nobody_ends() {
    for slots in [1 << 44, usize::MAX] {
        let refused = ring::<[u8; 4096]>(slots, Doorbell::heap(), vec![Doorbell::heap()]);
        assert!(matches!(refused, Err(ChannelError::Segment(_))));
    }
}

#[test]
fn more_readers_than_any_memory_holds_are_refused() {
    let refused = ChannelOptions::new().readers(usize::MAX).threads::<u64>();
    assert!(matches!(refused, Err(ChannelError::Segment(_))));
}

/// The test runs itself again in a process with a limit set; that process prints its results.
#[test]
#[cfg_attr(miri, ignore = "Miri starts no processes")]
fn chan_09_what_a_limit_does_not_allow_is_refused_by_its_name() {
    const CHILD: &str = "SELVEDGE_TEST_LIMIT";
    let large = || {
        ChannelOptions::new()
            .slots(4)
            .buffer_bytes(64 << 20)
            .provider(Provider::Memfd)
    };
    if std::env::var_os(CHILD).is_some() {
        let refused = large().shared::<u64>().expect_err("a limit");
        println!("refused: {refused}");
        println!("fits: {}", large().memory_plan().unwrap().fits());
        let small = ChannelOptions::new().max_payload_bytes(1 << 20);
        println!("small fits: {}", small.memory_plan().unwrap().fits());
        assert!(small.shared::<u64>().is_ok());
        return;
    }
    for (limit, says) in [("-f 100000", "RLIMIT_FSIZE"), ("-v 300000", "RLIMIT_AS")] {
        let test = std::env::current_exe().unwrap();
        let line = format!(
            "ulimit {limit} && exec {} --exact --nocapture chan_09_what_a_limit_does_not_allow_is_refused_by_its_name",
            test.display()
        );
        let done = std::process::Command::new("sh")
            .args(["-c", &line])
            .env(CHILD, "1")
            .output()
            .unwrap();
        let text = String::from_utf8_lossy(&done.stdout);
        assert!(
            done.status.success(),
            "{limit}: {text}{}",
            String::from_utf8_lossy(&done.stderr)
        );
        let need = (4 << 26) + 64;
        assert!(
            text.contains(says) && text.contains(&(need / 1000).to_string()[..3]),
            "{limit}: {text}"
        );
        assert!(
            text.contains("\nfits: false") && text.contains("small fits: true"),
            "{limit}: {text}"
        );
    }
}

#[test]
#[cfg_attr(miri, ignore = "Miri has no shared memory")]
fn chan_16_the_memory_plan_is_what_is_taken() {
    for readers in [1, 4] {
        let options = ChannelOptions::new()
            .slots(3)
            .readers(readers)
            .buffer_bytes(5000)
            .max_payload_bytes(1 << 20);
        let plan = options.memory_plan().unwrap();
        let channel = options.shared::<u64>().unwrap();
        let text = channel.descriptor().to_string();
        assert_eq!(text.rsplit(':').next().unwrap(), plan.bytes.to_string());
        assert_eq!(plan.grown_bytes, plan.bytes + (3 << 20));
        assert_eq!(plan.outgrown_bytes, 6 << 20);
        assert!(plan.fits() && plan.limit.is_some());
        let has = |bytes| ChannelMemory {
            limit: Some((MemoryLimit::Machine, bytes)),
            ..plan
        };
        assert!(has(plan.bytes + (9 << 20)).fits() && !has(plan.bytes + (9 << 20) - 1).fits());
        let twice = options.clone().max_payload_bytes(10_000).memory_plan().unwrap();
        assert_eq!(twice.outgrown_bytes, 0, "the first growth is the last");
        let more = options.max_payload_bytes(10_001).memory_plan().unwrap();
        assert_eq!(more.outgrown_bytes, 6 * 10_001);
    }
    assert!(ChannelOptions::new().slots(0).memory_plan().is_err());
    let refused = |options: ChannelOptions| options.shared::<u64>().unwrap_err().to_string();
    let endless = refused(ChannelOptions::new().buffer_bytes(u64::MAX));
    assert!(endless.contains("what can be addressed"), "{endless}");
    let private = refused(ChannelOptions::new().provider(Provider::Heap));
    assert!(private.contains("choose another provider"), "{private}");
}

#[test]
#[cfg_attr(miri, ignore = "Miri has no shared memory")]
fn what_the_system_refuses_is_told_with_the_call_and_its_object() {
    const TEST: &str = "what_the_system_refuses_is_told_with_the_call_and_its_object";
    const CHILD: &str = "SELVEDGE_TEST_NO_DESCRIPTORS";
    if std::env::var_os(CHILD).is_some() {
        // Opens files until no descriptor is left.
        let taken: Vec<_> = std::iter::from_fn(|| std::fs::File::open("/dev/null").ok()).collect();
        let refused = ChannelOptions::new().shared::<u64>().map(drop);
        drop(taken);
        println!("refused: {}", refused.expect_err("a limit"));
        return;
    }
    let line = "ulimit -n 64 && exec \"$0\" --exact --nocapture \"$1\"";
    let done = std::process::Command::new("sh")
        .args(["-c", line])
        .args([std::env::current_exe().unwrap().as_os_str(), TEST.as_ref()])
        .env(CHILD, "1")
        .output()
        .unwrap();
    let text = String::from_utf8_lossy(&done.stdout);
    assert!(
        text.contains("refused: memfd_create, for ") && text.contains("ulimit -n"),
        "{text}{}",
        String::from_utf8_lossy(&done.stderr)
    );
    let nobody = SegmentId {
        pid: u32::MAX,
        fd: 7,
        nonce: 1,
        len_bytes: 4096,
    };
    let gone = Segment::open(&nobody).err().unwrap().to_string();
    assert!(
        gone.contains("opening /proc/4294967295/fd/7, for 4096 bytes: No such file"),
        "{gone}"
    );
}
