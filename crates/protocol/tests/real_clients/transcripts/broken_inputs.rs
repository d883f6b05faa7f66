//! Inputs of calls that are cut anywhere: every prefix of a text that uses all of JSON, and malformed texts.

use super::{NEWEST, Transcript, step, streamed, transcript};

pub fn all() -> Vec<Transcript> {
    let whole = r#" {"a" : [1, -2.5e+3, [], {}, true,false ,null], "b\n\"": "x\\\u00e9\"\ud83d\ude00é😀", "c": {"d": -0.5E-1 , "e": {"f": [ "g" ]}}} "#;
    let cuts = whole.char_indices().map(|(at, _)| whole[..at].to_owned());
    // Clients show half a surrogate pair, which a Rust string cannot contain.
    let has_half_pair = |text: &String| text.contains("\\ud83d") && !text.contains("\\ude00");
    let ends_in_escape = |text: &String| text.rfind("\\u").is_some_and(|at| text.len() - at < 6);
    let (escaping, cuts): (Vec<_>, Vec<_>) =
        cuts.filter(|text| !has_half_pair(text)).partition(ends_in_escape);
    let inputs_of = |texts: Vec<String>| {
        let calls = texts.iter().enumerate().flat_map(|(at, text)| streamed(&format!("c{at}"), "t", &[text]));
        step(calls.collect())
    };
    let broken = BROKEN.map(str::to_owned).to_vec();
    // Versions 5 and 6 show no input at all for these texts.
    let newest = [escaping, ["[}", "[é", "[\"\\u12"].map(str::to_owned).to_vec()].concat();
    let mut newest = transcript("inputs that older versions cannot read", inputs_of(newest));
    newest.profiles = &NEWEST;
    vec![
        transcript("inputs cut anywhere", inputs_of(cuts)),
        transcript("inputs that are no JSON", inputs_of(broken)),
        newest,
    ]
}

const BROKEN: [&str; 36] = [
    "",
    " ",
    "nul",
    "tru e",
    "truex",
    "-",
    "1.",
    "[1 2",
    "[1,,2",
    "{\"a\" 1",
    "{\"a\":1 \"b\":2",
    "{\"a\":1}{\"b\":2}",
    "{\"a\":1}x",
    "x{\"a\":1",
    "]",
    "{]",
    "{\"a\":tx",
    "[tx",
    "[1e5",
    "[1e+5",
    "[\"\\x",
    "\"abc",
    "12",
    "{'a':1",
    "[1é",
    "[\"é\\",
    "{\"a\":[{\"b\":\"c\"}",
    "[[[[",
    "{\"a\":{\"b\":{",
    "{\"a\":1,",
    "{\"a\":1,\"b",
    "{\"a\":1,\"b\"",
    "{\"a\":1,\"b\":",
    "{\"a\":1,\"b\":n",
    "[nulll",
    "\\",
];
