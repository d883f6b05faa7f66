//! What a box in Redis holds, how long it stays, and how its owner learns that letters are missing.

use std::{sync::Arc, time::Duration};

use fermata_engine::mail::{Mail, MailError};
use fermata_store::BoxLimits;

use crate::{
    letters::{collect, instance, letter, send_from_many},
    server::{PREFIX, Server, box_of, connect, query},
};

const SMALL: BoxLimits = BoxLimits { letters: 200, expiry: Duration::from_secs(30) };

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn instances_with_connections_of_their_own_lose_nothing() {
    let Some(server) = Server::start(&[]) else { return };
    let (owner, a) = (server.mail(), instance("a"));
    owner.open(&a).await.unwrap();
    let through = (0..5).map(|_| Arc::new(server.mail()) as Arc<dyn Mail>).collect();
    send_from_many(through, &a, &owner).await;
}

#[tokio::test]
async fn deployments_with_a_prefix_each_share_a_redis() {
    let Some(server) = Server::start(&[]) else { return };
    let (ours, a) = (server.mail(), instance("a"));
    let theirs = connect(&server.url(), "theirs");
    ours.open(&a).await.unwrap();
    assert_eq!(theirs.send(&a, vec![letter("astray")]).await, Err(MailError::NoBox));
    theirs.open(&a).await.unwrap();
    theirs.send(&a, vec![letter("theirs")]).await.unwrap();
    ours.send(&a, vec![letter("ours")]).await.unwrap();
    assert_eq!(ours.receive(&a).await.unwrap(), [letter("ours")]);
    assert_eq!(theirs.receive(&a).await.unwrap(), [letter("theirs")]);
    let mut keys: Vec<String> = server.ask(&["KEYS", "*"]).await;
    keys.sort();
    assert_eq!(keys, [box_of("a"), box_of("a").replace(PREFIX, "theirs")]);
}

#[tokio::test]
async fn letters_that_were_taken_leave_the_box() {
    let Some(server) = Server::start(&[]) else { return };
    let (mail, a) = (server.mail(), instance("a"));
    mail.open(&a).await.unwrap();
    mail.send(&a, vec![letter("one"), letter("two")]).await.unwrap();
    collect(&mail, &a, 2).await;
    // They go with the next question.
    let (taken, ()) = tokio::join!(mail.receive(&a), async {
        server.until_someone_waits().await;
        assert_eq!(server.ask::<u64>(&["XLEN", &box_of("a")]).await, 0);
        mail.send(&a, vec![letter("three")]).await.unwrap();
    });
    assert_eq!(taken.unwrap(), [letter("three")]);
}

#[tokio::test]
async fn the_box_of_a_dead_instance_vanishes() {
    let Some(server) = Server::start(&[]) else { return };
    let limits = BoxLimits { expiry: Duration::from_millis(200), ..BoxLimits::default() };
    let (mail, a) = (server.mail().with_limits(limits), instance("a"));
    mail.open(&a).await.unwrap();
    // However many letters it gets.
    while mail.send(&a, vec![letter("in vain")]).await != Err(MailError::NoBox) {}
    assert_eq!(server.ask::<u64>(&["DBSIZE"]).await, 0);
    assert!(matches!(mail.receive(&a).await, Err(MailError::Unavailable(_))));
    assert_eq!(mail.receive(&a).await, Err(MailError::NoBox));
}

#[tokio::test]
async fn a_box_stays_while_its_owner_waits() {
    let Some(server) = Server::start(&[]) else { return };
    let limits = BoxLimits { expiry: Duration::from_secs(3), ..BoxLimits::default() };
    let (mail, a) = (server.mail().with_limits(limits), instance("a"));
    mail.open(&a).await.unwrap();
    let (taken, ()) = tokio::join!(mail.receive(&a), async {
        let mut connection = server.connection().await;
        let mut last = i64::MAX;
        // Until what is left of its life has grown twice.
        for _ in 0..2 {
            loop {
                let left: i64 = query(&mut connection, &["PTTL", &box_of("a")]).await;
                assert!(left > 0, "the box is gone");
                if left > std::mem::replace(&mut last, left) {
                    break;
                }
            }
        }
        mail.send(&a, vec![letter("still here")]).await.unwrap();
    });
    assert_eq!(taken.unwrap(), [letter("still here")]);
}

#[tokio::test]
async fn a_box_that_was_too_full_says_so() {
    let Some(server) = Server::start(&[]) else { return };
    let (mail, a) = (server.mail().with_limits(SMALL), instance("a"));
    mail.open(&a).await.unwrap();
    mail.send(&a, (0..1_000).map(|number| letter(&number.to_string())).collect()).await.unwrap();
    let held: u64 = server.ask(&["XLEN", &box_of("a")]).await;
    assert!((200..400).contains(&held), "{held} letters are held");
    let Err(MailError::Unavailable(reason)) = mail.receive(&a).await else {
        panic!("the loss is not noticed")
    };
    assert!(reason.contains("letters are missing"), "{reason}");
    assert_eq!(mail.receive(&a).await, Err(MailError::NoBox));
    mail.open(&a).await.unwrap();
    mail.send(&a, vec![letter("new")]).await.unwrap();
    assert_eq!(mail.receive(&a).await.unwrap(), [letter("new")]);
}

#[tokio::test]
async fn a_box_that_overflows_after_some_were_taken_says_so() {
    let Some(server) = Server::start(&[]) else { return };
    let (mail, a) = (server.mail().with_limits(SMALL), instance("a"));
    mail.open(&a).await.unwrap();
    mail.send(&a, vec![letter("one"), letter("two"), letter("three")]).await.unwrap();
    collect(&mail, &a, 3).await;
    mail.send(&a, vec![letter("lost"); 1_000]).await.unwrap();
    assert!(matches!(mail.receive(&a).await, Err(MailError::Unavailable(_))));
}

#[tokio::test]
async fn a_box_that_is_emptied_in_time_never_overflows() {
    let Some(server) = Server::start(&[]) else { return };
    let (mail, a) = (server.mail().with_limits(SMALL), instance("a"));
    mail.open(&a).await.unwrap();
    for _ in 0..50 {
        mail.send(&a, vec![letter("taken"); 199]).await.unwrap();
        assert_eq!(collect(&mail, &a, 199).await.len(), 199);
    }
}

#[tokio::test]
async fn one_missing_letter_is_noticed() {
    let Some(server) = Server::start(&[]) else { return };
    let (mail, a) = (server.mail(), instance("a"));
    mail.open(&a).await.unwrap();
    mail.send(&a, vec![letter("lost")]).await.unwrap();
    assert_eq!(server.ask::<u64>(&["XTRIM", &box_of("a"), "MAXLEN", "0"]).await, 1);
    mail.send(&a, vec![letter("left")]).await.unwrap();
    assert!(matches!(mail.receive(&a).await, Err(MailError::Unavailable(_))));
}

#[tokio::test]
async fn a_box_that_somebody_else_opens_is_theirs() {
    let Some(server) = Server::start(&[]) else { return };
    let (first, second, a) = (server.mail(), server.mail(), instance("a"));
    // Which of two openings has the greater number is left to chance.
    for _ in 0..10 {
        first.open(&a).await.unwrap();
        first.send(&a, vec![letter("taken")]).await.unwrap();
        collect(&first, &a, 1).await;
        second.open(&a).await.unwrap();
        second.send(&a, vec![letter("theirs")]).await.unwrap();
        let Err(MailError::Unavailable(reason)) = first.receive(&a).await else { panic!("not noticed") };
        assert!(reason.contains("somebody else"), "{reason}");
        assert_eq!(second.receive(&a).await.unwrap(), [letter("theirs")]);
    }
}

#[tokio::test]
async fn who_waits_learns_that_redis_was_emptied() {
    let Some(server) = Server::start(&[]) else { return };
    let (mail, a) = (server.mail(), instance("a"));
    mail.open(&a).await.unwrap();
    let (taken, ()) = tokio::join!(mail.receive(&a), async {
        server.until_someone_waits().await;
        server.ask::<()>(&["FLUSHALL"]).await;
        assert_eq!(mail.send(&a, vec![letter("lost")]).await, Err(MailError::NoBox));
    });
    assert!(matches!(taken, Err(MailError::Unavailable(_))), "{taken:?}");
    assert_eq!(mail.receive(&a).await, Err(MailError::NoBox));
    mail.open(&a).await.unwrap();
    mail.send(&a, vec![letter("new")]).await.unwrap();
    assert_eq!(mail.receive(&a).await.unwrap(), [letter("new")]);
}
