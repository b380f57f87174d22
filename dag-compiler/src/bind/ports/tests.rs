use selvedge_channels::{ChannelError, Doorbell, RingReader, Route, Routes};

use super::{FailureOrigin, InputPort, splitter, *};
use crate::run::driver::leaf::Leaf;
use crate::run::report::TaskInfo;

/// Returns an outlet and the reader at its other end.
fn wire<T: selvedge_channels::Wire>() -> (Box<dyn AnyOutlet>, RingReader<T>) {
    let payload = PayloadType::of::<T>();
    let (writer, mut readers) = payload.ring(4, Doorbell::heap(), vec![Doorbell::heap()]).unwrap();
    let routes = Routes {
        local: None,
        channels: vec![Route::Ring(writer)],
    };
    let reader = readers.pop().unwrap().downcast::<RingReader<T>>().unwrap();
    (payload.outlet(routes).unwrap(), *reader)
}

fn port(whole: Box<dyn AnyOutlet>) -> InputPort {
    InputPort {
        whole: Some(whole),
        parts: Vec::new(),
        splitter: None,
        done: None,
        signal: false,
    }
}

fn publish(ports: &mut [InputPort]) {
    for outlet in ports.iter_mut().flat_map(InputPort::outlets) {
        outlet.publish(0, &mut []).unwrap();
    }
}

fn write<I: Inputs>(value: I::Value, ports: &mut [InputPort], width: usize) -> Result<(), ChannelError> {
    let info = TaskInfo {
        task: "the graph's input".into(),
        actor: "driver".into(),
        placement: "driver".into(),
        bound_at: crate::ir::SourceLocation::from(std::panic::Location::caller()),
    };
    let from = FailureOrigin {
        info: &info,
        execution: 0,
    };
    let mut submitter = Submitter::new(ports, width, from);
    I::write(value, &mut submitter);
    submitter.finish()
}

#[test]
fn dag_26_a_value_goes_to_its_leaves_in_order() {
    let ((first, mut numbers), (second, mut text)) = (wire::<u8>(), wire::<String>());
    let mut ports = [port(first), port(second)];
    write::<(Edge<u8>, Edge<String>)>((7, "x".into()), &mut ports, 1).unwrap();
    publish(&mut ports);
    assert_eq!(numbers.take().unwrap().unwrap(), 7);
    assert_eq!(text.take().unwrap().unwrap(), "x");
}

#[test]
fn dag_10_a_split_input_goes_to_its_whole_and_its_parts() {
    let ((whole, mut wholes), (second, mut seconds)) = (wire::<(u8, String)>(), wire::<String>());
    let splitter = Some(splitter::<(u8, String)>());
    let mut ports = [InputPort {
        whole: Some(whole),
        parts: vec![None, Some(second)],
        splitter,
        done: None,
        signal: false,
    }];
    write::<Edge<(u8, String)>>((7, "x".into()), &mut ports, 1).unwrap();
    publish(&mut ports);
    assert_eq!(wholes.take().unwrap().unwrap(), (7, "x".to_owned()));
    assert_eq!(seconds.take().unwrap().unwrap(), "x");
}

#[test]
fn dag_26_a_vector_of_another_length_is_refused() {
    for length in [1, 3] {
        let mut ports = [port(wire::<u8>().0), port(wire::<u8>().0)];
        assert!(
            write::<Vec<Edge<u8>>>(vec![0; length], &mut ports, 2).is_err(),
            "{length}"
        );
    }
    // The lengths of both vectors are wrong, and their sum is right.
    let mut ports: Vec<InputPort> = (0..4).map(|_| port(wire::<u8>().0)).collect();
    assert!(write::<(Vec<Edge<u8>>, Vec<Edge<u8>>)>((vec![0; 3], vec![0; 1]), &mut ports, 2).is_err());
    assert!(write::<(Vec<Edge<u8>>, Vec<Edge<u8>>)>((vec![0; 2], vec![0; 2]), &mut ports, 2).is_ok());
}

/// Returns leaves of one execution, each filled by hand with one message.
fn leaves(messages: Vec<Result<u8, Fault>>) -> Vec<Box<dyn AnyLeaf>> {
    let leaf = |message: Result<u8, Fault>| -> Box<dyn AnyLeaf> {
        let payload = PayloadType::of::<u8>();
        let mut value = payload
            .value(selvedge_channels::Inlet::Local(selvedge_channels::Local), 1)
            .unwrap();
        value.typed_mut::<u8>().unwrap().put(0, message).unwrap();
        let mut leaf: Box<dyn AnyLeaf> = Box::new(Leaf::<u8>::with_capacity(1));
        leaf.open(0);
        let info = crate::run::report::TaskInfo {
            task: "a.f".into(),
            actor: "a".into(),
            placement: "thread".into(),
            bound_at: crate::ir::SourceLocation::default(),
        };
        leaf.collect(value.as_mut(), 0, &info).unwrap();
        leaf
    };
    messages.into_iter().map(leaf).collect()
}

#[test]
fn dag_29_outputs_are_taken_in_order_with_their_lengths() {
    type Out = (Vec<Edge<u8>>, [Edge<u8>; 2], Vec<Edge<u8>>, Edge<u8>);
    let mut leaves = leaves((1..=6).map(Ok).collect());
    let taken = Out::take(&mut Collected::new(&mut leaves, &[2, 1], 0)).unwrap();
    assert_eq!(taken, (vec![1, 2], [3, 4], vec![5], 6));
}

#[test]
fn dag_36_a_fault_among_outputs_is_what_taking_all_gives() {
    type Out = (Vec<Edge<u8>>, [Edge<u8>; 1]);
    let fault = Fault::failed(b"report".to_vec(), None);
    let mut leaves = leaves(vec![Ok(1), Err(fault), Ok(3)]);
    let found = Out::take(&mut Collected::new(&mut leaves, &[2], 0)).unwrap_err();
    assert_eq!(found.report(), b"report");
}
