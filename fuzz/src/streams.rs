//! What a model API answers.

use std::cell::RefCell;

use bytes::Bytes;
use fermata_engine::{
    Model,
    model::{ModelEvent, ModelRequest},
};
use fermata_providers::{OpenAi, OpenAiConfig};
use futures::StreamExt;
use tokio::runtime::{Builder, Runtime};

/// Both are made once for each thread, because a model reads the certificates of the machine.
struct World {
    /// Its time stands still until nothing else is to be done, so a pause before a retry costs none.
    runtime: Runtime,
    model: OpenAi,
}

thread_local! {
    static WORLD: RefCell<World> = RefCell::new(World::new());
}

impl World {
    fn new() -> Self {
        let base_url = Some("http://localhost".into());
        Self {
            runtime: Builder::new_current_thread()
                .enable_all()
                .start_paused(true)
                .build()
                .expect("a runtime"),
            model: OpenAi::build(OpenAiConfig { base_url, ..OpenAiConfig::new("m") }).expect("a model"),
        }
    }
}

/// A stream of events. The first byte says into how large pieces the connection cuts the others.
pub fn provider_streams(data: &[u8]) {
    let Some((&size, body)) = data.split_first() else { return };
    let pieces: Vec<Bytes> = body.chunks(usize::from(size).max(1)).map(Bytes::copy_from_slice).collect();
    WORLD.with_borrow(|world| {
        let model = world.model.with_recording(pieces);
        world.runtime.block_on(async {
            let Ok(mut events) = model.stream(ModelRequest::default()).await else { return };
            let mut is_over = false;
            while let Some(event) = events.next().await {
                assert!(!is_over, "nothing comes after the end");
                is_over = matches!(event, Err(_) | Ok(ModelEvent::Finished { .. }));
            }
            assert!(is_over, "an answer ends with a reason or an error");
        });
    });
}
