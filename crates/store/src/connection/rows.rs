//! The rows of a query, read in the same way from both databases.

use rusqlite::types::FromSql;
use tokio_postgres::types::FromSqlOwned;

/// A type that can be read from the rows of both databases.
pub trait FromRow: Sized + Send {
    fn from_sqlite_row(row: &rusqlite::Row<'_>) -> rusqlite::Result<Self>;

    fn from_postgres_row(row: &tokio_postgres::Row) -> Result<Self, tokio_postgres::Error>;
}

/// Declares a struct that is read from a row of either database by the names of its fields.
macro_rules! row {
    ($(#[$attribute:meta])* $visibility:vis struct $row:ident { $($(#[$about:meta])* $column:ident: $type:ty,)+ }) => {
        $(#[$attribute])*
        $visibility struct $row {
            $($(#[$about])* $column: $type,)+
        }

        impl crate::connection::FromRow for $row {
            fn from_sqlite_row(row: &rusqlite::Row<'_>) -> rusqlite::Result<Self> {
                Ok(Self { $($column: row.get(stringify!($column))?,)+ })
            }

            fn from_postgres_row(row: &tokio_postgres::Row) -> Result<Self, tokio_postgres::Error> {
                Ok(Self { $($column: row.try_get(stringify!($column))?,)+ })
            }
        }
    };
}

pub(crate) use row;

macro_rules! from_columns {
    ($($column:ident $index:tt),+) => {
        impl<$($column: FromSql + FromSqlOwned + Send),+> FromRow for ($($column,)+) {
            fn from_sqlite_row(row: &rusqlite::Row<'_>) -> rusqlite::Result<Self> {
                Ok(($(row.get::<_, $column>($index)?,)+))
            }

            fn from_postgres_row(row: &tokio_postgres::Row) -> Result<Self, tokio_postgres::Error> {
                Ok(($(row.try_get::<_, $column>($index)?,)+))
            }
        }
    };
}

from_columns!(A 0);
from_columns!(A 0, B 1);
from_columns!(A 0, B 1, C 2);
from_columns!(A 0, B 1, C 2, D 3);
from_columns!(A 0, B 1, C 2, D 3, E 4);
from_columns!(A 0, B 1, C 2, D 3, E 4, F 5, G 6);
