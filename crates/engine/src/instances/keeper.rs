//! Staying alive among the others, and taking up what nobody drives.

use std::{
    sync::{Arc, Weak},
    time::Duration,
};

use tokio::time::{Instant, sleep, timeout};

use super::{Instances, answering::unfollow};
use crate::{
    driver::Command,
    engine::Inner,
    store::{Beat, ClockMark, StoreError},
};

/// How often this instance says that it is alive; several times in a lease.
const BEAT_EVERY: Duration = Duration::from_secs(2);
/// How often it looks for runs that nobody drives.
const SWEEP_EVERY: Duration = Duration::from_secs(1);
/// How many chats are taken up at a time whose time is over.
const DUE_AT_ONCE: usize = 100;
/// How many are taken up at a time that were at work: each may ask the model at once.
const ORPHANS_AT_ONCE: usize = 50;
/// How often it is noted how far time has come. More often would wake the disk of an idle server for nothing.
const NOTE_EVERY: Duration = Duration::from_secs(600);
/// How often is looked for what may be forgotten.
const FORGET_EVERY: Duration = Duration::from_secs(60);
/// How much of it is forgotten at a time, so that nobody waits for long.
const FORGOTTEN_AT_ONCE: usize = 100;
/// How long the log of a run that is over is kept: for as long as its readers may look for it.
const KEEP_LOGS: Duration = Duration::from_secs(120);

/// Keeps this instance alive, until it is dropped. Needs nothing of the drivers' runtime, see [`super::heartbeat`].
pub(crate) async fn keep_alive(inner: Weak<Inner>) {
    let mut is_known = true;
    while let Some(inner) = inner.upgrade() {
        let instances = &inner.instances;
        let at = Instant::now();
        let beat = async {
            instances.join(&inner.store, &inner.clock).await?;
            let asked = Instant::now();
            let beat = inner.store.beat(&instances.me).await?;
            inner.clock.observe(beat.now, asked);
            Ok::<_, StoreError>(beat)
        };
        match beat.await {
            Ok(beat) => {
                is_known = true;
                note(instances, beat, at);
            }
            Err(error) => {
                if is_known {
                    tracing::warn!(%error, "the database cannot be told that this instance is alive");
                }
                is_known = false;
            }
        }
        drop(inner);
        sleep(BEAT_EVERY).await;
    }
}

fn note(instances: &Instances, beat: Beat, at: Instant) {
    let alive = beat.alive.into_iter().collect();
    // A beat that broke off may have been the one that would have told.
    let was_dead = beat.was_dead || instances.may_be_dead();
    if was_dead {
        // First, as the beat takes the doubt away.
        instances.note_death();
    }
    instances.set_alive(alive, at);
}

/// Does what follows from beats for readers and drivers, until it is dropped.
pub(crate) async fn follow_beats(inner: Arc<Inner>) {
    let instances = &inner.instances;
    let mut alive = instances.alive.subscribe();
    let mut deaths = instances.deaths();
    loop {
        for (from, feed) in instances.feeds.take_idle() {
            inner.tasks.spawn(unfollow(inner.clone(), from, feed));
        }
        // Feeds are looked at also while the store does not answer; the sender is never dropped.
        let _ = timeout(BEAT_EVERY, alive.changed()).await;
        instances.feeds.lose(|from| !instances.is_alive(from));
        if instances.deaths() != deaths {
            deaths = instances.deaths();
            tracing::warn!(
                "this instance was taken for dead, or may have been; others may have taken up its runs"
            );
            for chat in inner.chats.driven() {
                // If the inbox is full, this is dropped: the death was counted before, and a driver looks at the count before each command
                // that waits there (`Driver::verify_in_doubt`).
                inner.tell(&chat, inner.order(Command::Verify));
            }
        }
    }
}

/// Takes up runs that nobody drives: those whose time is over, and those that were at work. Until it is dropped.
pub(crate) async fn sweep(inner: Arc<Inner>) {
    let mut forgot = Instant::now();
    let mut noted = None;
    loop {
        if let Err(error) = take_up(&inner).await {
            tracing::warn!(%error, "runs that nobody drives could not be looked for");
        }
        note_time(&inner, &mut noted).await;
        if forgot.elapsed() >= FORGET_EVERY {
            forgot = Instant::now();
            if let Err(error) = forget(&inner).await {
                tracing::warn!(%error, "what is old could not be forgotten");
            }
        }
        sleep(SWEEP_EVERY).await;
    }
}

async fn take_up(inner: &Arc<Inner>) -> Result<(), StoreError> {
    let instances = &inner.instances;
    instances.join(&inner.store, &inner.clock).await?;
    // Those that are shunned come first, as they grow old, and must not hide the others.
    let shunned = instances.shunned();
    let mut chats = inner.store.due(inner.clock.reached(), DUE_AT_ONCE + shunned.len()).await?;
    chats.extend(inner.store.orphans(ORPHANS_AT_ONCE + shunned.len()).await?);
    chats.retain(|chat| !inner.chats.is_driven(chat) && !shunned.contains(chat));
    // A driver that is about to fail, too, must hear that it is not to be forgotten.
    chats.extend(instances.take_dropped());
    for chat in chats {
        // The commands that fill an inbox need not touch the run, so the wake-up comes again with the next sweep.
        if !inner.tell(&chat, inner.order(Command::Wake)) {
            instances.drop_chat(chat);
        }
    }
    Ok(())
}

/// Notes how far time has come, unless that was done a short while ago and is as it was.
async fn note_time(inner: &Inner, noted: &mut Option<(Instant, ClockMark)>) {
    let Some(mark) = inner.clock.mark() else { return };
    if let Some((at, before)) = *noted
        && at.elapsed() < NOTE_EVERY
        && before.doubted == mark.doubted
    {
        return;
    }
    *noted = Some((Instant::now(), mark));
    if let Err(error) = inner.store.note_time(mark).await {
        tracing::warn!(%error, "how far time has come could not be noted for the next start");
    }
}

async fn forget(inner: &Inner) -> Result<(), StoreError> {
    let now = inner.clock.reached();
    if let Ok(before) = now.saturating_sub(KEEP_LOGS) {
        while inner.store.forget_logs(before, FORGOTTEN_AT_ONCE).await? == FORGOTTEN_AT_ONCE {
            tokio::task::yield_now().await;
        }
    }
    if let Some(Ok(before)) = inner.settings.audit_keep.map(|keep| now.saturating_sub(keep)) {
        while inner.store.forget_audit(before, FORGOTTEN_AT_ONCE).await? == FORGOTTEN_AT_ONCE {
            tokio::task::yield_now().await;
        }
    }
    if let Some(Ok(before)) = inner.settings.keep.map(|keep| now.saturating_sub(keep)) {
        while inner.store.forget(before, FORGOTTEN_AT_ONCE).await? == FORGOTTEN_AT_ONCE {
            tokio::task::yield_now().await;
        }
    }
    Ok(())
}
