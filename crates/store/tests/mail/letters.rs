//! Letters to send, and taking them out. Knows no mail.

use std::sync::Arc;

use fermata_engine::{mail::Mail, store::InstanceId};
use tokio::task::JoinSet;

pub fn instance(name: &str) -> InstanceId {
    InstanceId::new(name)
}

pub fn letter(text: &str) -> Vec<u8> {
    text.as_bytes().to_owned()
}

/// Receives until there are so many letters.
pub async fn collect(mail: &dyn Mail, owner: &InstanceId, count: usize) -> Vec<Vec<u8>> {
    let mut letters = Vec::new();
    while letters.len() < count {
        let taken = mail.receive(owner).await.unwrap();
        assert!(!taken.is_empty(), "receiving gave no letter");
        letters.extend(taken);
    }
    letters
}

/// Sends 10,000 letters from fifty senders, in calls of one to nine, and checks that all come, each sender's in order.
pub async fn send_from_many(through: Vec<Arc<dyn Mail>>, to: &InstanceId, owner: &dyn Mail) {
    const SENDERS: usize = 50;
    const EACH: usize = 200;
    let mut senders = JoinSet::new();
    for sender in 0..SENDERS {
        let (mail, to) = (through[sender % through.len()].clone(), to.clone());
        senders.spawn(async move {
            let letters: Vec<_> =
                (0..EACH).map(|number| serde_json::to_vec(&(sender, number)).unwrap()).collect();
            for some in letters.chunks(1 + sender % 9) {
                mail.send(&to, some.to_vec()).await.unwrap();
            }
        });
    }
    let mut next = [0; SENDERS];
    for taken in collect(owner, to, SENDERS * EACH).await {
        let (sender, number): (usize, usize) = serde_json::from_slice(&taken).unwrap();
        assert_eq!(number, next[sender], "sender {sender}");
        next[sender] += 1;
    }
    assert_eq!(next, [EACH; SENDERS]);
    while let Some(sent) = senders.join_next().await {
        sent.unwrap();
    }
}
