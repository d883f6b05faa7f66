//! Even if processes and connections fail, a client ends up with the message that the log makes, and sees no word twice meanwhile.

use fermata_protocol::{Assembler, MessageId, UiMessage, UiPart};
use futures::FutureExt;
use proptest::prelude::*;

use super::*;

#[derive(Clone, Debug)]
enum Move {
    /// The model says a word.
    Say,
    /// The page receives something beside the answer.
    Tell,
    /// The text so far is saved.
    Save,
    /// The model ends its step, and the next one begins.
    EndStep,
    /// The process is killed, and the run resumed from its saved state.
    Kill,
    /// The client reads what there is.
    Read,
    /// The client's connection breaks.
    Break,
}

/// A run with one reader.
struct World {
    profile: Profile,
    chunks: Vec<(Position, UiChunk)>,
    saved: usize,
    position: Position,
    log: Writer,
    words: usize,
    is_in_text: bool,
    /// `true` if the step may have been shown before, and is not taken back yet.
    is_repeated: bool,
    reader: Option<Reader>,
    last_event: Option<String>,
    client: Assembler,
}

fn message_id() -> MessageId {
    MessageId::new("m")
}

/// Returns the words of each step.
fn words(message: &UiMessage) -> Vec<Vec<String>> {
    let mut steps = Vec::new();
    for part in &message.parts {
        match part {
            UiPart::StepStart => steps.push(Vec::new()),
            part => {
                let text = part.as_text().unwrap_or_default().to_owned();
                steps
                    .last_mut()
                    .expect("text is in a step")
                    .extend(text.split_inclusive('>').map(str::to_owned));
            }
        }
    }
    steps
}

impl World {
    fn new(profile: Profile) -> Self {
        let mut world = Self {
            profile,
            chunks: Vec::new(),
            saved: 0,
            position: Position::START,
            log: Writer::new(RunId::new("r")),
            words: 0,
            is_in_text: false,
            is_repeated: false,
            reader: None,
            last_event: None,
            client: Assembler::new(message_id()),
        };
        world.push(UiChunk::Start { message_id: Some(message_id()), message_metadata: None });
        world.push(UiChunk::StartStep);
        world.saved = world.chunks.len();
        world
    }

    fn push(&mut self, chunk: UiChunk) {
        self.position = self.position.next();
        self.log.append(&[(self.position, chunk.clone())]);
        self.chunks.push((self.position, chunk));
    }

    fn take_back(&mut self) {
        if std::mem::take(&mut self.is_repeated) {
            self.push(UiChunk::ResetStep);
        }
    }

    fn text_id(&self) -> String {
        format!(
            "t{}",
            self.chunks.iter().filter(|(_, chunk)| matches!(chunk, UiChunk::TextStart { .. })).count()
        )
    }

    fn end_step(&mut self) {
        self.take_back();
        if std::mem::take(&mut self.is_in_text) {
            let id = self.text_id();
            self.push(UiChunk::TextEnd { id, citations: None, provider_metadata: None });
        }
        self.push(UiChunk::FinishStep);
        self.push(UiChunk::StartStep);
        self.saved = self.chunks.len();
    }

    fn make(&mut self, step: &Move) {
        match step {
            Move::Say => {
                self.take_back();
                if !std::mem::replace(&mut self.is_in_text, true) {
                    let id = format!("t{}", self.text_id()[1..].parse::<usize>().expect("a number") + 1);
                    self.push(UiChunk::TextStart { id, provider_metadata: None });
                }
                self.words += 1;
                let (id, delta) = (self.text_id(), format!("<{}>", self.words));
                self.push(UiChunk::TextDelta { id, delta, provider_metadata: None });
            }
            Move::Tell => self.push(aside()),
            Move::Save => self.saved = self.chunks.len(),
            Move::EndStep => self.end_step(),
            Move::Kill => {
                self.chunks.truncate(self.saved);
                self.position = self.position.next_epoch();
                self.log = Writer::restore(RunId::new("r"), &self.chunks);
                (self.is_in_text, self.is_repeated) = (false, true);
            }
            Move::Read => self.read(),
            Move::Break => self.reader = None,
        }
    }

    fn read(&mut self) {
        loop {
            let profile = self.profile;
            let reader = self.reader.get_or_insert_with(|| {
                let last = self.last_event.as_deref().and_then(EventId::parse);
                self.log.read(profile, self.log.log().start_after(profile, last.as_ref()))
            });
            let mut is_over = false;
            while let Some(bytes) = reader.next().now_or_never() {
                let Some(bytes) = bytes else {
                    is_over = true;
                    break;
                };
                for event in std::str::from_utf8(&bytes).unwrap().split_terminator("\n\n") {
                    let field = |name| event.lines().find_map(|line: &str| line.strip_prefix(name));
                    if let Some(id) = field("id: ") {
                        self.last_event = Some(id.to_owned());
                    }
                    let Some(Ok(chunk)) = field("data: ").map(UiChunk::from_record) else { continue };
                    if matches!(chunk, UiChunk::Start { .. }) {
                        self.client = Assembler::new(message_id());
                    }
                    self.client.apply(&chunk).expect("the chunk fits");
                }
                let shown = words(&self.client.snapshot()).concat();
                let once: std::collections::BTreeSet<_> = shown.iter().collect();
                assert_eq!(once.len(), shown.len(), "a word is shown twice: {shown:?}");
            }
            if !is_over {
                return;
            }
            // The client follows the run again.
            self.reader = None;
        }
    }
}

fn moves() -> impl Strategy<Value = Vec<Move>> {
    let step = prop_oneof![
        6 => Just(Move::Say),
        2 => Just(Move::Tell),
        2 => Just(Move::Save),
        1 => Just(Move::EndStep),
        2 => Just(Move::Kill),
        4 => Just(Move::Read),
        2 => Just(Move::Break),
    ];
    prop::collection::vec(step, 0..60)
}

proptest! {
    #[test]
    fn a_client_ends_up_with_what_the_log_says(moves in moves(), version in 0_usize..3) {
        let mut world = World::new([Profile::V5, Profile::V6, Profile::V7][version]);
        for step in &moves {
            world.make(step);
        }
        world.end_step();
        world.read();
        let mut whole = Assembler::new(message_id());
        for (_, chunk) in &world.chunks {
            whole.apply(chunk).expect("the chunk fits");
        }
        prop_assert_eq!(words(&world.client.snapshot()), words(&whole.snapshot()));
    }
}
