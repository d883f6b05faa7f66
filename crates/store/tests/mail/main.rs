//! What every mail does alike: one suite, run over the reference in memory and over a Redis of each test's own; and what only the
//! mail in Redis can go through.

#![expect(clippy::unwrap_used, reason = "a test that cannot go on has failed")]

mod boxes;
mod letters;
mod outages;
mod seals;
mod server;
mod urls;

use std::sync::Arc;

use fermata_engine::mail::{Mail, MailError, MemoryMail};
use letters::{collect, instance, letter, send_from_many};
use server::Server;

macro_rules! in_every_mail {
    ($($fact:ident)*) => {
        mod in_memory {
            $(#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
            async fn $fact() {
                super::$fact(super::Arc::new(super::MemoryMail::new())).await;
            })*
        }

        mod in_redis {
            $(#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
            async fn $fact() {
                let Some(server) = super::Server::start(&[]) else { return };
                super::$fact(super::Arc::new(server.mail())).await;
            })*
        }
    };
}

in_every_mail! {
    letters_come_in_the_order_in_which_they_were_sent
    a_letter_wakes_the_one_who_waits
    each_instance_gets_its_own_letters
    no_letter_of_many_senders_is_lost_or_out_of_order
    a_box_that_nobody_has_opened_takes_and_gives_nothing
    a_box_that_is_opened_again_forgets_its_letters
    who_waits_learns_that_the_box_was_opened_again
    a_closed_box_takes_and_gives_nothing
    who_waits_learns_that_the_box_was_closed
    big_letters_arrive_whole
    letters_may_hold_any_bytes
    who_stops_waiting_and_waits_again_misses_nothing
}

async fn letters_come_in_the_order_in_which_they_were_sent(mail: Arc<dyn Mail>) {
    let a = instance("a");
    mail.open(&a).await.unwrap();
    let sent: Vec<Vec<u8>> = (0..1_000).map(|number| letter(&number.to_string())).collect();
    for some in sent.chunks(7) {
        mail.send(&a, some.to_vec()).await.unwrap();
    }
    assert_eq!(collect(&*mail, &a, 1_000).await, sent);
}

async fn a_letter_wakes_the_one_who_waits(mail: Arc<dyn Mail>) {
    let a = instance("a");
    mail.open(&a).await.unwrap();
    for text in ["one", "two", "three"] {
        let (taken, sent) = tokio::join!(mail.receive(&a), mail.send(&a, vec![letter(text)]));
        sent.unwrap();
        assert_eq!(taken.unwrap(), [letter(text)]);
    }
}

async fn each_instance_gets_its_own_letters(mail: Arc<dyn Mail>) {
    let (a, b) = (instance("a"), instance("b"));
    mail.open(&a).await.unwrap();
    mail.open(&b).await.unwrap();
    mail.send(&a, vec![letter("to a")]).await.unwrap();
    mail.send(&b, vec![letter("to b")]).await.unwrap();
    assert_eq!(mail.receive(&b).await.unwrap(), [letter("to b")]);
    assert_eq!(mail.receive(&a).await.unwrap(), [letter("to a")]);
}

async fn no_letter_of_many_senders_is_lost_or_out_of_order(mail: Arc<dyn Mail>) {
    let a = instance("a");
    mail.open(&a).await.unwrap();
    send_from_many(vec![mail.clone()], &a, &*mail).await;
}

async fn a_box_that_nobody_has_opened_takes_and_gives_nothing(mail: Arc<dyn Mail>) {
    let a = instance("a");
    assert_eq!(mail.send(&a, vec![letter("lost")]).await, Err(MailError::NoBox));
    assert_eq!(mail.send(&a, vec![letter("lost"), letter("too")]).await, Err(MailError::NoBox));
    assert_eq!(mail.receive(&a).await, Err(MailError::NoBox));
    mail.open(&a).await.unwrap();
    mail.send(&a, vec![letter("kept")]).await.unwrap();
    assert_eq!(mail.receive(&a).await.unwrap(), [letter("kept")]);
}

async fn a_box_that_is_opened_again_forgets_its_letters(mail: Arc<dyn Mail>) {
    let a = instance("a");
    mail.open(&a).await.unwrap();
    mail.send(&a, vec![letter("taken"), letter("taken too")]).await.unwrap();
    collect(&*mail, &a, 2).await;
    mail.send(&a, vec![letter("old")]).await.unwrap();
    mail.open(&a).await.unwrap();
    mail.send(&a, vec![letter("new")]).await.unwrap();
    assert_eq!(mail.receive(&a).await.unwrap(), [letter("new")]);
}

async fn who_waits_learns_that_the_box_was_opened_again(mail: Arc<dyn Mail>) {
    let a = instance("a");
    mail.open(&a).await.unwrap();
    let opened_again = async {
        tokio::task::yield_now().await;
        mail.open(&a).await
    };
    let (taken, opened) = tokio::join!(biased; mail.receive(&a), opened_again);
    opened.unwrap();
    assert_eq!(taken, Err(MailError::NoBox));
    mail.send(&a, vec![letter("new")]).await.unwrap();
    assert_eq!(mail.receive(&a).await.unwrap(), [letter("new")]);
}

async fn a_closed_box_takes_and_gives_nothing(mail: Arc<dyn Mail>) {
    let a = instance("a");
    mail.open(&a).await.unwrap();
    mail.send(&a, vec![letter("lost")]).await.unwrap();
    mail.close(&a).await;
    assert_eq!(mail.send(&a, vec![letter("lost")]).await, Err(MailError::NoBox));
    assert_eq!(mail.receive(&a).await, Err(MailError::NoBox));
    mail.close(&a).await;
}

async fn who_waits_learns_that_the_box_was_closed(mail: Arc<dyn Mail>) {
    let a = instance("a");
    mail.open(&a).await.unwrap();
    let (taken, ()) = tokio::join!(biased; mail.receive(&a), mail.close(&a));
    assert_eq!(taken, Err(MailError::NoBox));
}

async fn big_letters_arrive_whole(mail: Arc<dyn Mail>) {
    let a = instance("a");
    mail.open(&a).await.unwrap();
    let sent: Vec<Vec<u8>> = (0..5_u8).map(|number| vec![number; 1 << 20]).collect();
    mail.send(&a, sent.clone()).await.unwrap();
    assert!(collect(&*mail, &a, 5).await == sent, "a letter of one megabyte has changed");
}

async fn letters_may_hold_any_bytes(mail: Arc<dyn Mail>) {
    let a = instance("a");
    mail.open(&a).await.unwrap();
    let sent =
        vec![(0..=255).collect(), vec![], letter("\r\n*3\r\n$-1\r\n"), vec![0xff, 0xfe, 0], letter("42")];
    mail.send(&a, sent.clone()).await.unwrap();
    assert_eq!(collect(&*mail, &a, sent.len()).await, sent);
}

async fn who_stops_waiting_and_waits_again_misses_nothing(mail: Arc<dyn Mail>) {
    let a = instance("a");
    mail.open(&a).await.unwrap();
    let mut taken = Vec::new();
    for number in 0..100 {
        mail.send(&a, vec![letter(&number.to_string())]).await.unwrap();
        for _ in 0..3 {
            tokio::select! {
                biased;
                letters = mail.receive(&a) => taken.extend(letters.unwrap()),
                () = tokio::task::yield_now() => {}
            }
        }
    }
    let missing = 100 - taken.len();
    taken.extend(collect(&*mail, &a, missing).await);
    assert_eq!(taken, (0..100).map(|number| letter(&number.to_string())).collect::<Vec<_>>());
}

#[tokio::test]
async fn a_box_in_memory_that_nobody_empties_is_lost_as_a_whole() {
    let (mail, a) = (MemoryMail::new(), instance("a"));
    mail.open(&a).await.unwrap();
    let mut letters = 0;
    let refusal = loop {
        match mail.send(&a, vec![letter("one more")]).await {
            Ok(()) => letters += 1,
            Err(refusal) => break refusal,
        }
        assert!(letters < 1_000_000, "it takes any number of letters");
    };
    assert_eq!(refusal, MailError::NoBox);
    // So its owner learns that letters are missing.
    assert_eq!(mail.receive(&a).await, Err(MailError::NoBox));
    mail.open(&a).await.unwrap();
    mail.send(&a, vec![letter("kept")]).await.unwrap();
    assert_eq!(mail.receive(&a).await.unwrap(), [letter("kept")]);
}

#[tokio::test]
async fn a_mail_in_memory_that_is_down_carries_nothing_and_forgets_its_boxes() {
    let (mail, a) = (MemoryMail::new(), instance("a"));
    mail.open(&a).await.unwrap();
    mail.set_down(true);
    assert!(matches!(mail.open(&a).await, Err(MailError::Unavailable(_))));
    assert!(matches!(mail.send(&a, vec![letter("lost")]).await, Err(MailError::Unavailable(_))));
    assert!(matches!(mail.receive(&a).await, Err(MailError::Unavailable(_))));
    mail.set_down(false);
    assert_eq!(mail.send(&a, vec![letter("lost")]).await, Err(MailError::NoBox));
    mail.open(&a).await.unwrap();
    mail.send(&a, vec![letter("kept")]).await.unwrap();
    assert_eq!(mail.receive(&a).await.unwrap(), [letter("kept")]);
}
