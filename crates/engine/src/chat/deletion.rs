//! Deleting messages of a chat.

use super::{ChatActor, Handle};
use crate::{
    api::{errors::DeleteMessageError, request::DeleteMessage},
    ports::store::{Change, json_bytes},
};

impl Handle for DeleteMessage {
    async fn handle(&self, actor: &mut ChatActor) -> Result<(), DeleteMessageError> {
        let (services, patience) = (actor.services.clone(), actor.request_patience());
        let is_open = actor.has_open_run();
        let Some(record) = actor.record_mut() else { return Err(DeleteMessageError::NotFound) };
        let store = &services.store;
        let Some((position, message)) = store.message(&record.chat, &self.message).await? else {
            return Err(DeleteMessageError::NotFound);
        };
        if is_open {
            return Err(DeleteMessageError::RunOpen);
        }
        let (change, bytes) = if self.and_later {
            let outline = store.outline(&record.chat).await?;
            let dropped = outline.iter().skip(position).map(|message| message.bytes).sum();
            (Change::TruncateMessages { keep: position }, dropped)
        } else {
            (Change::DeleteMessage { position }, json_bytes(&message))
        };
        let mut changes = vec![change];
        // A summary of it does not hold any more, nor does what was fitted into the model's window.
        changes.extend(record.truncate_context(&services, position).await?);
        record.head.bytes = record.head.bytes.saturating_sub(bytes);
        record.commit(&services, patience, changes).await?;
        Ok(())
    }
}
