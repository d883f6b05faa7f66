//! Assistants: each answers in a chat with its own model, instructions and tools.

#![expect(clippy::unwrap_used, reason = "a failed setup fails the test")]

use std::{collections::BTreeSet, sync::Arc};

use async_trait::async_trait;
use fermata_engine::{
    Assistants, Model, Submission, SubmitError, SummaryError,
    assistants::{Assistant, Audience, ClientSystem, ModelChoice, ToolSelection},
    model::{ModelError, ModelEvent, ModelMessage, ModelRequest},
};
use fermata_protocol::{ChatBody, ChatId, PlanMode};
use fermata_tools::{Owner, Pattern, Principal};
use futures::stream::BoxStream;
use serde_json::{Map, Value, json};

use crate::world::{World, calls, output, text};

/// The scripted model of the world, under another name.
struct Named(&'static str, Arc<dyn Model>);

#[async_trait]
impl Model for Named {
    fn name(&self) -> &str {
        self.0
    }

    async fn stream(
        &self,
        mut request: ModelRequest,
    ) -> Result<BoxStream<'static, Result<ModelEvent, ModelError>>, ModelError> {
        // The requests of the world do not say which model they were for.
        request.settings.insert("asked".into(), self.0.into());
        self.1.stream(request).await
    }
}

fn choice(world: &World, name: &'static str, model: &'static str) -> ModelChoice {
    let model = Arc::new(Named(model, world.model.clone()));
    ModelChoice { name: name.into(), ..ModelChoice::of(model) }
}

/// Returns the assistant `default`, which says HOUSE, and `support`, which has two models.
fn assistants(world: &World) -> Assistants {
    let mut assistants = Assistants::answered_by(world.model.clone());
    assistants.default.instructions = Some("HOUSE".into());
    let support = Assistant {
        instructions: Some("SUPPORT".into()),
        other_models: vec![choice(world, "large", "large-1")],
        ..Assistant::answered_by(choice(world, "fast", "fast-1"))
    };
    assistants.others.insert("support".into(), support);
    assistants
}

async fn says(world: &World, text: &str, fermata: Value) -> Result<(), String> {
    let message = json!({"role": "user", "content": text});
    let posted = world.try_post(json!({"id": "c", "message": message, "fermata": fermata}), None).await;
    let reader = posted.map_err(|error| error.to_string())?.reader;
    crate::world::StreamReader::new(reader).read_to_end().await;
    Ok(())
}

/// Returns the texts of the system messages of the last request, and the model that was asked.
fn last_asked(world: &World) -> (Vec<String>, String) {
    let requests = world.model.requests.lock().unwrap();
    let request = requests.last().unwrap();
    let system = |message: &ModelMessage| match message {
        ModelMessage::System(text) => Some(text.clone()),
        ModelMessage::User(_) | ModelMessage::Assistant { .. } | ModelMessage::Tool { .. } => None,
    };
    let asked = request.settings.get("asked").and_then(Value::as_str).unwrap_or("script");
    (request.messages.iter().filter_map(system).collect(), asked.to_owned())
}

fn asked(system: &str, model: &str) -> (Vec<String>, String) {
    (vec![system.to_owned()], model.to_owned())
}

#[tokio::test(start_paused = true)]
async fn a_chat_goes_by_the_assistant_and_the_model_that_were_named_last() {
    let world = World::new();
    world.engine.set_assistants(assistants(&world));
    world.script((0..6).map(|_| text("ok")));
    for (fermata, expected) in [
        (json!({}), asked("HOUSE", "script")),
        (json!({"assistant": "support"}), asked("SUPPORT", "fast-1")),
        (json!({}), asked("SUPPORT", "fast-1")),
        (json!({"model": "large"}), asked("SUPPORT", "large-1")),
        (json!({}), asked("SUPPORT", "large-1")),
        (json!({"assistant": "default"}), asked("HOUSE", "script")),
    ] {
        says(&world, "hello", fermata.clone()).await.unwrap();
        assert_eq!(last_asked(&world), expected, "after {fermata}");
    }
    let world = world.restarted();
    world.engine.set_assistants(assistants(&world));
    world.script([text("ok"), text("ok")]);
    says(&world, "hello", json!({"assistant": "support"})).await.unwrap();
    assert_eq!(last_asked(&world), asked("SUPPORT", "large-1"), "the model is still known");
    world.engine.set_assistants(Assistants::answered_by(world.model.clone()));
    says(&world, "hello", json!({})).await.unwrap();
    assert_eq!(
        last_asked(&world),
        (vec![], "script".into()),
        "what the chat has chosen does not exist any more"
    );
}

#[tokio::test(start_paused = true)]
async fn who_does_not_exist_is_refused_with_those_who_do() {
    let world = World::new();
    world.engine.set_assistants(assistants(&world));
    for (fermata, expected) in [
        (
            json!({"assistant": "suport"}),
            "There is no assistant `suport` (fermata.assistant). There are: default, support.",
        ),
        (
            json!({"assistant": "support", "model": "huge"}),
            "The assistant has no model `huge` (fermata.model). It has: fast, large.",
        ),
        (json!({"model": "fast"}), "The assistant has no model `fast` (fermata.model). It has: script."),
    ] {
        assert_eq!(says(&world, "hello", fermata).await.unwrap_err(), expected);
    }
    assert_eq!(world.model_calls(), 0);
}

#[tokio::test(start_paused = true)]
async fn the_instructions_of_a_page_follow_the_assistants_or_are_ignored_or_refused() {
    let world = World::new();
    world.script([text("ok"), text("ok"), text("ok")]);
    let with_system = json!({"system": "PAGE", "id": "c", "messages": [
        {"role": "system", "content": "ROLE"},
        {"role": "user", "content": "hello"},
    ]});
    let mut assistants = assistants(&world);
    world.engine.set_assistants(assistants.clone());
    world.post(with_system.clone()).await.read_to_end().await;
    assert_eq!(last_asked(&world), asked("HOUSE\n\nPAGE\n\nROLE", "script"));

    assistants.default.client_system = ClientSystem::Ignore;
    world.engine.set_assistants(assistants.clone());
    let again = json!({"system": "PAGE", "id": "c", "message": {"role": "user", "content": "and now?"}});
    world.post(again.clone()).await.read_to_end().await;
    assert_eq!(last_asked(&world), asked("HOUSE", "script"));

    assistants.default.client_system = ClientSystem::Refuse;
    world.engine.set_assistants(assistants);
    let before = world.model_calls();
    for refused in [with_system, again] {
        let Err(error) = world.try_post(refused, None).await else { panic!("it was accepted") };
        assert!(error.to_string().contains("takes no instructions from pages"), "{error}");
    }
    assert_eq!(world.model_calls(), before);
    says(&world, "without any", json!({})).await.unwrap();
}

#[tokio::test(start_paused = true)]
async fn a_run_that_is_open_goes_on_with_the_newest_instructions() {
    let world = World::new();
    let mut assistants = assistants(&world);
    world.engine.set_assistants(assistants.clone());
    world.script([calls(&[("where", json!({}))]), text("Bern.")]);
    let mut stream = world.post_text("where am I?").await;
    let call = stream.read_until("tool-input-available").await;
    assistants.default.instructions = Some("NEW".into());
    world.engine.set_assistants(assistants);
    world.answer(output(&call, json!("Bern"))).await.unwrap();
    stream.read_to_end().await;
    assert_eq!(last_asked(&world), asked("NEW", "script"));
}

#[tokio::test(start_paused = true)]
async fn an_assistant_has_its_own_tools_and_a_page_may_bring_the_others() {
    let world = World::new();
    let mut assistants = assistants(&world);
    let support = assistants.others.get_mut("support").unwrap();
    support.tools = ToolSelection { names: Some(vec![Pattern::new("n*")]), without: BTreeSet::new() };
    assistants.default.tools = ToolSelection { names: None, without: ["note".to_owned()].into() };
    world.engine.set_assistants(assistants);
    let tools = |assistant| {
        let tools = world.engine.tools(&world.owner.clone().into(), assistant);
        tools.into_iter().map(|tool| tool.name).collect::<Vec<_>>()
    };
    assert_eq!(tools(None), ["run"]);
    assert_eq!(tools(Some("support")), ["note"]);

    world.script([calls(&[("run", json!({}))]), text("there is none")]);
    let message = json!({"role": "user", "content": "run"});
    let mut stream = world.post(json!({"message": message, "fermata": {"assistant": "support"}})).await;
    assert!(stream.read_to_end().await.contains("tool-input-error"), "{}", stream.types());

    world.script([calls(&[("run", json!({}))]), text("the page has run it")]);
    let browser = json!({"run": {"parameters": {"type": "object"}}});
    let mut stream = world
        .post(json!({"id": "d", "message": message, "tools": browser, "fermata": {"assistant": "support"}}))
        .await;
    stream.read_until("tool-input-available").await;
}

#[tokio::test(start_paused = true)]
async fn the_settings_of_a_model_are_defaults_within_its_limits() {
    let world = World::new();
    let mut assistants = assistants(&world);
    let map = |value: Value| value.as_object().cloned().unwrap();
    assistants.default.model.settings = map(json!({"temperature": 0.25, "reasoningEffort": "low"}));
    assistants.default.model.limits = map(json!({"maxOutputTokens": 100}));
    world.engine.set_assistants(assistants);
    world.script([text("ok"), text("ok")]);
    let settings = |world: &World| -> Map<String, Value> {
        world.model.requests.lock().unwrap().last().unwrap().settings.clone()
    };
    says(&world, "hello", json!({})).await.unwrap();
    let expected = json!({"temperature": 0.25, "reasoningEffort": "low", "maxOutputTokens": 100});
    assert_eq!(settings(&world), map(expected));
    let posted = json!({"temperature": 0.75, "maxOutputTokens": 1000});
    let message = json!({"role": "user", "content": "and now?"});
    world.post(json!({"id": "c", "message": message, "callSettings": posted})).await.read_to_end().await;
    let expected = json!({"temperature": 0.75, "reasoningEffort": "low", "maxOutputTokens": 100});
    assert_eq!(settings(&world), map(expected));
}

/// Returns the assistants with one more, `admin`, for members of `staff-*` and for `boss`.
fn assistants_with_admin(world: &World) -> Assistants {
    let mut assistants = assistants(world);
    let audience = Audience { owners: vec![Pattern::new("boss")], groups: vec![Pattern::new("staff-*")] };
    let admin = Assistant {
        instructions: Some("ADMIN".into()),
        audience: Some(audience),
        ..Assistant::answered_by(choice(world, "large", "large-1"))
    };
    assistants.others.insert("admin".into(), admin);
    assistants
}

async fn posts(
    world: &World,
    chat: &str,
    user: &str,
    groups: &[&str],
    fermata: Value,
) -> Result<(), SubmitError> {
    let message = json!({"role": "user", "content": "hello"});
    let body = ChatBody::parse(json!({"id": chat, "message": message, "fermata": fermata})).unwrap();
    let groups = groups.iter().map(|group| (*group).to_owned()).collect();
    let submission = Submission {
        owner: Owner::new(user),
        body,
        hold: None,
        address: None,
        groups,
        retries: None,
        traceparent: None,
    };
    let following = world.engine.submit(submission).await?;
    crate::world::StreamReader::new(following.reader).read_to_end().await;
    Ok(())
}

#[tokio::test(start_paused = true)]
async fn an_assistant_for_some_does_not_exist_for_others() {
    let world = World::new();
    world.engine.set_assistants(assistants_with_admin(&world));
    world.script((0..4).map(|_| text("ok")));
    for (chat, user, groups) in
        [("a", "boss", &[][..]), ("b", "ada", &["x", "staff-2"]), ("c", "boss", &["staff-1"])]
    {
        posts(&world, chat, user, groups, json!({"assistant": "admin"})).await.unwrap();
        assert_eq!(last_asked(&world), asked("ADMIN", "large-1"));
    }
    let before = world.model_calls();
    for name in ["admin", "admni"] {
        for (user, groups) in
            [("ada", &[][..]), ("ada", &["staff", "boss"]), ("staff-1", &[]), ("bos", &[""])]
        {
            let refused = posts(&world, "d", user, groups, json!({"assistant": name})).await.unwrap_err();
            let expected =
                format!("There is no assistant `{name}` (fermata.assistant). There are: default, support.");
            assert!(
                matches!(&refused, SubmitError::NoSuchAssistant(words) if *words == expected),
                "{refused:?}"
            );
        }
    }
    assert_eq!(world.model_calls(), before);
    let names = |user: &str, groups: &[&str]| {
        let groups = groups.iter().map(|group| (*group).to_owned()).collect();
        let principal = Principal { groups, ..Owner::new(user).into() };
        let assistants = world.engine.assistants();
        assistants.iter_for(&principal).map(|(name, _)| name.to_owned()).collect::<Vec<_>>()
    };
    assert_eq!(names("ada", &[]), ["default", "support"]);
    assert_eq!(names("ada", &["staff-1"]), ["default", "admin", "support"]);
}

#[tokio::test(start_paused = true)]
async fn a_chat_whose_assistant_is_not_for_its_owner_any_more_needs_another_one() {
    let world = World::new();
    world.engine.set_assistants(assistants_with_admin(&world));
    world.script((0..2).map(|_| text("ok")));
    posts(&world, "c", "ada", &["staff-1"], json!({"assistant": "admin"})).await.unwrap();
    let before = world.model_calls();
    let refused = posts(&world, "c", "ada", &[], json!({})).await.unwrap_err();
    assert!(matches!(refused, SubmitError::NoSuchAssistant(_)), "{refused:?}");
    let principal = Principal::from(Owner::new("ada"));
    let compacted = world.engine.compact(&principal, &ChatId::new("c"), None).await;
    assert!(matches!(compacted, Err(SummaryError::NoSuchAssistant(_))), "{compacted:?}");
    assert_eq!(world.model_calls(), before);
    posts(&world, "c", "ada", &[], json!({"assistant": "default"})).await.unwrap();
    assert_eq!(last_asked(&world), asked("HOUSE", "script"));
}

#[tokio::test(start_paused = true)]
async fn an_assistant_for_nobody_may_be_the_default_one() {
    let world = World::new();
    let mut assistants = assistants(&world);
    assistants.default.audience = Some(Audience::default());
    world.engine.set_assistants(assistants);
    world.script([text("ok")]);
    let refused = posts(&world, "c", "ada", &["any"], json!({})).await.unwrap_err();
    assert_eq!(
        refused.to_string(),
        "There is no assistant `default` (fermata.assistant). There are: support."
    );
    posts(&world, "c", "ada", &[], json!({"assistant": "support"})).await.unwrap();
}

#[tokio::test(start_paused = true)]
async fn a_post_sets_only_options_that_pass_and_the_operators_stay() {
    let world = World::new();
    let mut assistants = assistants(&world);
    let settings = json!({"providerOptions": {"openai": {"store": false}}});
    assistants.default.model.settings = settings.as_object().unwrap().clone();
    assistants.default.model.pass = vec!["store".into()];
    world.engine.set_assistants(assistants);
    let body = |options: Value| json!({"id": "c", "message": {"role": "user", "content": "hi"}, "callSettings": {"providerOptions": {"openai": options}}});
    let refused = world.try_post(body(json!({"models": ["other"]})), None).await.err().unwrap();
    assert!(refused.to_string().contains("openai.models` is no option that a post may set"), "{refused}");
    assert_eq!(world.model_calls(), 0);
    world.script([text("ok")]);
    world.post(body(json!({"store": true, "serviceTier": "flex"}))).await.read_to_end().await;
    let settings = world.model.requests.lock().unwrap().last().unwrap().settings.clone();
    assert_eq!(settings["providerOptions"], json!({"openai": {"service_tier": "flex", "store": false}}));
}

#[tokio::test(start_paused = true)]
async fn a_post_makes_plans_only_stricter() {
    for (of_assistant, of_post, expected) in [
        (PlanMode::Ask, "off", PlanMode::Ask),
        (PlanMode::Ask, "auto", PlanMode::Ask),
        (PlanMode::Auto, "off", PlanMode::Auto),
        (PlanMode::Auto, "ask", PlanMode::Ask),
        (PlanMode::Off, "auto", PlanMode::Auto),
        (PlanMode::Off, "off", PlanMode::Off),
    ] {
        let world = World::new();
        let mut assistants = assistants(&world);
        assistants.default.plan = of_assistant;
        world.engine.set_assistants(assistants);
        let parked = json!({"id": "c", "message": {"role": "user", "content": "hi"}, "fermata": {"plan": of_post},
            "tools": {"t": {"parameters": {"type": "object"}}}});
        world.script([calls(&[("t", json!({}))])]);
        world.post(parked).await.read_until("tool-input-available").await;
        let settings = world.open_run().unwrap().settings;
        assert_eq!(settings["plan"], json!(expected), "{of_assistant:?} and {of_post}");
    }
}
