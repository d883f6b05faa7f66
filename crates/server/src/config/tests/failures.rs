//! `docs/guide/failures.md` lists the consequence of each failure, by its type and strategy, with the advice to the model.
//!
//! The page is written from the code: `FERMATA_WRITE_DOCS=1 cargo test -p fermata-server --lib failures`.

use fermata_tools::{ErrorPolicy, ErrorStrategy, ErrorType};

const PAGE: &str = concat!(env!("CARGO_MANIFEST_DIR"), "/../../docs/guide/failures.md");

const HEAD: &str = "\
# Failures

<!-- Written by crates/server/src/config/tests/failures.rs; the head of that file says how. -->

A failed call does not end the run: the model receives the error and continues. The table `errors` of `fermata.toml` sets another
strategy for a type of failure:

```toml
[errors]
timeout = \"go_on\"
auth = \"fail_run\"
```

| strategy | effect |
| --- | --- |
| `retry` | The call runs again, at most twice, if its tool is repeatable. If it still fails or may not be repeated, `go_on` applies. |
| `go_on` | The model receives the error and the advice below. |
| `ask_person` | A person decides before the call has its outcome. |
| `fail_run` | The run ends with `error`, which names the tool and the type. |

`[tools.\"glob\"] errors` overrides the table `errors` for the tools under the glob.

- An input that does not fit its schema is a failure of the type `invalid_format`. It counts for `fail_run`.
- Errors of browser tools reach the model verbatim.
- A result of an MCP tool with `isError` has the type in `structuredContent.errorType` or `_meta.errorType`. Otherwise its words name the
  type, as those of a JSON-RPC error do: \"429\", \"rate limit\", \"401\", \"timed out\", \"ECONNREFUSED\", \"not found\". Other failures are `internal`.
- `[[errors.match]]` names the type of failures by their text, for all tools or for those under a glob:

```toml
[[errors.match]]
text = { regex = \"try again (later|tomorrow)\" }
tool = \"crm__*\"
type = \"rate_limit\"
```

A tool that fails three times in a row is withdrawn for the rest of the run, and the model learns why. After a call has failed in spite of
its retries, later calls of the same tool in that run are not retried.

## Ask a person

With `ask_person` the call waits, and a question appears as an elicitation (`data-elicitation`). Its form has the field `choice`:

- `retry` runs the call again with a new idempotency key, even if its tool is not repeatable. The newest rules may still deny it.
- `go_on` passes the error to the model. Declining the question does the same.
- `stop` ends the run.

The question has the code `call_failed`, with `errorType` and `errorText`, so that pages can translate it. It waits as long as a call
does, even across a restart. Meanwhile the call holds no resource.

There is no question for an input that does not fit, for a call that did not run, and in the loop for Rust programs. The model is then
advised to ask the user. There is also none for a tool with a fallback.

## Empty results

An output may report that nothing was found. The call then has its output, and the model receives it with the advice for
`empty_result`. `search_notes` and `recall` report this themselves. For other tools, `empty` names the part of the (structured) output
that is missing, null or empty in this case. With `retry` such a call runs again if its tool is repeatable.

## Fallbacks

```toml
[tools.web_search]
empty = \"results\"
fallback = \"search_notes\"
```

When a call has failed after its retries, or has found nothing, the run calls the `fallback` once with the same input, or with
`fallback_input`. The call appears in its own step before the next request to the model. Rules apply to it, and it waits for its
resource. It does not count for `max_steps`. A fallback has no fallback.

A tool is no fallback if the assistant does not have it, or if the input does not fit it. There is no fallback for a denied call, nor
for a call whose own input did not fit. `fermata --check` warns if a fallback names no tool.

## Cancel and try again

`POST /api/chat/{id}/calls/{toolCallId}/cancel` cancels one running call of a server tool or an MCP tool. It returns 204, or 409
`not_running` for any other call. The call is `cancelled`, and the run continues. If a call is cancelled, fails or times out, its last
report is kept and passed to the model.

`POST /api/chat/{id}/calls/{toolCallId}/retry` repeats a call with the state `error`, once. A new run begins with the new call and
continues with the model. The stream is that of `POST /api/chat`, and rules apply to the new call. The body may have `fermata`, `tools`,
`system` and `callSettings` as in a post.

A failed call that had started may have had its effect. Unless its tool is `repeatable`, a person must then approve the new call, even
if a rule, `approval = \"auto\"` or an earlier \"always\" allows it. The approval request gives the reason. The audit has an event
`retried` with the person.

| error | reason |
| --- | --- |
| 409 `already_retried` | a second request; `retriedAs` is the id of the new call |
| 409 `not_failed` | the call has not failed, or was denied, stopped or cancelled |
| 409 `run_open` | a run of the chat is open |
| 404 | an edit has removed the message of the call |

## Codes for pages

`finish` has details about a call: `messageMetadata.calls[\"<toolCallId>\"]` is `{durationMs?, errorType?, attempts?,
strategy?, fallbackOf?, retryOf?}`. With `fermata: { show: [\"call\"] }` a client receives the same in `data-call` while it happens.

- `attempts` is present if the call ran more than once.
- `strategy` is the strategy that was used.
- `fallbackOf` is the id of the failed call that this one replaces.
- `retryOf` is the id of the failed call that a person repeated as this one.

When a call ends without an output, `messageMetadata.calls[\"<toolCallId>\"]` has the reason, for every client and after a reload:
`{state, code, reason?}`.

| `state` | `code` | |
|---|---|---|
| `error` | `rate_limit`, `auth`, … | the type of the failure, as below |
| `cancelled` | `denied` | a person or a rule denied it, with a `reason` |
| `cancelled` | `expired` | nobody answered in time |
| `cancelled` | `by_person` | a person cancelled it while it ran |
| `cancelled` | `stopped` | the run was stopped |
| `cancelled` | `superseded` | the conversation continued before it had a result |
| `cancelled` | `run_ended` | the run ended for another reason |
| `cancelled` | `not_first` | only the first call of a step runs (`chain = \"one\"`) |
| `cancelled` | `not_chosen` | the user chose another tool |
";

fn meaning(error_type: ErrorType) -> &'static str {
    match error_type {
        ErrorType::RateLimit => "Too many requests.",
        ErrorType::Auth => "Credentials are missing, wrong or insufficient.",
        ErrorType::Network => "The connection failed or broke.",
        ErrorType::Timeout => "The time limit was exceeded.",
        ErrorType::EmptyResult => "Nothing was found.",
        ErrorType::InvalidFormat => "An input or an output has an invalid format.",
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
        section.push_str(" It has no strategy, because the model receives only the reason.\n");
        return section;
    }
    section.push_str(&format!(
        " Default: `{}`.\n\n| strategy | advice to the model, after the error |\n| --- | --- |\n",
        default.as_str()
    ));
    for strategy in ErrorStrategy::ALL {
        let told = match (strategy, advice(strategy)) {
            (ErrorStrategy::FailRun, _) => "none: the run ends".to_owned(),
            (_, Some(advice)) => format!("“{advice}”"),
            (_, None) => "none: the error names the correction".to_owned(),
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
