//! The migrations that this version knows. They are part of the binary.
//!
//! The macro of sqlx would include them, too, but it builds sqlx with both databases and their TLS a second time, for the compiler.

use std::sync::LazyLock;

use sqlx::{
    SqlSafeStr,
    migrate::{Migration, MigrationType, Migrator},
};

macro_rules! migrations {
    ($folder:literal: $($file:literal)+) => {
        LazyLock::new(|| {
            migrator(&[$(($file, include_str!(concat!("../../../migrations/", $folder, "/", $file, ".sql")))),+])
        })
    };
}

/// The number of the newest of these migrations.
pub fn newest(migrator: &Migrator) -> i64 {
    migrator.iter().map(|migration| migration.version).max().unwrap_or_default()
}

/// The migrations of a SQLite database.
pub static SQLITE: LazyLock<Migrator> = migrations!("sqlite":
    "0001_chats"
    "0002_runs"
    "0003_confirmations"
    "0004_notes"
    "0005_tool_calls"
    "0006_confirmation_answers"
    "0007_instances"
    "0008_logs_of_finished_runs"
    "0009_open_runs"
    "0010_taking_up_runs"
    "0011_run_settings"
    "0012_grants"
    "0013_audit_events"
    "0014_cluster_key"
    "0015_bytes_of_chats"
    "0016_clock_marks"
    "0017_owners"
    "0018_assistants"
    "0019_context"
    "0020_summaries"
    "0021_memories"
    "0022_run_status"
    "0023_plans"
    "0024_runs_at_work_by_driver"
    "0025_audit_events_by_owner"
    "0026_owners_of_runs"
    "0027_values_elsewhere"
    "0028_less_to_write"
    "0029_how_decided"
    "0030_audit_of_outcomes"
    "0031_scopes_of_grants"
    "0032_answers_by_result"
    "0033_waits_of_calls"
);

/// The migrations of a PostgreSQL database.
pub static POSTGRES: LazyLock<Migrator> = migrations!("postgres":
    "0001_schema"
    "0002_open_runs"
    "0003_taking_up_runs"
    "0004_run_settings"
    "0005_grants"
    "0006_audit_events"
    "0007_cluster_key"
    "0008_bytes_of_chats"
    "0009_clock_marks"
    "0010_owners"
    "0011_assistants"
    "0012_context"
    "0013_summaries"
    "0014_memories"
    "0015_run_status"
    "0016_plans"
    "0017_heartbeats"
    "0018_runs_at_work_by_driver"
    "0019_audit_events_by_owner"
    "0020_owners_of_runs"
    "0021_owners_of_open_runs"
    "0022_open_runs_by_owner"
    "0023_values_elsewhere"
    "0024_room_for_updates"
    "0025_how_decided"
    "0026_audit_of_outcomes"
    "0027_scopes_of_grants"
    "0028_answers_by_result"
    "0029_processes_of_instances"
    "0030_versions_of_instances"
    "0031_waits_of_calls"
);

/// Returns the migrations of these files, whose names are a number and a description.
fn migrator(files: &[(&str, &'static str)]) -> Migrator {
    let mut migrations = Vec::new();
    for (name, sql) in files {
        let (version, description) = name.split_once('_').unwrap_or((name, ""));
        migrations.push(Migration::new(
            version.parse().unwrap_or_default(),
            description.replace('_', " ").into(),
            MigrationType::Simple,
            sql.into_sql_str(),
            sql.starts_with("-- no-transaction"),
        ));
    }
    Migrator { migrations: migrations.into(), ..Migrator::DEFAULT }
}

#[cfg(test)]
mod tests {
    use std::{fs, path::Path};

    use super::*;

    #[test]
    fn every_file_is_a_migration_and_they_are_in_order() {
        for (folder, migrations) in [("sqlite", &SQLITE), ("postgres", &POSTGRES)] {
            let folder = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../migrations").join(folder);
            let mut files: Vec<_> = fs::read_dir(folder)
                .unwrap()
                .map(|file| file.unwrap().file_name().into_string().unwrap())
                .collect();
            files.sort();
            let known: Vec<_> = migrations
                .iter()
                .map(|migration| {
                    format!("{:04}_{}.sql", migration.version, migration.description.replace(' ', "_"))
                })
                .collect();
            assert_eq!(known, files);
        }
    }
}
