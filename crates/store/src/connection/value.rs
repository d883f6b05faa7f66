//! The values that are bound to the parameters of a query. Both drivers know them.

use rusqlite::types::{Null, ToSqlOutput};
use tokio_postgres::types::{self, Type};

use crate::{
    text::{ParsedJson, Text, TextRef},
    vector::Vector,
};

/// A value that columns of both databases take.
pub trait Value: Send {
    /// The value as it is kept until PostgreSQL has answered.
    type Owned: types::ToSql + Send + Sync + 'static;
    /// PostgreSQL's type of the parameter.
    const TYPE: Type;

    fn into_owned(self) -> Self::Owned;

    /// The value as SQLite takes it.
    fn into_sqlite<'a>(self) -> ToSqlOutput<'a>
    where
        Self: 'a;
}

macro_rules! value {
    ($value:ty, $type:ident) => {
        impl Value for $value {
            type Owned = Self;
            const TYPE: Type = Type::$type;

            fn into_owned(self) -> Self {
                self
            }

            fn into_sqlite<'a>(self) -> ToSqlOutput<'a> {
                self.into()
            }
        }
    };
}

value!(bool, BOOL);
value!(i32, INT4);
value!(i64, INT8);
value!(String, TEXT);
value!(Text, TEXT);
value!(ParsedJson, TEXT);
value!(Vector, FLOAT4_ARRAY);

impl Value for &str {
    type Owned = String;
    const TYPE: Type = Type::TEXT;

    fn into_owned(self) -> String {
        self.to_owned()
    }

    fn into_sqlite<'a>(self) -> ToSqlOutput<'a>
    where
        Self: 'a,
    {
        self.into()
    }
}

impl Value for TextRef<'_> {
    type Owned = Text;
    const TYPE: Type = Type::TEXT;

    fn into_owned(self) -> Text {
        Text(self.0.to_owned())
    }

    fn into_sqlite<'a>(self) -> ToSqlOutput<'a>
    where
        Self: 'a,
    {
        self.0.into()
    }
}

impl<V: Value> Value for Option<V> {
    type Owned = Option<V::Owned>;
    const TYPE: Type = V::TYPE;

    fn into_owned(self) -> Self::Owned {
        self.map(V::into_owned)
    }

    fn into_sqlite<'a>(self) -> ToSqlOutput<'a>
    where
        Self: 'a,
    {
        self.map_or(Null.into(), V::into_sqlite)
    }
}
