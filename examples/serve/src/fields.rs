//! Fields of a JSON object, each read by name, so that an error names the field.
//!
//! Fields that are never read are ignored: clients send many that have no meaning here. Fields that would change the
//! answer and are not supported are refused by [`Fields::refuse`].

use std::ops::RangeInclusive;

use serde_json::{Map, Value};

use crate::error::Error;

/// The object in a request's body.
#[derive(Clone, Debug)]
pub struct Fields(Map<String, Value>);

impl Fields {
    /// Reads a body.
    ///
    /// # Errors
    /// [`Error::Malformed`], with the position of the mistake.
    pub fn parse(body: &[u8]) -> Result<Fields, Error> {
        let text = std::str::from_utf8(body)
            .map_err(|error| Error::Malformed(format!("byte {} is not UTF-8", error.valid_up_to())))?;
        match serde_json::from_str(text) {
            Ok(Value::Object(map)) => Ok(Fields(map)),
            Ok(other) => Err(Error::Malformed(format!("it is {}", kind(&other)))),
            Err(error) => Err(Error::Malformed(error.to_string())),
        }
    }

    /// Returns the object of a field; an empty object if the field is not given.
    ///
    /// # Errors
    /// [`Error::Field`] if the value has another type.
    pub fn object(&self, param: &'static str) -> Result<Fields, Error> {
        match self.get(param) {
            None => Ok(Fields(Map::new())),
            Some(Value::Object(map)) => Ok(Fields(map.clone())),
            Some(other) => Err(wrong(param, "an object", other)),
        }
    }

    /// Returns a field that is given and not null.
    pub fn get(&self, param: &str) -> Option<&Value> {
        self.0.get(param).filter(|value| !value.is_null())
    }

    /// Returns a string.
    ///
    /// # Errors
    /// [`Error::Field`] if the field is missing or has another type.
    pub fn string(&self, param: &'static str) -> Result<&str, Error> {
        match self.get(param) {
            Some(Value::String(text)) => Ok(text),
            Some(other) => Err(wrong(param, "a string", other)),
            None => Err(Error::field(param, "is missing")),
        }
    }

    /// Returns a number within a range, or the default.
    ///
    /// # Errors
    /// [`Error::Field`] if the value is out of range or has another type.
    pub fn number(
        &self,
        param: &'static str,
        range: RangeInclusive<f64>,
        default: f64,
    ) -> Result<f64, Error> {
        let Some(value) = self.get(param) else {
            return Ok(default);
        };
        let number = value.as_f64().ok_or_else(|| wrong(param, "a number", value))?;
        if range.contains(&number) {
            return Ok(number);
        }
        let (from, to) = range.into_inner();
        Err(Error::field(
            param,
            format!("is {number}; it must be from {from} to {to}"),
        ))
    }

    /// Returns an integer within a range, if it is given.
    ///
    /// # Errors
    /// [`Error::Field`] if the value is out of range or has another type.
    pub fn integer(&self, param: &'static str, range: RangeInclusive<i64>) -> Result<Option<i64>, Error> {
        let Some(value) = self.get(param) else {
            return Ok(None);
        };
        match value.as_i64() {
            Some(number) if range.contains(&number) => Ok(Some(number)),
            None if !value.is_number() => Err(wrong(param, "an integer", value)),
            _ => {
                let (from, to) = range.into_inner();
                Err(Error::field(
                    param,
                    format!("is {value}; it must be an integer from {from} to {to}"),
                ))
            }
        }
    }

    /// Returns a flag; `false` if it is not given.
    ///
    /// # Errors
    /// [`Error::Field`] if the value has another type.
    pub fn flag(&self, param: &'static str) -> Result<bool, Error> {
        match self.get(param) {
            None => Ok(false),
            Some(Value::Bool(flag)) => Ok(*flag),
            Some(other) => Err(wrong(param, "true or false", other)),
        }
    }

    /// Refuses a field that is not supported, unless it has a neutral value.
    ///
    /// # Errors
    /// [`Error::Field`] if the field has any other value.
    pub fn refuse(&self, param: &'static str, neutral: &[Value]) -> Result<(), Error> {
        match self.get(param) {
            Some(value) if !neutral.iter().any(|it| same(it, value)) => {
                Err(Error::field(param, "is not supported by this service"))
            }
            _ => Ok(()),
        }
    }
}

/// Whether two values are equal, where 0 equals 0.0.
fn same(left: &Value, right: &Value) -> bool {
    left == right
        || left
            .as_f64()
            .zip(right.as_f64())
            .is_some_and(|(left, right)| left == right)
}

/// Creates the error of a field of another type.
pub(crate) fn wrong(param: &'static str, wanted: &str, found: &Value) -> Error {
    Error::field(param, format!("must be {wanted}, and is {}", kind(found)))
}

fn kind(value: &Value) -> &'static str {
    match value {
        Value::Null => "null",
        Value::Bool(_) => "true or false",
        Value::Number(_) => "a number",
        Value::String(_) => "a string",
        Value::Array(_) => "an array",
        Value::Object(_) => "an object",
    }
}
