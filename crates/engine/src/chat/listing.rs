//! The entry of a chat in lists, which its owner changes.

use fermata_protocol::ChatPatch;

use super::{ChatActor, Handle};
use crate::{
    api::{errors::ReadError, request::ChangeListing},
    ports::store::{Change, Listing},
};

impl Handle for ChangeListing {
    async fn handle(&self, actor: &mut ChatActor) -> Result<Listing, ReadError> {
        let (services, patience) = (actor.services.clone(), actor.request_patience());
        let Some(record) = actor.record_mut() else { return Err(ReadError::NotFound) };
        let ChatPatch { title, archived, pinned } = self.patch.clone();
        let before = record.head.listing.clone();
        let after = Listing {
            title: title.unwrap_or_else(|| before.title.clone()),
            archived: archived.unwrap_or(before.archived),
            pinned: pinned.unwrap_or(before.pinned),
        };
        if after != before {
            record.commit(&services, patience, vec![Change::PutListing(after.clone())]).await?;
            record.head.listing = after;
        }
        Ok(record.listing(&*services.store).await?)
    }
}
