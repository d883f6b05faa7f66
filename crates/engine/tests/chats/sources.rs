//! The sources of an answer: all clients are shown them, and those that know citations the places that cite them.

use fermata_engine::model::{Citation, ModelEvent};
use serde_json::{Value, json};

use crate::world::{World, finished};

#[tokio::test(start_paused = true)]
async fn a_text_ends_with_what_it_cites_for_clients_that_know_citations() {
    let url = || "https://a.example/".to_owned();
    for (client, knows_citations) in [(json!(6), false), (json!("7.0.137"), false), (json!("7.0.138"), true)]
    {
        let world = World::new();
        let cited = Citation {
            url: url(),
            title: Some("A".into()),
            start: Some(0),
            end: Some(4),
            passage: Some("It is in Bern.".into()),
        };
        world.script([vec![
            Ok(ModelEvent::Text("Be".into())),
            Ok(ModelEvent::Source { url: url(), title: Some("A".into()) }),
            Ok(ModelEvent::Text("rn.".into())),
            Ok(ModelEvent::Citation(Box::new(cited))),
            Ok(ModelEvent::Citation(Box::new(Citation { url: url(), ..Citation::default() }))),
            finished(),
        ]]);
        let message = json!({"role": "user", "content": "where am I?"});
        let body = json!({"id": "c", "message": message, "fermata": {"client": client}});
        let mut stream = world.post(body).await;
        stream.read_to_end().await;
        assert_eq!(stream.text(), "Bern.");
        let id = stream.find("source-url")["sourceId"].clone();
        let source = |title: Value| {
            let mut source = json!({"type": "source", "sourceType": "url", "id": id, "url": url()});
            if !title.is_null() {
                source["title"] = title;
            }
            source
        };
        let citations = json!([
            {"source": source(json!("A")), "startIndex": 0, "endIndex": 4, "citedText": "It is in Bern."},
            {"source": source(json!(null))},
        ]);
        let shown = stream.find("text-end").get("citations");
        assert_eq!(shown, knows_citations.then_some(&citations), "{client}");
        let kinds =
            "start start-step text-start text-delta source-url text-delta text-end finish-step finish";
        assert_eq!(stream.types(), kinds);
    }
}
