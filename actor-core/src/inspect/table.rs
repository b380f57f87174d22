//! The answer to a question: rows of values under named columns.

use std::borrow::Cow;
use std::fmt;

use serde::{Deserialize, Serialize};

/// Rows about a runtime. The table names its columns itself, so a process of another version can show it too.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct InspectTable {
    /// The names of the columns.
    pub columns: Vec<Cow<'static, str>>,
    /// The rows, each with a value for each column.
    pub rows: Vec<Vec<InspectValue>>,
    /// The number of rows that there are besides.
    pub left_out: u64,
}

/// A value in a table.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[non_exhaustive]
pub enum InspectValue {
    /// Nothing is known, or there is no such thing.
    Nothing,
    /// A number.
    Number(u64),
    /// Yes or no.
    Truth(bool),
    /// Text.
    Text(String),
    /// Several numbers.
    Numbers(Vec<u64>),
}

impl InspectTable {
    /// Makes a table of the first `rows_max` rows. `left_out` more rows are not among these.
    pub(super) fn of(
        columns: &[&'static str],
        mut rows: impl ExactSizeIterator<Item = Vec<InspectValue>>,
        rows_max: usize,
        left_out: usize,
    ) -> Self {
        let rows_here: Vec<_> = rows.by_ref().take(rows_max).collect();
        InspectTable {
            columns: columns.iter().map(|column| Cow::Borrowed(*column)).collect(),
            rows: rows_here,
            left_out: (rows.len() + left_out) as u64,
        }
    }

    /// Whether each row has a value for each column.
    pub(super) fn is_whole(&self) -> bool {
        self.rows.iter().all(|row| row.len() == self.columns.len())
    }
}

impl fmt::Display for InspectValue {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            InspectValue::Nothing => f.write_str("-"),
            InspectValue::Number(number) => number.fmt(f),
            InspectValue::Truth(true) => f.write_str("yes"),
            InspectValue::Truth(false) => f.write_str("no"),
            InspectValue::Text(text) => f.write_str(text),
            InspectValue::Numbers(numbers) if numbers.is_empty() => f.write_str("-"),
            InspectValue::Numbers(numbers) => {
                let numbers: Vec<_> = numbers.iter().map(u64::to_string).collect();
                f.write_str(&numbers.join(","))
            }
        }
    }
}

impl From<u64> for InspectValue {
    fn from(number: u64) -> Self {
        InspectValue::Number(number)
    }
}

impl From<bool> for InspectValue {
    fn from(truth: bool) -> Self {
        InspectValue::Truth(truth)
    }
}

impl From<String> for InspectValue {
    fn from(text: String) -> Self {
        InspectValue::Text(text)
    }
}

impl From<&str> for InspectValue {
    fn from(text: &str) -> Self {
        InspectValue::Text(text.to_owned())
    }
}

impl<T: Into<InspectValue>> From<Option<T>> for InspectValue {
    fn from(value: Option<T>) -> Self {
        value.map_or(InspectValue::Nothing, Into::into)
    }
}
