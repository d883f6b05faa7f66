//! One answer: reads the body of a response, decodes it, and hands out the engine's events one by one.
//!
//! Invariants: [`ModelEvent::Finished`] comes exactly once and last, or not at all and an error instead; [`ModelEvent::Alive`] comes at
//! most once a second; the body is read only while the next event is awaited.

use std::time::Duration;

use bytes::Bytes;
use fermata_engine::model::ModelEvent;
use fermata_protocol::FinishReason;
use futures::stream::{self, BoxStream, Stream, StreamExt};
use tokio::time::Instant;

use super::{
    chunk::Chunk,
    decoder::Decoder,
    dialect::LastReasoningField,
    failure::Failure,
    sse::{EventTooLong, LONGEST_EVENT, SseEvent, SseParser},
};

/// The longest wait for usage and `[DONE]` once the reason to finish is known. Some servers send neither and keep the connection open.
const LONGEST_WAIT_AFTER_REASON: Duration = Duration::from_secs(5);

/// The shortest time between two signs of life. More of them would have no use.
const ALIVE_INTERVAL: Duration = Duration::from_secs(1);

/// An answer that is being read. Dropping it closes the connection.
pub(super) struct Answer {
    body: BoxStream<'static, reqwest::Result<Bytes>>,
    parser: SseParser,
    decoder: Decoder,
    state: State,
    /// `true` once a piece of the answer was handed out.
    has_begun: bool,
    /// The time of the last sign of life.
    last_alive: Option<Instant>,
}

enum State {
    /// The reason to finish has not come.
    Open,
    /// The reason to finish is known. Usage and `[DONE]` may follow.
    Finishing { reason: FinishReason, deadline: Instant },
    /// Nothing more is read.
    Closed,
}

// === impl Answer ===

impl Answer {
    /// Creates an answer that is streamed.
    pub(super) fn streamed(
        body: impl Stream<Item = reqwest::Result<Bytes>> + Send + 'static,
        last_reasoning_field: LastReasoningField,
    ) -> Self {
        // The last event of a body needs no empty line after it.
        let end = stream::iter([Ok(Bytes::from_static(b"\n\n"))]);
        Self {
            body: body.chain(end).boxed(),
            parser: SseParser::default(),
            decoder: Decoder::new(last_reasoning_field),
            state: State::Open,
            has_begun: false,
            last_alive: None,
        }
    }

    /// Creates the answer of a server that ignored `stream: true`.
    ///
    /// # Errors
    /// Returns an error if the chunk reports a failure.
    pub(super) fn whole(chunk: Chunk, last_reasoning_field: LastReasoningField) -> Result<Self, Failure> {
        let mut answer = Self::streamed(stream::empty(), last_reasoning_field);
        let reason = answer.decoder.decode(chunk)?;
        answer.close();
        answer.decoder.finish(reason)?;
        Ok(answer)
    }

    /// Returns the next event, and `None` after the last.
    pub(super) async fn next(&mut self) -> Option<Result<ModelEvent, Failure>> {
        loop {
            if let Some(event) = self.decoder.events.pop_front() {
                self.has_begun = true;
                return Some(Ok(event));
            }
            let read = match self.state {
                State::Open => self.read().await,
                // After so long a silence nothing more is expected.
                State::Finishing { deadline, .. } => {
                    tokio::time::timeout_at(deadline, self.read()).await.unwrap_or(Ok(SseEvent::Done))
                }
                State::Closed => return None,
            };
            if let Err(failure) = self.handle(read) {
                self.close();
                return Some(Err(failure));
            }
            // No sign of life is needed once the reason to finish is known.
            if self.decoder.events.is_empty()
                && matches!(self.state, State::Open)
                && self.last_alive.is_none_or(|last| last.elapsed() >= ALIVE_INTERVAL)
            {
                self.last_alive = Some(Instant::now());
                return Some(Ok(ModelEvent::Alive));
            }
        }
    }

    /// Reads the next event of the body.
    async fn read(&mut self) -> Result<SseEvent, Failure> {
        loop {
            let event = self.parser.next().map_err(|EventTooLong| {
                Failure::format(format!("one event has more than {LONGEST_EVENT} bytes"))
            })?;
            if let Some(event) = event {
                return Ok(event);
            }
            match self.body.next().await {
                Some(bytes) => self.parser.feed(bytes.map_err(Failure::reqwest)?),
                None => return Err(Failure::network("the answer broke off")),
            }
        }
    }

    /// Decodes an event that was read, or ends the answer.
    fn handle(&mut self, read: Result<SseEvent, Failure>) -> Result<(), Failure> {
        let chunks = match read {
            Ok(SseEvent::KeepAlive) => return Ok(()),
            Ok(SseEvent::Done) => return self.finish(),
            Ok(SseEvent::Data(data)) => Chunk::read_all(&data),
            Err(failure) => Err(failure),
        };
        let chunks = match (chunks, &self.state) {
            (Ok(chunks), _) => chunks,
            // Everything that matters has been received.
            (Err(_), State::Finishing { .. }) => return self.finish(),
            (Err(failure), State::Open | State::Closed) => return Err(failure),
        };
        for chunk in chunks {
            let reason = match (self.decoder.decode(chunk)?, &self.state) {
                (Some(reason), _) => reason,
                // A server that goes on with its answer is waited for anew.
                (None, State::Finishing { reason, .. }) if !self.decoder.events.is_empty() => *reason,
                (None, _) => continue,
            };
            self.state = State::Finishing { reason, deadline: Instant::now() + LONGEST_WAIT_AFTER_REASON };
        }
        Ok(())
    }

    fn finish(&mut self) -> Result<(), Failure> {
        let reason = match self.state {
            State::Finishing { reason, .. } => Some(reason),
            State::Open | State::Closed => None,
        };
        self.close();
        if reason.is_none() && !self.has_begun && self.decoder.is_empty() {
            // llama-cpp-python ends an answer so if another request comes, and if the request is too long.
            return Err(Failure::network("the answer ended without a word and without a reason"));
        }
        self.decoder.finish(reason)
    }

    /// Closes the connection, though the answer itself may be kept.
    fn close(&mut self) {
        self.state = State::Closed;
        self.body = stream::empty().boxed();
    }
}

#[cfg(test)]
mod tests {
    use fermata_engine::model::ModelError;
    use serde_json::{Value, json};

    use super::{super::dialect::ReasoningField, *};

    fn bytes(chunk: &Value) -> reqwest::Result<Bytes> {
        Ok(format!("data: {chunk}\n\n").into())
    }

    fn answer(body: impl Stream<Item = reqwest::Result<Bytes>> + Send + 'static) -> Answer {
        Answer::streamed(body, LastReasoningField::new(ReasoningField::ReasoningContent))
    }

    fn delta(delta: Value) -> Value {
        json!({"choices": [{"index": 0, "delta": delta, "finish_reason": null}]})
    }

    fn stopped() -> Value {
        json!({"choices": [{"delta": {}, "finish_reason": "stop"}]})
    }

    fn finished(reason: FinishReason) -> ModelEvent {
        ModelEvent::Finished { reason, usage: None }
    }

    #[tokio::test(start_paused = true)]
    async fn a_server_that_is_silent_after_its_finish_reason_does_not_hold_the_step() {
        let mut answer = answer(stream::iter([bytes(&stopped())]).chain(stream::pending()));
        assert_eq!(answer.next().await.unwrap().unwrap(), finished(FinishReason::Stop));
        assert!(answer.next().await.is_none());
    }

    #[tokio::test]
    async fn an_answer_that_is_nothing_but_its_end_is_none() {
        let done = || stream::iter([Ok(Bytes::from_static(b"data: [DONE]\n\n"))]);
        assert!(answer(done()).next().await.unwrap().is_err());
        let mut said = answer(stream::iter([bytes(&delta(json!({"content": "x"})))]).chain(done()));
        assert_eq!(said.next().await.unwrap().unwrap(), ModelEvent::Text("x".into()));
        assert_eq!(said.next().await.unwrap().unwrap(), finished(FinishReason::Other), "some give no reason");
    }

    #[tokio::test]
    async fn a_stream_that_ends_without_saying_so_is_broken_off() {
        let mut answer = answer(stream::iter([bytes(&delta(json!({"content": "a"})))]));
        assert_eq!(answer.next().await.unwrap().unwrap(), ModelEvent::Text("a".into()));
        let failure = answer.next().await.unwrap().unwrap_err();
        assert!(matches!(failure.into_error("http://api", &[]), ModelError::Network(_)));
        assert!(answer.next().await.is_none());
    }

    /// The chunks, and after them an empty chunk every 300 ms without end.
    fn humming(chunks: Vec<Value>) -> Answer {
        let hum = stream::repeat_with(|| json!({})).then(async |chunk| {
            tokio::time::sleep(Duration::from_millis(300)).await;
            chunk
        });
        answer(stream::iter(chunks).chain(hum).map(|chunk| bytes(&chunk)))
    }

    #[tokio::test(start_paused = true)]
    async fn signs_of_life_come_at_most_once_a_second() {
        let mut answer = humming(vec![]);
        let began = Instant::now();
        for expected in [300, 1500, 2700] {
            assert_eq!(answer.next().await.unwrap().unwrap(), ModelEvent::Alive);
            assert_eq!(began.elapsed().as_millis() / 100, expected / 100);
        }
    }

    #[tokio::test(start_paused = true)]
    async fn signs_of_life_after_the_finish_reason_do_not_hold_the_step() {
        let mut answer = humming(vec![stopped()]);
        assert_eq!(answer.next().await.unwrap().unwrap(), finished(FinishReason::Stop));
    }

    #[tokio::test]
    async fn after_the_finish_reason_an_event_that_cannot_be_read_is_an_end_and_an_error_object_is_an_error()
    {
        let unreadable = Ok(Bytes::from_static(b"data: oops\n\n"));
        let error = bytes(&json!({"error": {"message": "no"}}));
        let mut unreadable = answer(stream::iter([bytes(&stopped()), unreadable]));
        let mut error = answer(stream::iter([bytes(&stopped()), error]));
        assert_eq!(unreadable.next().await.unwrap().unwrap(), finished(FinishReason::Stop));
        assert!(unreadable.next().await.is_none());
        assert!(error.next().await.unwrap().is_err());
        assert!(error.next().await.is_none());
    }

    #[tokio::test]
    async fn an_answer_that_calls_itself_an_error_is_one() {
        let error = json!({"choices": [{"delta": {}, "finish_reason": "error"}]});
        let mut answer = answer(stream::iter([bytes(&error)]));
        assert!(answer.next().await.unwrap().is_err());
        assert!(answer.next().await.is_none());
    }
}
