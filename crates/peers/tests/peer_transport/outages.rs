//! Outages of Redis: it is killed, frozen, or closes a connection. When it is back, messages are delivered again.

use fermata_engine::peer_transport::{PeerTransport, TransportError};

use crate::{
    messages::{collect, instance, message},
    server::{DURABLE, Server},
};

fn is_unavailable<T>(result: &Result<T, TransportError>) -> bool {
    matches!(result, Err(TransportError::Unavailable(_)))
}

async fn a_waiting_receiver_learns_that_redis_was_killed(mut server: Server) {
    let (transport, a) = (server.transport(), instance("a"));
    transport.open(&a).await.unwrap();
    transport.send(&a, vec![message("received")]).await.unwrap();
    collect(&transport, &a, 1).await;
    let (received, ()) = tokio::join!(transport.receive(&a), async {
        server.until_a_client_waits().await;
        server.kill();
    });
    assert!(is_unavailable(&received), "{received:?}");
    assert!(is_unavailable(&transport.open(&a).await));
    assert!(is_unavailable(&transport.send(&a, vec![message("lost")]).await));
    server.run();
    assert!(transport.receive(&a).await.is_err(), "the mailbox was not opened again");
    transport.open(&a).await.unwrap();
    transport.send(&a, vec![message("new")]).await.unwrap();
    assert_eq!(transport.receive(&a).await.unwrap(), [message("new")]);
}

#[tokio::test]
async fn a_redis_that_lost_its_data_works_again() {
    let Some(server) = Server::start(&[]) else { return };
    a_waiting_receiver_learns_that_redis_was_killed(server).await;
}

#[tokio::test]
async fn a_redis_that_kept_its_data_works_again() {
    let Some(server) = Server::start(DURABLE) else { return };
    a_waiting_receiver_learns_that_redis_was_killed(server).await;
}

#[tokio::test]
async fn a_restart_while_no_receiver_waits_is_noticed() {
    let Some(mut server) = Server::start(DURABLE) else { return };
    let (transport, other, a) = (server.transport(), server.transport(), instance("a"));
    transport.open(&a).await.unwrap();
    server.kill();
    server.run();
    other.send(&a, vec![message("into the old mailbox")]).await.unwrap();
    assert!(is_unavailable(&transport.receive(&a).await));
    assert_eq!(transport.receive(&a).await, Err(TransportError::NoMailbox));
}

#[tokio::test]
async fn redis_need_not_be_running_at_first() {
    let Some(mut server) = Server::start(&[]) else { return };
    server.kill();
    let (transport, a) = (server.transport(), instance("a"));
    assert!(is_unavailable(&transport.open(&a).await));
    assert!(is_unavailable(&transport.send(&a, vec![message("lost")]).await));
    assert_eq!(transport.receive(&a).await, Err(TransportError::NoMailbox));
    transport.close(&a).await;
    server.run();
    assert_eq!(transport.send(&a, vec![message("lost")]).await, Err(TransportError::NoMailbox));
    transport.open(&a).await.unwrap();
    transport.send(&a, vec![message("new")]).await.unwrap();
    assert_eq!(transport.receive(&a).await.unwrap(), [message("new")]);
}

#[tokio::test]
async fn a_redis_that_does_not_answer_ends_every_wait() {
    let Some(server) = Server::start(&[]) else { return };
    let (transport, a) = (server.transport(), instance("a"));
    transport.open(&a).await.unwrap();
    transport.send(&a, vec![message("received")]).await.unwrap();
    collect(&transport, &a, 1).await;
    let (received, ()) = tokio::join!(transport.receive(&a), async {
        server.until_a_client_waits().await;
        server.signal("-STOP");
        // Three callers at a time use the open connection first, and then try to make a new one.
        for _ in 0..2 {
            let send = || transport.send(&a, vec![message("perhaps lost")]);
            let (one, two, three) = tokio::join!(send(), send(), send());
            assert!(is_unavailable(&one) && is_unavailable(&two) && is_unavailable(&three));
        }
        assert!(is_unavailable(&server.transport().open(&a).await));
    });
    assert!(is_unavailable(&received), "{received:?}");
    assert_eq!(transport.receive(&a).await, Err(TransportError::NoMailbox));
    server.signal("-CONT");
    transport.open(&a).await.unwrap();
    transport.send(&a, vec![message("new")]).await.unwrap();
    // Redis may still deliver what it had received before it froze.
    while transport.receive(&a).await.unwrap().last() != Some(&message("new")) {}
}

#[tokio::test]
async fn a_connection_that_was_closed_meanwhile_costs_no_message() {
    let Some(server) = Server::start(&[]) else { return };
    let (owner, sender, a) = (server.transport(), server.transport(), instance("a"));
    owner.open(&a).await.unwrap();
    sender.send(&a, vec![message("one")]).await.unwrap();
    collect(&owner, &a, 1).await;
    let (received, ()) = tokio::join!(owner.receive(&a), async {
        server.until_a_client_waits().await;
        // Only the connection of the sender is closed.
        let clients: String = server.ask(&["CLIENT", "LIST"]).await;
        let idle = clients.lines().find(|client| client.contains("cmd=xadd")).unwrap();
        let id = idle.split(' ').find_map(|field| field.strip_prefix("id=")).unwrap();
        assert_eq!(server.ask::<u64>(&["CLIENT", "KILL", "ID", id]).await, 1);
        sender.send(&a, vec![message("two")]).await.unwrap();
    });
    assert_eq!(received.unwrap(), [message("two")]);
}

#[tokio::test]
async fn a_reader_whose_connection_was_closed_learns_it() {
    let Some(server) = Server::start(&[]) else { return };
    let (transport, a) = (server.transport(), instance("a"));
    transport.open(&a).await.unwrap();
    let (received, ()) = tokio::join!(transport.receive(&a), async {
        server.until_a_client_waits().await;
        assert!(server.ask::<u64>(&["CLIENT", "KILL", "TYPE", "normal", "SKIPME", "yes"]).await > 0);
    });
    assert!(is_unavailable(&received), "{received:?}");
    assert_eq!(transport.receive(&a).await, Err(TransportError::NoMailbox));
}
