//! A database file of a test.

use std::path::PathBuf;

/// A file that is deleted at the end of the test.
pub struct Database(PathBuf);

impl Database {
    pub fn new() -> Self {
        Self(std::env::temp_dir().join(format!("fermata-{}.db", uuid::Uuid::new_v4())))
    }

    pub fn url(&self) -> String {
        format!("sqlite://{}", self.0.display())
    }

    /// Opens the file beside the server, to read it.
    pub fn read(&self) -> rusqlite::Connection {
        rusqlite::Connection::open_with_flags(&self.0, rusqlite::OpenFlags::SQLITE_OPEN_READ_ONLY)
            .expect("a database")
    }

    /// Returns all rows of all tables, each as text.
    pub fn rows(&self) -> Vec<String> {
        let database = self.read();
        let mut tables = database
            .prepare("select name from sqlite_schema where type = 'table' order by name")
            .expect("a query");
        let tables = tables.query_map([], |row| row.get(0)).expect("tables");
        let tables: Vec<String> = tables.map(|name| name.expect("a name")).collect();
        let mut rows = Vec::new();
        for table in tables {
            let mut query = database.prepare(&format!("select * from \"{table}\"")).expect("a query");
            let columns = query.column_count();
            let mut found = query.query([]).expect("rows");
            while let Some(row) = found.next().expect("a row") {
                let values: Vec<_> =
                    (0..columns).map(|column| row.get_ref(column).expect("a value")).collect();
                rows.push(format!("{table} {values:?}"));
            }
        }
        rows
    }
}

impl Drop for Database {
    fn drop(&mut self) {
        for suffix in ["", "-wal", "-shm"] {
            let _ = std::fs::remove_file(format!("{}{suffix}", self.0.display()));
        }
    }
}
