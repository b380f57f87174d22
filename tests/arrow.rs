//! Record batches of Arrow: read where they lie in the object store, and in the edges of graphs.
#![allow(missing_docs, clippy::unwrap_used, clippy::indexing_slicing)] // a test may panic

mod census;

use std::sync::Arc;

use selvedge::arrow::array::{Array, ArrayRef, Int64Array, StringArray};
use selvedge::arrow::{ArrowBatch, RecordBatch};
use selvedge::prelude::*;

use census::{mapping_of, wait_until};

const ROWS: usize = 100_000;

fn batch() -> ArrowBatch {
    let numbers = Int64Array::from_iter((0..ROWS as i64).map(|row| (row % 10 != 3).then_some(row)));
    let names = StringArray::from_iter_values((0..ROWS).map(|row| format!("row {row}")));
    let columns: [(&str, ArrayRef); 2] = [("number", Arc::new(numbers)), ("name", Arc::new(names))];
    ArrowBatch::new(RecordBatch::try_from_iter(columns).unwrap()).unwrap()
}

fn numbers(batch: &RecordBatch) -> &Int64Array {
    batch.column(0).as_any().downcast_ref().unwrap()
}

/// The mappings in which the buffers of a batch lie.
fn mappings(batch: &RecordBatch) -> Vec<String> {
    let data: Vec<_> = batch.columns().iter().map(|column| column.to_data()).collect();
    let nulls = data
        .iter()
        .filter_map(|data| data.nulls().map(|nulls| nulls.buffer()));
    let buffers = data.iter().flat_map(|data| data.buffers()).chain(nulls);
    buffers.map(|buffer| mapping_of(buffer.as_ptr().addr())).collect()
}

/// The mappings of the batch that this process fetches, and the sum of its numbers.
#[remote]
fn looked_at(batch: Ref<ArrowBatch>) -> Result<(Vec<String>, i64)> {
    let batch = batch.fetch()?;
    Ok((mappings(&batch), sum(&batch)))
}

#[remote]
fn sum(batch: &ArrowBatch) -> i64 {
    numbers(batch).iter().flatten().sum()
}

#[remote]
fn tail(batch: &ArrowBatch, rows: u64) -> Result<ArrowBatch> {
    let rows = rows as usize;
    Ok(ArrowBatch::new(batch.slice(batch.num_rows() - rows, rows))?)
}

#[test]
fn rser_04_rser_09_a_record_batch_is_read_where_it_lies_in_every_process() {
    let runtime = Runtime::new();
    let worker = runtime.worker("reader").unwrap();
    let put = runtime.put(batch()).unwrap();
    let fetched = put.fetch().unwrap();
    assert!(*fetched == batch());
    let here = mappings(&fetched);
    let (there, total) = runtime.call(looked_at::remote(&put).on(&worker)).wait().unwrap();
    assert_eq!((here.len(), there.len(), total), (4, 4, sum(&batch())));
    for mapping in here.iter().chain(&there) {
        assert!(
            mapping.contains("r--s") && mapping.contains("memfd:selvedge"),
            "{mapping}"
        );
    }
    // A column keeps the object, and the object goes with it.
    let column = Arc::clone(fetched.column(0));
    drop((fetched, put));
    assert_eq!(column.len(), ROWS);
    assert!(!runtime.objects().objects.is_empty());
    drop(column);
    wait_until(&true, || runtime.objects().objects.is_empty());
}

#[test]
fn rser_01_record_batches_travel_through_graphs_and_calls() {
    let runtime = Runtime::new();
    let tails = runtime.spawn::<tail>("tails", ()).in_process().unwrap();
    let graph = runtime
        .compile(|(batch, rows): (Edge<ArrowBatch>, Edge<u64>)| {
            let tail = tails.tail(&batch, &rows);
            (sum::bind(&tail), tail)
        })
        .unwrap();
    for rows in [0, 1, 1000] {
        let (total, tail) = graph.run((batch(), rows)).unwrap();
        let expected = batch().slice(ROWS - rows as usize, rows as usize);
        assert!(*tail == expected, "{tail:?}");
        assert_eq!(total, numbers(&expected).iter().flatten().sum::<i64>());
    }
    let called = runtime.call(tail::remote(batch(), 10_u64)).wait().unwrap();
    assert_eq!(called.num_rows(), 10);
}
