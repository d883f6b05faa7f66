use proptest::{collection::vec, option, prelude::*, sample::select};

use super::*;

/// Something that happens to an owner's memories.
#[derive(Clone, Debug)]
enum Happening {
    Changed { changes: Vec<MemoryChange>, most: usize },
    Undone { id: MemoryId },
    Recalled { id: MemoryId },
}

fn ids() -> impl Strategy<Value = MemoryId> {
    select(vec!["a", "b", "c", "d", "e", "f", "g"]).prop_map(|id| MemoryId(id.into()))
}

fn slots() -> impl Strategy<Value = Option<String>> {
    option::of(select(vec!["city", "name", "pet"]).prop_map(str::to_owned))
}

fn texts() -> impl Strategy<Value = String> {
    select(vec!["one", "two", "three"]).prop_map(str::to_owned)
}

fn changes() -> impl Strategy<Value = MemoryChange> {
    let kinds = || select(MemoryKind::ALL.to_vec());
    let save = (ids(), kinds(), texts(), slots(), prop::bool::weighted(0.2)).prop_map(
        |(id, kind, text, slot, pinned)| {
            MemoryChange::Save(NewMemory { id, kind, text, slot, pinned, source: None })
        },
    );
    let parts = (option::of(kinds()), option::of(texts()), option::of(slots()), option::of(any::<bool>()));
    let edit = (ids(), parts).prop_map(|(id, (kind, text, slot, pinned))| {
        let edit = MemoryEdit { kind, text, slot, pinned };
        MemoryChange::Edit { id, edit, source: None }
    });
    let delete = ids().prop_map(|id| MemoryChange::Delete { id });
    prop_oneof![5 => save, 3 => edit, 1 => delete]
}

fn happenings() -> impl Strategy<Value = Vec<Happening>> {
    let changed =
        (vec(changes(), 1..4), 1..6_usize).prop_map(|(changes, most)| Happening::Changed { changes, most });
    let undone = ids().prop_map(|id| Happening::Undone { id });
    let recalled = ids().prop_map(|id| Happening::Recalled { id });
    vec(prop_oneof![4 => changed, 2 => undone, 1 => recalled], 1..30)
}

fn second(n: usize) -> Timestamp {
    Timestamp::from_second(i64::try_from(n).expect("a second")).expect("a time")
}

/// The memories in the order of their ids, without their versions.
fn without_versions(owned: &OwnedMemories) -> Vec<Memory> {
    let mut memories: Vec<_> =
        owned.memories.iter().map(|memory| Memory { version: 0, ..memory.clone() }).collect();
    memories.sort_by(|a, b| a.id.cmp(&b.id));
    memories
}

/// Follows the events from one state to the next, as a store writes them.
fn follow(mut memories: Vec<Memory>, events: &[MemoryEvent]) -> Vec<Memory> {
    for MemoryEvent { before, after } in events {
        let known = memories.iter().position(|memory| Some(&memory.id) == before.as_ref().map(|m| &m.id));
        assert_eq!(known.map(|known| memories.remove(known)), *before);
        if let (Some(before), Some(after)) = (before, after) {
            assert_eq!(before.id, after.id);
            assert!(after.version > before.version, "a change makes a new version");
        }
        memories.extend(after.clone());
        let slots: Vec<_> = memories.iter().filter_map(|memory| memory.slot.as_ref()).collect();
        assert_eq!(slots.iter().collect::<BTreeSet<_>>().len(), slots.len(), "a slot is taken once");
        let ids: BTreeSet<_> = memories.iter().map(|memory| &memory.id).collect();
        assert_eq!(ids.len(), memories.len());
    }
    memories
}

proptest! {
    #[test]
    fn random_changes_keep_the_invariants_and_can_all_be_undone(happenings in happenings()) {
        let mut owned = OwnedMemories::default();
        let mut to_undo: Vec<MemoryEvent> = Vec::new();
        for (n, happening) in happenings.into_iter().enumerate() {
            let before = owned.memories.clone();
            let mut events = Vec::new();
            match happening {
                Happening::Changed { changes, most } => {
                    owned.change(changes, second(n), most, &MemoryOrigin::Person, &mut events);
                    prop_assert!(owned.memories.len() <= most.max(before.len()), "no more than may be");
                    prop_assert_eq!(&follow(before, &events), &owned.memories);
                    to_undo.extend(events);
                }
                Happening::Undone { id } => {
                    let Some(newest) = to_undo.iter().rposition(|event| event.id() == Some(&id)) else {
                        continue;
                    };
                    let undone = to_undo.remove(newest);
                    let restored = owned.undo(undone, &mut events);
                    let all = [&events[..], &[restored]].concat();
                    prop_assert_eq!(&follow(before, &all), &owned.memories);
                    to_undo.extend(events);
                }
                Happening::Recalled { id } => {
                    for memory in owned.memories.iter_mut().filter(|memory| memory.id == id) {
                        memory.recalled_at = Some(second(n));
                    }
                }
            }
        }
    }

    #[test]
    fn changes_undone_in_reverse_restore_what_was_there(first in vec(changes(), 0..10), then in vec(changes(), 1..20), most in 1..6_usize) {
        let mut owned = OwnedMemories::default();
        owned.change(first, second(1), 9, &MemoryOrigin::Person, &mut Vec::new());
        let before = without_versions(&owned);
        let mut events = Vec::new();
        for (n, change) in then.into_iter().enumerate() {
            owned.change(vec![change], second(2 + n), most, &MemoryOrigin::Person, &mut events);
        }
        for event in events.into_iter().rev() {
            let mut besides = Vec::new();
            owned.undo(event, &mut besides);
            prop_assert_eq!(besides, vec![]);
        }
        prop_assert_eq!(without_versions(&owned), before);
    }
}

#[test]
fn a_cursor_is_read_as_it_was_written_and_nothing_else_is() {
    let cursor = MemoryCursor { created_at: second(7), id: MemoryId("mem_A-9".into()) };
    assert_eq!(MemoryCursor::parse(&cursor.encode()), Ok(cursor));
    for wrong in ["", "~", "7", "7~", "x~a", "7~a b", "99999999999999999999~a", "7~a~b"] {
        assert_eq!(MemoryCursor::parse(wrong), Err(StoreError::BadCursor), "{wrong:?}");
    }
}

#[test]
fn the_cosine_is_that_of_the_angle_whatever_the_lengths() {
    for (one, other, expected) in [
        (&[2.0, 0.0][..], &[0.5, 0.0][..], 1.0),
        (&[1.0, 0.0], &[0.0, 3.0], 0.0),
        (&[1.0, 2.0], &[-2.0, -4.0], -1.0),
        (&[1.0, 0.0], &[1.0, 1.0], 0.5_f32.sqrt()),
        (&[0.0, 0.0], &[1.0, 1.0], 0.0),
        (&[1.0], &[1.0, 1.0], 0.0),
    ] {
        assert!((cosine(one, other) - expected).abs() < 1e-6, "{one:?} {other:?}");
    }
}

#[test]
fn a_vector_has_numbers_which_are_finite() {
    assert_eq!(check_vector(&[0.0, f32::MAX]), Ok(()));
    for wrong in [&[][..], &[f32::NAN], &[1.0, f32::NEG_INFINITY]] {
        assert!(matches!(check_vector(wrong), Err(StoreError::Conflict(_))), "{wrong:?}");
    }
}
