//! One answer: reads the body of a response, decodes it, and hands out the engine's events one by one.
//!
//! Received bytes are decoded at once, so that deltas that came together are one event.
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
    shape::Shape,
    sse::{EventTooLong, LONGEST_EVENT, SseEvent, SseParser},
};

/// The longest wait for usage and `[DONE]` once the reason to finish is known. Some servers send neither and keep the connection open.
const LONGEST_WAIT_AFTER_REASON: Duration = Duration::from_secs(5);

/// The longest wait for more if the reason came too early to be believed: with a piece of the answer, or before the first.
const LONGEST_WAIT_AFTER_EARLY_REASON: Duration = Duration::from_secs(30);

/// The limit on the bytes that are kept of a body that is no event stream.
const HEAD_BYTES: usize = 1024;

/// The shortest time between two signs of life. More of them would have no use.
const ALIVE_INTERVAL: Duration = Duration::from_secs(1);

/// The longest time between two events that are part of one burst. The text of a burst comes faster than anybody reads, so more of it is
/// waited for, and everything that has come meanwhile is one event.
const BURST_INTERVAL: Duration = Duration::from_millis(5);

/// The first wait for more of a burst. No timer is more precise.
const SHORTEST_PAUSE: Duration = Duration::from_millis(1);

/// The wait for more of a burst that goes on. It is half of the time that a screen shows one picture.
const LONGEST_PAUSE: Duration = Duration::from_millis(8);

/// Decoded events are handed out after so many bytes of a burst. The engine limits the text of an answer, and has not seen this one.
const BURST_BYTES: usize = 64 << 10;

/// An answer that is being read. Dropping it closes the connection.
pub(super) struct Answer {
    body: BoxStream<'static, reqwest::Result<Bytes>>,
    parser: SseParser,
    /// The beginning of the body, until the first event has been read.
    head: Vec<u8>,
    has_events: bool,
    /// The first event that was no part of an answer.
    foreign: Option<String>,
    /// The shape of the last event that was a piece of text and nothing else.
    shape: Option<Shape>,
    decoder: Decoder,
    state: State,
    /// `true` once a piece of the answer was handed out.
    has_begun: bool,
    /// The time of the last sign of life.
    last_alive: Option<Instant>,
    /// The time when events were last decoded.
    last_event: Option<Instant>,
    /// The next wait for more of the burst.
    pause: Duration,
}

enum State {
    /// The reason to finish has not come.
    Open,
    /// The reason to finish is known. Usage and `[DONE]` may follow.
    Finishing { reason: FinishReason, deadline: Instant },
    /// Nothing more is read. The decoded events are handed out, and after them the failure, if there is one.
    Closed { failure: Option<Failure> },
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
            head: Vec::new(),
            has_events: false,
            foreign: None,
            shape: None,
            decoder: Decoder::new(last_reasoning_field),
            state: State::Open,
            has_begun: false,
            last_alive: None,
            last_event: None,
            pause: SHORTEST_PAUSE,
        }
    }

    /// Creates the answer of a server that ignored `stream: true`.
    ///
    /// # Errors
    /// Returns an error if the chunk reports a failure.
    pub(super) fn whole(body: &str, last_reasoning_field: LastReasoningField) -> Result<Self, Failure> {
        let chunk = Chunk::read_whole(body)?;
        if chunk.choice.is_none() && chunk.error().is_none() {
            return Err(Failure::foreign(body));
        }
        let mut answer = Self::streamed(stream::empty(), last_reasoning_field);
        let reason = answer.decoder.decode(chunk)?;
        answer.decoder.finish(reason);
        answer.close(None);
        Ok(answer)
    }

    /// Returns the next event, and `None` after the last.
    pub(super) async fn next(&mut self) -> Option<Result<ModelEvent, Failure>> {
        loop {
            if let Some(event) = self.decoder.events.pop() {
                self.has_begun = true;
                return Some(Ok(event));
            }
            let received = match &mut self.state {
                State::Open => self.body.next().await,
                State::Finishing { deadline, .. } => {
                    match tokio::time::timeout_at(*deadline, self.body.next()).await {
                        Ok(received) => received,
                        Err(_) => {
                            // After so long a silence nothing more is expected.
                            self.finish();
                            continue;
                        }
                    }
                }
                State::Closed { failure } => return failure.take().map(Err),
            };
            let now = Instant::now();
            let has_read_an_event = self.receive(received);
            if !self.decoder.events.is_empty() {
                if self.last_event.is_none_or(|last| now - last > BURST_INTERVAL) {
                    self.pause = SHORTEST_PAUSE;
                } else if matches!(self.state, State::Open) {
                    self.receive_burst().await;
                }
                self.last_event = Some(Instant::now());
            }
            // No sign of life is needed once the reason to finish is known.
            if has_read_an_event
                && self.decoder.events.is_empty()
                && matches!(self.state, State::Open)
                && self.last_alive.is_none_or(|last| now - last >= ALIVE_INTERVAL)
            {
                self.last_alive = Some(now);
                return Some(Ok(ModelEvent::Alive));
            }
        }
    }

    /// Decodes the pieces of the body that have come. If the answer goes on, it waits a moment, which is longer the longer a burst goes on,
    /// and decodes the bytes that have come meanwhile.
    async fn receive_burst(&mut self) {
        let mut room = BURST_BYTES;
        self.receive_ready(&mut room).await;
        if matches!(self.state, State::Open) && room > 0 {
            tokio::time::sleep(self.pause).await;
            self.pause = LONGEST_PAUSE.min(self.pause * 2);
            self.receive_ready(&mut room).await;
        }
    }

    /// Decodes the pieces of the body that have come, as long as there is room.
    async fn receive_ready(&mut self, room: &mut usize) {
        while *room > 0 && !matches!(self.state, State::Closed { .. }) {
            // hyper hands over one chunk of HTTP at a time. Providers put one delta into each, and hyper's task has to get its turn for the
            // next one. If nothing has come after that, there is nothing.
            let received = tokio::select! {
                biased;
                received = self.body.next() => received,
                () = tokio::task::yield_now() => return,
            };
            if let Some(Ok(bytes)) = &received {
                *room = room.saturating_sub(bytes.len());
            }
            self.receive(received);
        }
    }

    /// Decodes a piece of the body, or notes that it has ended. Returns whether the piece completed an event.
    fn receive(&mut self, received: Option<reqwest::Result<Bytes>>) -> bool {
        match received {
            Some(Ok(bytes)) => {
                if !self.has_events && self.head.len() < HEAD_BYTES {
                    self.head.extend(bytes.iter().take(HEAD_BYTES));
                }
                self.parser.feed(bytes);
                return self.decode();
            }
            Some(Err(error)) => self.break_off(Failure::reqwest(error)),
            None => self.break_off(Failure::network("the answer broke off")),
        }
        false
    }

    /// Decodes everything that has been received, so that texts that have come together can become one event. Returns whether there was
    /// an event of the body.
    fn decode(&mut self) -> bool {
        let mut has_read_an_event = false;
        while !matches!(self.state, State::Closed { .. }) {
            match self.parser.next() {
                Ok(Some(event)) => self.handle(event),
                Ok(None) => break,
                Err(EventTooLong) => {
                    let text = format!("one event has more than {LONGEST_EVENT} bytes");
                    self.break_off(Failure::format(text));
                }
            }
            has_read_an_event = true;
        }
        has_read_an_event
    }

    /// Decodes an event that was read, or ends the answer.
    fn handle(&mut self, read: SseEvent) {
        self.has_events = true;
        let data = match read {
            SseEvent::KeepAlive => return,
            SseEvent::Done => return self.finish(),
            SseEvent::Data(data) => data,
        };
        if let (State::Open, Some(shape)) = (&self.state, &self.shape)
            && let Some((field, text)) = shape.text_of(&data)
        {
            return self.decoder.decode_text(field, text.to_owned());
        }
        let chunks = match Chunk::read_all(&data) {
            Ok(chunks) => chunks,
            Err(failure) => return self.break_off(failure),
        };
        for chunk in chunks {
            if self.foreign.is_none() && chunk.is_foreign() {
                self.foreign = Some(String::from_utf8_lossy(&data).into_owned());
            }
            if let Some(shape) = Shape::of(&data, &chunk) {
                self.shape = Some(shape);
            }
            let is_early = chunk.says_something() || !self.has_begun && self.decoder.is_empty();
            let reason = match (self.decoder.decode(chunk), &self.state) {
                (Err(failure), _) => return self.close(Some(failure)),
                (Ok(Some(reason)), _) => reason,
                // A server that goes on with its answer gets the whole time again.
                (Ok(None), State::Finishing { reason, .. }) if !self.decoder.events.is_empty() => *reason,
                (Ok(None), _) => continue,
            };
            let wait = if is_early { LONGEST_WAIT_AFTER_EARLY_REASON } else { LONGEST_WAIT_AFTER_REASON };
            self.state = State::Finishing { reason, deadline: Instant::now() + wait };
        }
    }

    /// Ends the answer because no more of it can be read.
    fn break_off(&mut self, failure: Failure) {
        match self.state {
            // Everything that matters has been received.
            State::Finishing { .. } => self.finish(),
            State::Open if !self.has_events && !self.head.trim_ascii().is_empty() => {
                let head = String::from_utf8_lossy(&self.head).into_owned();
                self.close(Some(Failure::foreign(&head)));
            }
            State::Open => self.close(Some(failure)),
            State::Closed { .. } => {}
        }
    }

    fn finish(&mut self) {
        let reason = match self.state {
            State::Finishing { reason, .. } => Some(reason),
            State::Open | State::Closed { .. } => None,
        };
        if reason.is_none() {
            if let Some(said) = self.foreign.take() {
                return self.close(Some(Failure::foreign(&said)));
            }
            if !self.has_begun && self.decoder.is_empty() {
                // llama-cpp-python ends an answer so if another request comes, and if the request is too long.
                return self.close(Some(Failure::foreign("")));
            }
        }
        self.decoder.finish(reason);
        self.close(None);
    }

    /// Closes the connection. The decoded events are still handed out, and then the failure.
    fn close(&mut self, failure: Option<Failure>) {
        self.state = State::Closed { failure };
        self.body = stream::empty().boxed();
    }
}

#[cfg(test)]
mod tests {
    use fermata_engine::model::ModelError;
    use serde_json::{Value, json};

    use super::{
        super::{decoder::LONGEST_DELTA, dialect::ReasoningField},
        *,
    };

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

    #[tokio::test(start_paused = true)]
    async fn a_reason_to_finish_that_comes_too_early_ends_nothing() {
        let said = |text: &str, reason: Option<&str>| json!({"choices": [{"delta": {"content": text}, "finish_reason": reason}]});
        for (first, rest) in [
            (said("Hello", Some("stop")), vec![said(" world", Some("stop"))]),
            (said("Hello", Some("null")), vec![said(" world", Some("null")), stopped()]),
            (said("", Some("stop")), vec![said("Hello world", None), stopped()]),
        ] {
            let later = stream::iter(rest).then(async |chunk| {
                tokio::time::sleep(Duration::from_secs(10)).await;
                bytes(&chunk)
            });
            let mut answer = answer(stream::iter([bytes(&first)]).chain(later));
            let (mut text, mut last) = (String::new(), None);
            while let Some(event) = answer.next().await {
                match event.unwrap() {
                    ModelEvent::Text(delta) => text.push_str(&delta),
                    event => last = Some(event),
                }
            }
            assert_eq!((text.as_str(), last), ("Hello world", Some(finished(FinishReason::Stop))), "{first}");
        }
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

    #[tokio::test]
    async fn deltas_that_came_together_are_one_event() {
        let call = |arguments: &str| {
            let function = json!({"name": "f", "arguments": arguments});
            delta(json!({"tool_calls": [{"index": 0, "id": "a", "function": function}]}))
        };
        let text = |text: &str| delta(json!({ "content": text }));
        let reasoning = |text: &str| delta(json!({ "reasoning": text }));
        let together = |chunks: &[Value]| {
            let body: Vec<_> = chunks.iter().flat_map(|chunk| bytes(chunk).unwrap()).collect();
            Ok(Bytes::from(body))
        };
        let pieces = [
            together(&[
                reasoning("h"),
                reasoning("m"),
                text("a"),
                text("b"),
                text(&"c".repeat(LONGEST_DELTA)),
            ]),
            together(&[text("d"), call(r#"{"x""#), call(":1}"), stopped()]),
            Ok(Bytes::from_static(b"data: [DONE]\n\n")),
        ];
        let mut answer = answer(stream::iter(pieces));
        let mut events = Vec::new();
        while let Some(event) = answer.next().await {
            events.push(event.unwrap());
        }
        let expected = [
            ModelEvent::Reasoning("hm".into()),
            ModelEvent::Text("ab".into()),
            ModelEvent::Text("c".repeat(LONGEST_DELTA)),
            ModelEvent::Text("d".into()),
            ModelEvent::CallStart { key: 0, tool: "f".into() },
            ModelEvent::CallDelta { key: 0, arguments: r#"{"x":1}"#.into() },
            finished(FinishReason::Stop),
        ];
        assert_eq!(events, expected);
    }

    #[tokio::test(start_paused = true)]
    async fn nothing_follows_the_end_of_an_answer_that_comes_in_quick_succession() {
        let text = || bytes(&delta(json!({"content": "a"})));
        let done = Ok(Bytes::from_static(b"data: [DONE]\n\n"));
        let mut answer = answer(stream::iter([text(), text(), text(), bytes(&stopped()), done]));
        let mut events = Vec::new();
        while let Some(event) = answer.next().await {
            events.push(event.unwrap());
        }
        let expected =
            [ModelEvent::Text("a".into()), ModelEvent::Text("aa".into()), finished(FinishReason::Stop)];
        assert_eq!(events, expected);
    }

    /// The texts of an answer, and the millisecond when each was handed out. The model says a letter at each of these milliseconds.
    async fn texts_and_times(said: Vec<u64>) -> Vec<(String, u64)> {
        let began = Instant::now();
        let role = stream::iter([bytes(&delta(json!({"role": "assistant", "content": ""})))]);
        let letters = stream::iter(said).then(move |at| async move {
            tokio::time::sleep_until(began + Duration::from_millis(at)).await;
            bytes(&delta(json!({"content": "x"})))
        });
        let mut answer = answer(role.chain(letters).chain(stream::iter([bytes(&stopped())])));
        let mut texts = Vec::new();
        while let Some(Ok(event)) = answer.next().await {
            if let ModelEvent::Text(text) = event {
                texts.push((text, u64::try_from(began.elapsed().as_millis()).unwrap()));
            }
        }
        texts
    }

    #[tokio::test(start_paused = true)]
    async fn text_that_comes_as_models_speak_is_handed_out_at_once() {
        let said = [0, 6, 20, 40, 46];
        assert_eq!(texts_and_times(said.to_vec()).await, said.map(|at| ("x".to_owned(), at)));
    }

    #[tokio::test(start_paused = true)]
    async fn nothing_is_waited_for_if_the_end_of_a_burst_has_come() {
        let texts = ["a", "b", "c"].map(|text| bytes(&delta(json!({ "content": text }))));
        let pieces =
            texts.into_iter().chain([bytes(&stopped()), Ok(Bytes::from_static(b"data: [DONE]\n\n"))]);
        let (begin, mut answer) = (Instant::now(), answer(stream::iter(pieces)));
        for event in
            [ModelEvent::Text("a".into()), ModelEvent::Text("bc".into()), finished(FinishReason::Stop)]
        {
            assert_eq!(answer.next().await.unwrap().unwrap(), event);
        }
        assert_eq!(Instant::now(), begin);
    }

    #[tokio::test(start_paused = true)]
    async fn more_of_a_burst_is_waited_for_the_longer_it_goes_on() {
        let texts = texts_and_times((0..40).collect()).await;
        let ends: Vec<_> = texts.iter().map(|(_, at)| *at).collect();
        assert_eq!(ends, [0, 2, 5, 10, 19, 28, 37, 46]);
        let letters: usize = texts.iter().map(|(text, _)| text.len()).sum();
        assert_eq!(letters, 40);
    }

    #[tokio::test]
    async fn what_came_before_an_error_is_handed_out_before_it() {
        let error = bytes(&json!({"error": {"message": "no"}})).unwrap();
        let text = bytes(&delta(json!({"content": "a"}))).unwrap();
        let mut answer = answer(stream::iter([Ok(Bytes::from([text, error].concat()))]));
        assert_eq!(answer.next().await.unwrap().unwrap(), ModelEvent::Text("a".into()));
        assert!(answer.next().await.unwrap().is_err());
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
