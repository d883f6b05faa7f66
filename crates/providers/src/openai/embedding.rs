//! Vectors of texts, from the API's `/embeddings`.

use async_trait::async_trait;
use fermata_engine::{Embedder, model::ModelError};
use serde::Deserialize;
use serde_json::json;

use super::{OpenAi, failure::Failure, url_below};

/// The answer of the API. It may have more fields.
#[derive(Deserialize)]
struct Embeddings {
    data: Vec<Embedding>,
}

#[derive(Deserialize)]
struct Embedding {
    /// The place of the text. Some servers leave it out, and answer in order.
    index: Option<usize>,
    embedding: Vec<f32>,
}

#[async_trait]
impl Embedder for OpenAi {
    fn name(&self) -> &str {
        &self.model
    }

    async fn embed(&self, texts: Vec<String>) -> Result<Vec<Vec<f32>>, ModelError> {
        let count = texts.len();
        let body = json!({"model": self.model, "input": texts});
        let vectors = match self.transport.embed(&body).await {
            Ok(answer) => read(&answer, count),
            Err(failure) => Err(failure),
        };
        vectors.map_err(|failure| failure.into_error(&url_below(&self.url, "/embeddings"), &self.secrets))
    }
}

/// Reads the vectors of so many texts, in the order of the texts.
fn read(answer: &[u8], count: usize) -> Result<Vec<Vec<f32>>, Failure> {
    let answer: Embeddings = serde_json::from_slice(answer)
        .map_err(|error| Failure::format(format!("the answer has no vectors: {error}")))?;
    let mut vectors = vec![Vec::new(); count];
    for (at, Embedding { index, embedding }) in answer.data.into_iter().enumerate() {
        let Some(vector) = vectors.get_mut(index.unwrap_or(at)) else {
            return Err(Failure::format(format!(
                "the answer has more vectors than the {count} that were asked for"
            )));
        };
        *vector = embedding;
    }
    if vectors.iter().any(Vec::is_empty) {
        return Err(Failure::format(format!(
            "the answer has fewer vectors than the {count} that were asked for"
        )));
    }
    Ok(vectors)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn vectors_are_read_in_the_order_of_the_texts() {
        let answer = r#"{"object": "list", "model": "m", "usage": {"prompt_tokens": 2},
            "data": [{"object": "embedding", "index": 1, "embedding": [0.5, 1]}, {"index": 0, "embedding": [-1, 0]}]}"#;
        assert_eq!(read(answer.as_bytes(), 2).unwrap(), [[-1.0, 0.0], [0.5, 1.0]]);
        let without = r#"{"data": [{"embedding": [1]}, {"embedding": [2]}]}"#;
        assert_eq!(read(without.as_bytes(), 2).unwrap(), [[1.0], [2.0]]);
    }

    #[test]
    fn an_answer_that_does_not_fit_is_refused() {
        for (answer, count) in [
            ("no", 1),
            (r#"{"data": []}"#, 1),
            (r#"{"data": [{"embedding": [1]}, {"embedding": [2]}]}"#, 1),
            (r#"{"data": [{"index": 0, "embedding": [1]}, {"index": 0, "embedding": [2]}]}"#, 2),
            (r#"{"data": [{"index": 7, "embedding": [1]}]}"#, 1),
            (r#"{"data": [{"embedding": "AAAA"}]}"#, 1),
        ] {
            assert!(read(answer.as_bytes(), count).is_err(), "{answer}");
        }
    }
}
