//! English.

use serde_json::{Value, json};

use super::{Before, Offer, Picked, Words, form, sales};
use crate::demo::wish::ChartKind;

/// The language.
pub(super) struct English;

const OFFERS: &[Offer] = &[
    offer("what time is it", "a tool that the server runs without asking", "current_time"),
    offer("write a note: buy milk", "a tool that waits for your approval", "write_note"),
    offer(
        "find my notes about milk",
        "another tool of the server, which shares a lock with the one above",
        "search_notes",
    ),
    // Without the tool one is told how to post it.
    Offer {
        say: "where am I",
        shows: "a tool that your browser runs, if the page has posted one",
        needs: None,
    },
    offer("draw a chart", "tea sales, drawn by your browser", "show_chart"),
    offer("ask me something", "a form for you to fill in", "ask_user"),
    offer("pick a file", "a file of yours, chosen in your browser", "pick_file"),
    offer("create a record: first visit", "something kept in your browser", "create_record"),
    Offer { say: "do everything", shows: "several calls in one step", needs: None },
    Offer { say: "think about tea", shows: "reasoning before the answer", needs: None },
    Offer { say: "tell me a long story", shows: "a long answer; press stop whenever you like", needs: None },
];

const fn offer(say: &'static str, shows: &'static str, tool: &'static str) -> Offer {
    Offer { say, shows, needs: Some(tool) }
}

impl Words for English {
    fn hello(&self, is_unknown: bool) -> String {
        let unknown = if is_unknown { "I have no line for that. " } else { "" };
        format!(
            "Hello! {unknown}I am Fermata's built-in **demo**: a script, not a language model. Type any of these and see what \
             happens:"
        )
    }

    fn offers(&self) -> &'static [Offer] {
        OFFERS
    }

    fn using_by_name(&self, tool: &str) -> (String, &'static str) {
        (format!("use {tool}"), "any tool of this chat by its name, also your page's own")
    }

    fn real_model(&self) -> &'static str {
        "For a real model, set `OPENAI_API_KEY` (or `OPENAI_BASE_URL` for a server of your own) and `FERMATA_MODEL`, and start \
         Fermata again."
    }

    fn before(&self, what: Before) -> &'static str {
        match what {
            Before::Time => "Let me look at the clock.",
            Before::WriteNote => "I will write that down, if you allow it.",
            Before::FindNotes => "Let me look through your notes.",
            Before::Location => "Your browser knows that; I am asking it.",
            Before::Chart => "I have made up some numbers; your browser draws them.",
            Before::Question => "Gladly. Please fill in this form.",
            Before::PickFile => "Please pick one in your browser.",
            Before::CreateRecord => "I will put that into your browser's store, if you allow it.",
            Before::Everything => {
                "All at once, then. Nothing of it runs before you have decided what you are asked."
            }
        }
    }

    fn using(&self, tool: &str) -> String {
        format!("Calling `{tool}` with an input made up from its schema.")
    }

    fn no_tool(&self, tool: &str, is_of_page: bool) -> String {
        let who = if is_of_page { "this page" } else { "this server" };
        format!("I would call the tool `{tool}` for that, but {who} does not offer it.")
    }

    fn no_tools(&self) -> &'static str {
        "This chat has no tools that I could use."
    }

    fn no_such_tool(&self, known: &str) -> String {
        format!("I see no tool of that name. This chat has: {known}.")
    }

    fn no_location_tool(&self, tool: &str) -> String {
        format!(
            "Only your browser knows that, and it has lent me no tool to ask it with. A page, or a curl call, posts such \
             a tool next to the messages:\n\n```json\n{tool}\n```\n\nThen ask me again, and the call waits until \
             the page answers it."
        )
    }

    fn nothing_at_once(&self) -> &'static str {
        "I would call several tools at once, but this chat has none of those I know."
    }

    fn call_none(&self) -> &'static str {
        "I would call a tool for that, but was told to call none."
    }

    fn as_you_wish(&self) -> &'static str {
        "As you wish."
    }

    fn thought(&self, about: &str) -> (String, String) {
        (
            format!(
                "Somebody wants me to think about {about}. I am a script, so this is no thought, but it streams like one: \
                 a real model's reasoning would stand here, and a client may fold it away."
            ),
            format!(
                "I have thought about {about} as well as a script can. The part above this one is the reasoning."
            ),
        )
    }

    fn story(&self) -> &'static str {
        include_str!("../story/english.md")
    }

    fn some_note(&self) -> &'static str {
        "a note"
    }

    fn note_and_query(&self) -> (&'static str, &'static str) {
        ("buy milk", "milk")
    }

    fn some_subject(&self) -> &'static str {
        "that"
    }

    fn chart(&self, kind: ChartKind) -> Value {
        let months = ["January", "February", "March", "April", "May", "June"];
        sales(kind, "Tea sold by month (made up)", "Cups", months, ["Green tea", "Black tea", "Mint tea"])
    }

    fn question(&self) -> Value {
        let titles = ["Your name", "Your favourite drink", "How many cups a day?"];
        form("Who are you, and what may I bring you?", titles, ["tea", "coffee", "water"])
    }

    fn file(&self) -> Value {
        json!({"purpose": "I tell you its name, its kind and its size."})
    }

    fn record(&self, title: &str) -> Value {
        let title = if title.is_empty() { "a record" } else { title };
        json!({"collection": "visits", "title": title, "data": {"from": "the demo"}})
    }

    fn denied(&self, tool: &str, why: &str) -> String {
        format!("`{tool}` was denied, so I left it. I was told: {why}")
    }

    fn failed(&self, tool: &str, why: &str) -> String {
        format!("`{tool}` did not work. I was told: {why}")
    }

    fn gave(&self, tool: &str, result: &str) -> String {
        format!("`{tool}` gave: {result}")
    }

    fn clock(&self, result: &str) -> String {
        format!("The server's clock says: {result}")
    }

    fn notes(&self, result: &str) -> String {
        format!("This is what your notes have: {result}")
    }

    fn noted(&self, title: &str) -> String {
        format!("Thank you: I wrote down “{title}”. Ask me to find it again.")
    }

    fn noted_as_edited(&self, title: &str, body: &str) -> String {
        format!("Thank you: I wrote down your version, “{title}”: {body}")
    }

    fn place(&self, latitude: f64, longitude: f64, accuracy: Option<f64>) -> String {
        let within = accuracy.map(|metres| format!(", give or take {metres:.0} metres")).unwrap_or_default();
        format!("Your browser says that you are at latitude {latitude:.4}, longitude {longitude:.4}{within}.")
    }

    fn drawn(&self, title: &str) -> String {
        format!("There it is: “{title}”. Your browser drew it; I only sent the numbers.")
    }

    fn answered(&self, answers: &str, name: Option<&str>, drink: Option<&str>) -> String {
        let name = name.map(|name| format!(" Nice to meet you, {name}.")).unwrap_or_default();
        let drink = drink
            .map(|drink| format!(" If scripts could pour, your {drink} would be on its way."))
            .unwrap_or_default();
        format!("Thank you. You told me:\n\n{answers}\n\nThat is all I know of you.{name}{drink}")
    }

    fn not_answered(&self) -> &'static str {
        "You would rather not say, which is fine."
    }

    fn picked(&self, files: &[Picked]) -> String {
        let about = |file: &Picked| {
            let more: Vec<_> = file.size.iter().chain(&file.kind).map(String::as_str).collect();
            let more = if more.is_empty() { String::new() } else { format!(" ({})", more.join(", ")) };
            format!("“{}”{more}", file.name)
        };
        let files: Vec<_> = files.iter().map(about).collect();
        format!("You picked {}.", files.join(", "))
    }

    fn picked_none(&self) -> &'static str {
        "You picked no file, which is fine."
    }

    fn recorded(&self, title: &str, collection: &str) -> String {
        format!("Done: “{title}” is in the collection “{collection}” of your browser now.")
    }
}
