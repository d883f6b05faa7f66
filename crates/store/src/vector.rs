//! Vectors as a column: an array of `real` in PostgreSQL, and in SQLite, which has no arrays, a blob.

use bytes::BytesMut;
use rusqlite::types::{FromSql, FromSqlError, FromSqlResult, ToSqlOutput, ValueRef};
use tokio_postgres::types::{self, IsNull, Type, accepts, to_sql_checked};

use crate::error::BoxError;

/// A vector in a column.
#[derive(Clone, Debug, PartialEq)]
pub struct Vector(pub Vec<f32>);

/// The vector as a column takes it.
pub fn vector(numbers: &[f32]) -> Vector {
    Vector(numbers.to_owned())
}

/// Each number in four bytes, the lowest byte first.
fn to_bytes(numbers: &[f32]) -> Vec<u8> {
    numbers.iter().flat_map(|number| number.to_le_bytes()).collect()
}

fn read_bytes(bytes: &[u8]) -> Result<Vec<f32>, BoxError> {
    let (numbers, rest) = bytes.as_chunks();
    if !rest.is_empty() {
        return Err("a vector ends in the middle of a number".into());
    }
    Ok(numbers.iter().map(|number| f32::from_le_bytes(*number)).collect())
}

// === impl Vector ===

impl From<Vector> for ToSqlOutput<'_> {
    fn from(Vector(numbers): Vector) -> Self {
        to_bytes(&numbers).into()
    }
}

impl FromSql for Vector {
    fn column_result(value: ValueRef<'_>) -> FromSqlResult<Self> {
        read_bytes(value.as_blob()?).map(Self).map_err(FromSqlError::Other)
    }
}

impl types::ToSql for Vector {
    fn to_sql(&self, r#type: &Type, buffer: &mut BytesMut) -> Result<IsNull, BoxError> {
        types::ToSql::to_sql(&self.0, r#type, buffer)
    }

    accepts!(FLOAT4_ARRAY);
    to_sql_checked!();
}

impl types::FromSql<'_> for Vector {
    fn from_sql(r#type: &Type, bytes: &[u8]) -> Result<Self, BoxError> {
        types::FromSql::from_sql(r#type, bytes).map(Self)
    }

    accepts!(FLOAT4_ARRAY);
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_number_comes_back_bit_by_bit() {
        let numbers = [0.0, -0.0, 1.5, -1e-40, f32::MIN_POSITIVE, f32::MAX, 0.1];
        let bytes = to_bytes(&numbers);
        assert_eq!(bytes[8..12], [0, 0, 0xc0, 0x3f], "1.5, the lowest byte first");
        let read = read_bytes(&bytes).unwrap();
        assert_eq!(read.iter().map(|n| n.to_bits()).collect::<Vec<_>>(), numbers.map(f32::to_bits));
    }

    #[test]
    fn bytes_that_are_no_numbers_are_not_read() {
        assert!(read_bytes(&[0; 5]).is_err());
        assert_eq!(read_bytes(&[]).unwrap(), [0.0; 0]);
    }
}
