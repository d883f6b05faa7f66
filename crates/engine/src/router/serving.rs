//! Requests of other instances to chats that this one owns.
//!
//! They go through the same chat actors as the requests of clients, and come back as the same results.

use std::sync::Arc;

use fermata_protocol::ChatId;
use serde::Serialize;
use serde_json::value::{RawValue, to_raw_value};

use super::{RemoteReply, Router};
use crate::{
    api::request::{RemoteRequest, Request},
    chat::{ActorMessage, Delivered, Handle},
    cluster::{IncomingCall, OutgoingReply},
};

impl Router {
    /// Serves the requests of other instances until it is dropped.
    pub async fn serve_cluster(self: Arc<Self>) {
        let serve = |call| {
            self.services.shutdown.tasks.spawn(self.clone().serve(call));
        };
        self.cluster.clone().receive(serve).await;
    }

    /// Handles a request of another instance, and replies to it.
    async fn serve(self: Arc<Self>, call: IncomingCall) {
        let mut reply = self.cluster.reply_to(&call);
        let IncomingCall { chat, request, .. } = call;
        let result = match request {
            // Nothing new begins here any more.
            Request::Submit(_) if self.services.shutdown.draining.is_reached() => None,
            Request::Submit(request) => self.serve_here(&chat, request, &mut reply).await,
            Request::AnswerRequest(request) => self.serve_here(&chat, request, &mut reply).await,
            Request::Resume(request) => self.serve_here(&chat, request, &mut reply).await,
            Request::Rejoin(request) => self.serve_here(&chat, request, &mut reply).await,
            Request::Stop(request) => self.serve_here(&chat, request, &mut reply).await,
            Request::CancelCall(request) => self.serve_here(&chat, request, &mut reply).await,
            Request::EditInput(request) => self.serve_here(&chat, request, &mut reply).await,
            Request::PreviewInput(request) => self.serve_here(&chat, request, &mut reply).await,
            Request::EndHold(request) => self.serve_here(&chat, request, &mut reply).await,
            // The run would be cut off once more.
            Request::TakeOver(_) if self.services.shutdown.leaving.is_reached() => None,
            Request::TakeOver(request) => self.serve_here(&chat, request, &mut reply).await,
            Request::View(request) => self.serve_here(&chat, request, &mut reply).await,
            Request::Delete(request) => self.serve_here(&chat, request, &mut reply).await,
            Request::Grants(request) => self.serve_here(&chat, request, &mut reply).await,
            Request::EndGrant(request) => self.serve_here(&chat, request, &mut reply).await,
            Request::PlanSummary(request) => self.serve_here(&chat, request, &mut reply).await,
            Request::SaveSummary(request) => self.serve_here(&chat, request, &mut reply).await,
            Request::CorrectSummary(request) => self.serve_here(&chat, request, &mut reply).await,
            Request::DeleteMessage(request) => self.serve_here(&chat, request, &mut reply).await,
            Request::ChangeListing(request) => self.serve_here(&chat, request, &mut reply).await,
            Request::DropPlan(request) => self.serve_here(&chat, request, &mut reply).await,
        };
        reply.send(result).await;
    }

    /// Makes a request to the chat's actor in this process. Returns the result as JSON, or `None` if this instance does not own the chat;
    /// the caller has to look for the owner again then, or requests might go round in circles.
    async fn serve_here<R>(
        self: &Arc<Self>,
        chat: &ChatId,
        request: R,
        reply: &mut OutgoingReply<'_>,
    ) -> Option<Box<RawValue>>
    where
        R: RemoteRequest + Handle,
        R::Reply: RemoteReply,
    {
        if self.is_closed_to(chat) {
            return None;
        }
        let (message, delivered) = ActorMessage::request(request);
        self.send(chat, message);
        let Ok(Delivered::Reply(result)) = delivered.await else { return None };
        write(chat, &result.map(|value| value.export(reply)))
    }
}

fn write(chat: &ChatId, result: &impl Serialize) -> Option<Box<RawValue>> {
    match to_raw_value(result) {
        Ok(result) => Some(result),
        Err(error) => {
            tracing::error!(%chat, %error, "a reply to another instance cannot be written");
            None
        }
    }
}
