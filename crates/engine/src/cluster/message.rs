//! The messages that instances send each other, as JSON.
//!
//! Instances of two versions talk to each other while a new one is rolled out: fields are only added, with a default, and a message that
//! cannot be read counts as lost.

use fermata_protocol::{ChatId, Profile, RunId, UiChunk};
use serde::{Deserialize, Serialize};
use serde_json::value::RawValue;

use crate::{api::request::Request, ports::store::InstanceId, run_log::position::Position};

/// A number that its sender gives to a call, or to a replicated log.
pub(crate) type Number = u64;

/// A message between instances.
#[derive(Debug, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub(crate) enum Message {
    /// A request to a chat that the receiver owns.
    Call { number: Number, from: InstanceId, chat: ChatId, request: Box<Request> },
    /// The reply to a call: a result as JSON, or `None` if the receiver of the call does not own the chat.
    Reply { number: Number, result: Option<Box<RawValue>>, log: Option<ReplicatedLog> },
    /// A part of a replicated log. `part` counts the messages of the log from 0.
    Chunks { log: Number, from: InstanceId, part: u64, chunks: Vec<(Position, String)> },
    /// The end of a replicated log: the last chunks for its readers, or `None` if the run goes on elsewhere.
    End { log: Number, from: InstanceId, part: u64, last: Option<Vec<UiChunk>> },
    /// A replicated log is no longer read.
    Unfollow { log: Number, from: InstanceId },
}

/// A log of a run that is replicated to the receiver.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub(crate) struct ReplicatedLog {
    pub from: InstanceId,
    pub number: Number,
    pub run: RunId,
    /// `true` if nothing of it has been sent before.
    pub is_new: bool,
}

/// A reader of a run, as a reply carries it.
#[derive(Debug, Serialize, Deserialize)]
pub(crate) struct ReaderMessage {
    pub run: RunId,
    pub profile: Profile,
    pub after: Position,
    pub reads_answer: bool,
    pub prologue: Vec<UiChunk>,
    /// The log that the reader reads; `None` if the prologue is all.
    pub log: Option<ReplicatedLog>,
}

// === impl Message ===

impl Message {
    pub fn to_bytes(&self) -> Vec<u8> {
        let bytes = serde_json::to_vec(self);
        debug_assert!(bytes.is_ok(), "messages are JSON: {bytes:?}");
        bytes.unwrap_or_default()
    }
}

#[cfg(test)]
mod tests {
    use fermata_tools::Owner;

    use super::*;
    use crate::api::request::Stop;

    #[test]
    fn messages_keep_the_form_that_other_versions_read() {
        let (a, log) = (InstanceId::new("a"), 5);
        let replicated = ReplicatedLog { from: a.clone(), number: log, run: RunId::new("r"), is_new: true };
        let messages = [
            (
                Message::Call {
                    number: 1,
                    from: a.clone(),
                    chat: ChatId::new("c"),
                    request: Box::new(Stop { owner: Owner::new("ada"), run: None }.into()),
                },
                r#"{"call":{"number":1,"from":"a","chat":"c","request":{"stop":{"owner":"ada"}}}}"#,
            ),
            (
                Message::Reply { number: 1, result: None, log: Some(replicated) },
                r#"{"reply":{"number":1,"result":null,"log":{"from":"a","number":5,"run":"r","is_new":true}}}"#,
            ),
            (
                Message::Chunks { log, from: a.clone(), part: 0, chunks: vec![(1.into(), "{}".into())] },
                r#"{"chunks":{"log":5,"from":"a","part":0,"chunks":[[1,"{}"]]}}"#,
            ),
            (
                Message::End { log, from: a.clone(), part: 1, last: None },
                r#"{"end":{"log":5,"from":"a","part":1,"last":null}}"#,
            ),
            (Message::Unfollow { log, from: a }, r#"{"unfollow":{"log":5,"from":"a"}}"#),
        ];
        for (message, json) in messages {
            assert_eq!(String::from_utf8(message.to_bytes()).unwrap(), json);
            assert!(serde_json::from_str::<Message>(json).is_ok(), "{json}");
        }
    }
}
