//! Ranks over NCCL, on the driver that the library path leads to: a real one, or the simulated one. Without a driver,
//! these tests report that and pass, unless `REQUIRE_GPU=1`.
#![cfg(feature = "cuda")]
#![allow(missing_docs, clippy::unwrap_used, clippy::indexing_slicing, clippy::panic)] // a test may panic
#![allow(unsafe_code)] // reads a counter of the simulated driver

use std::process::Command;
use std::time::Duration;

use selvedge_channels::Tensor;
use selvedge_channels::device::{DeviceError, DeviceTensor, Gpu, Library, Stream};
use selvedge_collectives::contract::together;
use selvedge_collectives::gpu::probe;
use selvedge_collectives::nccl::NcclRank;
use selvedge_collectives::{
    Collective, CommError, Communicator, Contribution, Group, OnDevice, ReduceOp, communicator_contract,
};

/// The largest number of ranks of a group in these tests.
const RANKS: usize = 4;

/// Whether there is NCCL, and a device for each rank. The simulated driver lets ranks share a device, and so does NCCL
/// 2.30.3 if it is told to.
fn there() -> bool {
    let may_share = simulated().is_some() || std::env::var_os("NCCL_MULTI_RANK_GPU_ENABLE").is_some();
    there_for(if may_share { 1 } else { RANKS })
}

/// Whether there is NCCL, and at least this many devices.
fn there_for(wanted: usize) -> bool {
    let found = probe();
    let devices = match (&found.driver, &found.nccl) {
        (Err(error), _) | (_, Err(error)) => Err(error.to_string()),
        (Ok(driver), _) => Ok(driver.devices.len()),
    };
    match devices {
        Err(missing) => {
            let required = std::env::var("REQUIRE_GPU").is_ok_and(|value| value == "1");
            assert!(!required, "REQUIRE_GPU=1, and {missing}");
            eprintln!("not tested: {missing}");
            false
        }
        Ok(devices) if devices < wanted => {
            eprintln!(
                "not tested: NCCL wants {wanted} devices for as many ranks of a process, and there are {devices}"
            );
            false
        }
        Ok(_) => true,
    }
}

/// The library of the simulated NCCL; `None` for the real one.
fn simulated() -> Option<Library> {
    let library = Library::open("NCCL", "SELVEDGE_NCCL_LIB", &["libnccl.so.2"]).ok()?;
    library.has(&["selvedge_sim_violations"]).ok()?;
    Some(library)
}

fn ranks(count: usize) -> Vec<NcclRank> {
    let group = Group::in_process(count).unwrap();
    let devices = probe().driver.unwrap().devices.len();
    let rank = |rank| {
        let gpu = Gpu::open((rank % devices) as u32).unwrap();
        NcclRank::new(&group, rank, &gpu).unwrap()
    };
    (0..count).map(rank).collect()
}

communicator_contract!(ranks, when there);

/// The number of unordered accesses that the simulated driver has seen; always 0 for a real device.
fn violations() -> u64 {
    type Count = unsafe extern "C" fn() -> u64;
    let Some(library) = simulated() else { return 0 };
    // SAFETY: the simulator declares the function with this type.
    let count = unsafe { library.function::<Count>("selvedge_sim_violations") }.unwrap();
    // SAFETY: the function takes no arguments, and the library is open.
    unsafe { count() }
}

/// The operations that one device allows: every function of NCCL is called, and all resources are released.
#[test]
fn a_group_of_one_does_everything_alone() {
    if !there_for(1) {
        return;
    }
    let mut rank = ranks(1).remove(0);
    let compute = Stream::compute(rank.gpu()).unwrap();
    let tensor = Tensor::from_slice(&[1.5f32, -2.0, 3.0], &[3]).unwrap();
    let own = std::slice::from_ref(&tensor);
    let plans = [
        Collective::AllReduce(ReduceOp::Sum),
        Collective::ReduceScatter(ReduceOp::Max),
        Collective::AllGather,
        Collective::AllToAll,
        Collective::Broadcast { root: 0 },
        Collective::Reduce {
            op: ReduceOp::Sum,
            root: 0,
        },
        Collective::Gather { root: 0 },
        Collective::Scatter { root: 0 },
    ];
    for collective in plans {
        let plan = rank.plan(collective).unwrap();
        for _ in 0..3 {
            let here = DeviceTensor::upload(&compute, &tensor).unwrap();
            rank.launch_on_device(plan, &[here]).unwrap();
            let result = rank.wait_on_device(None).unwrap().remove(0);
            let host = result.download(&compute, Duration::from_secs(60)).unwrap();
            assert_eq!(host.bytes(), tensor.bytes(), "{collective:?}");
        }
    }
    assert_eq!(
        rank.allreduce(ReduceOp::Sum, own).unwrap()[0].bytes(),
        tensor.bytes()
    );
    rank.barrier().unwrap();
    Box::new(rank).close(Duration::from_secs(60)).unwrap();
    assert_eq!(violations(), 0);
}

/// Tensors that are made, reduced and used on the device, while the host only enqueues.
#[test]
fn on_the_device_results_are_there_before_they_are_done() {
    if !there() {
        return;
    }
    together(ranks(3), |rank| {
        let (gpu, own) = (rank.gpu().clone(), rank.rank());
        let compute = Stream::compute(&gpu).unwrap();
        let sum = rank.plan(Collective::AllReduce(ReduceOp::Sum)).unwrap();
        let gather = rank.plan(Collective::AllGather).unwrap();
        let mut kept = Vec::new();
        for round in 0..20u32 {
            let values = vec![round + own as u32; 3000];
            let made = DeviceTensor::upload(&compute, &Tensor::from_slice(&values, &[30, 100]).unwrap());
            rank.launch_on_device(sum, &[made.unwrap()]).unwrap();
            let summed = rank.wait_on_device(None).unwrap().remove(0);
            rank.launch_on_device(gather, &[summed]).unwrap();
            kept.push(rank.wait_on_device(None).unwrap().remove(0));
        }
        for (round, tensor) in kept.iter().enumerate() {
            assert_eq!(tensor.layout().shape(), [90, 100]);
            let host = tensor.download(&compute, Duration::from_secs(60)).unwrap();
            assert_eq!(host.to_vec::<u32>().unwrap(), vec![3 * round as u32 + 3; 9000]);
        }
        rank.barrier().unwrap();
    });
    assert_eq!(violations(), 0);
}

#[test]
fn acc_07_a_tensor_of_another_device_is_refused() {
    if simulated().is_none() {
        return;
    }
    let output = Command::new(std::env::current_exe().unwrap())
        .args(["--exact", "two_devices", "--ignored", "--nocapture"])
        .env("SELVEDGE_SIM_DEVICES", "2")
        .output()
        .unwrap();
    let passed = String::from_utf8_lossy(&output.stdout).contains("1 passed");
    assert!(output.status.success() && passed, "{output:?}");
}

#[test]
#[ignore = "a part of the test above"]
fn two_devices() {
    if !there_for(2) {
        return;
    }
    together(ranks(2), |rank| {
        let own = rank.gpu().clone();
        let other = Gpu::open(1 - own.index()).unwrap();
        let sum = rank.plan(Collective::AllReduce(ReduceOp::Sum)).unwrap();
        let host = Tensor::from_slice(&[1.0f32; 4], &[4]).unwrap();
        let upload = |gpu: &Gpu| DeviceTensor::upload(&Stream::compute(gpu).unwrap(), &host).unwrap();
        let refused = rank.launch_on_device(sum, &[upload(&other)]);
        assert!(
            matches!(refused, Err(CommError::Device(DeviceError::WrongDevice { .. }))),
            "{refused:?}"
        );
        // No operation was begun, and the group goes on.
        rank.launch_on_device(sum, &[upload(&own)]).unwrap();
        let summed = rank.wait_on_device(None).unwrap().remove(0);
        let stream = Stream::compute(&own).unwrap();
        let summed = summed.download(&stream, Duration::from_secs(60)).unwrap();
        assert_eq!(summed.to_vec::<f32>().unwrap(), [2.0; 4]);
        rank.barrier().unwrap();
    });
}

/// Failures and disagreements are known before any operation is enqueued.
#[test]
fn on_the_device_a_failure_is_everybodys_and_the_group_goes_on() {
    if !there() {
        return;
    }
    together(ranks(2), |rank| {
        let gpu = rank.gpu().clone();
        let compute = Stream::compute(&gpu).unwrap();
        let sum = rank.plan(Collective::AllReduce(ReduceOp::Sum)).unwrap();
        let tensor = |len: usize| {
            let host = Tensor::from_slice(&vec![1.0f32; len], &[len]).unwrap();
            DeviceTensor::upload(&compute, &host).unwrap()
        };
        match rank.rank() {
            0 => rank.launch(sum, Contribution::Failure(b"tired")).unwrap(),
            _ => rank.launch_on_device(sum, &[tensor(4)]).unwrap(),
        }
        let failed = rank.wait_on_device(None);
        assert!(
            matches!(failed, Err(CommError::PeerFailed { rank: 0, .. })),
            "{failed:?}"
        );
        rank.launch_on_device(sum, &[tensor(4 + rank.rank())]).unwrap();
        let differ = rank.wait_on_device(None);
        assert!(
            matches!(differ, Err(CommError::Mismatch { rank: 1, .. })),
            "{differ:?}"
        );
        // The host tensors of one rank do not match the device tensors of the other.
        let host = Tensor::from_slice(&[1.0f32; 4], &[4]).unwrap();
        assert_eq!(
            rank.allreduce(ReduceOp::Sum, &[host]).unwrap()[0]
                .to_vec::<f32>()
                .unwrap(),
            [2.0; 4]
        );
    });
}

#[test]
fn what_nccl_does_not_do_is_refused_alike() {
    if !there() {
        return;
    }
    together(ranks(2), |rank| {
        for (op, tensor) in [
            (ReduceOp::Sum, Tensor::from_slice(&[1i16; 4], &[4]).unwrap()),
            (ReduceOp::Average, Tensor::from_slice(&[1i32; 4], &[4]).unwrap()),
        ] {
            let refused = rank.allreduce(op, &[tensor]);
            assert!(
                matches!(refused, Err(CommError::Unsupported { .. })),
                "{refused:?}"
            );
        }
        rank.barrier().unwrap();
    });
}

#[test]
fn a_message_among_ranks_that_are_not_all_there_is_late_and_not_lost() {
    if !there() {
        return;
    }
    let group = Group::in_process(2).unwrap();
    let mut alone = NcclRank::new(&group, 0, &Gpu::open(0).unwrap()).unwrap();
    let short = Some(Duration::from_millis(20));
    let late = [
        alone.send(1, &[], short).unwrap_err(),
        alone.recv(1, short).unwrap_err(),
    ];
    for late in late {
        assert!(matches!(late, CommError::NoMessage { rank: 1, .. }), "{late}");
        assert!(late.to_string().contains("connected"), "{late}");
    }
    let late = Box::new(alone).close(Duration::from_millis(1)).unwrap_err();
    assert!(late.to_string().contains("have not connected"), "{late}");
}
