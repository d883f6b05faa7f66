//! The addresses of the database and Redis: some are taken, some are refused, and no password is ever shown.

use super::*;

const POSTGRES: (&str, &str) = ("DATABASE_URL", "postgres://u:p@h/d");

#[test]
fn sqlite_and_postgresql_are_taken_and_nothing_else() {
    for (url, is_postgres) in [
        ("sqlite://fermata.db", false),
        ("sqlite:///data/a b@c?d#e.db", false),
        ("sqlite::memory:", false),
        ("postgres://h/d", true),
        ("postgresql://u:p@h:5433/d", true),
        ("postgres:///d?host=/run/postgresql", true),
        ("postgres://u:p@[::1]:5432/d", true),
    ] {
        let (config, _) = read(&[], &[("DATABASE_URL", url)], "").expect("a good URL");
        assert_eq!(config.database.database_url.as_str(), url, "what is used is the whole");
        assert_eq!(config.database.database_url.is_postgres(), is_postgres, "{url}");
    }
    for url in [
        "mysql://u:hush@h/d",
        "hush",
        "postgres",
        "/hush.db",
        "postgress://u:hush@h/d",
        "POSTGRES://u:hush@h/d",
    ] {
        let words = error(&[("DATABASE_URL", url)], "");
        assert!(
            words.starts_with("DATABASE_URL: database_url: it must begin with sqlite: or postgres:"),
            "{words}"
        );
        assert!(!words.contains("hush"), "{words}");
    }
    assert!(error(&[("DATABASE_URL", "postgres:h/d")], "").contains("write it as postgres://"));
}

#[test]
fn of_a_database_the_host_is_shown_and_the_password_is_not() {
    for (url, shown) in [
        ("postgres://u:hush@h/d", "postgres://(secret)@h/d"),
        ("postgres://u:hush@x:hush@h:5433/d", "postgres://(secret)@h:5433/d"),
        ("postgresql://h/d?user=u&password=hush", "postgresql://h/d?user=(secret)&password=(secret)"),
        ("sqlite:///data/a@b?mode=rwc", "sqlite:///data/a@b?mode=rwc"),
    ] {
        let (config, report) = read(&[], &[("DATABASE_URL", url)], "").expect("a good URL");
        assert!(report.contains(&format!("database_url = \"{shown}\"  # DATABASE_URL\n")), "{report}");
        assert!(!format!("{config:?}").contains("hush"), "{config:?}");
        File::parse("report", &report, Variables::new(&|_| None)).expect("the report can be read as a file");
    }
}

#[test]
fn a_password_that_cuts_the_host_off_is_refused_unseen() {
    for password in ["hu/sh", "hu?sh", "hu#sh", "12/sh", "12?sh", "12#sh", "a@b:hu/sh"] {
        for (key, url) in [
            ("DATABASE_URL", format!("postgres://u:{password}@h/d")),
            ("REDIS_URL", format!("redis://:{password}@h")),
        ] {
            let words = error(&[POSTGRES, (key, &url)].into_iter().rev().collect::<Vec<_>>(), "");
            assert!(words.contains("must have them encoded"), "{url}: {words}");
            assert!(!words.contains("sh@") && !words.contains("hu"), "{words}");
        }
    }
}

#[test]
fn redis_is_for_those_who_share_a_database() {
    let words = error(&[("REDIS_URL", "redis://:hush@h")], "");
    assert!(
        words.starts_with("REDIS_URL: Redis is for instances that share a PostgreSQL database"),
        "{words}"
    );
    assert!(words.contains("leave out REDIS_URL") && !words.contains("hush"), "{words}");
    let (config, report) =
        read(&[], &[POSTGRES, ("REDIS_URL", "rediss://u:hush@h:6380/1")], "").expect("both");
    assert!(report.contains("redis_url = \"rediss://(secret)@h:6380/1\"  # REDIS_URL\n"), "{report}");
    assert!(!format!("{config:?}").contains("hush"), "{config:?}");
    assert_eq!(config.database.redis_url.as_ref().map(RedisUrl::as_str), Some("rediss://u:hush@h:6380/1"));
    let words = error(&[POSTGRES, ("REDIS_URL", "http://:hush@h")], "");
    assert!(words.contains("it must begin with redis:// or rediss://") && !words.contains("hush"), "{words}");
}

#[test]
fn a_database_is_given_its_connections_and_its_migrations_by_the_operator() {
    let toml = "migrate = false\ndatabase_connections = 3\nkeep = \"90days\"\ndrain = \"0s\"\n";
    let (config, report) = read(&[], &[], toml).expect("good settings");
    assert_eq!((config.database.migrate, config.database.database_connections.get()), (false, 3));
    assert_eq!(config.database.keep.map(|keep| keep.0.as_secs()), Some(90 * 24 * 3600));
    assert!(config.server.drain.0.is_zero());
    assert!(report.contains("migrate = false  # fermata.toml:1\n"), "{report}");
    assert!(error(&[("FERMATA_MIGRATE", "no")], "").ends_with("\"no\" is not true or false"));
    assert!(error(&[("FERMATA_DATABASE_CONNECTIONS", "0")], "").ends_with("above zero"));
}

#[test]
fn chats_that_would_be_forgotten_at_once_are_not_meant() {
    let words = error(&[("FERMATA_KEEP", "0s")], "");
    assert!(words.starts_with("FERMATA_KEEP: keep: \"0s\" is too short"), "{words}");
}

#[test]
fn a_cluster_key_is_random_bytes_and_is_not_shown() {
    let key = "4b5180d9be0f8e36d361375343b4c091f453059667323ac3c442054a84680195";
    let (config, report) = read(&[], &[("FERMATA_CLUSTER_KEY", key)], "").expect("a key");
    assert!(report.contains("cluster_key = \"(secret)\"  # FERMATA_CLUSTER_KEY\n"), "{report}");
    assert!(!format!("{config:?}{report}").contains(&key[..8]));
    for bad in ["hush-hush", &"ab".repeat(32), &key[..62]] {
        let words = error(&[("FERMATA_CLUSTER_KEY", bad)], "");
        assert!(words.starts_with("FERMATA_CLUSTER_KEY: cluster_key: it"), "{words}");
        assert!(words.contains("openssl rand -hex 32") && !words.contains(bad), "{words}");
    }
}
