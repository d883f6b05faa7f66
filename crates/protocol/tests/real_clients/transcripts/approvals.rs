//! Calls that are asked about: approved, denied, and with every field of a request.

use serde_json::json;

use super::{
    Transcript, asks, available, available_dynamic, denies, dynamic, fails, gives, says, step, streamed,
    streamed_dynamic, transcript,
};

pub fn all() -> Vec<Transcript> {
    vec![
        transcript(
            "a call that is asked and approved",
            [
                step(
                    [
                        says("t", "one moment"),
                        streamed("c", "t", &["{\"a\":1}"]),
                        vec![
                            available("c", "t", json!({"a": 1})),
                            available_dynamic("d", "u", json!({})),
                            asks("p1", "c", "t"),
                            asks("p2", "d", "u"),
                            json!({"decide": ["p1", true, null]}),
                            json!({"decide": ["p2", true, "fine"]}),
                            json!({"type": "data-elicitation", "id": "e", "data": {"state": "pending"}}),
                            json!({"type": "data-elicitation", "id": "e", "data": {"state": "accepted"}}),
                            gives("c", json!(1)),
                            dynamic(fails("d", "It failed.")),
                        ],
                    ]
                    .concat(),
                ),
                step(says("u", "done")),
            ]
            .concat(),
        ),
        transcript(
            "a call that is denied",
            [
                step(vec![
                    available("c", "t", json!({"a": 1})),
                    available_dynamic("d", "u", json!({})),
                    asks("p1", "c", "t"),
                    asks("p2", "d", "u"),
                    json!({"decide": ["p1", false, "not now"]}),
                    json!({"decide": ["p2", false, null]}),
                    denies("c", "Denied: not now"),
                    dynamic(denies("d", "Denied.")),
                ]),
                step(says("u", "then not")),
            ]
            .concat(),
        ),
        transcript(
            "a call that the policy denies",
            step(vec![available("c", "t", json!({})), denies("c", "Denied: no secrets")]),
        ),
        transcript("a denial without words", step(vec![available("c", "t", json!({})), denies("c", "")])),
        transcript(
            "a browser call that is asked",
            [
                step(
                    [
                        streamed("c", "t", &["{\"a\"", ":1}"]),
                        streamed("d", "t", &["{}"]),
                        streamed_dynamic("e", "t", &["{\"b\": 2}"]),
                        vec![
                            asks("p1", "c", "t"),
                            asks("p2", "d", "t"),
                            asks("p3", "e", "t"),
                            json!({"decide": ["p1", true, null]}),
                            json!({"decide": ["p2", false, "no"]}),
                            json!({"decide": ["p3", false, "no"]}),
                            fails("d", "Denied: no"),
                            dynamic(denies("e", "Denied: no")),
                            available("c", "t", json!({"a": 1})),
                            gives("c", json!({"lat": 1.5})),
                        ],
                    ]
                    .concat(),
                ),
                step(says("u", "done")),
            ]
            .concat(),
        ),
        transcript(
            "a browser call that is approved and runs",
            step(
                [
                    streamed("c", "t", &["{\"a\": 1}"]),
                    vec![
                        asks("p1", "c", "t"),
                        json!({"decide": ["p1", true, null]}),
                        available("c", "t", json!({"a": 2})),
                    ],
                ]
                .concat(),
            ),
        ),
        transcript(
            "questions left open",
            step(
                [
                    vec![available("a", "t", json!({"x": 1})), available_dynamic("b", "t", json!({}))],
                    streamed("c", "t", &["{\"x\": \"y"]),
                    streamed("d", "t", &[]),
                    vec![
                        asks("p1", "a", "t"),
                        asks("p2", "b", "t"),
                        asks("p3", "c", "t"),
                        asks("p4", "d", "t"),
                    ],
                ]
                .concat(),
            ),
        ),
        transcript(
            "a streamed call that is denied",
            step(
                [streamed("c", "t", &["{\"x\": 1}"]), vec![asks("p1", "c", "t"), denies("c", "Denied.")]]
                    .concat(),
            ),
        ),
        transcript(
            "a question with everything",
            step(vec![
                available("c", "t", json!({})),
                json!({
                    "type": "tool-approval-request", "approvalId": "p1", "toolCallId": "c", "toolName": "t", "approvalDescriptor": {"k": 1},
                    "inputSchemaInput": {"k": 2}, "reason": "because", "isAutomatic": true, "signature": "s",
                }),
            ]),
        ),
    ]
}
