//! Notes: what is written is found again by its owner, by any of its words, in any case.

use crate::fixtures::*;
use fermata_engine::store::StoreError;
use fermata_store::{Notes, SqlStore, WriteNoteError};

macro_rules! in_every_database {
    ($($fact:ident)*) => {
        mod on_sqlite {
            $(#[tokio::test]
            async fn $fact() {
                super::$fact(super::SqlStore::open("sqlite::memory:").await.unwrap().notes()).await;
            })*
        }

        mod on_postgres {
            $(#[tokio::test]
            async fn $fact() {
                let Some(postgres) = crate::test_database::TestDatabase::schema().await else { return };
                let database = postgres.open().await;
                super::$fact(database.notes.clone()).await;
                database.close().await;
            })*
        }
    };
}

in_every_database! {
    a_note_is_found_as_it_was_written
    every_word_must_match_somewhere
    case_does_not_matter_in_any_script
    wildcards_and_quotes_stand_for_themselves
    a_query_without_words_lists_the_newest
    notes_belong_to_their_owner
    a_very_long_query_is_only_a_query
    a_note_with_odd_text_comes_back_as_it_was
    an_owner_has_no_more_notes_than_may_be
    pages_of_notes_follow_one_another_although_notes_are_deleted
    all_notes_of_an_owner_are_deleted_and_nobody_elses
}

const MOST: usize = 100;

async fn found(notes: &Notes, query: &str) -> Vec<String> {
    notes.search(&alice(), query, 10).await.unwrap().into_iter().map(|note| note.id).collect()
}

async fn a_note_is_found_as_it_was_written(notes: Notes) {
    let written = notes.write("1", &alice(), "Shopping", "Milk,\nbread", at(1), MOST).await.unwrap();
    assert_eq!((written.title.as_str(), written.body.as_str()), ("Shopping", "Milk,\nbread"));
    assert_eq!(notes.search(&alice(), "bread", 10).await.unwrap(), [written]);
}

async fn every_word_must_match_somewhere(notes: Notes) {
    notes.write("1", &alice(), "Shopping", "milk and bread", at(1), MOST).await.unwrap();
    notes.write("2", &alice(), "Bread", "a recipe", at(2), MOST).await.unwrap();
    assert_eq!(found(&notes, "bread").await, ["2", "1"]);
    assert_eq!(found(&notes, " hop\tREAD ").await, ["1"]);
    assert_eq!(found(&notes, "bread butter").await, [""; 0]);
    assert_eq!(
        found(&notes, "shoppingmilk").await,
        [""; 0],
        "a word does not reach from the title into the body"
    );
}

async fn case_does_not_matter_in_any_script(notes: Notes) {
    notes.write("1", &alice(), "Die Straße", "Ελλάς, ÉTÉ", at(1), MOST).await.unwrap();
    for query in ["straße", "STRASSE", "ελλάσ", "ΕΛΛΆΣ", "été"] {
        assert_eq!(found(&notes, query).await, ["1"], "{query}");
    }
    assert_eq!(found(&notes, "ete").await, [""; 0]);
}

async fn wildcards_and_quotes_stand_for_themselves(notes: Notes) {
    notes.write("1", &alice(), "Sale", r#"100% off_now it's "fine" \o/"#, at(1), MOST).await.unwrap();
    notes.write("2", &alice(), "Other", "1000 offXnow", at(2), MOST).await.unwrap();
    for query in ["100%", "off_now", "it's", "\"fine\"", "\\o/"] {
        assert_eq!(found(&notes, query).await, ["1"], "{query}");
    }
    assert_eq!(found(&notes, "%").await, ["1"]);
    assert_eq!(found(&notes, "_").await, ["1"]);
}

async fn a_query_without_words_lists_the_newest(notes: Notes) {
    for n in 1..=4 {
        notes.write(&n.to_string(), &alice(), "t", "b", at(n), MOST).await.unwrap();
    }
    let newest = notes.search(&alice(), "  ", 2).await.unwrap();
    assert_eq!(newest.iter().map(|note| note.id.as_str()).collect::<Vec<_>>(), ["4", "3"]);
}

async fn notes_belong_to_their_owner(notes: Notes) {
    notes.write("1", &alice(), "t", "b", at(1), MOST).await.unwrap();
    assert_eq!(notes.search(&bob(), "", 10).await.unwrap(), []);
    notes.write("1", &bob(), "t", "b", at(1), MOST).await.unwrap();
    let again = notes.write("1", &alice(), "t", "other", at(1), MOST).await;
    assert!(matches!(again, Err(WriteNoteError::Store(StoreError::Conflict(_)))), "{again:?}");
}

async fn a_very_long_query_is_only_a_query(notes: Notes) {
    notes.write("1", &alice(), "t", &"a\0b ".repeat(30_000), at(1), MOST).await.unwrap();
    assert_eq!(found(&notes, &"ab ".repeat(1_000)).await, ["1"]);
    assert_eq!(found(&notes, &"x".repeat(200_000)).await, [""; 0]);
}

async fn a_note_with_odd_text_comes_back_as_it_was(notes: Notes) {
    let odd = ["a\0b", "a\u{1a}0b", "\u{1a}", "\u{10ffff}"];
    for (n, text) in (0..).zip(odd) {
        let written = notes.write(text, &alice(), text, text, at(n), MOST).await.unwrap();
        assert_eq!((written.id.as_str(), written.title.as_str()), (text, text));
    }
    let listed = notes.search(&alice(), "", 10).await.unwrap();
    let bodies: Vec<_> = listed.iter().rev().map(|note| (note.id.as_str(), note.body.as_str())).collect();
    assert_eq!(bodies, odd.map(|text| (text, text)));
    assert_eq!(found(&notes, "a\0b").await, ["a\0b"]);
}

async fn an_owner_has_no_more_notes_than_may_be(notes: Notes) {
    for id in ["1", "2"] {
        notes.write(id, &alice(), "t", "b", at(1), 2).await.unwrap();
    }
    assert_eq!(notes.write("3", &alice(), "t", "b", at(1), 2).await, Err(WriteNoteError::TooMany(2)));
    assert_eq!(found(&notes, "").await, ["2", "1"]);
    notes.write("1", &bob(), "t", "b", at(1), 2).await.unwrap();
    notes.write("3", &alice(), "t", "b", at(2), 3).await.unwrap();
    assert_eq!(found(&notes, "").await, ["3", "2", "1"]);
}

async fn pages_of_notes_follow_one_another_although_notes_are_deleted(notes: Notes) {
    for n in 1..=5 {
        // Two notes of each time, so the id decides.
        notes.write(&n.to_string(), &alice(), "x", "y", at(n / 2), MOST).await.unwrap();
    }
    let ids = |page: &fermata_store::NotePage| -> Vec<String> {
        page.notes.iter().map(|note| note.id.clone()).collect()
    };
    let first = notes.page(&alice(), "", 2, None).await.unwrap();
    assert_eq!(ids(&first), ["5", "4"]);
    assert!(notes.delete(&alice(), "4").await.unwrap());
    assert!(!notes.delete(&alice(), "4").await.unwrap());
    assert!(!notes.delete(&bob(), "3").await.unwrap());
    let second = notes.page(&alice(), "", 2, first.next.as_deref()).await.unwrap();
    assert_eq!(ids(&second), ["3", "2"]);
    let third = notes.page(&alice(), "", 2, second.next.as_deref()).await.unwrap();
    assert_eq!((ids(&third), third.next), (vec!["1".to_owned()], None));
    assert_eq!(notes.page(&alice(), "", 2, Some("x")).await.unwrap_err(), StoreError::BadCursor);
}

async fn all_notes_of_an_owner_are_deleted_and_nobody_elses(notes: Notes) {
    for n in 1..=3 {
        notes.write(&n.to_string(), &alice(), "x", "y", at(n), MOST).await.unwrap();
    }
    notes.write("1", &bob(), "x", "y", at(1), MOST).await.unwrap();
    assert_eq!(notes.delete_all(&alice()).await.unwrap(), 3);
    assert_eq!(found(&notes, "").await, [""; 0]);
    assert_eq!(notes.search(&bob(), "", 10).await.unwrap().len(), 1);
    assert_eq!(notes.delete_all(&alice()).await.unwrap(), 0);
}
