//! Tests of binding that need no actor: inputs that go straight to outputs.

use super::builder::numbered;
use super::*;
use crate::bind::edge::{Edge, constant};
use crate::error::CompileError;

fn at(line: u32) -> SourceLocation {
    SourceLocation {
        file: "user.rs".into(),
        line,
        column: 1,
    }
}

fn bound<I: Inputs, O: Outputs>(function: impl FnOnce(I) -> O) -> BoundGraph {
    bind_graph::<I, O>(&Runtime::new(), None, 2, Transport::Auto, at(7), function)
}

fn codes(bound: &BoundGraph) -> Vec<Code> {
    bound.mistakes.iter().map(|mistake| mistake.code).collect()
}

#[test]
fn a_name_that_is_given_twice_is_numbered_and_no_number_is_given_twice() {
    let mut taken = std::collections::BTreeMap::new();
    let names = ["s", "s#3", "s", "s", "s#2", "s#2#2", "s", "s#3"];
    let numbered = names.map(|name| numbered(&mut taken, name.to_owned()));
    assert_eq!(
        numbered,
        ["s", "s#3", "s#2", "s#4", "s#2#2", "s#2#2#2", "s#5", "s#3#2"]
    );
}

#[test]
fn dag_26_leaves_are_numbered_in_the_order_they_are_written() {
    type In = (Edge<u8>, [Edge<u16>; 2], Vec<Edge<u32>>);
    let bound = bound(|(a, [b, c], rest): In| (rest, c, (a, b)));
    let types: Vec<&str> = bound.ir.values.iter().map(|value| &*value.type_name).collect();
    assert_eq!(types, ["u8", "u16", "u16", "u32", "u32"]);
    assert_eq!(bound.ir.inputs, [0, 1, 2, 3, 4].map(ValueId));
    assert_eq!(bound.ir.outputs, [3, 4, 2, 0, 1].map(ValueId));
    assert_eq!(bound.recipe.lengths, [2]);
    assert_eq!(bound.ir.name, "user.rs:7");
}

#[test]
fn dag_10_a_part_is_the_same_edge_however_often_it_is_split() {
    let bound = bound(|pair: Edge<(u8, String)>| {
        let (first, _) = pair.split();
        let (again, second) = pair.split();
        [first, again].map(|edge| (edge, second.clone()))
    });
    assert_eq!(bound.ir.outputs, [1, 2, 1, 2].map(ValueId));
    assert_eq!(bound.ir.values.len(), 3);
    assert!(bound.recipe.splitters.contains_key(&ValueId(0)));
}

#[test]
fn dag_10_a_part_of_a_part_is_refused() {
    let bound = bound(|nested: Edge<((u8, u8), u8)>| {
        let (inner, last) = nested.split();
        let (first, second) = inner.split();
        (first, second, last)
    });
    assert!(!bound.mistakes.is_empty());
    assert!(codes(&bound).iter().all(|code| *code == Code::NestedSplit));
    assert_eq!(
        CompileError::all(bound.mistakes).diagnostics.len(),
        1,
        "one mistake, told once"
    );
}

#[test]
fn dag_03_a_constant_output_is_refused() {
    let bound = bound(|x: Edge<u8>| (x, constant(3u8)));
    assert_eq!(codes(&bound), [Code::NoOutput]);
}

#[test]
fn dag_03_an_edge_of_another_graph_is_refused() {
    let mut stolen = None;
    let _ = bound(|x: Edge<u8>| {
        stolen = Some(x.clone());
        x
    });
    let second = bound(|x: Edge<u8>| (x, stolen.take().unwrap()));
    assert_eq!(codes(&second), [Code::MixedGraphs]);
}

#[test]
fn dag_03_an_edge_of_the_surrounding_graph_is_refused() {
    let mut inner = None;
    let outer = bound(|x: Edge<u8>| {
        inner = Some(bound(|_y: Edge<u8>| x.clone()));
        x
    });
    assert_eq!(codes(&inner.unwrap()), [Code::MixedGraphs]);
    assert_eq!(codes(&outer), []);
}

#[test]
fn task_12_a_constant_tuple_is_split_into_constants() {
    let pair: Edge<(u8, String)> = constant((3, "x".to_owned()));
    let (first, second) = pair.split();
    let bytes = |source: &Source, payload: PayloadType| match source {
        Source::Constant(constant) => constant.encode(payload).unwrap(),
        _ => Vec::new(),
    };
    let bytes_of_first = bytes(&first.source, PayloadType::of::<u8>());
    assert_eq!(selvedge_channels::decode::<u8>(&bytes_of_first).unwrap(), 3);
    let bytes_of_second = bytes(&second.source, PayloadType::of::<String>());
    assert_eq!(
        selvedge_channels::decode::<String>(&bytes_of_second).unwrap(),
        "x"
    );
}

#[test]
fn type_02_what_is_asked_for_a_tuple_holds_for_its_parts() {
    let bound = bound(|pair: Edge<(u8, String)>| {
        let (first, second) = pair.with_slots(2).with_buffer_bytes(3000).split();
        (first, second.with_slots(5))
    });
    let buffers = bound
        .ir
        .values
        .iter()
        .map(|value| (value.buffer.slots, value.buffer.slot_bytes));
    let expected = [2, 2, 5].map(|slots| (Some(slots), Some(3000)));
    assert!(buffers.eq(expected));
}
