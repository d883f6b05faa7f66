//! Texts of people and models that are not the usual ones come back as they were written, and stay apart.

use fermata_engine::store::{Change, ChatQuery, Version};
use fermata_protocol::{AnswerTarget, ApprovalId, MessageId, Profile, RunId, ToolCallId};
use fermata_tools::{
    ApprovalDecision, Call, CallState, Decision, DecisionSource, Owner, PolicyDecision, ResourceKey,
};
use serde_json::json;

use crate::{AnyStore, fixtures::*, owner};

/// With what PostgreSQL does not take, with what stands for it there, and with what few databases order alike.
const ODD: [&str; 9] =
    ["a", "a\0", "a\u{1a}", "a\u{1a}0", "a\u{1a}1", "\0", "", "A ü\u{202e}\u{10ffff}", "'\"\\\n\r%_$1"];

in_every_store! {
    texts_come_back_as_they_were_and_stay_apart
    chats_of_owners_with_odd_names_stay_apart
    instances_and_locks_with_odd_names_stay_apart
}

fn odd_call(text: &str) -> Call {
    let mut call = call("c", executing());
    call.id = ToolCallId::new(format!("c{text}"));
    call.tool = text.into();
    call.input = json!({"\0": text}).into();
    call.policy_decision = Some(PolicyDecision {
        decision: Decision::Ask,
        reason: Some(text.into()),
        by: DecisionSource::Auto,
        terms: None,
    });
    call.approval_request = Some(request(&format!("q{text}")));
    let by = Owner::new(text);
    call.approval_decision = Some(ApprovalDecision {
        by,
        at: at(1),
        approved: true,
        reason: Some(text.into()),
        always: true,
        how: None,
    });
    call.enter(CallState::Success { output: json!(text) }, at(1));
    call
}

async fn texts_come_back_as_they_were_and_stay_apart(store: AnyStore) {
    let id = chat("a");
    let mut changes = vec![create(alice())];
    let (mut messages, mut calls) = (Vec::new(), Vec::new());
    for text in ODD {
        let run = RunId::new(format!("r{text}"));
        let mut message = user("m", text);
        message.id = MessageId::new(format!("m{text}"));
        let call = odd_call(text);
        let (opened, message_id, owner) = (run.clone(), message.id.clone(), instance(text));
        changes.extend([
            put(message.clone()),
            Change::OpenRun { run: opened, message: message_id, owner },
            Change::PutCall { run: run.clone(), call: Box::new(call.clone()) },
            Change::Confirm {
                run: run.clone(),
                call: Box::new(call.clone()),
                decision: Box::new(call.approval_decision.clone().unwrap()),
                terms: None,
            },
            Change::CloseRun { run, outcome: "finished" },
        ]);
        messages.push(message);
        calls.push(call);
    }
    store.commit_next(&id, Version::NONE, at(0), changes).await.unwrap();
    assert_eq!(store.messages(&id).await.unwrap(), messages);
    let said = store.chat(&id).await.unwrap().unwrap().confirmations;
    for ((text, call), said) in ODD.iter().zip(&calls).zip(said) {
        let ids = [
            AnswerTarget::Call(call.id.clone()),
            AnswerTarget::Approval(ApprovalId::new(format!("q{text}"))),
        ];
        for target in ids {
            assert_eq!(store.call(&id, &target).await.unwrap().as_ref(), Some(call), "{text:?}");
        }
        assert_eq!(
            (said.tool.as_str(), said.by.as_str(), said.reason.as_deref()),
            (*text, *text, Some(*text))
        );
        assert_eq!(said.call, call.id);
    }
    for text in ODD {
        let run = RunId::new(format!("again{text}"));
        let open =
            Change::OpenRun { run: run.clone(), message: MessageId::new(text), owner: instance("one") };
        commit_at(&*store, &id, at(2), vec![open]).await.unwrap();
        let record = store.chat(&id).await.unwrap().unwrap().open_run.unwrap();
        assert_eq!((record.id, record.message.as_str()), (run.clone(), text));
        let changes = vec![
            Change::AppendChunks { run: run.clone(), first: 1, chunks: vec![json!(text).to_string()] },
            Change::SaveRun {
                run: run.clone(),
                state: json!({"\0": text}),
                expires: None,
                waiting: false,
                detached: false,
                questions: 0,
                owner: None,
                attempts: 0,
            },
        ];
        commit_at(&*store, &id, at(3), changes).await.unwrap();
        let record = store.chat(&id).await.unwrap().unwrap().open_run.unwrap();
        assert_eq!(
            (record.state, record.chunks[0].1.clone()),
            (json!({"\0": text}), json!(text).to_string())
        );
        commit_at(&*store, &id, at(4), vec![Change::CloseRun { run, outcome: "finished" }]).await.unwrap();
    }
}

async fn chats_of_owners_with_odd_names_stay_apart(store: AnyStore) {
    for (n, name) in ODD.iter().enumerate() {
        let create = Change::CreateChat { owner: Owner::new(*name), profile: Profile::V6 };
        let changes = vec![create, put(user("1", name))];
        store.commit_next(&chat(&format!("chat-{n}")), Version::NONE, at(0), changes).await.unwrap();
    }
    for (n, name) in ODD.iter().enumerate() {
        let id = chat(&format!("chat-{n}"));
        assert_eq!(owner(&store, &id).await, Some(Owner::new(*name)));
        let page = store.chats(ChatQuery::new(&Owner::new(*name), 9)).await.unwrap();
        assert_eq!(page.chats.iter().map(|chat| &chat.id).collect::<Vec<_>>(), [&id], "{name:?}");
        let title = fermata_engine::store::page::title(&user("1", name));
        assert_eq!(page.chats[0].listing.title, title, "{name:?}");
    }
}

async fn instances_and_locks_with_odd_names_stay_apart(store: AnyStore) {
    for name in ODD {
        store.join(&instance(name)).await.unwrap();
    }
    let mut renewed = None;
    for name in ODD {
        renewed = Some(store.heartbeat(&instance(name)).await.unwrap());
    }
    assert_eq!(renewed.unwrap().alive.len(), ODD.len());
    let long = "x".repeat(5_000);
    for name in ODD.into_iter().chain([long.as_str()]) {
        let key = ResourceKey {
            named_by: fermata_tools::NamedBy::Settings,
            name: name.into(),
            owner: Some(Owner::new(name)),
        };
        assert!(store.try_lock(&key, &instance("a\0")).await.unwrap(), "{name:?}");
        assert!(!store.try_lock(&key, &instance("a")).await.unwrap(), "{name:?}");
    }
    store.leave(&instance("a\0")).await.unwrap();
    let alive = store.heartbeat(&instance("a")).await.unwrap().alive;
    assert_eq!(alive.len(), ODD.len() - 1);
    assert!(!alive.contains(&instance("a\0")));
}
