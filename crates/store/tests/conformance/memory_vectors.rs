//! The vectors of memories: which ones are kept, and what is near.

use fermata_engine::store::{
    StoreError,
    memories::{Memory, MemoryAuthor, MemoryEdit, MemoryFilter, MemoryVector, NewMemory, VectorKind, cosine},
};
use fermata_tools::Owner;

use crate::{
    AnyStore,
    fixtures::*,
    memories::{all, change, change_of, edit, edit_text, forget, id, new, save},
};

in_every_store! {
    the_nearest_memories_come_first
    vectors_of_another_model_or_length_are_not_compared
    memories_without_such_a_vector_are_found
    a_vector_of_zeros_is_similar_to_nothing
    a_vector_of_an_older_version_is_dropped
    a_vector_goes_with_its_text_only
    a_memory_has_one_vector
    memories_without_a_vector_of_the_model_are_listed
    what_is_no_vector_is_a_conflict
    random_vectors_are_found_as_if_each_were_compared
}

/// Numbers that look random and are the same in every run.
pub struct Numbers(pub u64);

impl Numbers {
    pub fn vector(&mut self, dimensions: usize) -> Vec<f32> {
        (0..dimensions).map(|_| self.number()).collect()
    }

    /// A number from -1 to 1.
    fn number(&mut self) -> f32 {
        self.0 = self.0.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
        let high = u16::try_from(self.0 >> 48).unwrap();
        f32::from(high) / 32_768.0 - 1.0
    }
}

fn of(memory: &Memory, owner: &Owner, vector: &[f32]) -> MemoryVector {
    let (id, version) = (memory.id.clone(), memory.version);
    MemoryVector { owner: owner.clone(), id, version, vector: vector.to_owned() }
}

/// Saves a memory of alice's with a vector of the model.
async fn put(store: &AnyStore, name: &str, model: &str, vector: &[f32]) {
    change(store, 1, save(new(name, name))).await;
    let memory = all(store).await.into_iter().find(|memory| memory.id == id(name)).unwrap();
    store.put_vectors(model, vec![of(&memory, &alice(), vector)]).await.unwrap();
}

async fn near(store: &AnyStore, model: &str, to: &[f32]) -> Vec<String> {
    let nearest = store.nearest_memories(&alice(), model, to, 100).await.unwrap();
    nearest.into_iter().map(|(memory, similarity)| format!("{} {similarity:.3}", memory.id.0)).collect()
}

async fn missing(store: &AnyStore, model: &str) -> Vec<String> {
    let missing = store.unembedded_memories(model, 100).await.unwrap();
    let mut missing: Vec<_> =
        missing.into_iter().map(|(owner, memory)| format!("{} of {owner}", memory.id.0)).collect();
    missing.sort();
    missing
}

async fn the_nearest_memories_come_first(store: AnyStore) {
    assert_eq!(near(&store, "small", &[1.0, 0.0]).await, [""; 0]);
    for (name, vector) in
        [("against", [-2.0, 0.0]), ("same", [0.5, 0.0]), ("across", [0.0, 1.0]), ("between", [3.0, 3.0])]
    {
        put(&store, name, "small", &vector).await;
    }
    put(&store, "alike", "small", &[1.0, 0.0]).await;
    let expected = ["alike 1.000", "same 1.000", "between 0.707", "across 0.000", "against -1.000"];
    assert_eq!(near(&store, "small", &[7.0, 0.0]).await, expected);
    let first = store.nearest_memories(&alice(), "small", &[7.0, 0.0], 3).await.unwrap();
    assert_eq!(
        first.into_iter().map(|(memory, _)| memory.id.0).collect::<Vec<_>>(),
        ["alike", "same", "between"]
    );
    assert_eq!(store.nearest_memories(&bob(), "small", &[7.0, 0.0], 3).await.unwrap(), []);
}

async fn vectors_of_another_model_or_length_are_not_compared(store: AnyStore) {
    let odd = "m \u{0} \u{1a}";
    put(&store, "a", odd, &[1.0, 0.0]).await;
    put(&store, "b", "large", &[1.0, 0.0]).await;
    put(&store, "c", odd, &[1.0, 0.0, 0.0]).await;
    assert_eq!(near(&store, odd, &[1.0, 1.0]).await, ["a 0.707"]);
    assert_eq!(near(&store, "large", &[1.0, 1.0]).await, ["b 0.707"]);
    assert_eq!(near(&store, odd, &[1.0, 1.0, 0.0]).await, ["c 0.707"]);
    assert_eq!(near(&store, "none", &[1.0, 1.0]).await, [""; 0]);
    // Longer than an index can have it, and longer than pgvector can.
    for dimensions in [3_072, 16_001] {
        put(&store, &format!("d{dimensions}"), odd, &vec![0.25; dimensions]).await;
        assert_eq!(near(&store, odd, &vec![1.0; dimensions]).await, [format!("d{dimensions} 1.000")]);
    }
}

async fn memories_without_such_a_vector_are_found(store: AnyStore) {
    let odd = "m \u{0} \u{1a}";
    put(&store, "a", odd, &[1.0, 0.0]).await;
    put(&store, "b", odd, &[1.0, 0.0, 0.0]).await;
    put(&store, "c", "other", &[1.0, 0.0]).await;
    change(&store, 2, save(new("d", "x"))).await;
    let without = async |model: &str, dimensions| {
        let without_vector = Some(VectorKind { model: model.to_owned(), dimensions });
        let filter = MemoryFilter { without_vector, ..MemoryFilter::default() };
        let found = store.memories(&alice(), &filter).await.unwrap();
        found.into_iter().map(|memory| memory.id.0).collect::<Vec<_>>()
    };
    assert_eq!(without(odd, 2).await, ["d", "c", "b"]);
    assert_eq!(without(odd, 3).await, ["d", "c", "a"]);
    assert_eq!(without("other", 2).await, ["d", "b", "a"]);
    assert_eq!(without("none", 2).await, ["d", "c", "b", "a"]);
    change(&store, 3, edit_text("a", "y")).await;
    assert_eq!(without(odd, 2).await, ["d", "c", "b", "a"]);
}

async fn a_vector_of_zeros_is_similar_to_nothing(store: AnyStore) {
    put(&store, "near", "small", &[1.0, 1.0]).await;
    put(&store, "zeros", "small", &[0.0, 0.0]).await;
    put(&store, "against", "small", &[-1.0, 0.0]).await;
    assert_eq!(near(&store, "small", &[1.0, 0.0]).await, ["near 0.707", "zeros 0.000", "against -1.000"]);
    let nothing = ["against 0.000", "near 0.000", "zeros 0.000"];
    assert_eq!(near(&store, "small", &[0.0, 0.0]).await, nothing);
}

async fn a_vector_of_an_older_version_is_dropped(store: AnyStore) {
    change(&store, 1, save(new("a", "one"))).await;
    change(&store, 1, save(new("b", "other"))).await;
    let [b, old] = <[Memory; 2]>::try_from(all(&store).await).unwrap();
    change(&store, 2, edit_text("a", "two")).await;
    let [_, current] = <[Memory; 2]>::try_from(all(&store).await).unwrap();
    let gone = Memory { id: id("gone"), ..old.clone() };
    let vectors = [&old, &b, &gone].map(|memory| of(memory, &alice(), &[1.0, 0.0]));
    store.put_vectors("small", vectors.to_vec()).await.unwrap();
    store.put_vectors("small", vec![of(&current, &bob(), &[1.0, 0.0])]).await.unwrap();
    assert_eq!(near(&store, "small", &[1.0, 0.0]).await, ["b 1.000"]);
    store.put_vectors("small", vec![of(&current, &alice(), &[0.0, 1.0])]).await.unwrap();
    assert_eq!(near(&store, "small", &[1.0, 0.0]).await, ["b 1.000", "a 0.000"]);
}

async fn a_vector_goes_with_its_text_only(store: AnyStore) {
    let there = async || !near(&store, "small", &[1.0]).await.is_empty();
    put(&store, "a", "small", &[1.0]).await;
    let city = Some(Some("city".to_owned()));
    for parts in [
        MemoryEdit { pinned: Some(true), ..MemoryEdit::default() },
        MemoryEdit { slot: city.clone(), ..MemoryEdit::default() },
    ] {
        change(&store, 2, edit("a", parts)).await;
        assert!(there().await, "its text is the same");
    }
    store.note_recalled(&alice(), &[id("a")], at(3)).await.unwrap();
    store.undo_memory(&alice(), &id("a"), at(3), &MemoryAuthor::default()).await.unwrap();
    assert!(there().await, "its text is the same");
    let changes = [edit_text("a", "Oslo"), save(NewMemory { slot: city.flatten(), ..new("b", "Lyon") })];
    let slot = MemoryEdit { slot: Some(Some("city".to_owned())), ..MemoryEdit::default() };
    change(&store, 4, edit("a", slot)).await;
    for (n, next) in (5..).zip(changes) {
        change(&store, n, next).await;
        assert!(!there().await, "it has another text");
        let memory = all(&store).await.remove(0);
        store.put_vectors("small", vec![of(&memory, &alice(), &[1.0])]).await.unwrap();
        assert!(there().await);
    }
    store.undo_memory(&alice(), &id("a"), at(8), &MemoryAuthor::default()).await.unwrap();
    assert!(!there().await, "it has its old text again");
    let memory = all(&store).await.remove(0);
    store.put_vectors("small", vec![of(&memory, &alice(), &[1.0])]).await.unwrap();
    change(&store, 9, forget("a")).await;
    assert!(!there().await);
    store.undo_memory(&alice(), &id("a"), at(9), &MemoryAuthor::default()).await.unwrap();
    assert!(!there().await);
    assert_eq!(missing(&store, "small").await, ["a of alice"]);
}

async fn a_memory_has_one_vector(store: AnyStore) {
    put(&store, "a", "small", &[1.0, 0.0]).await;
    put(&store, "a", "small", &[0.0, 1.0]).await;
    assert_eq!(near(&store, "small", &[0.0, 1.0]).await, ["a 1.000"]);
    put(&store, "a", "large", &[1.0, 0.0, 0.0]).await;
    assert_eq!(near(&store, "small", &[0.0, 1.0]).await, [""; 0]);
    assert_eq!(near(&store, "large", &[1.0, 0.0, 0.0]).await, ["a 1.000"]);
    assert_eq!(missing(&store, "small").await, ["a of alice"]);
}

async fn memories_without_a_vector_of_the_model_are_listed(store: AnyStore) {
    assert_eq!(missing(&store, "m").await, [""; 0]);
    for (name, model) in [("a", "l"), ("b", "m"), ("c", "n")] {
        put(&store, name, model, &[1.0]).await;
    }
    change_of(&store, &bob(), 1, vec![save(new("d", "text"))]).await;
    assert_eq!(missing(&store, "m").await, ["a of alice", "c of alice", "d of bob"]);
    assert_eq!(missing(&store, "k").await, ["a of alice", "b of alice", "c of alice", "d of bob"]);
    assert_eq!(store.unembedded_memories("m", 2).await.unwrap().len(), 2);
    let missing = store.unembedded_memories("m", 9).await.unwrap();
    let (owner, memory) = missing.into_iter().find(|(owner, _)| *owner == bob()).unwrap();
    assert_eq!(memory.text, "text");
    store.put_vectors("m", vec![of(&memory, &owner, &[1.0])]).await.unwrap();
    assert_eq!(store.unembedded_memories("m", 9).await.unwrap().len(), 2);
}

async fn what_is_no_vector_is_a_conflict(store: AnyStore) {
    change(&store, 1, save(new("a", "x"))).await;
    change(&store, 1, save(new("b", "x"))).await;
    let memories = all(&store).await;
    for wrong in [vec![], vec![1.0, f32::NAN], vec![f32::INFINITY, 1.0]] {
        let vectors = vec![of(&memories[0], &alice(), &[1.0, 0.0]), of(&memories[1], &alice(), &wrong)];
        let refused = store.put_vectors("m", vectors).await;
        assert!(matches!(refused, Err(StoreError::Conflict(_))), "{wrong:?} {refused:?}");
        let refused = store.nearest_memories(&alice(), "m", &wrong, 9).await;
        assert!(matches!(refused, Err(StoreError::Conflict(_))), "{wrong:?} {refused:?}");
    }
    assert_eq!(near(&store, "m", &[1.0, 0.0]).await, [""; 0], "the right one was not saved, either");
}

async fn random_vectors_are_found_as_if_each_were_compared(store: AnyStore) {
    let mut numbers = Numbers(7);
    let count = 60;
    let saves = (0..count).map(|n| save(new(&format!("m{n:02}"), "x"))).collect();
    change_of(&store, &alice(), 1, saves).await;
    for dimensions in [1, 3, 64, 1_536] {
        let memories = all(&store).await;
        let vectors: Vec<_> =
            memories.iter().map(|memory| of(memory, &alice(), &numbers.vector(dimensions))).collect();
        store.put_vectors("m", vectors.clone()).await.unwrap();
        for limit in [1, 7, count] {
            let to = numbers.vector(dimensions);
            let nearest = store.nearest_memories(&alice(), "m", &to, limit).await.unwrap();
            check(&nearest, &vectors, &to, limit);
        }
    }
}

/// Compares what was found with all vectors. Stores may round differently.
pub fn check(nearest: &[(Memory, f32)], vectors: &[MemoryVector], to: &[f32], limit: usize) {
    let mut expected: Vec<f32> = vectors.iter().map(|of_memory| cosine(to, &of_memory.vector)).collect();
    expected.sort_by(|a, b| b.total_cmp(a));
    assert_eq!(nearest.len(), limit.min(vectors.len()));
    for ((Memory { id, .. }, similarity), expected) in nearest.iter().zip(expected) {
        assert!((similarity - expected).abs() < 1e-5, "{id:?} {similarity} {expected}");
        let own = vectors.iter().find(|of_memory| of_memory.id == *id).unwrap();
        assert!((similarity - cosine(to, &own.vector)).abs() < 1e-5, "{id:?} {similarity}");
    }
    let ids: std::collections::BTreeSet<_> = nearest.iter().map(|(memory, _)| &memory.id).collect();
    assert_eq!(ids.len(), nearest.len(), "none is found twice");
}
