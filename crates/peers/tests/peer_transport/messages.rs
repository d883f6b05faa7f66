//! Helpers that make, send and receive messages, with any transport.

use std::sync::Arc;

use fermata_engine::{peer_transport::PeerTransport, store::InstanceId};
use tokio::task::JoinSet;

pub fn instance(name: &str) -> InstanceId {
    InstanceId::new(name)
}

pub fn message(text: &str) -> Vec<u8> {
    text.as_bytes().to_owned()
}

/// Receives until there are this many messages.
pub async fn collect(transport: &dyn PeerTransport, owner: &InstanceId, count: usize) -> Vec<Vec<u8>> {
    let mut messages = Vec::new();
    while messages.len() < count {
        let received = transport.receive(owner).await.unwrap();
        assert!(!received.is_empty(), "`receive` returned no message");
        messages.extend(received);
    }
    messages
}

/// Sends 10,000 messages from fifty senders, one to nine in a call, and checks that all of them arrive, and those of each sender in order.
pub async fn send_from_many(
    through: Vec<Arc<dyn PeerTransport>>,
    to: &InstanceId,
    owner: &dyn PeerTransport,
) {
    const SENDERS: usize = 50;
    const EACH: usize = 200;
    let mut senders = JoinSet::new();
    for sender in 0..SENDERS {
        let (transport, to) = (through[sender % through.len()].clone(), to.clone());
        senders.spawn(async move {
            let messages: Vec<_> =
                (0..EACH).map(|number| serde_json::to_vec(&(sender, number)).unwrap()).collect();
            for some in messages.chunks(1 + sender % 9) {
                transport.send(&to, some.to_vec()).await.unwrap();
            }
        });
    }
    let mut next = [0; SENDERS];
    for received in collect(owner, to, SENDERS * EACH).await {
        let (sender, number): (usize, usize) = serde_json::from_slice(&received).unwrap();
        assert_eq!(number, next[sender], "sender {sender}");
        next[sender] += 1;
    }
    assert_eq!(next, [EACH; SENDERS]);
    while let Some(sent) = senders.join_next().await {
        sent.unwrap();
    }
}
