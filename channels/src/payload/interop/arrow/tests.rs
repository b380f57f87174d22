//! Batches of every kind come back as they were, over the bytes that they came in; any other bytes are an error.
#![allow(unsafe_code)] // a keeper for the bytes of a batch

use std::any::Any;
use std::collections::HashMap;
use std::sync::Arc;

use arrow_array::builder::{
    FixedSizeBinaryBuilder, Int32Builder, ListBuilder, MapBuilder, StringBuilder, StringViewBuilder,
};
use arrow_array::types::{Int8Type, Int32Type};
use arrow_array::{
    Array, ArrayRef, BooleanArray, DictionaryArray, FixedSizeListArray, Float64Array, Int32Array, Int64Array,
    LargeStringArray, NullArray, RecordBatchOptions, StringArray, StructArray, TimestampMicrosecondArray,
    UnionArray,
};
use arrow_buffer::{NullBuffer, ScalarBuffer};
use arrow_schema::{DataType, Field, Fields, IntervalUnit, Schema, TimeUnit, UnionFields};
use proptest::prelude::*;

use super::super::super::bytes64::Bytes64;
use super::super::super::{decode, decode_kept, encode};
use super::*;
use crate::error::{DecodeError, EncodeError};

/// The number of rows of a batch that is long enough to be a view.
const MANY: usize = if cfg!(miri) { 60 } else { 2000 };

fn column(array: impl Array + 'static) -> RecordBatch {
    RecordBatch::try_from_iter_with_nullable([("x", Arc::new(array) as ArrayRef, true)]).unwrap()
}

/// Lists of numbers, with a list that is null and one that holds a null.
fn lists(rows: usize) -> arrow_array::ListArray {
    let mut lists = ListBuilder::new(Int32Builder::new());
    for row in 0..rows {
        for element in 0..row % 3 {
            lists.values().append_option((element != 1).then_some(row as i32));
        }
        lists.append(row % 5 != 4);
    }
    lists.finish()
}

/// A batch with a column of every kind that travels.
fn every_kind(rows: usize) -> RecordBatch {
    let numbers = Int64Array::from_iter((0..rows).map(|row| (row % 3 != 0).then_some(row as i64)));
    let texts: Vec<Option<String>> = (0..rows)
        .map(|row| (row % 4 != 1).then(|| "warp and weft ".repeat(row % 4)))
        .collect();
    let words = DictionaryArray::<Int8Type>::from_iter(
        (0..rows).map(|row| (row % 7 != 2).then_some(["a", "bc"][row % 2])),
    );
    let flags = BooleanArray::from_iter((0..rows).map(|row| (row % 5 != 0).then_some(row % 2 == 0)));
    let points = StructArray::from(vec![
        (
            Arc::new(Field::new("lists", lists(0).data_type().clone(), true)),
            Arc::new(lists(rows)) as ArrayRef,
        ),
        (
            Arc::new(Field::new("y", DataType::Float64, false)),
            Arc::new(Float64Array::from_iter_values((0..rows).map(|row| row as f64))) as ArrayRef,
        ),
    ]);
    let pairs = FixedSizeListArray::from_iter_primitive::<Int32Type, _, _>(
        (0..rows).map(|row| (row % 2 == 0).then_some([Some(row as i32), None])),
        2,
    );
    let mut maps = MapBuilder::new(None, StringBuilder::new(), Int32Builder::new());
    let (mut fixed, mut views) = (FixedSizeBinaryBuilder::new(3), StringViewBuilder::new());
    for (row, text) in texts.iter().enumerate() {
        for key in 0..row % 3 {
            maps.keys().append_value(key.to_string());
            maps.values().append_value(row as i32);
        }
        maps.append(row % 6 != 3).unwrap();
        fixed.append_value([row as u8; 3]).unwrap();
        views.append_option(text.as_ref());
    }
    let columns: [(&str, ArrayRef); 12] = [
        ("numbers", Arc::new(numbers)),
        ("texts", Arc::new(StringArray::from(texts.clone()))),
        ("large", Arc::new(LargeStringArray::from(texts))),
        ("views", Arc::new(views.finish())),
        ("words", Arc::new(words)),
        ("flags", Arc::new(flags)),
        ("points", Arc::new(points)),
        ("pairs", Arc::new(pairs)),
        ("maps", Arc::new(maps.finish())),
        ("fixed", Arc::new(fixed.finish())),
        ("nulls", Arc::new(NullArray::new(rows))),
        (
            "times",
            Arc::new(
                TimestampMicrosecondArray::from_iter_values(0..rows as i64).with_timezone("Europe/Berlin"),
            ),
        ),
    ];
    RecordBatch::try_from_iter_with_nullable(columns.map(|(name, array)| (name, array, true))).unwrap()
}

fn sent(batch: &RecordBatch) -> Vec<u8> {
    let bytes = encode(&ArrowBatch::new(batch.clone()).unwrap()).unwrap().to_vec();
    assert!(decode::<ArrowBatch>(&bytes).unwrap().batch == *batch, "{batch:?}");
    bytes
}

/// The bytes on a boundary, and the value over them.
fn kept(bytes: &[u8]) -> (Arc<Bytes64>, RecordBatch) {
    let bytes = Arc::new(Bytes64::copy_of(bytes).unwrap());
    let keeper = || Box::new(Arc::clone(&bytes)) as Box<dyn Any + Send + Sync>;
    // SAFETY: the keeper owns the bytes, which nobody writes.
    let batch = unsafe { decode_kept::<ArrowBatch>(bytes.as_slice(), &keeper) };
    let batch = batch.unwrap().into_inner();
    (bytes, batch)
}

/// All buffers of an array and its children.
fn buffers(data: &arrow_data::ArrayData) -> Vec<arrow_buffer::Buffer> {
    let nulls = data.nulls().map(NullBuffer::buffer);
    let own = data.buffers().iter().chain(nulls).cloned();
    own.chain(data.child_data().iter().flat_map(buffers)).collect()
}

#[test]
#[cfg_attr(miri, ignore = "Miri takes minutes for Arrow's own code")]
fn rser_01_rtask_11_record_batches_of_every_kind_come_back_as_they_were() {
    for rows in [0, 1, 8, MANY / 20, MANY] {
        let batch = every_kind(rows);
        sent(&batch);
        for column in batch.columns() {
            sent(&RecordBatch::try_from_iter_with_nullable([("x", Arc::clone(column), true)]).unwrap());
        }
    }
    let metadata = HashMap::from([("unit".to_owned(), "mm".to_owned())]);
    let schema = Schema::new(vec![
        Field::new("x", DataType::Int32, false).with_metadata(metadata.clone()),
    ]);
    let schema = Arc::new(schema.with_metadata(metadata));
    sent(&RecordBatch::try_new(schema, vec![Arc::new(Int32Array::from(vec![1]))]).unwrap());
    let options = RecordBatchOptions::new().with_row_count(Some(7));
    sent(&RecordBatch::try_new_with_options(Arc::new(Schema::empty()), Vec::new(), &options).unwrap());
    sent(&RecordBatch::new_empty(every_kind(1).schema()));
}

#[test]
fn rser_04_rser_09_a_record_batch_is_a_view_of_the_bytes_it_came_in_and_keeps_them() {
    let batch = every_kind(MANY);
    let (bytes, read) = kept(&sent(&batch));
    assert!(read == batch);
    let range = bytes.as_slice().as_ptr_range();
    let mut viewed = 0;
    for column in read.columns() {
        for buffer in buffers(&column.to_data())
            .iter()
            .filter(|buffer| !buffer.is_empty())
        {
            assert!(
                range.contains(&buffer.as_ptr()),
                "a copy of {} bytes",
                buffer.len()
            );
            viewed += 1;
        }
    }
    assert!(viewed > 20, "{viewed} buffers");
    let numbers = Arc::clone(read.column(0));
    assert!(numbers.to_data().buffers()[0].as_ptr().addr().is_multiple_of(64));
    drop(read);
    let slice = numbers.slice(MANY / 2 + 1, 10);
    drop(numbers);
    assert_eq!(Arc::strong_count(&bytes), 2, "the slice keeps the bytes");
    assert_eq!(
        slice.as_any().downcast_ref::<Int64Array>().unwrap().value(0),
        MANY as i64 / 2 + 1
    );
    drop(slice);
    assert_eq!(Arc::strong_count(&bytes), 1);
}

#[test]
#[cfg_attr(miri, ignore = "many rows")]
fn rser_01_a_slice_of_a_record_batch_arrives_and_sends_its_own_rows() {
    let batch = every_kind(MANY);
    sent(&batch.slice(3, 20));
    let of_views = batch.schema().index_of("views").unwrap();
    let others: Vec<usize> = (0..batch.num_columns())
        .filter(|column| *column != of_views)
        .collect();
    let batch = batch.project(&others).unwrap();
    let whole = sent(&batch).len();
    for (offset, rows) in [(0, 0), (0, 1), (3, 20), (1001, 999), (7, 1993), (2000, 0)] {
        let bytes = sent(&batch.slice(offset, rows)).len();
        assert!(
            rows > 100 || bytes < whole / 8,
            "{rows} rows take {bytes} of {whole} bytes"
        );
    }
    let (_, read) = kept(&sent(&batch));
    sent(&read.slice(5, 30));
}

#[test]
#[cfg_attr(miri, ignore = "Miri takes minutes for Arrow's own code")]
fn rser_01_a_record_batch_travels_inside_other_values_packed_and_by_name() {
    #[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
    #[serde(untagged)]
    enum Label {
        Number(u32),
        Text(String),
    }
    let batch = ArrowBatch::new(every_kind(50)).unwrap();
    let packed = (vec![batch.clone(), batch.clone()], "two".to_owned());
    assert!(decode::<(Vec<ArrowBatch>, String)>(&encode(&packed).unwrap().to_vec()).unwrap() == packed);
    let named = (Label::Text("one".to_owned()), batch, Label::Number(1));
    assert!(decode::<(Label, ArrowBatch, Label)>(&encode(&named).unwrap().to_vec()).unwrap() == named);
    let text = serde_json::to_string(&named.1).unwrap();
    assert!(serde_json::from_str::<ArrowBatch>(&text).unwrap() == named.1);
}

#[test]
fn rser_10_a_record_batch_that_would_not_arrive_is_refused_by_name() {
    let fields = UnionFields::try_new([0], [Field::new("a", DataType::Int32, false)]).unwrap();
    let values: ArrayRef = Arc::new(Int32Array::from(vec![1]));
    let union = UnionArray::try_new(fields, ScalarBuffer::from(vec![0_i8]), None, vec![values]).unwrap();
    let error = ArrowBatch::new(column(union)).unwrap_err();
    assert!(
        matches!(&error, ArrowBatchError::Type { column, .. } if column == "x"),
        "{error}"
    );

    let mut data_type = DataType::Int32;
    for _ in 0..64 {
        data_type = DataType::Struct(Fields::from(vec![Field::new("inner", data_type, true)]));
    }
    let deep = RecordBatch::new_empty(Arc::new(Schema::new(vec![Field::new("x", data_type, true)])));
    let error = ArrowBatch::new(deep).unwrap_err();
    assert!(
        matches!(error, ArrowBatchError::TooDeep { levels_max: 64, .. }),
        "{error}"
    );

    let long = ArrowBatch::new(column(NullArray::new(1 << 30))).unwrap();
    let error = encode(&long).map(|_| ()).unwrap_err();
    assert!(
        matches!(&error, EncodeError::Serialize { .. }) && error.to_string().contains("1073741824 elements"),
        "{error}"
    );
}

#[test]
#[cfg_attr(miri, ignore = "many rows")]
fn rser_09_a_record_batch_that_was_read_is_sent_on_without_a_copy() {
    let sent = encode(&ArrowBatch::new(every_kind(MANY)).unwrap())
        .unwrap()
        .to_vec();
    let bytes = Arc::new(Bytes64::copy_of(&sent).unwrap());
    let keeper = || Box::new(Arc::clone(&bytes)) as Box<dyn Any + Send + Sync>;
    // SAFETY: the keeper owns the bytes, which nobody writes.
    let read: ArrowBatch = unsafe { decode_kept(bytes.as_slice(), &keeper) }.unwrap();
    let again = encode(&read).unwrap();
    assert_eq!(again.to_vec(), sent);
    assert_eq!(
        again.into_segments().unwrap().len(),
        2,
        "the head, and the part where it lies"
    );
    let cut = ArrowBatch::new(read.slice(0, 10)).unwrap();
    assert!(
        encode(&cut).unwrap().len_bytes() < sent.len() / 2,
        "a slice is another batch"
    );
}

/// The value for a head and a part of another process.
fn claimed(change: impl FnOnce(&mut Head)) -> Result<RecordBatch, ArrowBatchError> {
    let batch = every_kind(20);
    let (mut head, body) = write::encoded(&batch).unwrap();
    change(&mut head);
    read::batch(&head, body.part().unwrap())
}

#[test]
#[cfg_attr(miri, ignore = "Miri takes minutes for Arrow's own code")]
fn rser_10_the_head_of_a_record_batch_is_checked() {
    assert!(claimed(|_| ()).is_ok());
    let wrong: [fn(&mut Head); 11] = [
        |it| it.rows = u64::MAX,
        |it| it.rows += 1,
        |it| it.nodes[0].len = u64::MAX,
        |it| it.nodes[0].len += 100,
        |it| it.nodes[0].buffers = u32::MAX,
        |it| it.nodes[1].has_nulls = false,
        |it| it.lengths[1] -= 1,
        |it| it.lengths[0] = u64::MAX,
        |it| it.schema.truncate(10),
        |it| it.nodes.truncate(5),
        |it| it.lengths.push(0),
    ];
    for (number, change) in wrong.into_iter().enumerate() {
        assert!(claimed(change).is_err(), "change {number}");
    }
    let types = [
        DataType::FixedSizeBinary(-1),
        DataType::FixedSizeList(Arc::new(Field::new("x", DataType::Null, false)), i32::MAX),
        DataType::FixedSizeList(Arc::new(Field::new("x", DataType::Int8, true)), -1),
        DataType::Dictionary(Box::new(DataType::FixedSizeBinary(-1)), Box::new(DataType::Utf8)),
        DataType::Map(Arc::new(Field::new("x", DataType::Int8, true)), false),
        DataType::List(Arc::new(Field::new("x", DataType::Utf8, true))),
        DataType::Time32(TimeUnit::Nanosecond),
        DataType::Time64(TimeUnit::Second),
    ];
    for data_type in types {
        let schema = Schema::new(vec![Field::new("x", data_type.clone(), true)]);
        let schema = super::super::super::to_packed(&schema).unwrap();
        assert!(claimed(|it| it.schema = schema).is_err(), "{data_type}");
    }
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(600))]

    /// Whatever bytes are changed, the result is a batch that can be read through, or an error.
    #[test]
    #[cfg_attr(miri, ignore = "Miri takes minutes for Arrow's own code")]
    fn rser_10_mutated_record_batches_are_a_value_or_an_error(
        rows in 0_usize..40,
        flips in prop::collection::vec((any::<prop::sample::Index>(), any::<u8>()), 1..6),
        cut in prop::option::of(any::<prop::sample::Index>()),
    ) {
        let mut bytes = encode(&ArrowBatch::new(every_kind(rows)).unwrap()).unwrap().to_vec();
        for (at, byte) in flips {
            let at = at.index(bytes.len());
            bytes[at] = byte;
        }
        if let Some(cut) = cut {
            bytes.truncate(cut.index(bytes.len()));
        }
        let read: Result<ArrowBatch, DecodeError> = decode(&bytes);
        if let Ok(batch) = read {
            for column in batch.columns() {
                column.to_data().validate_full().unwrap();
            }
            // Reads every value.
            prop_assert_eq!(format!("{:?}", batch.columns()).is_empty(), false);
        }
    }
}

/// Any type, also one that no array has.
fn any_type() -> impl Strategy<Value = DataType> {
    let leaf = prop_oneof![
        4 => prop::sample::select(vec![
            DataType::Null,
            DataType::Boolean,
            DataType::Int8,
            DataType::UInt64,
            DataType::Float16,
            DataType::Date64,
            DataType::Time32(TimeUnit::Nanosecond),
            DataType::Time64(TimeUnit::Second),
            DataType::Timestamp(TimeUnit::Second, Some("+99:99".into())),
            DataType::Duration(TimeUnit::Millisecond),
            DataType::Interval(IntervalUnit::MonthDayNano),
            DataType::Utf8,
            DataType::LargeUtf8,
            DataType::Binary,
            DataType::LargeBinary,
            DataType::Utf8View,
            DataType::BinaryView,
        ]),
        1 => prop::sample::select(vec![-1, 0, 1, 3, i32::MAX]).prop_map(DataType::FixedSizeBinary),
        1 => (any::<u8>(), any::<i8>()).prop_map(|(digits, scale)| DataType::Decimal32(digits, scale)),
        1 => (any::<u8>(), any::<i8>()).prop_map(|(digits, scale)| DataType::Decimal256(digits, scale)),
    ];
    leaf.prop_recursive(4, 12, 3, |inner| {
        let field = (inner.clone(), any::<bool>())
            .prop_map(|(data_type, nulls)| Arc::new(Field::new("x", data_type, nulls)));
        let fields = prop::collection::vec(field.clone(), 0..4).prop_map(Fields::from);
        let entries = (fields.clone(), any::<bool>())
            .prop_map(|(fields, nulls)| Arc::new(Field::new("entries", DataType::Struct(fields), nulls)));
        let sizes = prop::sample::select(vec![-1, 0, 1, 2, 5, i32::MAX]);
        let keys = prop::sample::select(vec![DataType::Int8, DataType::UInt64, DataType::Utf8]);
        prop_oneof![
            field.clone().prop_map(DataType::List),
            field.clone().prop_map(DataType::LargeList),
            field.clone().prop_map(DataType::ListView),
            (field.clone(), sizes).prop_map(|(field, size)| DataType::FixedSizeList(field, size)),
            (prop_oneof![entries, field], any::<bool>())
                .prop_map(|(field, sorted)| DataType::Map(field, sorted)),
            fields.prop_map(DataType::Struct),
            (keys, inner).prop_map(|(keys, values)| DataType::Dictionary(Box::new(keys), Box::new(values))),
        ]
    })
}

/// An array of any claims.
fn any_node() -> impl Strategy<Value = Node> {
    let lens = prop_oneof![8 => 0_u64..6, 1 => Just(1 << 20), 1 => any::<u64>()];
    (lens, any::<bool>(), 0_u32..4).prop_map(|(len, has_nulls, buffers)| Node {
        len,
        has_nulls,
        buffers,
    })
}

/// Reads every value of a batch as a user would.
fn read_through(batch: &RecordBatch) {
    for column in batch.columns() {
        column.to_data().validate_full().unwrap();
        let _ = format!("{column:?}");
        assert_eq!(column.slice(0, column.len()).len(), column.len());
        assert!(column.logical_null_count() <= column.len());
    }
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(400))]

    /// Whatever a head claims of a part, the result is a batch that can be read through and sent on, or an error.
    #[test]
    #[cfg_attr(miri, ignore = "Miri takes minutes for Arrow's own code")]
    fn rser_10_any_types_over_any_bytes_are_a_value_or_an_error(
        data_type in any_type(),
        rows in 0_u64..6,
        mut nodes in prop::collection::vec(any_node(), 1..12),
        fits in any::<bool>(),
        mut lengths in prop::collection::vec(prop::sample::select(vec![0_u64, 1, 4, 8, 12, 16, 24, 48, 64, 96]), 0..20),
        part in prop::collection::vec(prop_oneof![6 => Just(0_u8), 2 => 0_u8..4, 1 => any::<u8>()], 0..600),
    ) {
        let schema = Schema::new(vec![Field::new("x", data_type.clone(), true)]);
        if fits && check::schema(&schema).is_ok() {
            nodes[0].len = rows;
            let used = claim(&data_type, &mut nodes);
            nodes.truncate(used);
            lengths.resize(nodes.iter().map(|it| it.buffers as usize + usize::from(it.has_nulls)).sum(), 16);
        }
        let schema = super::super::super::to_packed(&schema).unwrap();
        let head = Head { schema, rows, nodes, lengths };
        let part = Arc::new(Bytes64::copy_of(&part).unwrap());
        if let Ok(batch) = read::batch(&head, part) {
            read_through(&batch);
            sent(&batch);
        }
    }
}

/// Gives the nodes of a type the numbers of buffers that it has, and most lengths that it needs; returns how many nodes it has.
fn claim(data_type: &DataType, nodes: &mut [Node]) -> usize {
    let Some((node, rest)) = nodes.split_first_mut() else {
        return 0;
    };
    node.buffers = arrow_data::layout(data_type).buffers.len() as u32;
    let mut used = 0;
    for child in read::child_types(data_type) {
        let rest = rest.get_mut(used..).unwrap_or_default();
        match (data_type, rest.first_mut()) {
            (DataType::Struct(_), Some(first)) => first.len = node.len,
            (DataType::FixedSizeList(_, size), Some(first)) => {
                first.len = node.len.saturating_mul(u64::from(size.unsigned_abs()));
            }
            _ => {}
        }
        used += claim(child, rest);
    }
    used + 1
}
