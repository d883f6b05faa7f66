//! Mailboxes in Redis: their content, their lifetime, and how their owner learns that messages are missing.

use std::{sync::Arc, time::Duration};

use fermata_engine::peer_transport::{PeerTransport, TransportError};
use fermata_peers::MailboxLimits;

use crate::{
    messages::{collect, instance, message, send_from_many},
    server::{PREFIX, Server, connect, mailbox_key, query},
};

const SMALL: MailboxLimits = MailboxLimits { messages: 200, expiry: Duration::from_secs(30) };

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn instances_with_connections_of_their_own_lose_nothing() {
    let Some(server) = Server::start(&[]) else { return };
    let (owner, a) = (server.transport(), instance("a"));
    owner.open(&a).await.unwrap();
    let through = (0..5).map(|_| Arc::new(server.transport()) as Arc<dyn PeerTransport>).collect();
    send_from_many(through, &a, &owner).await;
}

#[tokio::test]
async fn deployments_with_a_prefix_each_share_a_redis() {
    let Some(server) = Server::start(&[]) else { return };
    let (ours, a) = (server.transport(), instance("a"));
    let theirs = connect(&server.url(), "theirs");
    ours.open(&a).await.unwrap();
    assert_eq!(theirs.send(&a, vec![message("astray")]).await, Err(TransportError::NoMailbox));
    theirs.open(&a).await.unwrap();
    theirs.send(&a, vec![message("theirs")]).await.unwrap();
    ours.send(&a, vec![message("ours")]).await.unwrap();
    assert_eq!(ours.receive(&a).await.unwrap(), [message("ours")]);
    assert_eq!(theirs.receive(&a).await.unwrap(), [message("theirs")]);
    let mut keys: Vec<String> = server.ask(&["KEYS", "*"]).await;
    keys.sort();
    assert_eq!(keys, [mailbox_key("a"), mailbox_key("a").replace(PREFIX, "theirs")]);
}

#[tokio::test]
async fn messages_that_were_received_are_removed_from_the_mailbox() {
    let Some(server) = Server::start(&[]) else { return };
    let (transport, a) = (server.transport(), instance("a"));
    transport.open(&a).await.unwrap();
    transport.send(&a, vec![message("one"), message("two")]).await.unwrap();
    collect(&transport, &a, 2).await;
    // They are removed with the next read.
    let (received, ()) = tokio::join!(transport.receive(&a), async {
        server.until_a_client_waits().await;
        assert_eq!(server.ask::<u64>(&["XLEN", &mailbox_key("a")]).await, 0);
        transport.send(&a, vec![message("three")]).await.unwrap();
    });
    assert_eq!(received.unwrap(), [message("three")]);
}

#[tokio::test]
async fn the_mailbox_of_a_dead_instance_expires() {
    let Some(server) = Server::start(&[]) else { return };
    let limits = MailboxLimits { expiry: Duration::from_millis(200), ..MailboxLimits::default() };
    let (transport, a) = (server.transport().with_limits(limits), instance("a"));
    transport.open(&a).await.unwrap();
    // Messages that are sent to it do not keep it.
    while transport.send(&a, vec![message("in vain")]).await != Err(TransportError::NoMailbox) {}
    assert_eq!(server.ask::<u64>(&["DBSIZE"]).await, 0);
    assert!(matches!(transport.receive(&a).await, Err(TransportError::Unavailable(_))));
    assert_eq!(transport.receive(&a).await, Err(TransportError::NoMailbox));
}

#[tokio::test]
async fn a_mailbox_stays_while_its_owner_waits() {
    let Some(server) = Server::start(&[]) else { return };
    let limits = MailboxLimits { expiry: Duration::from_secs(3), ..MailboxLimits::default() };
    let (transport, a) = (server.transport().with_limits(limits), instance("a"));
    transport.open(&a).await.unwrap();
    let (received, ()) = tokio::join!(transport.receive(&a), async {
        let mut connection = server.connection().await;
        let mut last = i64::MAX;
        // The time until it expires has to grow twice.
        for _ in 0..2 {
            loop {
                let left: i64 = query(&mut connection, &["PTTL", &mailbox_key("a")]).await;
                assert!(left > 0, "the mailbox has expired");
                if left > std::mem::replace(&mut last, left) {
                    break;
                }
            }
        }
        transport.send(&a, vec![message("still here")]).await.unwrap();
    });
    assert_eq!(received.unwrap(), [message("still here")]);
}

#[tokio::test]
async fn a_mailbox_that_was_too_full_reports_the_loss() {
    let Some(server) = Server::start(&[]) else { return };
    let (transport, a) = (server.transport().with_limits(SMALL), instance("a"));
    transport.open(&a).await.unwrap();
    transport.send(&a, (0..1_000).map(|number| message(&number.to_string())).collect()).await.unwrap();
    let held: u64 = server.ask(&["XLEN", &mailbox_key("a")]).await;
    assert!((200..400).contains(&held), "{held} messages are held");
    let Err(TransportError::Unavailable(reason)) = transport.receive(&a).await else {
        panic!("the loss was not noticed")
    };
    assert!(reason.contains("messages are missing"), "{reason}");
    assert_eq!(transport.receive(&a).await, Err(TransportError::NoMailbox));
    transport.open(&a).await.unwrap();
    transport.send(&a, vec![message("new")]).await.unwrap();
    assert_eq!(transport.receive(&a).await.unwrap(), [message("new")]);
}

#[tokio::test]
async fn a_mailbox_that_overflows_after_some_messages_were_received_reports_the_loss() {
    let Some(server) = Server::start(&[]) else { return };
    let (transport, a) = (server.transport().with_limits(SMALL), instance("a"));
    transport.open(&a).await.unwrap();
    transport.send(&a, vec![message("one"), message("two"), message("three")]).await.unwrap();
    collect(&transport, &a, 3).await;
    transport.send(&a, vec![message("lost"); 1_000]).await.unwrap();
    assert!(matches!(transport.receive(&a).await, Err(TransportError::Unavailable(_))));
}

#[tokio::test]
async fn a_mailbox_that_is_emptied_in_time_never_overflows() {
    let Some(server) = Server::start(&[]) else { return };
    let (transport, a) = (server.transport().with_limits(SMALL), instance("a"));
    transport.open(&a).await.unwrap();
    for _ in 0..50 {
        transport.send(&a, vec![message("received"); 199]).await.unwrap();
        assert_eq!(collect(&transport, &a, 199).await.len(), 199);
    }
}

#[tokio::test]
async fn one_missing_message_is_noticed() {
    let Some(server) = Server::start(&[]) else { return };
    let (transport, a) = (server.transport(), instance("a"));
    transport.open(&a).await.unwrap();
    transport.send(&a, vec![message("lost")]).await.unwrap();
    assert_eq!(server.ask::<u64>(&["XTRIM", &mailbox_key("a"), "MAXLEN", "0"]).await, 1);
    transport.send(&a, vec![message("left")]).await.unwrap();
    assert!(matches!(transport.receive(&a).await, Err(TransportError::Unavailable(_))));
}

#[tokio::test]
async fn a_mailbox_that_another_process_opens_belongs_to_it() {
    let Some(server) = Server::start(&[]) else { return };
    let (first, second, a) = (server.transport(), server.transport(), instance("a"));
    // Either of the two generations may have the greater number.
    for _ in 0..10 {
        first.open(&a).await.unwrap();
        first.send(&a, vec![message("received")]).await.unwrap();
        collect(&first, &a, 1).await;
        second.open(&a).await.unwrap();
        second.send(&a, vec![message("theirs")]).await.unwrap();
        let Err(TransportError::Unavailable(reason)) = first.receive(&a).await else {
            panic!("the loss was not noticed")
        };
        assert!(reason.contains("another process"), "{reason}");
        assert_eq!(second.receive(&a).await.unwrap(), [message("theirs")]);
    }
}

#[tokio::test]
async fn a_waiting_receiver_learns_that_redis_was_emptied() {
    let Some(server) = Server::start(&[]) else { return };
    let (transport, a) = (server.transport(), instance("a"));
    transport.open(&a).await.unwrap();
    let (received, ()) = tokio::join!(transport.receive(&a), async {
        server.until_a_client_waits().await;
        server.ask::<()>(&["FLUSHALL"]).await;
        assert_eq!(transport.send(&a, vec![message("lost")]).await, Err(TransportError::NoMailbox));
    });
    assert!(matches!(received, Err(TransportError::Unavailable(_))), "{received:?}");
    assert_eq!(transport.receive(&a).await, Err(TransportError::NoMailbox));
    transport.open(&a).await.unwrap();
    transport.send(&a, vec![message("new")]).await.unwrap();
    assert_eq!(transport.receive(&a).await.unwrap(), [message("new")]);
}
