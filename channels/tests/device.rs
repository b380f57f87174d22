//! Devices and channels of tensors, in one process. The tests use the driver that `tests/driver` finds.
#![cfg(all(feature = "cuda", not(any(miri, loom))))]
#![allow(
    missing_docs,
    clippy::unwrap_used,
    clippy::expect_used,
    clippy::panic,
    clippy::indexing_slicing
)] // a test may panic

mod driver;

use std::sync::Barrier;
use std::thread;
use std::time::Duration;

use selvedge_channels::device::{
    Crossing, DeviceChannelError, DeviceChannelOptions, DeviceError, DeviceMemory, DeviceReader,
    DeviceTensor, DeviceWriter, Event, Gpu, Signals, Stream, TensorLayout, reclaim,
};
use selvedge_channels::{ChannelError, ChannelOptions, DType, End, Fault, FaultKind, Tensor};
use serde::{Deserialize, Serialize, Serializer};

use driver::{
    LONG, SpinKernel, census, census_returns_to, free_bytes, gpu, is_alone, len, no_violations, passes_alone,
    simulator, tensor,
};

fn layout(shape: &[usize]) -> TensorLayout {
    TensorLayout::new(DType::U32, shape).unwrap()
}

fn options() -> DeviceChannelOptions {
    DeviceChannelOptions::new(1 << 14).timeout(LONG)
}

/// Writes messages of up to three tensors of varying shapes.
fn write(mut writer: DeviceWriter, gpu: &Gpu, messages: u64) {
    let stream = Stream::compute(gpu).unwrap();
    for message in 0..messages {
        let tensors: Vec<_> = (0..message % 4)
            .map(|index| tensor(message, index, len(message, index)))
            .collect();
        let layouts: Vec<_> = tensors.iter().map(|it| TensorLayout::of(it).unwrap()).collect();
        let mut loan = writer.reserve(&stream, &layouts).unwrap();
        for (index, tensor) in tensors.iter().enumerate() {
            loan.upload(index, tensor).unwrap();
        }
        loan.publish().unwrap();
    }
    stream.wait(LONG).unwrap();
}

/// Reads the messages of `write`, each on the host while the next ones are in flight.
fn read(mut reader: DeviceReader, gpu: &Gpu, messages: u64) {
    let stream = Stream::communication(gpu).unwrap();
    for message in 0..messages {
        let mut view = reader.recv(&stream).unwrap().unwrap();
        assert_eq!(view.len() as u64, message % 4);
        for index in 0..message % 4 {
            let expected = tensor(message, index, len(message, index));
            let found = view.download(index as usize, LONG).unwrap();
            assert_eq!(found.shape(), expected.shape(), "{message}.{index}");
            assert_eq!(found.bytes(), expected.bytes(), "{message}.{index}");
        }
    }
    let ended = reader.recv(&stream).unwrap_err();
    assert!(
        matches!(ended, DeviceChannelError::Channel(ChannelError::Closed)),
        "{ended}"
    );
}

fn stream_of_messages(slots: usize, readers: usize, messages: u64) {
    let Some(gpu) = gpu() else { return };
    let (writer, ends) = options().slots(slots).readers(readers).threads(&gpu).unwrap();
    thread::scope(|scope| {
        let gpu = &gpu;
        for reader in ends {
            scope.spawn(move || read(reader, gpu, messages));
        }
        write(writer, gpu, messages);
    });
    no_violations();
}

#[test]
fn acc_05_tensors_come_as_they_were_sent_whatever_the_slots() {
    for slots in 1..=8 {
        stream_of_messages(slots, 1, 250);
    }
}

#[test]
fn acc_08_every_reader_gets_all_of_them() {
    for slots in [1, 3] {
        stream_of_messages(slots, 3, 200);
    }
}

#[test]
fn acc_05_the_same_with_delays_of_many_seeds() {
    if simulator().is_none() {
        return;
    }
    for seed in 1..=8 {
        passes_alone("seeded", &[("SELVEDGE_SIM_SEED", &seed.to_string())]);
    }
}

#[test]
#[ignore = "a part of the test above"]
fn seeded() {
    if is_alone() {
        stream_of_messages(2, 2, 150);
    }
}

/// Runs a channel on which the host waits for nothing: only events order the writer and each of its readers.
fn on_the_device_alone() {
    let Some(gpu) = gpu() else { return };
    let (mut writer, mut readers) = options().slots(2).readers(2).threads(&gpu).unwrap();
    let writes = Stream::compute(&gpu).unwrap();
    let reads = [0; 2].map(|_| Stream::compute(&gpu).unwrap());
    let mut kept = Vec::new();
    for message in 0..40_u8 {
        let mut loan = writer.reserve(&writes, &[layout(&[64])]).unwrap();
        loan.fill(0, message).unwrap();
        loan.publish().unwrap();
        for (reader, stream) in readers.iter_mut().zip(&reads) {
            let view = reader.recv(stream).unwrap().unwrap();
            kept.push((message, view.keep(0).unwrap()));
        }
    }
    for (message, tensor) in &kept {
        let found = tensor.download(&reads[0], LONG).unwrap();
        assert_eq!(found.bytes(), [*message; 256]);
    }
    writes.wait(LONG).unwrap();
}

#[test]
fn device_events_order_what_the_host_never_waits_for() {
    on_the_device_alone();
    no_violations();
}

#[test]
#[ignore = "a part of the test below"]
fn with_a_step_left_out() {
    if is_alone() {
        let _ = std::panic::catch_unwind(on_the_device_alone);
        if let Some(simulator) = simulator() {
            println!("violations: {}", simulator.violations());
        }
    }
}

#[test]
#[cfg(feature = "fault-points")]
fn either_edge_is_missed_when_it_is_left_out() {
    if simulator().is_none() {
        return;
    }
    let violations = |step: &str| -> u64 {
        let output = driver::alone("with_a_step_left_out", &[("SELVEDGE_SKIP_STEP", step)]);
        let text = String::from_utf8_lossy(&output.stdout).into_owned();
        let (_, count) = text.split_once("violations: ").expect(&text);
        count.lines().next().unwrap().parse().unwrap()
    };
    assert_eq!(violations("none"), 0);
    assert!(violations("device reader: order after ready") > 0);
    assert!(violations("device writer: order after done") > 0);
}

#[test]
fn acc_06_a_static_shape_travels_once_and_others_are_refused() {
    let Some(gpu) = gpu() else { return };
    let (mut writer, mut readers) = options().static_shape(true).threads(&gpu).unwrap();
    let (stream, mut reader) = (Stream::compute(&gpu).unwrap(), readers.remove(0));
    for message in 0..3 {
        let mut loan = writer.reserve(&stream, &[layout(&[2, 3])]).unwrap();
        loan.fill(0, message).unwrap();
        loan.publish().unwrap();
        let mut view = reader.recv(&stream).unwrap().unwrap();
        assert_eq!(view.layout(0).unwrap(), &layout(&[2, 3]));
        assert_eq!(view.download(0, LONG).unwrap().bytes(), [message; 24]);
    }
    for other in [vec![], vec![layout(&[3, 2])], vec![layout(&[2, 3]); 2]] {
        let refused = writer.reserve(&stream, &other).unwrap_err();
        let text = refused.to_string();
        let DeviceChannelError::StaticShape { expected, found } = refused else {
            panic!("{text}");
        };
        assert_eq!((expected, found), (vec![layout(&[2, 3])], other));
        assert!(text.contains("expected (U32[2, 3]), found ("), "{text}");
    }
    // The channel goes on.
    writer
        .reserve(&stream, &[layout(&[2, 3])])
        .unwrap()
        .publish()
        .unwrap();
    assert!(reader.recv(&stream).unwrap().is_ok());
    // The first message may go by pointer while the others lie in their slots.
    let (mut writer, mut readers) = options().static_shape(true).threads(&gpu).unwrap();
    let first = DeviceTensor::upload(&stream, &tensor(0, 0, 6)).unwrap();
    let layouts = [first.layout().clone()];
    writer.send(&stream, &[first]).unwrap();
    assert!(readers[0].recv(&stream).unwrap().is_ok());
    let mut loan = writer.reserve(&stream, &layouts).unwrap();
    loan.fill(0, 3).unwrap();
    loan.publish().unwrap();
    let mut view = readers[0].recv(&stream).unwrap().unwrap();
    assert_eq!(view.download(0, LONG).unwrap().bytes(), [3; 24]);
}

#[test]
fn acc_07_what_is_on_another_device_is_refused() {
    if simulator().is_some() {
        passes_alone("two_devices", &[("SELVEDGE_SIM_DEVICES", "2")]);
    }
}

#[test]
#[ignore = "a part of the test above"]
fn two_devices() {
    let (Some(gpu), true) = (gpu(), is_alone()) else {
        return;
    };
    let other = Gpu::open(1).unwrap();
    assert_ne!(gpu.id(), other.id());
    let (mut writer, mut readers) = options().threads(&gpu).unwrap();
    let (here, there) = (Stream::compute(&gpu).unwrap(), Stream::compute(&other).unwrap());
    let tensor = DeviceTensor::upload(&there, &tensor(0, 0, 10)).unwrap();
    let wrong = |error: DeviceChannelError| match error {
        DeviceChannelError::Device(DeviceError::WrongDevice { expected, found, .. }) => {
            assert_eq!((expected, found), (gpu.id(), other.id()));
        }
        error => panic!("{error}"),
    };
    wrong(writer.reserve(&there, &[layout(&[1])]).unwrap_err());
    wrong(writer.send(&here, std::slice::from_ref(&tensor)).unwrap_err());
    wrong(readers[0].try_recv(&there).unwrap_err());
    // No refused message was sent, and the channel goes on.
    assert!(readers[0].try_recv(&here).unwrap().is_none());
    writer.reserve(&here, &[]).unwrap().publish().unwrap();
    assert!(readers[0].try_recv(&here).unwrap().is_some());
    let none = Gpu::open(2).unwrap_err();
    assert!(
        matches!(none, DeviceError::NoDevice { index: 2, count: 2 }),
        "{none}"
    );
}

/// Tensors go there and back, and their copies are dropped before the devices have begun.
#[test]
fn acc_07_tensors_cross_from_device_to_device() {
    if simulator().is_some() {
        for seed in 1..=4_u32 {
            passes_alone(
                "crossings",
                &[
                    ("SELVEDGE_SIM_DEVICES", "2"),
                    ("SELVEDGE_SIM_SEED", &seed.to_string()),
                ],
            );
        }
    } else if Gpu::open(1).is_ok() {
        passes_alone("crossings", &[]);
    }
}

fn there_and_back(gpu: &Gpu, other: &Gpu) {
    let stream = Stream::compute(gpu).unwrap();
    let (mut there, mut back) = (Crossing::to(other).unwrap(), Crossing::to(gpu).unwrap());
    let mut kept = Vec::new();
    for message in 0..30 {
        let sent = DeviceTensor::upload(&stream, &tensor(message, 0, len(message, 0))).unwrap();
        let same = back.bring(&sent).unwrap();
        assert_eq!(same.span().unwrap().address(), sent.span().unwrap().address());
        let over = there.bring(&sent).unwrap();
        assert_eq!(over.gpu().id(), other.id());
        drop((sent, same));
        kept.push(back.bring(&over).unwrap());
    }
    for (message, found) in (0..).zip(&kept) {
        assert_eq!(found.gpu().id(), gpu.id());
        let found = found.download(&stream, LONG).unwrap();
        assert_eq!(found.bytes(), tensor(message, 0, len(message, 0)).bytes());
    }
}

#[test]
#[ignore = "a part of the test above"]
fn crossings() {
    let (Some(gpu), true) = (gpu(), is_alone()) else {
        return;
    };
    let other = Gpu::open(1).unwrap();
    let free = |gpu: &Gpu| gpu.memory_bytes().unwrap().0;
    let before = (free(&gpu), free(&other));
    there_and_back(&gpu, &other);
    no_violations();
    if let Some(simulator) = simulator() {
        assert!(simulator.settle());
        reclaim();
        assert_eq!((free(&gpu), free(&other)), before, "nothing stays on either");
    }
}

#[test]
#[ignore = "a part of the test below"]
fn crossings_with_a_step_left_out() {
    if is_alone() && gpu().is_some() {
        let all = || there_and_back(&Gpu::open(0).unwrap(), &Gpu::open(1).unwrap());
        let _ = std::panic::catch_unwind(all);
        println!("violations: {}", simulator().unwrap().violations());
    }
}

/// Without the order of the copy after the source, the copy may read too early. Without the order of the source after
/// the copy, a dropped source may be released too early.
#[test]
#[cfg(feature = "fault-points")]
fn either_edge_of_a_crossing_is_missed_when_it_is_left_out() {
    if simulator().is_none() {
        return;
    }
    let violations = |step: &str| -> u64 {
        let settings = [
            ("SELVEDGE_SKIP_STEP", step),
            ("SELVEDGE_SIM_DEVICES", "2"),
            ("SELVEDGE_SIM_SEED", "1"),
        ];
        let output = driver::alone("crossings_with_a_step_left_out", &settings);
        let text = String::from_utf8_lossy(&output.stdout).into_owned();
        let (_, count) = text.split_once("violations: ").expect(&text);
        count.lines().next().unwrap().parse().unwrap()
    };
    assert_eq!(violations("none"), 0);
    assert!(violations("crossing: order after the source") > 0);
    assert!(violations("crossing: order the source after") > 0);
}

#[test]
fn acc_15_within_a_process_a_tensor_travels_by_pointer_and_event() {
    let Some(gpu) = gpu() else { return };
    let (mut writer, mut readers) = options().readers(2).threads(&gpu).unwrap();
    let (writes, reads) = (Stream::compute(&gpu).unwrap(), Stream::compute(&gpu).unwrap());
    let sent = DeviceTensor::upload(&writes, &tensor(7, 0, 5000)).unwrap();
    let address = sent.span().unwrap().address();
    writer.send(&writes, &[sent]).unwrap();
    for reader in &mut readers {
        let mut view = reader.recv(&reads).unwrap().unwrap();
        assert_eq!(view.span(0).unwrap().address(), address);
        let found = view.download(0, LONG).unwrap();
        assert_eq!(found.bytes(), tensor(7, 0, 5000).bytes());
    }
    no_violations();
}

#[test]
fn acc_17_a_fault_comes_instead_of_tensors_and_the_channel_goes_on() {
    let Some(gpu) = gpu() else { return };
    for is_static in [false, true] {
        let (mut writer, mut readers) = options().static_shape(is_static).threads(&gpu).unwrap();
        let (stream, mut reader) = (Stream::compute(&gpu).unwrap(), readers.remove(0));
        writer.send_fault(&Fault::failed(b"why".to_vec(), None)).unwrap();
        writer.try_send_fault(&Fault::cancelled()).unwrap();
        writer
            .reserve(&stream, &[layout(&[4])])
            .unwrap()
            .publish()
            .unwrap();
        let fault = reader.recv(&stream).unwrap().unwrap_err();
        assert_eq!((fault.kind(), fault.report()), (FaultKind::Failed, &b"why"[..]));
        let fault = reader.recv(&stream).unwrap().unwrap_err();
        assert_eq!(fault.kind(), FaultKind::Cancelled);
        assert_eq!(reader.recv(&stream).unwrap().unwrap().len(), 1);
    }
}

#[test]
fn acc_18_a_time_out_covers_the_data_and_acc_19_a_read_may_be_early() {
    if gpu().is_some() {
        passes_alone("a_busy_device", &[]);
    }
}

#[test]
#[ignore = "a part of the test above"]
fn a_busy_device() {
    let (Some(gpu), true) = (gpu(), is_alone()) else {
        return;
    };
    let kernel = SpinKernel::load(&gpu);
    let (mut writer, mut readers) = options().slots(1).threads(&gpu).unwrap();
    let (writes, reads) = (Stream::compute(&gpu).unwrap(), Stream::compute(&gpu).unwrap());
    let mut reader = readers.remove(0);
    kernel.spin(&writes, 1);
    let mut loan = writer.reserve(&writes, &[layout(&[16])]).unwrap();
    loan.fill(0, 7).unwrap();
    loan.publish().unwrap();
    // The message has arrived, but the device has not begun to write it.
    let mut view = reader.recv(&reads).unwrap().unwrap();
    let short = Duration::from_millis(20);
    for late in [
        view.wait(short).unwrap_err(),
        view.download(0, short).unwrap_err(),
    ] {
        let late_is = matches!(late, DeviceChannelError::Channel(ChannelError::Timeout { .. }));
        assert!(late_is, "{late}");
    }
    assert!(matches!(writes.wait(short), Err(DeviceError::Timeout { .. })));
    drop(view);
    // The slot is free on the host, while the writer's stream waits on the device.
    let mut loan = writer.try_reserve(&writes, &[layout(&[16])]).unwrap();
    loan.fill(0, 8).unwrap();
    loan.publish().unwrap();
    let full = writer.try_reserve(&writes, &[]).unwrap_err();
    assert!(
        matches!(full, DeviceChannelError::Channel(ChannelError::Full)),
        "{full}"
    );
    let late = writer.reserve_timeout(&writes, &[], short).unwrap_err();
    assert!(
        matches!(late, DeviceChannelError::Channel(ChannelError::Timeout { .. })),
        "{late}"
    );
    let mut view = reader.recv(&reads).unwrap().unwrap();
    kernel.release(1);
    assert_eq!(view.download(0, LONG).unwrap().bytes(), [8; 64]);
    drop(view);
    no_violations();
}

#[test]
fn acc_21_a_message_may_have_no_tensors_and_a_tensor_no_elements() {
    let Some(gpu) = gpu() else { return };
    let (mut writer, mut readers) = options().threads(&gpu).unwrap();
    let (stream, mut reader) = (Stream::compute(&gpu).unwrap(), readers.remove(0));
    writer.reserve(&stream, &[]).unwrap().publish().unwrap();
    let none = Tensor::zeros::<u32>(&[3, 0]).unwrap();
    let mut loan = writer.reserve(&stream, &[layout(&[3, 0]), layout(&[])]).unwrap();
    loan.upload(0, &none).unwrap();
    loan.fill(1, 1).unwrap();
    loan.publish().unwrap();
    assert!(reader.recv(&stream).unwrap().unwrap().is_empty());
    let mut view = reader.recv(&stream).unwrap().unwrap();
    assert_eq!(view.download(0, LONG).unwrap().shape(), [3, 0]);
    assert_eq!(view.download(1, LONG).unwrap().bytes(), [1; 4]);
    let error = view.download(2, LONG).unwrap_err();
    assert!(
        matches!(error, DeviceChannelError::NoTensor { index: 2, count: 2 }),
        "{error}"
    );
}

/// A value of another type, with tensors of the device and of the host inside.
#[derive(Clone, Debug, Serialize, Deserialize)]
struct Batch {
    name: String,
    inputs: Vec<DeviceTensor>,
    mask: Option<DeviceTensor>,
    labels: Tensor,
}

#[derive(Clone, Debug, Serialize, Deserialize)]
struct Inputs {
    name: String,
    inputs: Vec<DeviceTensor>,
}

#[test]
fn acc_09_tensors_inside_a_value_stay_on_the_device_and_acc_12_those_of_the_host_do_not_go_there() {
    let Some(gpu) = gpu() else { return };
    let (writer, mut readers) = options().threads(&gpu).unwrap();
    a_value_travels(&gpu, writer, readers.remove(0), true);
    for signals in [Signals::Events, Signals::Values] {
        // As between processes, tensors go through the slots.
        let channel = options().signals(signals).shared(&gpu).unwrap();
        a_value_travels(&gpu, channel.writer().unwrap(), channel.reader(0).unwrap(), false);
    }
    no_violations();
}

fn a_value_travels(gpu: &Gpu, mut writer: DeviceWriter, mut reader: DeviceReader, is_local: bool) {
    let stream = Stream::compute(gpu).unwrap();
    let upload = |index| DeviceTensor::upload(&stream, &tensor(5, index, 30)).unwrap();
    let batch = Batch {
        name: "seven".into(),
        inputs: vec![upload(0), upload(1)],
        mask: Some(upload(2)),
        labels: tensor(5, 3, 9),
    };
    writer.send_value(&stream, &batch).unwrap();
    let found: Batch = reader.recv_value(&stream).unwrap().unwrap();
    assert_eq!(
        (found.name.as_str(), found.labels.bytes()),
        ("seven", batch.labels.bytes())
    );
    if is_local {
        let address = |batch: &Batch| batch.inputs[0].span().unwrap().address();
        assert_eq!(address(&found), address(&batch), "by pointer");
    }
    let tensors = found.inputs.iter().chain(&found.mask);
    for (index, found) in (0..).zip(tensors) {
        let found = found.download(&stream, LONG).unwrap();
        assert_eq!(found.bytes(), tensor(5, index, 30).bytes(), "{index}");
    }
    writer.send_value(&stream, &batch).unwrap();
    let view = reader.recv(&stream).unwrap().unwrap();
    assert_eq!(view.len(), 3, "the labels are not among the device's tensors");
    drop(view);
    // ACC-10: a place whose tensor is already used, or never arrived, is refused, and the next message follows.
    for number in [0, 1] {
        let forged = Forged(batch.inputs[0].clone(), number);
        writer.send_value(&stream, &forged).unwrap();
        let read = reader.recv_value::<(DeviceTensor, DeviceTensor)>(&stream);
        let refused = read.unwrap_err();
        let is_decode = matches!(refused, DeviceChannelError::Channel(ChannelError::Decode(_)));
        assert!(is_decode, "{number}: {refused}");
    }
    // ACC-10: a value with fewer places than tensors, or with other parts, is refused, and the next message follows.
    writer.send_value(&stream, &batch).unwrap();
    let refused = reader.recv_value::<Inputs>(&stream).unwrap_err();
    let is_decode = matches!(refused, DeviceChannelError::Channel(ChannelError::Decode(_)));
    assert!(is_decode, "{refused}");
    writer.send_value(&stream, &"plain".to_owned()).unwrap();
    assert_eq!(reader.recv_value::<String>(&stream).unwrap().unwrap(), "plain");
}

/// A tensor and the number of a second one that is absent, or is the first one again.
#[derive(Clone, Debug, Deserialize)]
struct Forged(DeviceTensor, u32);

impl Serialize for Forged {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        (&self.0, self.1).serialize(serializer)
    }
}

#[test]
fn acc_02_an_end_on_a_device_is_taken_once_and_by_whom_it_is_kept_for() {
    let Some(gpu) = gpu() else { return };
    let channel = options().shared(&gpu).unwrap();
    let other = std::os::unix::process::parent_id();
    channel.expect(End::Writer, other).unwrap();
    let refused = [channel.writer().map(drop), {
        let _taken = channel.reader(0).unwrap();
        channel.reader(0).map(drop)
    }];
    for (refused, holder) in refused.into_iter().zip([other, std::process::id()]) {
        match refused {
            Err(DeviceChannelError::Channel(ChannelError::Attached { pid, .. })) => assert_eq!(pid, holder),
            other => panic!("{other:?}"),
        }
    }
}

/// A value that cannot be serialised to its end.
#[derive(Clone, Debug, Deserialize)]
struct Broken(DeviceTensor);

impl Serialize for Broken {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        let _ = self.0.serialize(serializer)?;
        Err(serde::ser::Error::custom("broken"))
    }
}

#[test]
fn acc_11_a_value_that_cannot_be_serialised_leaves_nothing_behind() {
    let Some(gpu) = gpu() else { return };
    let (mut writer, mut readers) = options().threads(&gpu).unwrap();
    let stream = Stream::compute(&gpu).unwrap();
    let one = DeviceTensor::upload(&stream, &tensor(1, 0, 5)).unwrap();
    let refused = writer.send_value(&stream, &Broken(one.clone())).unwrap_err();
    let is_encode = matches!(refused, DeviceChannelError::Channel(ChannelError::Encode(_)));
    assert!(is_encode, "{refused}");
    assert!(readers[0].try_recv(&stream).unwrap().is_none());
    writer.send_value(&stream, &vec![one.clone()]).unwrap();
    let found: Vec<DeviceTensor> = readers[0].recv_value(&stream).unwrap().unwrap();
    assert_eq!(found.len(), 1);
    // Over a shared channel, a device tensor cannot be encoded; between threads it moves by pointer.
    let channel = ChannelOptions::new().shared::<DeviceTensor>().unwrap();
    let refused = channel.writer().unwrap().send(one.clone()).unwrap_err();
    assert!(matches!(refused.error, ChannelError::Encode(_)), "{refused}");
    let (mut writer, mut readers) = ChannelOptions::new().threads::<DeviceTensor>().unwrap();
    let address = one.span().unwrap().address();
    writer.send(one).unwrap();
    assert_eq!(readers[0].recv().unwrap().span().unwrap().address(), address);
}

#[test]
fn what_does_not_fit_is_refused_and_changes_nothing() {
    let Some(gpu) = gpu() else { return };
    let (mut writer, mut readers) = DeviceChannelOptions::new(1000).threads(&gpu).unwrap();
    let stream = Stream::compute(&gpu).unwrap();
    // The second tensor begins on a boundary of 256 bytes.
    let refused = writer
        .reserve(&stream, &[layout(&[1]), layout(&[187])])
        .unwrap_err();
    let expected = ChannelError::TooLarge {
        need_bytes: 1004,
        max_bytes: 1000,
    };
    assert_eq!(refused.to_string(), expected.to_string());
    let mut loan = writer.reserve(&stream, &[layout(&[1]), layout(&[186])]).unwrap();
    let wrong = loan.upload(0, &tensor(0, 0, 2)).unwrap_err();
    assert!(matches!(wrong, DeviceChannelError::Layout { .. }), "{wrong}");
    loan.publish().unwrap();
    assert!(readers[0].recv(&stream).unwrap().is_ok());
    for none in [options().slots(0), options().readers(0)] {
        let refused = none.threads(&gpu).unwrap_err();
        let is_spec = matches!(
            refused,
            DeviceChannelError::Channel(ChannelError::InvalidSpec { .. })
        );
        assert!(is_spec, "{refused}");
    }
}

#[test]
fn a_loan_that_is_dropped_sends_nothing_and_its_slot_is_lent_again() {
    let Some(gpu) = gpu() else { return };
    let (mut writer, mut readers) = options().slots(1).threads(&gpu).unwrap();
    let (one, two) = (Stream::compute(&gpu).unwrap(), Stream::compute(&gpu).unwrap());
    let mut loan = writer.reserve(&one, &[layout(&[100])]).unwrap();
    loan.fill(0, 1).unwrap();
    drop(loan);
    let mut loan = writer.reserve(&two, &[layout(&[100])]).unwrap();
    loan.fill(0, 2).unwrap();
    loan.publish().unwrap();
    let mut view = readers[0].recv(&one).unwrap().unwrap();
    assert_eq!(view.download(0, LONG).unwrap().bytes(), [2; 400]);
    no_violations();
}

#[test]
fn what_a_dropped_loan_has_enqueued_is_done_before_its_slot_is_lent_again() {
    if gpu().is_some() {
        passes_alone("a_slot_that_is_written_late", &[]);
    }
}

#[test]
#[ignore = "a part of the test above"]
fn a_slot_that_is_written_late() {
    let (Some(gpu), true) = (gpu(), is_alone()) else {
        return;
    };
    let kernel = SpinKernel::load(&gpu);
    let (mut writer, mut readers) = options().slots(2).threads(&gpu).unwrap();
    let [one, two, three] = [(); 3].map(|()| Stream::compute(&gpu).unwrap());
    let layouts = [layout(&[100])];
    kernel.spin(&one, 1);
    let mut loan = writer.reserve(&one, &layouts).unwrap();
    loan.fill(0, 1).unwrap();
    drop(loan);
    // The fault of this number writes nothing to the slot, and the next message does not use it.
    writer.send_fault(&Fault::cancelled()).unwrap();
    assert!(readers[0].recv(&three).unwrap().is_err());
    writer.reserve(&two, &layouts).unwrap().publish().unwrap();
    drop(readers[0].recv(&three).unwrap());
    let mut loan = writer.reserve(&two, &layouts).unwrap();
    loan.fill(0, 2).unwrap();
    loan.publish().unwrap();
    let mut view = readers[0].recv(&three).unwrap().unwrap();
    kernel.release(1);
    assert_eq!(view.download(0, LONG).unwrap().bytes(), [2; 400]);
    drop(view);
    no_violations();
}

#[test]
fn a_device_that_fails_is_heard_of_by_who_waits_without_a_deadline() {
    if simulator().is_some() {
        passes_alone(
            "waits_for_a_device_that_fails",
            &[("SELVEDGE_SIM_FAIL", "cuStreamQuery:2:2,cuStreamQuery:4:2")],
        );
    }
}

#[test]
#[ignore = "a part of the test above"]
fn waits_for_a_device_that_fails() {
    let (Some(gpu), true) = (gpu(), is_alone()) else {
        return;
    };
    let kernel = SpinKernel::load(&gpu);
    let (mut writer, mut readers) = options().threads(&gpu).unwrap();
    let stream = Stream::compute(&gpu).unwrap();
    kernel.spin(&stream, 1);
    writer
        .reserve(&stream, &[layout(&[4])])
        .unwrap()
        .publish()
        .unwrap();
    let (tell, told) = std::sync::mpsc::channel();
    thread::spawn(move || {
        tell.send(stream.wait(Duration::MAX).unwrap_err()).unwrap();
        let mut view = readers[0].recv(&stream).unwrap().unwrap();
        match view.wait(Duration::MAX).unwrap_err() {
            DeviceChannelError::Device(error) => tell.send(error).unwrap(),
            other => panic!("{other}"),
        }
    });
    for _ in 0..2 {
        let error = told.recv_timeout(LONG).expect("it waits without end");
        assert!(matches!(error, DeviceError::Call { code: 2, .. }), "{error}");
    }
    kernel.release(1);
}

#[test]
fn dropping_waits_for_nothing_and_frees_when_the_device_is_done() {
    if gpu().is_some() {
        passes_alone("dropped_while_busy", &[]);
    }
}

#[test]
#[ignore = "a part of the test above"]
fn dropped_while_busy() {
    let (Some(gpu), true) = (gpu(), is_alone()) else {
        return;
    };
    let kernel = SpinKernel::load(&gpu);
    let free = free_bytes(&gpu);
    let stream = Stream::compute(&gpu).unwrap();
    kernel.spin(&stream, 1);
    let mut memory = DeviceMemory::new(&gpu, 1 << 20).unwrap();
    stream.fill(memory.span_mut(0, 1 << 20).unwrap(), 1).unwrap();
    let download = stream.download(memory.span(0, 1 << 20).unwrap()).unwrap();
    drop(download);
    drop(memory);
    let event = stream.mark().unwrap();
    assert!(!event.is_done().unwrap());
    // The stream's end is recorded when the stream is dropped.
    drop(stream);
    let is_simulated = simulator().is_some();
    assert!(!is_simulated || free_bytes(&gpu) < free, "still in use");
    let other = Stream::compute(&gpu).unwrap();
    other.order_after(&event).unwrap();
    drop(event);
    kernel.release(1);
    other.wait(LONG).unwrap();
    assert_eq!(free_bytes(&gpu), free);
    no_violations();
}

#[test]
fn an_allocation_waits_for_memory_that_was_dropped() {
    if simulator().is_some() {
        passes_alone("full_and_busy", &[("SELVEDGE_SIM_MEMORY", "8388608")]);
    }
}

/// The device has no memory left until it has done the work that a dropped allocation waits for.
#[test]
#[ignore = "a part of the test above"]
fn full_and_busy() {
    let (Some(gpu), true) = (gpu(), is_alone()) else {
        return;
    };
    let kernel = SpinKernel::load(&gpu);
    let stream = Stream::compute(&gpu).unwrap();
    let mut memory = DeviceMemory::new(&gpu, 6 << 20).unwrap();
    for round in 1..=50 {
        kernel.spin(&stream, round);
        drop(memory);
        let both = Barrier::new(2);
        memory = thread::scope(|scope| {
            let next = scope.spawn(|| {
                both.wait();
                DeviceMemory::new(&gpu, 6 << 20)
            });
            both.wait();
            kernel.release(round);
            next.join().unwrap().unwrap()
        });
    }
    // Memory that is in use is not waited for.
    let error = DeviceMemory::new(&gpu, 6 << 20).unwrap_err();
    assert!(matches!(error, DeviceError::Call { code: 2, .. }), "{error}");
    drop(memory);
    no_violations();
}

#[test]
fn nothing_is_left_of_many_channels() {
    if simulator().is_some() {
        passes_alone("many_channels", &[]);
    }
}

#[test]
#[ignore = "a part of the test above"]
fn many_channels() {
    if !is_alone() || gpu().is_none() {
        return;
    }
    let round = || {
        stream_of_messages(2, 2, 10);
        let gpu = gpu().unwrap();
        let shared = options().readers(2).shared(&gpu).unwrap();
        drop((shared.writer().unwrap(), shared.reader(1).unwrap()));
        drop(shared);
    };
    round();
    let before = census();
    for _ in 0..20 {
        round();
    }
    census_returns_to(&before);
}

#[test]
fn every_failure_of_the_driver_is_an_error_by_name() {
    if simulator().is_none() {
        return;
    }
    for symbol in selvedge_channels::device::DRIVER_FUNCTIONS {
        for nth in 1..=3 {
            let fail = format!("{symbol}:{nth}:2");
            passes_alone("a_driver_that_fails", &[("SELVEDGE_SIM_FAIL", &fail)]);
        }
    }
}

#[test]
#[ignore = "a part of the test above"]
fn a_driver_that_fails() {
    if !is_alone() {
        return;
    }
    let all = || -> Result<(), DeviceChannelError> {
        let gpu = Gpu::open(0)?;
        let channel = options().slots(2).readers(1).shared(&gpu)?;
        let (mut writer, mut reader) = (channel.writer()?, channel.reader(0)?);
        let stream = Stream::compute(&gpu)?;
        let event = Event::new(&gpu)?;
        stream.record(&event)?;
        for message in 0..4 {
            let mut loan = writer.reserve(&stream, &[layout(&[8]), layout(&[3])])?;
            loan.upload(0, &tensor(message, 0, 8))?;
            loan.fill(1, 1)?;
            loan.publish()?;
            let mut view = reader
                .recv(&stream)?
                .map_err(|_| DeviceChannelError::OwnChannel)?;
            let kept = view.keep(0)?;
            assert_eq!(view.download(0, LONG)?.bytes(), tensor(message, 0, 8).bytes());
            view.release()?;
            assert_eq!(
                kept.download(&stream, LONG)?.bytes(),
                tensor(message, 0, 8).bytes()
            );
        }
        Ok(())
    };
    match all() {
        Ok(()) => {}
        Err(DeviceChannelError::Device(error @ DeviceError::Call { code: 2, .. })) => {
            assert!(error.to_string().contains("CUDA_ERROR_OUT_OF_MEMORY"), "{error}");
        }
        Err(DeviceChannelError::Device(DeviceError::Unavailable(_))) => {}
        Err(other) => panic!("{other:?}"),
    }
}
