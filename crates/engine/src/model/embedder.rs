//! The port to models that make vectors of texts. The vectors find texts of similar meaning.

use async_trait::async_trait;

use crate::model::ModelError;

/// A model that makes vectors of texts.
#[async_trait]
pub trait Embedder: Send + Sync {
    /// Returns the model's name. Vectors of models with different names are not compared.
    fn name(&self) -> &str;

    /// Returns the vector of each text, in order. All have the same length, which is not zero.
    ///
    /// # Errors
    /// Returns an error if the model does not answer, or answers something else.
    async fn embed(&self, texts: Vec<String>) -> Result<Vec<Vec<f32>>, ModelError>;
}
