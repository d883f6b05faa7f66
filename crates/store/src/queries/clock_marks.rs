//! The mark of how far time has come, which is kept for the next start.

use fermata_engine::store::ClockMark;

use crate::{
    column::{read_time, time},
    connection::Connection,
    error::Fault,
};

/// The mark that was noted last.
pub async fn find(connection: &mut Connection<'_>) -> Result<Option<ClockMark>, Fault> {
    let row: Option<(i64, Option<i64>)> = connection
        .query("select reached_at, doubted_at from clock_marks where id = 1")
        .fetch_optional()
        .await?;
    let Some((reached, doubted)) = row else { return Ok(None) };
    Ok(Some(ClockMark { reached: read_time(reached)?, doubted: doubted.map(read_time).transpose()? }))
}

/// Notes the mark. A time that was reached once stays reached.
pub async fn put(connection: &mut Connection<'_>, mark: ClockMark) -> Result<(), Fault> {
    connection
        .query(
            "insert into clock_marks (id, reached_at, doubted_at) values (1, $1, $2)
             on conflict (id) do update set
                reached_at = case
                    when excluded.reached_at > clock_marks.reached_at then excluded.reached_at
                    else clock_marks.reached_at
                end,
                doubted_at = excluded.doubted_at",
        )
        .bind(time(mark.reached))
        .bind(mark.doubted.map(time))
        .execute()
        .await?;
    Ok(())
}
