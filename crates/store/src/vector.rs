//! Vectors as a column: an array of `real` in PostgreSQL, and in SQLite, which has no arrays, a blob.

use rusqlite::{
    ToSql,
    types::{FromSql, FromSqlError, FromSqlResult, ToSqlOutput, ValueRef},
};
use sqlx::{
    Database, Decode, Encode, Postgres, Type, encode::IsNull, error::BoxDynError, postgres::PgArgumentBuffer,
};

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

fn read_bytes(bytes: &[u8]) -> Result<Vec<f32>, BoxDynError> {
    let (numbers, rest) = bytes.as_chunks();
    if !rest.is_empty() {
        return Err("a vector ends in the middle of a number".into());
    }
    Ok(numbers.iter().map(|number| f32::from_le_bytes(*number)).collect())
}

// === impl Vector ===

impl ToSql for Vector {
    fn to_sql(&self) -> rusqlite::Result<ToSqlOutput<'_>> {
        Ok(to_bytes(&self.0).into())
    }
}

impl FromSql for Vector {
    fn column_result(value: ValueRef<'_>) -> FromSqlResult<Self> {
        read_bytes(value.as_blob()?).map(Self).map_err(FromSqlError::Other)
    }
}

impl Type<Postgres> for Vector {
    fn type_info() -> <Postgres as Database>::TypeInfo {
        <Vec<f32> as Type<Postgres>>::type_info()
    }

    fn compatible(info: &<Postgres as Database>::TypeInfo) -> bool {
        <Vec<f32> as Type<Postgres>>::compatible(info)
    }
}

impl Encode<'_, Postgres> for Vector {
    fn encode_by_ref(&self, buffer: &mut PgArgumentBuffer) -> Result<IsNull, BoxDynError> {
        <Vec<f32> as Encode<'_, Postgres>>::encode_by_ref(&self.0, buffer)
    }
}

impl<'r> Decode<'r, Postgres> for Vector {
    fn decode(value: <Postgres as Database>::ValueRef<'r>) -> Result<Self, BoxDynError> {
        <Vec<f32> as Decode<'r, Postgres>>::decode(value).map(Self)
    }
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
