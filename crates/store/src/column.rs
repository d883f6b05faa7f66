//! The forms that values have in columns: a time is a whole number of microseconds, a structure is JSON, and a choice is a name.

use fermata_engine::store::StoreError;
use jiff::Timestamp;
use serde::{
    Serialize,
    de::{DeserializeOwned, IntoDeserializer},
};
use serde_json::Value;

/// A time as a column has it.
pub fn time(at: Timestamp) -> i64 {
    at.as_microsecond()
}

/// A deadline as a column has it. It is rounded up, so that nothing is due before its time.
pub fn deadline(at: Timestamp) -> i64 {
    let rounded = at.as_microsecond();
    if i128::from(rounded) * 1000 < at.as_nanosecond() { rounded + 1 } else { rounded }
}

/// The time that a column has.
pub fn read_time(microseconds: i64) -> Result<Timestamp, StoreError> {
    Timestamp::from_microsecond(microseconds).map_err(|error| StoreError::Corrupt(format!("a time: {error}")))
}

/// A structure as JSON text.
pub fn json<T: Serialize>(value: &T) -> Result<String, StoreError> {
    serde_json::to_string(value)
        .map_err(|error| StoreError::Conflict(format!("it cannot be written as JSON: {error}")))
}

/// Reads the structure that a column has; `what` names it for the operator.
pub fn read_json<T: DeserializeOwned>(what: &str, text: &str) -> Result<T, StoreError> {
    serde_json::from_str(text).map_err(|error| StoreError::Corrupt(format!("{what}: {error}")))
}

/// The name of a variant without fields.
pub fn name<T: Serialize>(variant: &T) -> Result<String, StoreError> {
    match serde_json::to_value(variant) {
        Ok(Value::String(name)) => Ok(name),
        Ok(other) => Err(StoreError::Conflict(format!("{other} is no name"))),
        Err(error) => Err(StoreError::Conflict(format!("it has no name: {error}"))),
    }
}

/// Reads the variant that a column names; `what` names it for the operator.
pub fn read_name<T: DeserializeOwned>(what: &str, name: &str) -> Result<T, StoreError> {
    T::deserialize(name.into_deserializer())
        .map_err(|error: serde::de::value::Error| StoreError::Corrupt(format!("{what}: {error}")))
}

/// A number of rows as `limit` takes it.
pub fn count(limit: usize) -> i64 {
    i64::try_from(limit).unwrap_or(i64::MAX)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_deadline_is_never_before_its_time() {
        let at = |nanoseconds| Timestamp::from_nanosecond(nanoseconds).unwrap();
        assert_eq!(deadline(at(1_000)), 1);
        assert_eq!(deadline(at(1_001)), 2);
        assert_eq!(deadline(at(-1_001)), -1);
        assert_eq!(time(at(1_999)), 1);
    }
}
