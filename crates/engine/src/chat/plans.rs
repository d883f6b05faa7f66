//! The open plan of a chat: who begins a run with it, and how the user drops it.

use fermata_protocol::{ChatId, Plan, PlanState, Role, UiMessage, UiPart};
use serde_json::{Value, json};

use super::{ChatActor, Handle};
use crate::{
    api::{errors::PlanError, request::DropPlan},
    ports::store::{Change, Store, StoreError, json_bytes},
};

impl Handle for DropPlan {
    async fn handle(&self, actor: &mut ChatActor) -> Result<(), PlanError> {
        let (services, patience) = (actor.services.clone(), actor.request_patience());
        if actor.has_open_run() {
            return Err(PlanError::RunOpen);
        }
        let Some(record) = actor.record_mut() else { return Err(PlanError::NotFound) };
        let store = &*services.store;
        if open_plan(store, &record.chat, usize::MAX).await?.is_none() {
            return Err(PlanError::NoPlan);
        }
        let mut changes = vec![Change::DropPlan];
        if let Some((before, after)) = without_open_plan(store, &record.chat).await? {
            record.head.bytes = (record.head.bytes + json_bytes(&after)).saturating_sub(json_bytes(&before));
            changes.push(Change::ReplaceMessage(Box::new(after)));
        }
        record.commit(&services, patience, changes).await?;
        Ok(())
    }
}

/// Returns the plan that is not finished, of a run whose message is among the first `most` ones of the chat.
pub(super) async fn open_plan(
    store: &dyn Store,
    chat: &ChatId,
    most: usize,
) -> Result<Option<Plan>, StoreError> {
    let last = store.last_plan(chat, most).await?;
    Ok(last.filter(|plan| plan.state == PlanState::Accepted))
}

/// Returns the newest message that shows an open plan, and the message with the plan as one that was dropped.
async fn without_open_plan(
    store: &dyn Store,
    chat: &ChatId,
) -> Result<Option<(UiMessage, UiMessage)>, StoreError> {
    let mut position = usize::MAX;
    while let Some((before, id)) = store.last_message(chat, position, Some(Role::Assistant)).await? {
        position = before;
        let Some((_, message)) = store.message(chat, &id).await? else { continue };
        let mut dropped = message.clone();
        let plans = dropped.parts.iter_mut().filter_map(|part| match part {
            UiPart::Data(part) if part.kind == "data-plan" => Some(&mut part.data),
            _ => None,
        });
        let mut shows_plan = false;
        for plan in plans.filter(|plan| plan["state"] == json!(PlanState::Accepted)) {
            plan["state"] = Value::from(PlanState::Denied.as_str());
            shows_plan = true;
        }
        if shows_plan {
            return Ok(Some((message, dropped)));
        }
    }
    Ok(None)
}
