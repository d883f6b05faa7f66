//! Redis goes away in the ways in which it does: killed, frozen, closed on one side. It comes back, and letters go again.

use fermata_engine::mail::{Mail, MailError};

use crate::{
    letters::{collect, instance, letter},
    server::{DURABLE, Server},
};

fn is_unavailable<T>(result: &Result<T, MailError>) -> bool {
    matches!(result, Err(MailError::Unavailable(_)))
}

async fn who_waits_learns_that_redis_was_killed(mut server: Server) {
    let (mail, a) = (server.mail(), instance("a"));
    mail.open(&a).await.unwrap();
    mail.send(&a, vec![letter("taken")]).await.unwrap();
    collect(&mail, &a, 1).await;
    let (taken, ()) = tokio::join!(mail.receive(&a), async {
        server.until_someone_waits().await;
        server.kill();
    });
    assert!(is_unavailable(&taken), "{taken:?}");
    assert!(is_unavailable(&mail.open(&a).await));
    assert!(is_unavailable(&mail.send(&a, vec![letter("lost")]).await));
    server.run();
    assert!(mail.receive(&a).await.is_err(), "nobody has opened the box since");
    mail.open(&a).await.unwrap();
    mail.send(&a, vec![letter("new")]).await.unwrap();
    assert_eq!(mail.receive(&a).await.unwrap(), [letter("new")]);
}

#[tokio::test]
async fn a_redis_that_lost_its_data_works_again() {
    let Some(server) = Server::start(&[]) else { return };
    who_waits_learns_that_redis_was_killed(server).await;
}

#[tokio::test]
async fn a_redis_that_kept_its_data_works_again() {
    let Some(server) = Server::start(DURABLE) else { return };
    who_waits_learns_that_redis_was_killed(server).await;
}

#[tokio::test]
async fn a_restart_while_nobody_waits_is_noticed() {
    let Some(mut server) = Server::start(DURABLE) else { return };
    let (mail, other, a) = (server.mail(), server.mail(), instance("a"));
    mail.open(&a).await.unwrap();
    server.kill();
    server.run();
    other.send(&a, vec![letter("into the old box")]).await.unwrap();
    assert!(is_unavailable(&mail.receive(&a).await));
    assert_eq!(mail.receive(&a).await, Err(MailError::NoBox));
}

#[tokio::test]
async fn redis_need_not_be_there_at_first() {
    let Some(mut server) = Server::start(&[]) else { return };
    server.kill();
    let (mail, a) = (server.mail(), instance("a"));
    assert!(is_unavailable(&mail.open(&a).await));
    assert!(is_unavailable(&mail.send(&a, vec![letter("lost")]).await));
    assert_eq!(mail.receive(&a).await, Err(MailError::NoBox));
    mail.close(&a).await;
    server.run();
    assert_eq!(mail.send(&a, vec![letter("lost")]).await, Err(MailError::NoBox));
    mail.open(&a).await.unwrap();
    mail.send(&a, vec![letter("new")]).await.unwrap();
    assert_eq!(mail.receive(&a).await.unwrap(), [letter("new")]);
}

#[tokio::test]
async fn a_redis_that_does_not_answer_ends_every_wait() {
    let Some(server) = Server::start(&[]) else { return };
    let (mail, a) = (server.mail(), instance("a"));
    mail.open(&a).await.unwrap();
    mail.send(&a, vec![letter("taken")]).await.unwrap();
    collect(&mail, &a, 1).await;
    let (taken, ()) = tokio::join!(mail.receive(&a), async {
        server.until_someone_waits().await;
        server.freeze();
        // On the connection that is there, then on none that can be made, and many at a time.
        for _ in 0..2 {
            let send = || mail.send(&a, vec![letter("perhaps lost")]);
            let (one, two, three) = tokio::join!(send(), send(), send());
            assert!(is_unavailable(&one) && is_unavailable(&two) && is_unavailable(&three));
        }
        assert!(is_unavailable(&server.mail().open(&a).await));
    });
    assert!(is_unavailable(&taken), "{taken:?}");
    assert_eq!(mail.receive(&a).await, Err(MailError::NoBox));
    server.thaw();
    mail.open(&a).await.unwrap();
    mail.send(&a, vec![letter("new")]).await.unwrap();
    // What Redis had taken in before it froze may come yet.
    while mail.receive(&a).await.unwrap().last() != Some(&letter("new")) {}
}

#[tokio::test]
async fn a_connection_that_was_closed_meanwhile_costs_no_letter() {
    let Some(server) = Server::start(&[]) else { return };
    let (owner, sender, a) = (server.mail(), server.mail(), instance("a"));
    owner.open(&a).await.unwrap();
    sender.send(&a, vec![letter("one")]).await.unwrap();
    collect(&owner, &a, 1).await;
    let (taken, ()) = tokio::join!(owner.receive(&a), async {
        server.until_someone_waits().await;
        // The one that has put a letter in, and nobody else.
        let clients: String = server.ask(&["CLIENT", "LIST"]).await;
        let idle = clients.lines().find(|client| client.contains("cmd=xadd")).unwrap();
        let id = idle.split(' ').find_map(|field| field.strip_prefix("id=")).unwrap();
        assert_eq!(server.ask::<u64>(&["CLIENT", "KILL", "ID", id]).await, 1);
        sender.send(&a, vec![letter("two")]).await.unwrap();
    });
    assert_eq!(taken.unwrap(), [letter("two")]);
}

#[tokio::test]
async fn a_reader_whose_connection_was_closed_learns_it() {
    let Some(server) = Server::start(&[]) else { return };
    let (mail, a) = (server.mail(), instance("a"));
    mail.open(&a).await.unwrap();
    let (taken, ()) = tokio::join!(mail.receive(&a), async {
        server.until_someone_waits().await;
        assert!(server.ask::<u64>(&["CLIENT", "KILL", "TYPE", "normal", "SKIPME", "yes"]).await > 0);
    });
    assert!(is_unavailable(&taken), "{taken:?}");
    assert_eq!(mail.receive(&a).await, Err(MailError::NoBox));
}
