//! One suite for all transports, which runs with the reference implementation in memory and with Redis, and tests for the transport in
//! Redis alone. Each test starts its own Redis.

#![expect(clippy::unwrap_used, reason = "a test that cannot go on has failed")]

mod mailboxes;
mod messages;
mod outages;
mod seals;
mod server;
mod urls;

use std::sync::Arc;

use fermata_engine::peer_transport::{InMemoryTransport, PeerTransport, TransportError};
use messages::{collect, instance, message, send_from_many};
use server::Server;

macro_rules! on_every_transport {
    ($($fact:ident)*) => {
        mod in_memory {
            $(#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
            async fn $fact() {
                super::$fact(super::Arc::new(super::InMemoryTransport::new())).await;
            })*
        }

        mod in_redis {
            $(#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
            async fn $fact() {
                let Some(server) = super::Server::start(&[]) else { return };
                super::$fact(super::Arc::new(server.transport())).await;
            })*
        }
    };
}

on_every_transport! {
    messages_come_in_the_order_in_which_they_were_sent
    a_message_wakes_a_waiting_receiver
    each_instance_gets_its_own_messages
    no_message_of_many_senders_is_lost_or_out_of_order
    a_mailbox_that_was_not_opened_neither_accepts_nor_returns_messages
    a_mailbox_that_is_opened_again_is_empty
    a_waiting_receiver_learns_that_the_mailbox_was_opened_again
    a_closed_mailbox_neither_accepts_nor_returns_messages
    a_waiting_receiver_learns_that_the_mailbox_was_closed
    big_messages_arrive_whole
    messages_may_hold_any_bytes
    a_receiver_that_stops_waiting_and_waits_again_misses_nothing
}

async fn messages_come_in_the_order_in_which_they_were_sent(transport: Arc<dyn PeerTransport>) {
    let a = instance("a");
    transport.open(&a).await.unwrap();
    let sent: Vec<Vec<u8>> = (0..1_000).map(|number| message(&number.to_string())).collect();
    for some in sent.chunks(7) {
        transport.send(&a, some.to_vec()).await.unwrap();
    }
    assert_eq!(collect(&*transport, &a, 1_000).await, sent);
}

async fn a_message_wakes_a_waiting_receiver(transport: Arc<dyn PeerTransport>) {
    let a = instance("a");
    transport.open(&a).await.unwrap();
    for text in ["one", "two", "three"] {
        let (received, sent) = tokio::join!(transport.receive(&a), transport.send(&a, vec![message(text)]));
        sent.unwrap();
        assert_eq!(received.unwrap(), [message(text)]);
    }
}

async fn each_instance_gets_its_own_messages(transport: Arc<dyn PeerTransport>) {
    let (a, b) = (instance("a"), instance("b"));
    transport.open(&a).await.unwrap();
    transport.open(&b).await.unwrap();
    transport.send(&a, vec![message("to a")]).await.unwrap();
    transport.send(&b, vec![message("to b")]).await.unwrap();
    assert_eq!(transport.receive(&b).await.unwrap(), [message("to b")]);
    assert_eq!(transport.receive(&a).await.unwrap(), [message("to a")]);
}

async fn no_message_of_many_senders_is_lost_or_out_of_order(transport: Arc<dyn PeerTransport>) {
    let a = instance("a");
    transport.open(&a).await.unwrap();
    send_from_many(vec![transport.clone()], &a, &*transport).await;
}

async fn a_mailbox_that_was_not_opened_neither_accepts_nor_returns_messages(
    transport: Arc<dyn PeerTransport>,
) {
    let a = instance("a");
    assert_eq!(transport.send(&a, vec![message("lost")]).await, Err(TransportError::NoMailbox));
    assert_eq!(
        transport.send(&a, vec![message("lost"), message("too")]).await,
        Err(TransportError::NoMailbox)
    );
    assert_eq!(transport.receive(&a).await, Err(TransportError::NoMailbox));
    transport.open(&a).await.unwrap();
    transport.send(&a, vec![message("kept")]).await.unwrap();
    assert_eq!(transport.receive(&a).await.unwrap(), [message("kept")]);
}

async fn a_mailbox_that_is_opened_again_is_empty(transport: Arc<dyn PeerTransport>) {
    let a = instance("a");
    transport.open(&a).await.unwrap();
    transport.send(&a, vec![message("received"), message("received too")]).await.unwrap();
    collect(&*transport, &a, 2).await;
    transport.send(&a, vec![message("old")]).await.unwrap();
    transport.open(&a).await.unwrap();
    transport.send(&a, vec![message("new")]).await.unwrap();
    assert_eq!(transport.receive(&a).await.unwrap(), [message("new")]);
}

async fn a_waiting_receiver_learns_that_the_mailbox_was_opened_again(transport: Arc<dyn PeerTransport>) {
    let a = instance("a");
    transport.open(&a).await.unwrap();
    let opened_again = async {
        tokio::task::yield_now().await;
        transport.open(&a).await
    };
    let (received, opened) = tokio::join!(biased; transport.receive(&a), opened_again);
    opened.unwrap();
    assert_eq!(received, Err(TransportError::NoMailbox));
    transport.send(&a, vec![message("new")]).await.unwrap();
    assert_eq!(transport.receive(&a).await.unwrap(), [message("new")]);
}

async fn a_closed_mailbox_neither_accepts_nor_returns_messages(transport: Arc<dyn PeerTransport>) {
    let a = instance("a");
    transport.open(&a).await.unwrap();
    transport.send(&a, vec![message("lost")]).await.unwrap();
    transport.close(&a).await;
    assert_eq!(transport.send(&a, vec![message("lost")]).await, Err(TransportError::NoMailbox));
    assert_eq!(transport.receive(&a).await, Err(TransportError::NoMailbox));
    transport.close(&a).await;
}

async fn a_waiting_receiver_learns_that_the_mailbox_was_closed(transport: Arc<dyn PeerTransport>) {
    let a = instance("a");
    transport.open(&a).await.unwrap();
    let (received, ()) = tokio::join!(biased; transport.receive(&a), transport.close(&a));
    assert_eq!(received, Err(TransportError::NoMailbox));
}

async fn big_messages_arrive_whole(transport: Arc<dyn PeerTransport>) {
    let a = instance("a");
    transport.open(&a).await.unwrap();
    let sent: Vec<Vec<u8>> = (0..5_u8).map(|number| vec![number; 1 << 20]).collect();
    transport.send(&a, sent.clone()).await.unwrap();
    assert!(collect(&*transport, &a, 5).await == sent, "a message of one megabyte has changed");
}

async fn messages_may_hold_any_bytes(transport: Arc<dyn PeerTransport>) {
    let a = instance("a");
    transport.open(&a).await.unwrap();
    let sent =
        vec![(0..=255).collect(), vec![], message("\r\n*3\r\n$-1\r\n"), vec![0xff, 0xfe, 0], message("42")];
    transport.send(&a, sent.clone()).await.unwrap();
    assert_eq!(collect(&*transport, &a, sent.len()).await, sent);
}

async fn a_receiver_that_stops_waiting_and_waits_again_misses_nothing(transport: Arc<dyn PeerTransport>) {
    let a = instance("a");
    transport.open(&a).await.unwrap();
    let mut received = Vec::new();
    for number in 0..100 {
        transport.send(&a, vec![message(&number.to_string())]).await.unwrap();
        for _ in 0..3 {
            tokio::select! {
                biased;
                messages = transport.receive(&a) => received.extend(messages.unwrap()),
                () = tokio::task::yield_now() => {}
            }
        }
    }
    let missing = 100 - received.len();
    received.extend(collect(&*transport, &a, missing).await);
    assert_eq!(received, (0..100).map(|number| message(&number.to_string())).collect::<Vec<_>>());
}

#[tokio::test]
async fn a_mailbox_in_memory_that_is_too_full_is_removed() {
    let (transport, a) = (InMemoryTransport::new(), instance("a"));
    transport.open(&a).await.unwrap();
    let mut messages = 0;
    let error = loop {
        match transport.send(&a, vec![message("one more")]).await {
            Ok(()) => messages += 1,
            Err(error) => break error,
        }
        assert!(messages < 1_000_000, "the mailbox accepts any number of messages");
    };
    assert_eq!(error, TransportError::NoMailbox);
    // Its owner learns from this that messages are missing.
    assert_eq!(transport.receive(&a).await, Err(TransportError::NoMailbox));
    transport.open(&a).await.unwrap();
    transport.send(&a, vec![message("kept")]).await.unwrap();
    assert_eq!(transport.receive(&a).await.unwrap(), [message("kept")]);
}

#[tokio::test]
async fn a_transport_in_memory_that_is_down_delivers_nothing_and_loses_its_mailboxes() {
    let (transport, a) = (InMemoryTransport::new(), instance("a"));
    transport.open(&a).await.unwrap();
    transport.set_down(true);
    assert!(matches!(transport.open(&a).await, Err(TransportError::Unavailable(_))));
    assert!(matches!(transport.send(&a, vec![message("lost")]).await, Err(TransportError::Unavailable(_))));
    assert!(matches!(transport.receive(&a).await, Err(TransportError::Unavailable(_))));
    transport.set_down(false);
    assert_eq!(transport.send(&a, vec![message("lost")]).await, Err(TransportError::NoMailbox));
    transport.open(&a).await.unwrap();
    transport.send(&a, vec![message("kept")]).await.unwrap();
    assert_eq!(transport.receive(&a).await.unwrap(), [message("kept")]);
}
