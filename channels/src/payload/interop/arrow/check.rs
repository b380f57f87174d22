//! The types of a schema and the lengths of arrays that travel. A schema and a length may come from another process.

use arrow_schema::{DataType, Schema, TimeUnit};

use super::ArrowBatchError;

/// The largest number of levels of a type.
const LEVELS_MAX: usize = 64;
/// The number of elements that an array may have whatever the bytes of its batch.
const FREE_ELEMENTS: u64 = 1 << 20;

/// Checks the types of all columns. arrow-rs panics for some types that this refuses, such as a binary of negative size.
///
/// # Errors
/// [`ArrowBatchError::Type`] and [`ArrowBatchError::TooDeep`].
pub(super) fn schema(schema: &Schema) -> Result<(), ArrowBatchError> {
    for field in schema.fields() {
        travels(field.data_type(), 1).map_err(|refused| match refused {
            Refused::TooDeep => ArrowBatchError::TooDeep {
                column: field.name().clone(),
                levels_max: LEVELS_MAX,
            },
            Refused::Type(data_type) => ArrowBatchError::Type {
                column: field.name().clone(),
                data_type: data_type.to_string(),
            },
        })?;
    }
    Ok(())
}

enum Refused<'a> {
    TooDeep,
    Type(&'a DataType),
}

fn travels(data_type: &DataType, level: usize) -> Result<(), Refused<'_>> {
    if level > LEVELS_MAX {
        return Err(Refused::TooDeep);
    }
    let refused = Err(Refused::Type(data_type));
    match data_type {
        DataType::Union(..)
        | DataType::RunEndEncoded(..)
        | DataType::ListView(_)
        | DataType::LargeListView(_) => refused,
        DataType::FixedSizeBinary(size) if *size < 0 => refused,
        DataType::FixedSizeList(_, size) if *size < 0 => refused,
        DataType::Dictionary(keys, _) if !keys.is_dictionary_key_type() => refused,
        DataType::Time32(TimeUnit::Microsecond | TimeUnit::Nanosecond)
        | DataType::Time64(TimeUnit::Second | TimeUnit::Millisecond) => refused,
        DataType::Dictionary(_, values) => travels(values, level + 1),
        DataType::List(field)
        | DataType::LargeList(field)
        | DataType::FixedSizeList(field, _)
        | DataType::Map(field, _) => travels(field.data_type(), level + 1),
        DataType::Struct(fields) => fields
            .iter()
            .try_for_each(|field| travels(field.data_type(), level + 1)),
        _ => Ok(()),
    }
}

/// Checks the length of an array in a batch whose buffers have `len_bytes` bytes. Arrays of no bytes, such as of nulls, are bounded
/// too, because arrow-rs makes bitmaps of the length of an array.
///
/// # Errors
/// [`ArrowBatchError::Length`].
pub(super) fn length(elements: u64, len_bytes: usize) -> Result<usize, ArrowBatchError> {
    let max = FREE_ELEMENTS.max((len_bytes as u64).saturating_mul(8));
    usize::try_from(elements)
        .ok()
        .filter(|_| elements <= max)
        .ok_or(ArrowBatchError::Length { elements, len_bytes })
}
