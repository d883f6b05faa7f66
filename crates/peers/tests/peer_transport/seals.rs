//! Attacks on messages by somebody who can read and write all of Redis, but does not have the cluster key.

use fermata_engine::peer_transport::{PeerTransport, TransportError};
use fermata_peers::{ClusterKey, RedisTransport};
use redis::aio::MultiplexedConnection;

use crate::{
    messages::{collect, instance, message},
    server::{PREFIX, Server, mailbox_key, query},
};

type Fields = Vec<(String, Vec<u8>)>;

/// Returns the sealed messages in a mailbox.
async fn sealed_messages(redis: &mut MultiplexedConnection, key: &str) -> Vec<Vec<u8>> {
    let entries: Vec<(String, Fields)> = query(redis, &["XRANGE", key, "-", "+"]).await;
    entries.into_iter().flat_map(|(_, fields)| fields).map(|(_, message)| message).collect()
}

async fn append(redis: &mut MultiplexedConnection, key: &str, message: &[u8]) {
    let mut command = redis::cmd("XADD");
    let id: Result<String, _> = command.arg(key).arg("*").arg("l").arg(message).query_async(redis).await;
    id.unwrap();
}

#[tokio::test]
async fn the_content_of_a_message_cannot_be_read_in_redis() {
    let Some(server) = Server::start(&[]) else { return };
    let (transport, a) = (server.transport(), instance("a"));
    transport.open(&a).await.unwrap();
    transport.send(&a, vec![message("the salary of bob")]).await.unwrap();
    let sealed = sealed_messages(&mut server.connection().await, &mailbox_key("a")).await;
    assert_eq!(sealed.len(), 1);
    assert!(!sealed[0].windows(6).any(|part| part == b"salary"));
    assert_eq!(transport.receive(&a).await.unwrap(), [message("the salary of bob")]);
}

#[tokio::test]
async fn a_forged_message_is_dropped_and_those_around_it_arrive() {
    let Some(server) = Server::start(&[]) else { return };
    let (transport, a) = (server.transport(), instance("a"));
    transport.open(&a).await.unwrap();
    let mut redis = server.connection().await;
    let forged = br#"{"ask":{"number":1,"from":"x","chat":"c","ask":{"stop":{"owner":"alice"}}}}"#;
    transport.send(&a, vec![message("before")]).await.unwrap();
    for bytes in [&forged[..], b"", b"\x01", &[1; 33], &[1; 49], &[1; 10_000]] {
        append(&mut redis, &mailbox_key("a"), bytes).await;
    }
    transport.send(&a, vec![message("behind")]).await.unwrap();
    assert_eq!(collect(&transport, &a, 2).await, [message("before"), message("behind")]);
}

#[tokio::test]
async fn a_replayed_message_is_dropped_even_after_the_mailbox_was_opened_again() {
    let Some(server) = Server::start(&[]) else { return };
    let (transport, sender, a) = (server.transport(), server.transport(), instance("a"));
    let mut redis = server.connection().await;
    transport.open(&a).await.unwrap();
    sender.send(&a, vec![message("delete it")]).await.unwrap();
    let copied = sealed_messages(&mut redis, &mailbox_key("a")).await;
    assert_eq!(transport.receive(&a).await.unwrap(), [message("delete it")]);
    append(&mut redis, &mailbox_key("a"), &copied[0]).await;
    sender.send(&a, vec![message("next")]).await.unwrap();
    assert_eq!(transport.receive(&a).await.unwrap(), [message("next")]);
    transport.open(&a).await.unwrap();
    append(&mut redis, &mailbox_key("a"), &copied[0]).await;
    sender.send(&a, vec![message("last")]).await.unwrap();
    assert_eq!(transport.receive(&a).await.unwrap(), [message("last")]);
}

#[tokio::test]
async fn a_message_that_is_copied_to_another_mailbox_is_dropped() {
    let Some(server) = Server::start(&[]) else { return };
    let (transport, a, b) = (server.transport(), instance("a"), instance("b"));
    let mut redis = server.connection().await;
    transport.open(&a).await.unwrap();
    transport.open(&b).await.unwrap();
    transport.send(&a, vec![message("for a")]).await.unwrap();
    let copied = sealed_messages(&mut redis, &mailbox_key("a")).await;
    append(&mut redis, &mailbox_key("b"), &copied[0]).await;
    transport.send(&b, vec![message("for b")]).await.unwrap();
    assert_eq!(transport.receive(&b).await.unwrap(), [message("for b")]);
}

#[tokio::test]
async fn instances_with_different_keys_learn_at_once_that_they_cannot_reach_each_other() {
    let Some(server) = Server::start(&[]) else { return };
    let (ours, a) = (server.transport(), instance("a"));
    let other = ClusterKey::parse(&ClusterKey::draw().unwrap()).unwrap();
    let theirs = RedisTransport::connect(&server.url(), PREFIX, &other).unwrap();
    ours.open(&a).await.unwrap();
    assert_eq!(theirs.send(&a, vec![message("astray")]).await, Err(TransportError::NoMailbox));
    // Messages with the other key are dropped even if they are in the right mailbox.
    let mut redis = server.connection().await;
    theirs.open(&a).await.unwrap();
    theirs.send(&a, vec![message("astray")]).await.unwrap();
    let copied = sealed_messages(&mut redis, &format!("{PREFIX}:box:a:{}", other.name())).await;
    append(&mut redis, &mailbox_key("a"), &copied[0]).await;
    ours.send(&a, vec![message("ours")]).await.unwrap();
    assert_eq!(ours.receive(&a).await.unwrap(), [message("ours")]);
}

#[tokio::test]
async fn a_key_is_replaced_while_messages_arrive_in_both_directions() {
    let Some(server) = Server::start(&[]) else { return };
    let draw = || ClusterKey::parse(&ClusterKey::draw().unwrap()).unwrap();
    let (old, new) = (draw(), draw());
    let with = |first: &ClusterKey, other: Option<&ClusterKey>| {
        RedisTransport::connect(&server.url(), PREFIX, first).unwrap().with_other_keys(other.cloned())
    };
    // Each instance goes through these steps, one instance after the other.
    let steps = [(&old, None), (&old, Some(&new)), (&new, Some(&old)), (&new, None)];
    for pair in steps.windows(2) {
        let (behind, ahead) = (with(pair[0].0, pair[0].1), with(pair[1].0, pair[1].1));
        let (a, b) = (instance("a"), instance("b"));
        behind.open(&a).await.unwrap();
        ahead.open(&b).await.unwrap();
        for round in ["one", "two"] {
            behind.send(&b, vec![message(round)]).await.unwrap();
            assert_eq!(ahead.receive(&b).await.unwrap(), [message(round)]);
            ahead.send(&a, vec![message(round)]).await.unwrap();
            assert_eq!(behind.receive(&a).await.unwrap(), [message(round)]);
        }
        behind.close(&a).await;
        assert_eq!(ahead.send(&a, vec![message("late")]).await, Err(TransportError::NoMailbox));
    }
}
