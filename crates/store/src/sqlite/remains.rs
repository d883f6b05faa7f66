//! Overwrites what deleted rows have left in pages that are in use.
//!
//! SQLite overwrites a row that is deleted (`secure_delete`), but not its former places: when rows move, the unused part of a
//! page keeps a copy of them. So after a deletion all pages are looked at, some at a time. Readers look, and the connection that writes
//! overwrites only where something is left.
//!
//! This module knows the head of a b-tree page (<https://sqlite.org/fileformat2.html#b_tree_pages>) and what of the page is unused. Pages of
//! other kinds have no such part: SQLite overwrites them as a whole when they are freed.

use std::ops::Range;

use rusqlite::{Connection, OptionalExtension as _, params};

/// The pages that are looked at in a round, 80 MB of them.
pub const ROUND: i64 = 20_000;
/// The pages that are overwritten in a transaction.
pub const GROUP: usize = 200;
/// A page of another kind begins with the number of a page, whose first byte looks like the kind of a b-tree page from here on.
const TOO_MANY_PAGES: i64 = 0x0200_0000;

/// The pages that are still to be looked at, in a circle.
#[derive(Clone, Copy, Debug)]
pub struct Sweep {
    next: i64,
    remaining: i64,
    /// The number of times that it has begun again.
    restarts: u64,
}

// === impl Sweep ===

impl Sweep {
    /// Begins again, from the page that comes next.
    pub fn restart(&mut self) {
        self.remaining = i64::MAX;
        self.restarts += 1;
    }

    /// Goes on after a round, unless it has begun again since.
    pub fn go_on(&mut self, rest: Self) {
        self.next = rest.next;
        if self.restarts == rest.restarts {
            self.remaining = rest.remaining;
        }
    }

    pub fn is_over(self) -> bool {
        self.remaining == 0
    }

    /// Looks at the pages of a round. Returns those with remains, and the sweep of the others.
    ///
    /// # Errors
    /// If the pages cannot be read.
    pub fn look(mut self, connection: &Connection) -> rusqlite::Result<(Vec<i64>, Self)> {
        let pages: i64 = connection.query_row("pragma page_count", [], |row| row.get(0))?;
        if pages >= TOO_MANY_PAGES {
            return Ok((Vec::new(), Self { remaining: 0, ..self }));
        }
        self.remaining = self.remaining.min(pages);
        let mut statement = connection.prepare_cached("select data from sqlite_dbpage where pgno = ?1")?;
        let reserved = reserved_bytes(connection)?;
        let mut found = Vec::new();
        for _ in 0..self.remaining.min(ROUND) {
            if self.next > pages {
                self.next = 1;
            }
            let has_remains = statement
                .query_row([self.next], |row| {
                    let page = row.get_ref(0)?.as_blob()?;
                    Ok(has_remains(page, self.next, reserved))
                })
                .optional()?;
            if has_remains == Some(true) {
                found.push(self.next);
            }
            self.next += 1;
            self.remaining -= 1;
        }
        Ok((found, self))
    }
}

impl Default for Sweep {
    /// The sweep of all pages: the process before may have ended in the middle of one.
    fn default() -> Self {
        Self { next: 1, remaining: i64::MAX, restarts: 0 }
    }
}

/// Overwrites what is left in these pages.
///
/// # Errors
/// If the pages cannot be read or written.
pub fn overwrite(connection: &Connection, pages: &[i64]) -> rusqlite::Result<()> {
    let reserved = reserved_bytes(connection)?;
    let mut read = connection.prepare_cached("select data from sqlite_dbpage where pgno = ?1")?;
    let mut write = connection.prepare_cached("update sqlite_dbpage set data = ?2 where pgno = ?1")?;
    for number in pages {
        let Some(mut page) = read.query_row([number], |row| row.get::<_, Vec<u8>>(0)).optional()? else {
            continue;
        };
        // The page may have changed since it was looked at.
        if has_remains(&page, *number, reserved) {
            for range in unused(&page, *number, reserved).unwrap_or_default() {
                page[range].fill(0);
            }
            write.execute(params![number, page])?;
        }
    }
    Ok(())
}

/// The bytes at the end of each page that SQLite leaves to extensions.
fn reserved_bytes(connection: &Connection) -> rusqlite::Result<usize> {
    connection.query_row("select data from sqlite_dbpage where pgno = 1", [], |row| {
        Ok(row.get_ref(0)?.as_blob()?.get(20).copied().unwrap_or_default().into())
    })
}

fn has_remains(page: &[u8], number: i64, reserved: usize) -> bool {
    let ranges = unused(page, number, reserved).unwrap_or_default();
    ranges.into_iter().any(|range| page[range].iter().any(|byte| *byte != 0))
}

/// Returns the unused parts of a b-tree page; `None` if it is a page of another kind.
fn unused(page: &[u8], number: i64, reserved: usize) -> Option<Vec<Range<usize>>> {
    let head = if number == 1 { 100 } else { 0 };
    let end = page.len().checked_sub(reserved)?;
    let number_at = |at: usize| Some(usize::from(u16::from_be_bytes(page.get(at..at + 2)?.try_into().ok()?)));
    let size_of_head = match page.get(head)? {
        2 | 5 => 12,
        10 | 13 => 8,
        _ => return None,
    };
    let cells = number_at(head + 3)?;
    let content = match number_at(head + 5)? {
        0 => 65_536,
        content => content,
    };
    let first_pointer = head + size_of_head;
    let gap = first_pointer + 2 * cells..content;
    if gap.start > gap.end || content > end {
        return None;
    }
    for cell in 0..cells {
        if !(content..end).contains(&number_at(first_pointer + 2 * cell)?) {
            return None;
        }
    }
    let mut unused = vec![gap];
    let mut block = number_at(head + 1)?;
    while block != 0 {
        let (next, size) = (number_at(block)?, number_at(block + 2)?);
        if block < content || size < 4 || block + size > end || (next != 0 && next < block + size) {
            return None;
        }
        unused.push(block + 4..block + size);
        block = next;
    }
    Some(unused)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn page(connection: &Connection, number: i64) -> Vec<u8> {
        let read = "select data from sqlite_dbpage where pgno = ?1";
        connection.query_row(read, [number], |row| row.get(0)).unwrap()
    }

    fn rows(connection: &Connection) -> Vec<(i64, String)> {
        let mut statement = connection.prepare("select id, words from t order by id").unwrap();
        let rows = statement.query_map([], |row| Ok((row.get(0)?, row.get(1)?))).unwrap();
        rows.map(|row| row.unwrap()).collect()
    }

    #[test]
    fn what_is_left_in_unused_parts_of_pages_is_overwritten_and_nothing_else() {
        let connection = Connection::open_in_memory().unwrap();
        let tables =
            "pragma secure_delete = on; create table t (id integer primary key, words text not null);
                      create index by_words on t (words)";
        connection.execute_batch(tables).unwrap();
        for n in 0..600_usize {
            // Some rows have pages of their own.
            let words = format!("{n:04} {}", "kept ".repeat(n % 90 * (1 + n % 50 / 49 * 40)));
            connection.execute("insert into t (words) values (?1)", [words]).unwrap();
        }
        connection.execute("delete from t where id % 7 = 0", []).unwrap();
        let before = rows(&connection);
        let pages: i64 = connection.query_row("pragma page_count", [], |row| row.get(0)).unwrap();
        let mut planted = Vec::new();
        for number in 1..=pages {
            let mut page = page(&connection, number);
            let ranges = unused(&page, number, 0).unwrap_or_default();
            if ranges.iter().any(|range| !range.is_empty()) {
                planted.push(number);
            }
            // As SQLite leaves it when rows move.
            ranges.into_iter().for_each(|range| page[range].fill(b'x'));
            connection
                .execute("update sqlite_dbpage set data = ?2 where pgno = ?1", params![number, page])
                .unwrap();
        }
        assert!(planted.len() > 20, "{planted:?}");
        let (found, rest) = Sweep::default().look(&connection).unwrap();
        assert_eq!(found, planted);
        assert!(rest.is_over());
        overwrite(&connection, &found).unwrap();
        assert!(Sweep::default().look(&connection).unwrap().0.is_empty());
        assert!((1..=pages).all(|number| !page(&connection, number).windows(2).any(|bytes| bytes == b"xx")));
        assert_eq!(rows(&connection), before);
        let intact: String = connection.query_row("pragma integrity_check", [], |row| row.get(0)).unwrap();
        assert_eq!(intact, "ok");
    }

    #[test]
    fn a_sweep_that_begins_again_looks_at_all_pages_once_more() {
        let mut sweep = Sweep { next: 5, remaining: 10, restarts: 0 };
        let rest = Sweep { next: 9, remaining: 6, ..sweep };
        sweep.go_on(rest);
        assert_eq!((sweep.next, sweep.remaining), (9, 6));
        sweep.restart();
        sweep.go_on(Sweep { next: 12, remaining: 3, restarts: 0 });
        assert_eq!((sweep.next, sweep.remaining), (12, i64::MAX));
    }

    #[test]
    fn a_page_of_another_kind_has_no_unused_parts() {
        assert_eq!(unused(&[0; 512], 2, 0), None);
        assert_eq!(unused(&[], 2, 0), None);
        for kind in [2, 5, 10, 13] {
            // Every number in its head leads out of the page.
            let mut page = [0xff; 512];
            page[0] = kind;
            assert_eq!(unused(&page, 2, 0), None);
        }
    }
}
