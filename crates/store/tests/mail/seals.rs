//! What somebody who can read and write all of Redis, and has not the key of the instances, can do to letters.

use fermata_engine::mail::{Mail, MailError};
use fermata_store::{ClusterKey, RedisMail};
use redis::aio::MultiplexedConnection;

use crate::{
    letters::{collect, instance, letter},
    server::{PREFIX, Server, box_of, query},
};

type Fields = Vec<(String, Vec<u8>)>;

/// What is in a box, as Redis has it.
async fn found(redis: &mut MultiplexedConnection, key: &str) -> Vec<Vec<u8>> {
    let entries: Vec<(String, Fields)> = query(redis, &["XRANGE", key, "-", "+"]).await;
    entries.into_iter().flat_map(|(_, fields)| fields).map(|(_, letter)| letter).collect()
}

async fn put(redis: &mut MultiplexedConnection, key: &str, letter: &[u8]) {
    let mut question = redis::cmd("XADD");
    let put: Result<String, _> = question.arg(key).arg("*").arg("l").arg(letter).query_async(redis).await;
    put.unwrap();
}

#[tokio::test]
async fn what_redis_holds_does_not_say_what_a_letter_says() {
    let Some(server) = Server::start(&[]) else { return };
    let (mail, a) = (server.mail(), instance("a"));
    mail.open(&a).await.unwrap();
    mail.send(&a, vec![letter("the salary of bob")]).await.unwrap();
    let held = found(&mut server.connection().await, &box_of("a")).await;
    assert_eq!(held.len(), 1);
    assert!(!held[0].windows(6).any(|part| part == b"salary"));
    assert_eq!(mail.receive(&a).await.unwrap(), [letter("the salary of bob")]);
}

#[tokio::test]
async fn a_forged_letter_is_dropped_and_those_around_it_arrive() {
    let Some(server) = Server::start(&[]) else { return };
    let (mail, a) = (server.mail(), instance("a"));
    mail.open(&a).await.unwrap();
    let mut redis = server.connection().await;
    let forged = br#"{"ask":{"number":1,"from":"x","chat":"c","ask":{"stop":{"owner":"alice"}}}}"#;
    mail.send(&a, vec![letter("before")]).await.unwrap();
    for bytes in [&forged[..], b"", b"\x01", &[1; 33], &[1; 49], &[1; 10_000]] {
        put(&mut redis, &box_of("a"), bytes).await;
    }
    mail.send(&a, vec![letter("behind")]).await.unwrap();
    assert_eq!(collect(&mail, &a, 2).await, [letter("before"), letter("behind")]);
}

#[tokio::test]
async fn a_letter_that_is_put_in_again_is_dropped_also_after_the_box_was_opened_anew() {
    let Some(server) = Server::start(&[]) else { return };
    let (mail, sender, a) = (server.mail(), server.mail(), instance("a"));
    let mut redis = server.connection().await;
    mail.open(&a).await.unwrap();
    sender.send(&a, vec![letter("delete it")]).await.unwrap();
    let caught = found(&mut redis, &box_of("a")).await;
    assert_eq!(mail.receive(&a).await.unwrap(), [letter("delete it")]);
    put(&mut redis, &box_of("a"), &caught[0]).await;
    sender.send(&a, vec![letter("next")]).await.unwrap();
    assert_eq!(mail.receive(&a).await.unwrap(), [letter("next")]);
    mail.open(&a).await.unwrap();
    put(&mut redis, &box_of("a"), &caught[0]).await;
    sender.send(&a, vec![letter("last")]).await.unwrap();
    assert_eq!(mail.receive(&a).await.unwrap(), [letter("last")]);
}

#[tokio::test]
async fn a_letter_that_is_put_into_another_box_is_dropped() {
    let Some(server) = Server::start(&[]) else { return };
    let (mail, a, b) = (server.mail(), instance("a"), instance("b"));
    let mut redis = server.connection().await;
    mail.open(&a).await.unwrap();
    mail.open(&b).await.unwrap();
    mail.send(&a, vec![letter("for a")]).await.unwrap();
    let caught = found(&mut redis, &box_of("a")).await;
    put(&mut redis, &box_of("b"), &caught[0]).await;
    mail.send(&b, vec![letter("for b")]).await.unwrap();
    assert_eq!(mail.receive(&b).await.unwrap(), [letter("for b")]);
}

#[tokio::test]
async fn instances_with_different_keys_know_at_once_that_they_cannot_write_to_each_other() {
    let Some(server) = Server::start(&[]) else { return };
    let (ours, a) = (server.mail(), instance("a"));
    let other = ClusterKey::parse(&ClusterKey::draw().unwrap()).unwrap();
    let theirs = RedisMail::connect(&server.url(), PREFIX, &other).unwrap();
    ours.open(&a).await.unwrap();
    assert_eq!(theirs.send(&a, vec![letter("astray")]).await, Err(MailError::NoBox));
    // And had they written to the right place.
    let mut redis = server.connection().await;
    theirs.open(&a).await.unwrap();
    theirs.send(&a, vec![letter("astray")]).await.unwrap();
    let caught = found(&mut redis, &format!("{PREFIX}:box:a:{}", other.name())).await;
    put(&mut redis, &box_of("a"), &caught[0]).await;
    ours.send(&a, vec![letter("ours")]).await.unwrap();
    assert_eq!(ours.receive(&a).await.unwrap(), [letter("ours")]);
}
