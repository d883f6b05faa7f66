//! Tests of each shape of an output, of outputs that only look like one, and of the limit.

use fermata_tools::{Audience, Output};
use proptest::prelude::*;
use serde_json::json;

use super::*;

const ENOUGH: usize = 10_000;

/// The data of an image as tools return it, and the URL that it becomes.
const PNG: &str = "iVBORw0KGgo=";
const PNG_URL: &str = "data:image/png;base64,iVBORw0KGgo=";

fn read(output: Value) -> Vec<ModelContent> {
    tool_content(&output, ENOUGH)
}

fn words(words: &str) -> ModelContent {
    ModelContent::Text(words.into())
}

fn image() -> ModelContent {
    named("image/png", PNG_URL, None)
}

fn named(media_type: &str, url: &str, filename: Option<&str>) -> ModelContent {
    ModelContent::File {
        media_type: media_type.into(),
        url: url.into(),
        filename: filename.map(ToOwned::to_owned),
    }
}

fn told_as_json(output: Value) {
    assert_eq!(read(output.clone()), [words(&output.to_string())]);
}

#[test]
fn text_is_told_as_it_is_and_json_as_json() {
    assert_eq!(read(json!("It is noon.")), [words("It is noon.")]);
    assert_eq!(read(json!({"temp": 70})), [words(r#"{"temp":70}"#)]);
    for text in ["", " \n"] {
        assert_eq!(read(json!(text)), [words(text)]);
    }
    for output in [json!([1, "a"]), json!(null), json!(false), json!(0), json!({}), json!([])] {
        told_as_json(output);
    }
}

#[test]
fn a_list_with_nothing_in_it_is_told_as_nothing() {
    for output in [
        json!({"content": []}),
        json!({"content": [{"type": "text", "text": ""}]}),
        json!({"type": "text", "value": ""}),
        json!({"type": "content", "value": []}),
        json!({"__aui_modelContent": [], "value": {"id": 1}}),
    ] {
        assert_eq!(read(output.clone()), [words(NO_OUTPUT)], "{output}");
    }
}

#[test]
fn a_text_that_is_one_image_is_a_file() {
    assert_eq!(read(json!(PNG_URL)), [image()]);
    assert_eq!(read(json!(format!("{PNG_URL}\n"))), [image()]);
    for text in [
        &format!("See {PNG_URL}"),
        &format!("{PNG_URL} above"),
        "data:image/png;base64,",
        "data:image/png,x",
        "data:text/html;base64,aGk=",
    ] {
        assert_eq!(read(json!(text)), [words(text)]);
    }
}

#[test]
fn an_mcp_result_is_its_texts_and_files() {
    let output = json!({"content": [
        {"type": "text", "text": "Two files:", "annotations": {"audience": ["assistant"]}},
        {"type": "image", "data": PNG, "mimeType": "image/png"},
        {"type": "audio", "data": "UklGRg==", "mimeType": "audio/wav", "_meta": {"a": 1}},
        {"type": "text", "text": "That is all."},
    ], "isError": false});
    let audio = named("audio/wav", "data:audio/wav;base64,UklGRg==", None);
    assert_eq!(read(output), [words("Two files:"), image(), audio, words("That is all.")]);
}

#[test]
fn what_is_for_the_person_alone_is_not_told() {
    let output = Output::new()
        .markdown(Audience::Person, "report.md", "# Sales")
        .text(Audience::Model, "The user was shown the report.")
        .text(Audience::Both, "Up by 4 %.");
    assert_eq!(read(output.into()), [words("The user was shown the report."), words("Up by 4 %.")]);
    let shown = Output::new().text(Audience::Person, "Hello.");
    assert_eq!(read(shown.clone().into()), [words(NO_OUTPUT)]);
    assert_eq!(read(shown.structured(json!({"n": 1})).into()), [words("{\"n\":1}")]);
    let named = Output::new().markdown(Audience::Both, "a.md", "# A");
    assert_eq!(read(named.into()), [words("[a.md]\n# A")]);
    for audience in [json!([]), json!(["user", "assistant"]), json!("user"), json!(null)] {
        let block = json!({"type": "text", "text": "a", "annotations": {"audience": audience}});
        assert_eq!(read(json!({"content": [block]})), [words("a")]);
    }
}

#[test]
fn mcp_resources_are_told_with_their_names() {
    let output = json!({"content": [
        {"type": "resource", "resource": {"uri": "file:///a.rs", "mimeType": "text/x-rust", "text": "fn a() {}"}},
        {"type": "resource", "resource": {"uri": "file:///a.pdf", "mimeType": "application/pdf", "blob": "JVBERi0="}},
        {"type": "resource", "resource": {"uri": "file:///a.csv", "mimeType": "text/csv", "blob": "YSxi"}},
        {"type": "resource_link", "uri": "file:///b.rs", "name": "b.rs", "mimeType": "text/x-rust", "description": "More."},
        {"type": "resource_link", "uri": "notes://1", "name": "note"},
    ]});
    let pdf = named("application/pdf", "data:application/pdf;base64,JVBERi0=", Some("file:///a.pdf"));
    let expected = [
        words("[file:///a.rs]\nfn a() {}"),
        pdf,
        words("[file:///a.csv]\na,b"),
        words("[resource b.rs (text/x-rust) at file:///b.rs]: More."),
        words("[resource note at notes://1]"),
    ];
    assert_eq!(read(output), expected);
}

#[test]
fn what_is_structured_is_not_told_twice() {
    let structured = json!({"temp": 22.5});
    let text = json!([{"type": "text", "text": "{\"temp\": 22.5}"}]);
    let both = json!({"content": text, "structuredContent": structured});
    assert_eq!(read(both), [words("{\"temp\": 22.5}")]);
    for content in
        [json!({"structuredContent": structured}), json!({"content": [], "structuredContent": structured})]
    {
        assert_eq!(read(content), [words("{\"temp\":22.5}")]);
    }
    assert_eq!(read(json!({"content": [], "structuredContent": null})), [words(NO_OUTPUT)]);
    let picture = json!([{"type": "image", "data": PNG, "mimeType": "image/png"}]);
    let without_words = json!({"content": picture, "structuredContent": structured});
    assert_eq!(read(without_words), [image(), words("{\"temp\":22.5}")]);
}

#[test]
fn a_failure_is_told_as_one() {
    let failed = |content: Value| read(json!({"content": content, "isError": true}));
    assert_eq!(failed(json!([{"type": "text", "text": "No such file."}])), [words("Error: No such file.")]);
    assert_eq!(failed(json!([])), [words("Error: the tool says that it failed.")]);
    assert_eq!(read(json!({"type": "error-text", "value": "No."})), [words("Error: No.")]);
    assert_eq!(read(json!({"type": "error-json", "value": {"code": 4}})), [words("Error: {\"code\":4}")]);
}

#[test]
fn what_is_not_wholly_an_mcp_result_is_json() {
    for output in [
        json!({"content": "text"}),
        json!({"content": ["text"]}),
        json!({"content": [{"type": "text", "text": "a"}, {"type": "heading", "text": "b"}]}),
        json!({"content": [{"type": "text", "text": "a", "bold": true}]}),
        json!({"content": [{"type": "text", "text": 1}]}),
        json!({"content": [{"type": "image", "data": PNG}]}),
        json!({"content": [{"type": "resource", "resource": {"uri": "a:b"}}]}),
        json!({"content": [{"type": "resource_link", "uri": "a:b"}]}),
        json!({"content": [{"type": "text", "text": "a"}], "title": "A page"}),
        json!({"content": [], "isError": "no"}),
        json!({"isError": true}),
    ] {
        told_as_json(output);
    }
}

#[test]
fn an_sdk_output_is_its_value() {
    assert_eq!(read(json!({"type": "text", "value": "Hi."})), [words("Hi.")]);
    assert_eq!(
        read(json!({"type": "json", "value": {"a": 1}, "providerOptions": {"x": {}}})),
        [words("{\"a\":1}")]
    );
    let output = json!({"type": "content", "value": [
        {"type": "text", "text": "See:", "providerOptions": {}},
        {"type": "media", "data": PNG, "mediaType": "image/png"},
        {"type": "image-data", "data": PNG, "mediaType": "image/png"},
        {"type": "image-url", "url": "https://a.b/c.jpg"},
        {"type": "file-data", "data": "JVBERi0=", "mediaType": "application/pdf", "filename": "a.pdf"},
        {"type": "file-url", "url": "https://a.b/c.pdf", "mediaType": "application/pdf"},
        {"type": "file-url", "url": "https://a.b/c"},
        {"type": "file", "mediaType": "image/png", "data": {"type": "data", "data": PNG}},
        {"type": "file", "mediaType": "image/png", "data": {"type": "url", "url": "https://a.b/c.png"}},
        {"type": "file", "mediaType": "text/plain", "data": {"type": "text", "text": "hi"}, "filename": "a.txt"},
    ]});
    let expected = [
        words("See:"),
        image(),
        image(),
        named("image/*", "https://a.b/c.jpg", None),
        named("application/pdf", "data:application/pdf;base64,JVBERi0=", Some("a.pdf")),
        named("application/pdf", "https://a.b/c.pdf", None),
        named(UNKNOWN_MEDIA_TYPE, "https://a.b/c", None),
        image(),
        named("image/png", "https://a.b/c.png", None),
        words("[a.txt]\nhi"),
    ];
    assert_eq!(read(output), expected);
}

#[test]
fn what_is_not_wholly_an_sdk_output_is_json() {
    for output in [
        json!({"type": "text", "value": 3}),
        json!({"type": "text", "value": "a", "label": "Name"}),
        json!({"type": "text", "text": "a"}),
        json!({"type": "number", "value": 3}),
        json!({"type": "content", "value": "a"}),
        json!({"type": "content", "value": [{"type": "text", "text": "a"}, {"type": "file-id", "fileId": "f1"}]}),
        json!({"type": "content", "value": [{"type": "image-url", "url": "https://a.b/c", "alt": "A picture"}]}),
        json!({"type": "json", "value": 1, "providerOptions": 2}),
    ] {
        told_as_json(output);
    }
}

#[test]
fn of_an_assistant_ui_envelope_the_model_is_told_its_own_part() {
    let output = json!({"__aui_modelContent": [
        {"type": "text", "text": "The file:"},
        {"type": "file", "data": "JVBERi0=", "mediaType": "application/pdf", "filename": "a.pdf"},
        {"type": "file", "data": PNG_URL, "mediaType": "image/png"},
        {"type": "file", "data": "https://a.b/c.png", "mediaType": "image/png"},
    ], "value": {"base64": "JVBERi0="}});
    let pdf = named("application/pdf", "data:application/pdf;base64,JVBERi0=", Some("a.pdf"));
    let web = named("image/png", "https://a.b/c.png", None);
    assert_eq!(read(output), [words("The file:"), pdf, image(), web]);
    told_as_json(json!({"__aui_modelContent": "nope", "value": 1}));
    told_as_json(json!({"__aui_modelContent": [{"type": "chart"}], "value": 1}));
}

#[test]
fn a_file_that_is_text_is_told_as_text() {
    let file = |media_type: &str, data: &str| {
        let part = json!({"type": "file", "data": data, "mediaType": media_type});
        read(json!({"__aui_modelContent": [part], "value": 1}))
    };
    assert_eq!(file("text/plain; charset=utf-8", "R3LDvMOf"), [words("Grüß")]);
    assert_eq!(file("application/ld+json", "e30="), [words("{}")]);
    assert_eq!(file("image/svg+xml", "PHN2Zy8+"), [words("<svg/>")]);
    assert_eq!(file("text/plain", "/w=="), [named("text/plain", "data:text/plain;base64,/w==", None)]);
}

#[test]
fn a_file_that_no_provider_could_read_is_described() {
    let picture =
        |data: &str| read(json!({"content": [{"type": "image", "data": data, "mimeType": "image/png"}]}));
    assert_eq!(picture("not base64!"), [words("[a file (image/png): its data cannot be read]")]);
    assert_eq!(picture(""), [words("[a file (image/png): its data cannot be read]")]);
    assert_eq!(picture("iVBO\r\nRw0K Ggo"), [image()], "line breaks and missing padding do no harm");
    let url = |url: &str| read(json!({"type": "content", "value": [{"type": "image-url", "url": url}]}));
    assert_eq!(url("blob:http://a/b"), [words("[a file (image/*): its URL leads nowhere]")]);
    assert_eq!(url(PNG_URL), [image()]);
    let odd = json!({"content": [{"type": "image", "data": PNG, "mimeType": "image/\u{e9},x"}]});
    assert_eq!(
        read(odd),
        [named(UNKNOWN_MEDIA_TYPE, "data:application/octet-stream;base64,iVBORw0KGgo=", None)]
    );
}

#[test]
fn the_middle_of_too_much_text_is_left_out() {
    let note = |bytes: usize| words(&format!("[… {bytes} bytes of this output are left out here …]"));
    assert_eq!(tool_content(&json!("abcdefghi"), 9), [words("abcdefghi")]);
    assert_eq!(tool_content(&json!("abcdefghij"), 9), [words("abcdef"), note(1), words("hij")]);
    assert_eq!(tool_content(&json!("aaaaaéééé"), 9), [words("aaaaa"), note(6), words("é")]);
    assert_eq!(tool_content(&json!("abc"), 0), [note(3)]);
    assert_eq!(tool_result_text("abcdefghij", 9), [words("abcdef"), note(1), words("hij")]);
}

#[test]
fn the_texts_of_an_output_count_together_and_its_files_do_not() {
    let text = |text: &str| json!({"type": "text", "text": text});
    let picture = json!({"type": "image", "data": PNG, "mimeType": "image/png"});
    let output = json!({"content": [text("abcd"), text("efgh"), picture, text("ijkl"), text("mnop")]});
    let kept = [
        words("abcd"),
        words("ef"),
        words("[… 7 bytes of this output are left out here …]"),
        image(),
        words("nop"),
    ];
    assert_eq!(tool_content(&output, 9), kept);
}

/// Generates texts and keys that form the known shapes more often than by chance.
fn word() -> impl Strategy<Value = String> {
    prop_oneof![
        prop::sample::select(vec![
            "type",
            "value",
            "content",
            "text",
            "image",
            "data",
            "mimeType",
            "mediaType",
            "json",
            "file",
            "resource",
            "uri",
            "blob",
            "url",
            "structuredContent",
            "isError",
            ASSISTANT_UI_CONTENT,
            PNG,
            PNG_URL,
            "image/png",
            "image-url",
            "error-text",
            "file-data",
        ])
        .prop_map(ToOwned::to_owned),
        ".{0,40}",
    ]
}

fn any_json() -> impl Strategy<Value = Value> {
    let leaf = prop_oneof![
        Just(Value::Null),
        any::<bool>().prop_map(Value::from),
        any::<i64>().prop_map(Value::from),
        word().prop_map(Value::from),
    ];
    leaf.prop_recursive(5, 60, 6, |inner| {
        prop_oneof![
            prop::collection::vec(inner.clone(), 0..6).prop_map(Value::from),
            prop::collection::vec((word(), inner), 0..6)
                .prop_map(|fields| Value::Object(fields.into_iter().collect())),
        ]
    })
}

/// Generates outputs of a known shape around any JSON.
fn any_output() -> impl Strategy<Value = Value> {
    let block = prop_oneof![
        word().prop_map(|text| json!({"type": "text", "text": text})),
        word().prop_map(|data| json!({"type": "image", "data": data, "mimeType": "image/png"})),
        word().prop_map(|uri| json!({"type": "resource", "resource": {"uri": uri, "text": uri}})),
        any_json(),
    ];
    let part = prop_oneof![
        word().prop_map(|text| json!({"type": "text", "text": text})),
        word().prop_map(|url| json!({"type": "file-url", "url": url})),
        (word(), word()).prop_map(|(kind, data)| json!({"type": "file", "data": data, "mediaType": kind})),
    ];
    prop_oneof![
        any_json(),
        prop::collection::vec(block, 0..5).prop_map(|content| json!({"content": content, "isError": true})),
        prop::collection::vec(part.clone(), 0..5)
            .prop_map(|value| json!({"type": "content", "value": value})),
        prop::collection::vec(part, 0..5).prop_map(|parts| json!({ASSISTANT_UI_CONTENT: parts, "value": 1})),
    ]
}

fn texts(content: &[ModelContent]) -> Vec<&str> {
    let texts = content.iter().filter_map(|piece| match piece {
        ModelContent::Text(words) => Some(words.as_str()),
        ModelContent::File { .. } => None,
    });
    texts.collect()
}

proptest! {
    #[test]
    fn any_output_is_told_in_a_way_that_providers_take(output in any_output(), limit in 0_usize..200) {
        let content = tool_content(&output, limit);
        prop_assert!(!content.is_empty());
        for piece in &content {
            match piece {
                // A tool that says the empty text means it.
                ModelContent::Text(words) => prop_assert!(!words.is_empty() || output == json!("")),
                ModelContent::File { url, .. } => {
                    let data = base64_url(url).is_some_and(|(_, data)| BASE64_STANDARD.decode(data).is_ok());
                    prop_assert!(is_web(url) || data, "{url}");
                }
            }
        }
        prop_assert_eq!(&content, &tool_content(&output, limit), "told the same way every time");
    }

    #[test]
    fn no_more_than_the_limit_is_told_and_it_begins_and_ends_as_the_output(output in any_output(), limit in 12_usize..200) {
        let (all, kept) = (tool_content(&output, usize::MAX), tool_content(&output, limit));
        let (whole, cut) = (texts(&all).concat(), texts(&kept).concat());
        if whole.len() <= limit {
            prop_assert_eq!(all, kept);
            return Ok(());
        }
        prop_assert!(cut.len() <= limit + 80);
        let (first, rest) = cut.split_once("[… ").unwrap();
        let (count, last) = rest.split_once(" bytes of this output are left out here …]").unwrap();
        prop_assert!(whole.starts_with(first) && whole.ends_with(last));
        prop_assert!(!first.is_empty() && !last.is_empty());
        prop_assert!(first.len() + last.len() <= limit);
        prop_assert_eq!(first.len() + last.len() + count.parse::<usize>().unwrap(), whole.len());
        let files = |content: &[ModelContent]| content.len() - texts(content).len();
        prop_assert_eq!(files(&all), files(&kept));
    }
}
