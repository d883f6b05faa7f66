//! Memories: what is saved, changed, deleted and undone, for each owner apart.

use fermata_engine::store::{
    Change, StoreError, Version,
    memories::{
        Memory, MemoryAuthor, MemoryChange, MemoryCursor, MemoryEdit, MemoryEvent, MemoryFilter, MemoryId,
        MemoryOrigin, MemoryOutcome, MemorySource, NewMemory, Undone,
    },
};
use fermata_protocol::{MemoryKind, MessageId};
use fermata_tools::Owner;

use crate::{AnyStore, commit, fixtures::*};

in_every_store! {
    a_memory_is_read_as_it_was_saved
    a_save_that_is_made_twice_is_made_once
    a_slot_is_replaced_in_place_and_that_can_be_undone
    an_edit_changes_its_parts_only
    a_memory_that_takes_a_slot_deletes_the_one_that_had_it
    changes_are_undone_one_after_the_other
    a_deletion_and_a_creation_can_be_undone
    what_nobody_knows_cannot_be_changed_or_undone
    what_is_least_missed_makes_room
    nothing_makes_room_that_has_to_stay
    an_owner_has_a_number_of_memories_in_every_prompt
    memories_are_listed_newest_first_by_page
    a_list_may_be_of_one_kind_or_of_slots
    owners_see_their_own_memories_only
    a_deletion_of_all_leaves_nothing_to_be_undone
    a_memory_outlives_the_chat_that_it_came_from
    a_source_that_is_no_chat_of_the_owner_is_left_out
    a_commit_changes_memories_or_nothing
    old_changes_are_forgotten
    many_changes_at_once_are_made_one_after_the_other
}

const MOST: usize = 100;

pub fn id(id: &str) -> MemoryId {
    MemoryId(id.to_owned())
}

pub fn new(name: &str, text: &str) -> NewMemory {
    let (kind, text) = (MemoryKind::Fact, text.to_owned());
    NewMemory { id: id(name), kind, text, slot: None, pinned: false, source: None }
}

fn with_slot(name: &str, text: &str, slot: &str) -> NewMemory {
    NewMemory { slot: Some(slot.to_owned()), ..new(name, text) }
}

pub fn save(new: NewMemory) -> MemoryChange {
    MemoryChange::Save(new)
}

pub fn edit(name: &str, edit: MemoryEdit) -> MemoryChange {
    MemoryChange::Edit { id: id(name), edit, source: None }
}

pub fn edit_text(name: &str, text: &str) -> MemoryChange {
    edit(name, MemoryEdit { text: Some(text.to_owned()), ..MemoryEdit::default() })
}

pub fn forget(name: &str) -> MemoryChange {
    MemoryChange::Delete { id: id(name) }
}

pub async fn change_of(
    store: &AnyStore,
    owner: &Owner,
    second: i64,
    changes: Vec<MemoryChange>,
) -> Vec<MemoryOutcome> {
    store.change_memories(owner, at(second), changes, MOST, &MemoryAuthor::default()).await.unwrap()
}

/// One change of alice's memories.
pub async fn change(store: &AnyStore, second: i64, change: MemoryChange) -> MemoryOutcome {
    change_of(store, &alice(), second, vec![change]).await.remove(0)
}

async fn undo(store: &AnyStore, second: i64, name: &str) -> Undone {
    store.undo_memory(&alice(), &id(name), at(second), &MemoryAuthor::default()).await.unwrap()
}

pub async fn all(store: &AnyStore) -> Vec<Memory> {
    store.memories(&alice(), &MemoryFilter::default()).await.unwrap()
}

/// Alice's memories, newest first, each as its id, version, slot and text.
async fn shown(store: &AnyStore) -> Vec<String> {
    let show = |memory: Memory| {
        let slot = memory.slot.map(|slot| format!(" [{slot}]")).unwrap_or_default();
        format!("{} v{}{slot}: {}", memory.id.0, memory.version, memory.text)
    };
    all(store).await.into_iter().map(show).collect()
}

async fn ids(store: &AnyStore, filter: MemoryFilter) -> Vec<String> {
    let found = store.memories(&alice(), &filter).await.unwrap();
    found.into_iter().map(|memory| memory.id.0).collect()
}

fn changed(outcome: &MemoryOutcome) -> (Option<&Memory>, Option<&Memory>) {
    let MemoryOutcome::Changed(MemoryEvent { before, after }) = outcome else { panic!("{outcome:?}") };
    (before.as_ref(), after.as_ref())
}

async fn a_memory_is_read_as_it_was_saved(store: AnyStore) {
    assert_eq!(all(&store).await, []);
    commit(&store, &chat("a"), vec![create(alice())]).await;
    for (second, kind) in (1..).zip(MemoryKind::ALL) {
        let pinned = kind == MemoryKind::Entity;
        let slot = (kind == MemoryKind::Fact).then(|| "time \u{0} zone".to_owned());
        let message = pinned.then(|| MessageId::new("m \u{1a}"));
        let source = Some(MemorySource { chat: chat("a"), message });
        let text = format!("\u{0} \u{1a} \u{1f980} {kind:?}");
        let name = kind.as_str();
        let new = NewMemory { id: id(name), kind, text, slot, pinned, source };
        let expected = Memory {
            id: new.id.clone(),
            kind,
            text: new.text.clone(),
            slot: new.slot.clone(),
            pinned,
            source: new.source.clone(),
            origin: MemoryOrigin::Person,
            created_at: at(second),
            recalled_at: None,
            version: 0,
        };
        assert_eq!(changed(&change(&store, second, save(new)).await), (None, Some(&expected)));
        assert_eq!(all(&store).await[0], expected);
    }
    store.note_recalled(&alice(), &[id("fact"), id("nobody")], at(9)).await.unwrap();
    let recalled: Vec<_> = all(&store).await.into_iter().map(|memory| memory.recalled_at).collect();
    assert_eq!(recalled, [None, None, Some(at(9)), None]);
}

async fn a_save_that_is_made_twice_is_made_once(store: AnyStore) {
    change(&store, 1, save(new("a", "first"))).await;
    let outcome = change(&store, 2, save(new("a", "second"))).await;
    assert_eq!(outcome, MemoryOutcome::Unchanged(all(&store).await.remove(0)));
    assert_eq!(shown(&store).await, ["a v0: first"]);
    let twice = vec![save(new("b", "first")), save(new("b", "first"))];
    let outcomes = change_of(&store, &alice(), 3, twice).await;
    assert!(matches!(&outcomes[..], [MemoryOutcome::Changed(_), MemoryOutcome::Unchanged(_)]));
    assert_eq!(shown(&store).await, ["b v0: first", "a v0: first"]);
}

async fn a_slot_is_replaced_in_place_and_that_can_be_undone(store: AnyStore) {
    change(&store, 1, save(with_slot("a", "Lyon", "city"))).await;
    change(&store, 2, save(new("b", "other"))).await;
    let outcome = change(&store, 3, save(with_slot("c", "Oslo", "city"))).await;
    let (before, after) = changed(&outcome);
    assert_eq!((before.unwrap().text.as_str(), after.unwrap().text.as_str()), ("Lyon", "Oslo"));
    assert_eq!(after.unwrap().id, id("a"), "it keeps its id");
    assert_eq!(shown(&store).await, ["a v1 [city]: Oslo", "b v0: other"]);
    let same = change(&store, 4, save(with_slot("d", "Oslo", "city"))).await;
    assert!(matches!(same, MemoryOutcome::Unchanged(_)), "{same:?}");
    let restored = undo(&store, 5, "a").await;
    assert_eq!(shown(&store).await, ["b v0: other", "a v2 [city]: Lyon"], "at its old time");
    assert_eq!(restored, Undone::Undone(Some(all(&store).await.remove(1))));
}

async fn an_edit_changes_its_parts_only(store: AnyStore) {
    commit(&store, &chat("a"), vec![create(alice())]).await;
    commit(&store, &chat("b"), vec![create(alice())]).await;
    let in_chat = |name: &str| Some(MemorySource { chat: chat(name), message: Some(MessageId::new("m")) });
    change(&store, 1, save(NewMemory { source: in_chat("a"), ..with_slot("a", "Lyon", "city") })).await;
    let first = all(&store).await.remove(0);
    let edited = |parts: MemoryEdit| edit("a", parts);
    let pinned = MemoryEdit { pinned: Some(true), ..MemoryEdit::default() };
    change(&store, 2, edited(pinned.clone())).await;
    let expected = Memory { pinned: true, version: 1, ..first.clone() };
    assert_eq!(all(&store).await, std::slice::from_ref(&expected));
    assert_eq!(change(&store, 3, edited(pinned)).await, MemoryOutcome::Unchanged(expected));
    let rest = MemoryEdit {
        kind: Some(MemoryKind::Preference),
        text: Some("likes Lyon".into()),
        slot: Some(None),
        pinned: None,
    };
    let source = in_chat("b");
    change(&store, 4, MemoryChange::Edit { id: id("a"), edit: rest, source: source.clone() }).await;
    let (kind, text) = (MemoryKind::Preference, "likes Lyon".into());
    let expected = Memory { kind, text, slot: None, pinned: true, source, version: 2, ..first };
    assert_eq!(all(&store).await, [expected]);
}

async fn a_memory_that_takes_a_slot_deletes_the_one_that_had_it(store: AnyStore) {
    change(&store, 1, save(with_slot("a", "Lyon", "city"))).await;
    change(&store, 2, save(new("b", "Oslo"))).await;
    let slot = |slot: &str| MemoryEdit { slot: Some(Some(slot.to_owned())), ..MemoryEdit::default() };
    change(&store, 3, edit("b", slot("city"))).await;
    assert_eq!(shown(&store).await, ["b v1 [city]: Oslo"]);
    undo(&store, 4, "a").await;
    assert_eq!(shown(&store).await, ["a v1 [city]: Lyon"], "the one that has the slot makes room again");
    undo(&store, 5, "b").await;
    assert_eq!(shown(&store).await, ["b v2 [city]: Oslo"]);
}

async fn changes_are_undone_one_after_the_other(store: AnyStore) {
    change(&store, 1, save(new("a", "one"))).await;
    change(&store, 2, save(new("b", "other"))).await;
    for (second, text) in [(3, "two"), (4, "three")] {
        change(&store, second, edit_text("a", text)).await;
    }
    for (second, expected) in [(5, "a v3: two"), (6, "a v4: one")] {
        assert!(matches!(undo(&store, second, "a").await, Undone::Undone(Some(_))));
        assert_eq!(shown(&store).await, ["b v0: other", expected]);
    }
    assert_eq!(undo(&store, 7, "a").await, Undone::Undone(None));
    assert_eq!(shown(&store).await, ["b v0: other"]);
    assert_eq!(undo(&store, 8, "a").await, Undone::Unknown);
}

async fn a_deletion_and_a_creation_can_be_undone(store: AnyStore) {
    change(&store, 1, save(new("a", "one"))).await;
    let before = all(&store).await.remove(0);
    assert_eq!(changed(&change(&store, 2, forget("a")).await), (Some(&before), None));
    assert_eq!(all(&store).await, []);
    let restored = Memory { version: 1, ..before };
    assert_eq!(undo(&store, 3, "a").await, Undone::Undone(Some(restored.clone())));
    assert_eq!(all(&store).await, [restored]);
    assert_eq!(undo(&store, 4, "a").await, Undone::Undone(None));
    assert_eq!(all(&store).await, []);
    change(&store, 5, save(new("a", "again"))).await;
    assert_eq!(shown(&store).await, ["a v0: again"], "its id is free");
}

async fn what_nobody_knows_cannot_be_changed_or_undone(store: AnyStore) {
    change_of(&store, &bob(), 1, vec![save(new("b", "bob's"))]).await;
    for unknown in [edit_text("b", "x"), forget("b")] {
        assert_eq!(change(&store, 2, unknown).await, MemoryOutcome::Unknown);
    }
    assert_eq!(undo(&store, 2, "b").await, Undone::Unknown);
    assert_eq!(store.memories(&bob(), &MemoryFilter::default()).await.unwrap()[0].text, "bob's");
    assert_eq!(
        store.change_memories(&alice(), at(3), vec![], MOST, &MemoryAuthor::default()).await.unwrap(),
        []
    );
}

async fn what_is_least_missed_makes_room(store: AnyStore) {
    // In the order of eviction.
    let order = ["old", "new", "long", "short"];
    for (second, name) in [(3, "long"), (1, "old"), (4, "short"), (2, "new")] {
        change(&store, second, save(new(name, name))).await;
    }
    change(&store, 5, save(with_slot("slot", "slot", "city"))).await;
    change(&store, 6, save(NewMemory { pinned: true, ..new("pinned", "pinned") })).await;
    store.note_recalled(&alice(), &[id("long")], at(7)).await.unwrap();
    store.note_recalled(&alice(), &[id("short")], at(8)).await.unwrap();
    for (n, gone) in order.into_iter().enumerate() {
        let name = format!("extra{n}");
        let second = 10 + i64::try_from(n).unwrap();
        let pinned = NewMemory { pinned: true, ..new(&name, "x") };
        store
            .change_memories(&alice(), at(second), vec![save(pinned)], 6, &MemoryAuthor::default())
            .await
            .unwrap();
        let left = ids(&store, MemoryFilter::default()).await;
        assert_eq!(left.len(), 6);
        assert!(!left.iter().any(|name| name == gone), "{gone} goes in round {n}: {left:?}");
    }
    assert!(matches!(undo(&store, 20, "old").await, Undone::Undone(Some(_))), "this can be undone, too");
}

async fn nothing_makes_room_that_has_to_stay(store: AnyStore) {
    change(&store, 1, save(NewMemory { pinned: true, ..new("pinned", "x") })).await;
    change(&store, 2, save(with_slot("slot", "x", "city"))).await;
    let saves = vec![save(new("a", "x")), save(new("b", "x"))];
    let outcomes = store.change_memories(&alice(), at(3), saves, 3, &MemoryAuthor::default()).await.unwrap();
    assert!(matches!(outcomes[0], MemoryOutcome::Changed(_)));
    assert_eq!(outcomes[1], MemoryOutcome::Full, "what was saved by the same change stays");
    let again = vec![save(with_slot("c", "y", "city")), edit_text("pinned", "y")];
    let outcomes = store.change_memories(&alice(), at(4), again, 3, &MemoryAuthor::default()).await.unwrap();
    assert!(outcomes.iter().all(|outcome| matches!(outcome, MemoryOutcome::Changed(_))), "{outcomes:?}");
    assert_eq!(shown(&store).await, ["slot v1 [city]: y", "a v0: x", "pinned v1: y"]);
}

async fn an_owner_has_a_number_of_memories_in_every_prompt(store: AnyStore) {
    let slots = fermata_engine::store::memories::MAX_ALWAYS;
    let saves = (0..slots).map(|n| save(with_slot(&format!("m{n}"), "x", &format!("s{n}")))).collect();
    change_of(&store, &alice(), 1, saves).await;
    assert_eq!(change(&store, 2, save(with_slot("a", "x", "one"))).await, MemoryOutcome::TooManyAlways);
    assert!(matches!(change(&store, 3, save(with_slot("a", "y", "s1"))).await, MemoryOutcome::Changed(_)));
    assert_eq!(all(&store).await.len(), slots);
    let pinned = NewMemory { pinned: true, ..new("p", "x") };
    assert_eq!(change(&store, 4, save(pinned)).await, MemoryOutcome::TooManyAlways);
    change(&store, 5, save(new("p", "x"))).await;
    let pin = MemoryEdit { pinned: Some(true), ..MemoryEdit::default() };
    let pin = |id: &str| MemoryChange::Edit { id: MemoryId(id.into()), edit: pin.clone(), source: None };
    assert_eq!(change(&store, 6, pin("p")).await, MemoryOutcome::TooManyAlways);
    assert!(matches!(change(&store, 7, pin("m1")).await, MemoryOutcome::Changed(_)), "it has a slot already");
}

async fn memories_are_listed_newest_first_by_page(store: AnyStore) {
    for (second, name) in [(1, "e"), (2, "b"), (2, "d"), (2, "c"), (3, "a")] {
        change(&store, second, save(new(name, "x"))).await;
    }
    let order = ["a", "d", "c", "b", "e"];
    assert_eq!(ids(&store, MemoryFilter::default()).await, order);
    for limit in 1..=5 {
        let (mut listed, mut after) = (Vec::new(), None);
        loop {
            let filter = MemoryFilter { after, limit: Some(limit), ..MemoryFilter::default() };
            let page = store.memories(&alice(), &filter).await.unwrap();
            let Some(last) = page.last() else { break };
            assert!(page.len() <= limit);
            after = Some(MemoryCursor::parse(&MemoryCursor::of(last).encode()).unwrap());
            listed.extend(page.into_iter().map(|memory| memory.id.0));
        }
        assert_eq!(listed, order, "by {limit}");
    }
}

async fn a_list_may_be_of_one_kind_or_of_slots(store: AnyStore) {
    for (second, kind) in (1..).zip(MemoryKind::ALL) {
        let name = kind.as_str();
        change(&store, second, save(NewMemory { kind, ..new(name, "x") })).await;
        let slot = format!("slot of {name}");
        change(
            &store,
            second + 10,
            save(NewMemory { kind, ..with_slot(&format!("{name}-slot"), "x", &slot) }),
        )
        .await;
    }
    let of_kind = MemoryFilter { kind: Some(MemoryKind::Entity), ..MemoryFilter::default() };
    assert_eq!(ids(&store, of_kind.clone()).await, ["entity-slot", "entity"]);
    let slots = MemoryFilter { is_always: Some(true), limit: Some(2), ..MemoryFilter::default() };
    assert_eq!(ids(&store, slots).await, ["instruction-slot", "entity-slot"]);
    assert_eq!(ids(&store, MemoryFilter { is_always: Some(true), ..of_kind.clone() }).await, ["entity-slot"]);
    assert_eq!(ids(&store, MemoryFilter { is_always: Some(false), ..of_kind }).await, ["entity"]);
}

async fn owners_see_their_own_memories_only(store: AnyStore) {
    let owners = ["alice", "bob", "", "a\0", "a\u{1a}0", "a"].map(Owner::new);
    for owner in &owners {
        let text = format!("of {owner}");
        change_of(&store, owner, 1, vec![save(with_slot("same", &text, "city")), save(new("b", "x"))]).await;
    }
    let (bob, others) = (&owners[1], [&owners[0], &owners[2], &owners[3], &owners[4], &owners[5]]);
    change_of(&store, bob, 2, vec![edit_text("same", "bob's own"), forget("b")]).await;
    store.note_recalled(bob, &[id("same")], at(2)).await.unwrap();
    store.undo_memory(bob, &id("b"), at(3), &MemoryAuthor::default()).await.unwrap();
    assert_eq!(store.delete_memories(bob, at(9), &MemoryAuthor::default()).await.unwrap(), 2);
    for owner in others {
        let found = store.memories(owner, &MemoryFilter::default()).await.unwrap();
        let found: Vec<_> = found.iter().map(|m| (m.text.clone(), m.version, m.recalled_at)).collect();
        assert_eq!(found, [(format!("of {owner}"), 0, None), ("x".into(), 0, None)], "{owner:?}");
    }
}

async fn a_deletion_of_all_leaves_nothing_to_be_undone(store: AnyStore) {
    change_of(&store, &alice(), 1, vec![save(new("a", "x")), save(new("b", "x")), save(new("c", "x"))]).await;
    change(&store, 2, forget("b")).await;
    assert_eq!(store.delete_memories(&alice(), at(9), &MemoryAuthor::default()).await.unwrap(), 2);
    assert_eq!(all(&store).await, []);
    for name in ["a", "b", "c"] {
        assert_eq!(undo(&store, 3, name).await, Undone::Unknown);
    }
    assert_eq!(store.delete_memories(&alice(), at(9), &MemoryAuthor::default()).await.unwrap(), 0);
    change(&store, 4, save(new("a", "again"))).await;
    assert_eq!(undo(&store, 5, "a").await, Undone::Undone(None));
}

async fn a_memory_outlives_the_chat_that_it_came_from(store: AnyStore) {
    for name in ["a", "b"] {
        commit(&store, &chat(name), vec![create(alice())]).await;
        let source = Some(MemorySource { chat: chat(name), message: Some(MessageId::new("m")) });
        change(&store, 1, save(NewMemory { source, ..new(name, name) })).await;
    }
    change(&store, 2, edit_text("a", "edited")).await;
    let sources = async || {
        let sources = all(&store).await.into_iter().map(|memory| memory.source);
        sources.map(|source| source.map(|source| source.chat.to_string())).collect::<Vec<_>>()
    };
    assert_eq!(sources().await, [Some("b".to_owned()), Some("a".to_owned())]);
    delete(&*store, &chat("a")).await;
    assert_eq!(shown(&store).await, ["b v0: b", "a v1: edited"]);
    assert_eq!(sources().await, [Some("b".to_owned()), None]);
    undo(&store, 3, "a").await;
    change(&store, 4, forget("b")).await;
    assert_eq!(store.forget(at(9), 9).await.unwrap(), 1, "the other chat is old");
    undo(&store, 5, "b").await;
    assert_eq!(shown(&store).await, ["b v1: b", "a v2: a"]);
    assert_eq!(sources().await, [None, None], "and nothing brings it back");
}

async fn a_source_that_is_no_chat_of_the_owner_is_left_out(store: AnyStore) {
    commit(&store, &chat("bobs"), vec![create(bob())]).await;
    for (n, name) in [(1, "bobs"), (2, "nobodys")] {
        let source = Some(MemorySource { chat: chat(name), message: None });
        let outcome = change(&store, n, save(NewMemory { source: source.clone(), ..new(name, "x") })).await;
        assert_eq!(changed(&outcome).1.unwrap().source, None);
        let text = MemoryEdit { text: Some("y".into()), ..MemoryEdit::default() };
        change(&store, n, MemoryChange::Edit { id: id(name), edit: text, source }).await;
    }
    assert!(all(&store).await.iter().all(|memory| memory.source.is_none() && memory.text == "y"));
}

async fn a_commit_changes_memories_or_nothing(store: AnyStore) {
    let remember = |changes: Vec<MemoryChange>| Change::ChangeMemories {
        owner: alice(),
        changes,
        most: MOST,
        author: MemoryAuthor::default(),
    };
    let source = Some(MemorySource { chat: chat("a"), message: Some(MessageId::new("m")) });
    let saved = save(NewMemory { source: source.clone(), ..new("a", "said") });
    commit(&store, &chat("a"), vec![create(alice()), remember(vec![saved, forget("nobody's")])]).await;
    assert_eq!(all(&store).await[0].source, source);
    let stale = vec![put(user("m", "x")), remember(vec![save(new("b", "stale")), forget("a")])];
    assert_eq!(store.commit_next(&chat("a"), Version(9), at(1), stale).await, Err(StoreError::Fenced));
    let broken = vec![remember(vec![save(new("b", "broken")), forget("a")]), close("no such run")];
    let broken = commit_at(&*store, &chat("a"), at(1), broken).await;
    assert!(matches!(broken, Err(StoreError::Conflict(_))), "{broken:?}");
    assert_eq!(shown(&store).await, ["a v0: said"]);
    commit(&store, &chat("a"), vec![remember(vec![edit_text("a", "more")])]).await;
    assert_eq!(shown(&store).await, ["a v1: more"]);
    undo(&store, 2, "a").await;
    assert_eq!(shown(&store).await, ["a v2: said"]);
}

async fn old_changes_are_forgotten(store: AnyStore) {
    change(&store, 1, save(new("a", "one"))).await;
    change(&store, 2, edit_text("a", "two")).await;
    change(&store, 3, edit_text("a", "three")).await;
    assert_eq!(store.forget_memory_events(at(1), 9).await.unwrap(), 0);
    assert_eq!(store.forget_memory_events(at(3), 1).await.unwrap(), 1);
    assert_eq!(store.forget_memory_events(at(3), 9).await.unwrap(), 1);
    undo(&store, 4, "a").await;
    assert_eq!(shown(&store).await, ["a v3: two"]);
    assert_eq!(undo(&store, 5, "a").await, Undone::NothingLeft);
    assert_eq!(shown(&store).await, ["a v3: two"]);
    let many = fermata_engine::store::memories::MAX_EVENTS + 1;
    let changes = (0..many).map(|n| edit_text("a", &n.to_string())).collect();
    change_of(&store, &alice(), 6, changes).await;
    assert_eq!(store.forget_memory_events(at(9), many).await.unwrap(), many - 1, "the oldest is gone");
}

async fn many_changes_at_once_are_made_one_after_the_other(store: AnyStore) {
    let (writers, rounds) = (4, 8);
    let mut writing = Vec::new();
    for writer in 0..writers {
        let store = store.clone();
        writing.push(tokio::spawn(async move {
            let in_chat = chat(&format!("chat{writer}"));
            commit(&store, &in_chat, vec![create(alice())]).await;
            for round in 0..rounds {
                let name = format!("{writer}-{round}");
                let city = with_slot(&name, &name, "city");
                let extra = new(&format!("extra-{name}"), "x");
                let changes = vec![save(city), save(extra)];
                commit(
                    &store,
                    &in_chat,
                    vec![Change::ChangeMemories {
                        owner: alice(),
                        changes,
                        most: 10,
                        author: MemoryAuthor::default(),
                    }],
                )
                .await;
                let extra = format!("extra-{name}");
                let source = Some(MemorySource { chat: in_chat.clone(), message: None });
                let text = MemoryEdit { text: Some("y".into()), ..MemoryEdit::default() };
                let edit = MemoryChange::Edit { id: id(&extra), edit: text, source };
                store
                    .change_memories(&alice(), at(2), vec![edit], 10, &MemoryAuthor::default())
                    .await
                    .unwrap();
                store.note_recalled(&alice(), &[id(&extra)], at(3)).await.unwrap();
                if round % 2 == 0 {
                    store.undo_memory(&alice(), &id(&extra), at(4), &MemoryAuthor::default()).await.unwrap();
                }
            }
            delete(&*store, &in_chat).await;
        }));
    }
    for written in writing {
        written.await.unwrap();
    }
    let found = all(&store).await;
    let city: Vec<_> = found.iter().filter(|memory| memory.slot.is_some()).collect();
    assert_eq!(city.len(), 1);
    assert_eq!(city[0].version, writers * rounds - 1, "each replaced the one before");
    assert_eq!(found.len(), 10);
    assert!(found.iter().all(|memory| memory.source.is_none()), "all chats are gone");
}
