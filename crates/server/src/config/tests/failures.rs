//! `docs/guide/failures.md` says what follows a failure, by its type and the strategy for it, and in which words the model is told.
//!
//! The page is written from the code: `FERMATA_WRITE_DOCS=1 cargo test -p fermata-server --lib failures`.

use fermata_tools::{ErrorPolicy, ErrorStrategy, ErrorType};

const PAGE: &str = concat!(env!("CARGO_MANIFEST_DIR"), "/../../docs/guide/failures.md");

const HEAD: &str = "\
# Failures

<!-- Written by crates/server/src/config/tests/failures.rs; the head of that file says how. -->

A call that fails does not end the run: the model is told the error, and goes on. The table `errors` of `fermata.toml` sets what
follows instead, by the type of the failure:

```toml
[errors]
timeout = \"go_on\"
auth = \"fail_run\"
```

| strategy | what is done |
| --- | --- |
| `retry` | The call runs again, twice at most, if its tool is repeatable. If it still fails, or may not be repeated, it is `go_on`. |
| `go_on` | The model is told the error, with the advice below. |
| `ask_person` | A person is asked what is to be done, before the call has its outcome. |
| `fail_run` | The run ends with `error`, which names the tool and the type. Nothing after it is done. |

An input that does not fit its schema is a failure of the type `invalid_format`, and counts as one for `fail_run`. A failure of a
browser's tool is told to the model as its page has put it. A result of an MCP tool with `isError` has the type that its
`structuredContent.errorType` or `_meta.errorType` names, and is `internal` otherwise.

With `ask_person` the call waits, and the question is an elicitation (`data-elicitation`) whose form has `choice`, one of `retry`,
`go_on` and `stop`. It has the code `call_failed`, with `errorType` and `errorText`, so that pages can translate it. `retry` runs the call again with a new idempotency key, even of a tool that is not repeatable, unless the newest rules deny it; `go_on` tells
the model the error, as declining does; `stop` ends the run. The question waits as long as a call does, also across a restart, and the
call keeps no resource from others meanwhile. An input that does not fit, a call that did not run, and the program loop in Rust have no
such question: the model is then told to ask the user. A tool with a fallback is not asked about.

What `[tools.\"glob\"] errors` says goes before the table `errors`, for the tools under the glob.

## Nothing was found

An output may say that nothing was found. That is no failure: the call has its output, and the model is told it with the advice for
`empty_result`. `search_notes` and `recall` say so themselves; for other tools, `empty` names the part of the (structured) output
that is missing, null or empty then. With `retry` such a call runs again, too, if its tool is repeatable.

## Fallbacks

```toml
[tools.web_search]
empty = \"results\"
fallback = \"search_notes\"
```

Once a call has failed for good, after its retries, or has found nothing, the run makes one call of the `fallback` with the same input,
or with `fallback_input`. It is shown in a step of its own, before the model is asked again, and it is a call like any other: rules
may deny it or ask about it, and it waits for its resource. There is one hop at most, and it takes none of the `max_steps` requests to
the model. A tool that the assistant does not have, or that the input does not fit, is no fallback. A call whose own input did not fit, or
that was denied, has none. `fermata --check` warns of a fallback that names no tool.

## Cancel, and try again

`POST /api/chat/{id}/calls/{toolCallId}/cancel` ends one call that a tool of the server or of an MCP server runs: 204, and 409
`not_running` for any other. The call is `cancelled`, and the run goes on. What a call has reported last is kept if it is cancelled,
fails or exceeds its time, and the model is told.

`POST /api/chat/{id}/calls/{toolCallId}/retry` makes a call again whose state is `error`, once. A new run begins with the new call and
goes on with the model; the stream is that of `POST /api/chat`, and the rules apply to the new call. A body may have `fermata`,
`tools`, `system` and `callSettings` as there. If the failed call had begun to run, it may have had its effect. Unless its tool is
`repeatable`, a person then has to approve the new call, even if a rule, `approval = \"auto\"` or an earlier \"always\" allows it, and the
reason of the approval request says why. The audit log has an event `retried` with the person who asked for it.

A second request is 409 `already_retried`, and `retriedAs` in its body is the id of the new call. 409 `not_failed` for a call that has not
failed, or was denied, stopped or cancelled; 409 `run_open` while a run of the chat is open; 404 for a call whose message an edit has
dropped.

## What a page is told

`finish` says what went wrong with a call: `messageMetadata.calls[\"<toolCallId>\"]` is `{durationMs?, errorType?, attempts?,
strategy?, fallbackOf?, retryOf?}`. A client that posts `fermata: { show: [\"call\"] }` is told the same in `data-call` while it happens.
`attempts` is there if the call ran more than once, `strategy` is what was done, and `fallbackOf` is the id of the failed call in whose
place this one was made. `retryOf` is the id of the failed call that a person has made again with this one.

As soon as a call has ended without an output, `messageMetadata.calls[\"<toolCallId>\"]` says why, to every client and also after
a reload: `{state, code, reason?}`.

| `state` | `code` | |
|---|---|---|
| `error` | `rate_limit`, `auth`, … | the type of the failure, as below |
| `cancelled` | `denied` | a person or a rule has denied it; `reason` has their words |
| `cancelled` | `expired` | nobody answered in time |
| `cancelled` | `by_person` | a person cancelled it while it ran |
| `cancelled` | `stopped` | the run was stopped |
| `cancelled` | `superseded` | the conversation went on before it had a result |
| `cancelled` | `run_ended` | the run ended for another reason |
| `cancelled` | `not_first` | only the first call of a step runs (`chain = \"one\"`) |
| `cancelled` | `not_chosen` | the user has chosen another tool |
";

fn meaning(error_type: ErrorType) -> &'static str {
    match error_type {
        ErrorType::RateLimit => "There were too many requests.",
        ErrorType::Auth => "Credentials are missing, wrong or insufficient.",
        ErrorType::Network => "There was no connection, or it broke.",
        ErrorType::Timeout => "The time limit was exceeded.",
        ErrorType::EmptyResult => "Nothing was found.",
        ErrorType::InvalidFormat => "An input or an output does not have the form that it must have.",
        ErrorType::Denied => "A person, a rule or the tool itself denied the call.",
        ErrorType::Cancelled => "The call was stopped or superseded, or has expired.",
        ErrorType::Internal => "Anything else.",
    }
}

fn section(error_type: ErrorType) -> String {
    let default = ErrorPolicy::default().of(error_type);
    let mut section = format!("\n## `{error_type}`\n\n{}", meaning(error_type));
    let advice = |strategy: ErrorStrategy| strategy.hint(error_type);
    if ErrorStrategy::ALL.into_iter().all(|strategy| advice(strategy).is_none()) {
        section.push_str(" Nothing can be set for it, because the model is told the reason and no more.\n");
        return section;
    }
    section.push_str(&format!(
        " Default: `{}`.\n\n| strategy | the model is told besides the error |\n| --- | --- |\n",
        default.as_str()
    ));
    for strategy in ErrorStrategy::ALL {
        let told = match (strategy, advice(strategy)) {
            (ErrorStrategy::FailRun, _) => "it is not asked again".to_owned(),
            (_, Some(advice)) => format!("“{advice}”"),
            (_, None) => "nothing: the error says what to correct".to_owned(),
        };
        section.push_str(&format!("| `{}` | {told} |\n", strategy.as_str()));
    }
    section
}

#[test]
fn the_page_of_failures_is_that_of_the_code() {
    let sections = ErrorType::ALL.into_iter().map(section);
    let page: String = std::iter::once(HEAD.to_owned()).chain(sections).collect();
    if std::env::var("FERMATA_WRITE_DOCS").is_ok_and(|wish| wish == "1") {
        std::fs::write(PAGE, &page).expect("docs can be written");
    }
    let written = std::fs::read_to_string(PAGE).unwrap_or_default();
    let help =
        "FERMATA_WRITE_DOCS=1 cargo test -p fermata-server --lib failures writes docs/guide/failures.md";
    assert_eq!(written, page, "{help}");
}
