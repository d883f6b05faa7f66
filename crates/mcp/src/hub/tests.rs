//! Hubs whose servers live in the same process, at the other end of a pipe, so that their time can be paused.

use std::{
    collections::VecDeque,
    future::pending,
    pin::pin,
    sync::atomic::{AtomicUsize, Ordering},
};

use async_trait::async_trait;
use fermata_protocol::{ChatId, ToolCallId};
use fermata_tools::{
    CallContext, Elicitation, ElicitationReply, ErrorPolicy, ErrorType, Execution, Owner, ToolError, ToolHost,
};
use futures::FutureExt;
use rmcp::{
    ErrorData, RoleServer, ServerHandler, ServiceExt,
    model::{
        CallToolRequestParams, CallToolResponse, CallToolResult, ContentBlock, CustomRequest, ElicitRequest,
        ElicitRequestParams, ElicitationSchema, ErrorCode, JsonObject, ListToolsResult,
        PaginatedRequestParams, ServerCapabilities, ServerRequest,
    },
    service::{RequestContext, RunningService, ServiceError},
    transport::async_rw::AsyncRwTransport,
};
use serde_json::{Value, json};
use tokio::{
    io::{duplex, split},
    sync::{Notify, mpsc, oneshot, watch},
    task::JoinHandle,
    time::{Instant, advance, sleep},
};

mod sessions;

use super::*;
use crate::{
    client::Client, config::Transport, failure::ConnectError, link::Link, supervisor::LiveConnection,
};

/// What happens at the next attempts to connect; after them each one succeeds.
#[derive(Clone, Copy)]
enum Attempt {
    Fails,
    /// There is somebody, who says nothing.
    Mute,
}

/// A way to servers in this process.
struct Pipe {
    tools: Arc<Mutex<Vec<&'static str>>>,
    attempts: Mutex<VecDeque<Attempt>>,
    /// When connecting was tried.
    tried: mpsc::UnboundedSender<Instant>,
    /// The server's end of each connection.
    connected: mpsc::UnboundedSender<RunningService<RoleServer, Scripted>>,
    /// What the servers notice.
    noticed: mpsc::UnboundedSender<String>,
    /// Lets one call go on that waits for it.
    go: Arc<Notify>,
    /// How many connections there were.
    sessions: AtomicUsize,
    /// What nobody talks through, but nobody closes.
    mute: Mutex<Vec<tokio::io::DuplexStream>>,
}

/// A server whose tools do what their names say.
struct Scripted {
    /// Which connection it is at the other end of, counted from 1.
    session: usize,
    tools: Arc<Mutex<Vec<&'static str>>>,
    noticed: mpsc::UnboundedSender<String>,
    go: Arc<Notify>,
}

/// A hub with one server, `s`, and all that can be seen of it.
struct World {
    hub: Hub,
    pipe: Arc<Pipe>,
    tools: watch::Receiver<Vec<Arc<dyn Tool>>>,
    changes: Arc<AtomicUsize>,
    tried: mpsc::UnboundedReceiver<Instant>,
    connected: mpsc::UnboundedReceiver<RunningService<RoleServer, Scripted>>,
    noticed: mpsc::UnboundedReceiver<String>,
}

/// A person who agrees to everything.
struct Agreeing;

/// A person who is asked and says nothing.
struct Silent(mpsc::UnboundedSender<Elicitation>);

/// A person who takes their time over each question.
struct Thoughtful(mpsc::UnboundedSender<Asked>);

/// A question that a person thinks about.
struct Asked {
    call: ToolCallId,
    elicitation: Elicitation,
    reply: oneshot::Sender<ElicitationReply>,
}

#[async_trait]
impl Connector for Pipe {
    async fn connect(&self, client: Client, link: &Link) -> Result<LiveConnection, ConnectError> {
        let _ = self.tried.send(Instant::now());
        let attempt = self.attempts.lock().unwrap().pop_front();
        let (ours, theirs) = duplex(64 * 1024);
        match attempt {
            Some(Attempt::Fails) => return Err(ConnectError::Config("it refuses".into())),
            Some(Attempt::Mute) => self.mute.lock().unwrap().push(theirs),
            None => {
                let (tools, noticed, go) = (self.tools.clone(), self.noticed.clone(), self.go.clone());
                let session = self.sessions.fetch_add(1, Ordering::SeqCst) + 1;
                let server = Scripted { session, tools, noticed, go };
                let connected = self.connected.clone();
                tokio::spawn(async move {
                    let _ = connected.send(server.serve(theirs).await.unwrap());
                });
            }
        }
        let (read, write) = split(ours);
        LiveConnection::handshake(client, AsyncRwTransport::new_client(read, write), link).await
    }
}

impl ServerHandler for Scripted {
    fn get_info(&self) -> rmcp::model::ServerConfig {
        let capabilities = ServerCapabilities::builder().enable_tools().enable_tool_list_changed().build();
        rmcp::model::ServerConfig::new(capabilities)
    }

    async fn list_tools(
        &self,
        _: Option<PaginatedRequestParams>,
        _: RequestContext<RoleServer>,
    ) -> Result<ListToolsResult, ErrorData> {
        let tools = self.tools.lock().unwrap().clone();
        let schema = JsonObject::from_iter([("type".to_owned(), "object".into())]);
        let tool = |name| rmcp::model::Tool::new(name, "", schema.clone());
        Ok(ListToolsResult::with_all_items(tools.into_iter().map(tool).collect()))
    }

    async fn call_tool(
        &self,
        request: CallToolRequestParams,
        context: RequestContext<RoleServer>,
    ) -> Result<CallToolResponse, ErrorData> {
        let _ = self.noticed.send(format!("called {}", request.name));
        let text = match request.name.as_ref() {
            "wait" => {
                context.ct.cancelled().await;
                let _ = self.noticed.send("cancelled".into());
                String::new()
            }
            "ask" => {
                let answer = ask(&context).await;
                let _ = self.noticed.send(answer.clone());
                answer
            }
            "ask later" => {
                self.go.notified().await;
                let answer = ask(&context).await;
                let _ = self.noticed.send(answer.clone());
                answer
            }
            "which" => format!("session {}", self.session),
            "ask strangely" => format!("{:?}", context.peer.send_request(strange_question("form")).await),
            "ask for a visit" => format!("{:?}", context.peer.send_request(strange_question("url")).await),
            "ask for roots" => match context.peer.send_request(roots()).await {
                Err(ServiceError::McpError(error)) if error.code == ErrorCode::METHOD_NOT_FOUND => {
                    "refused".into()
                }
                other => format!("{other:?}"),
            },
            "refuse" => return Err(ErrorData::invalid_params("no such place", None)),
            _ => "done".into(),
        };
        Ok(CallToolResult::success(vec![ContentBlock::text(text)]).into())
    }
}

async fn ask(context: &RequestContext<RoleServer>) -> String {
    let question = ElicitRequestParams::FormElicitationParams {
        meta: None,
        message: "Which one?".into(),
        requested_schema: ElicitationSchema::builder().build().unwrap(),
    };
    let request = ServerRequest::ElicitRequest(ElicitRequest::new(question));
    format!("{:?}", context.peer.send_request(request).await)
}

/// A question that the library does not understand: its schema goes beyond what the protocol allows.
fn strange_question(mode: &str) -> ServerRequest {
    let schema = json!({"type": "object", "properties": {"where": {"type": "object"}}});
    let params = json!({"mode": mode, "message": "Where?", "requestedSchema": schema});
    ServerRequest::CustomRequest(CustomRequest::new("elicitation/create", Some(params)))
}

fn roots() -> ServerRequest {
    ServerRequest::ListRootsRequest(Default::default())
}

#[async_trait]
impl ToolHost for Silent {
    fn report(&self, _: &ToolCallId, _: Value) {}

    async fn elicit(&self, _: &ToolCallId, elicitation: Elicitation) -> ElicitationReply {
        let _ = self.0.send(elicitation);
        pending().await
    }
}

#[async_trait]
impl ToolHost for Thoughtful {
    fn report(&self, _: &ToolCallId, _: Value) {}

    async fn elicit(&self, call: &ToolCallId, elicitation: Elicitation) -> ElicitationReply {
        let (reply, answer) = oneshot::channel();
        let _ = self.0.send(Asked { call: call.clone(), elicitation, reply });
        answer.await.unwrap_or(ElicitationReply::Cancel)
    }
}

#[async_trait]
impl ToolHost for Agreeing {
    fn report(&self, _: &ToolCallId, _: Value) {}

    async fn elicit(&self, _: &ToolCallId, elicitation: Elicitation) -> ElicitationReply {
        ElicitationReply::Accept(json!({"asked": elicitation.message, "for": elicitation.requested_schema}))
    }
}

impl World {
    fn new<const N: usize, const M: usize>(tools: [&'static str; N], attempts: [Attempt; M]) -> Self {
        let (tried, tries) = mpsc::unbounded_channel();
        let (connected, connections) = mpsc::unbounded_channel();
        let (noticed, notices) = mpsc::unbounded_channel();
        let pipe = Arc::new(Pipe {
            tools: Arc::new(Mutex::new(tools.into())),
            attempts: Mutex::new(attempts.into()),
            tried,
            connected,
            noticed,
            go: Arc::default(),
            sessions: AtomicUsize::new(0),
            mute: Mutex::default(),
        });
        let (told, tools) = watch::channel(Vec::new());
        let changes = Arc::new(AtomicUsize::new(0));
        let counted = changes.clone();
        let on_change = move |tools| {
            counted.fetch_add(1, Ordering::SeqCst);
            told.send_replace(tools);
        };
        let hub = Hub { catalog: Arc::new(ToolCatalog::new(on_change)), state: Mutex::default() };
        let world =
            Self { hub, pipe, tools, changes, tried: tries, connected: connections, noticed: notices };
        world.set(["s"]);
        world
    }

    fn set<const N: usize>(&self, servers: [&str; N]) {
        self.set_at("", servers);
    }

    /// The same with another configuration.
    fn set_at<const N: usize>(&self, url: &str, servers: [&str; N]) {
        self.set_to(&at(url), servers);
    }

    fn set_to<const N: usize>(&self, config: &ServerConfig, servers: [&str; N]) {
        let servers = servers.map(|name| (name.to_owned(), config.clone())).into();
        self.hub.set(servers, |_, _| self.pipe.clone());
    }

    async fn ready(&self) {
        self.hub.ready(Duration::from_secs(3600)).await;
    }

    fn names(&self) -> Vec<String> {
        self.tools.borrow().iter().map(|tool| tool.spec().name).collect()
    }

    fn tool(&self, name: &str) -> Arc<dyn Tool> {
        self.tools.borrow().iter().find(|tool| tool.spec().name == name).unwrap().clone()
    }

    async fn call(&self, name: &str) -> Result<Value, ToolError> {
        self.tool(name).call(json!({}), context("chat")).await
    }
}

/// Calls of one chat, and what its person is asked.
struct Chat {
    name: &'static str,
    person: Arc<Thoughtful>,
    asked: mpsc::UnboundedReceiver<Asked>,
}

/// A call that runs.
struct Begun {
    cancelled: CancellationToken,
    outcome: JoinHandle<Result<Value, ToolError>>,
}

impl Chat {
    fn new() -> Self {
        Self::named("chat")
    }

    fn named(name: &'static str) -> Self {
        let (asks, asked) = mpsc::unbounded_channel();
        Self { name, person: Arc::new(Thoughtful(asks)), asked }
    }

    /// Begins a call that may take ten seconds, and waits until the server has it.
    async fn begin(&self, world: &mut World, tool: &str, id: &str) -> Begun {
        let begun = self.call(world, tool, id);
        assert!(world.noticed.recv().await.unwrap().starts_with("called "));
        begun
    }

    /// The same without waiting.
    fn call(&self, world: &World, tool: &str, id: &str) -> Begun {
        let context = CallContext::new(Owner::anyone(), ChatId::new(self.name), ToolCallId::new(id));
        let cancelled = context.cancelled.clone();
        let execution = Execution {
            tool: world.tool(tool),
            input: json!({}),
            context: context.with_host(self.person.clone()),
            timeout: Duration::from_secs(10),
            retries: 0,
            error_policy: ErrorPolicy::default(),
        };
        let outcome = tokio::spawn(execution.outcome());
        Begun { cancelled, outcome }
    }
}

fn at(url: &str) -> ServerConfig {
    ServerConfig::new(Transport::Http { url: url.to_owned(), headers: BTreeMap::new() })
}

fn context(chat: &str) -> CallContext {
    CallContext::new(Owner::anyone(), ChatId::new(chat), ToolCallId::new("call"))
}

fn text(output: &Value) -> &str {
    output["content"][0]["text"].as_str().unwrap()
}

#[tokio::test]
async fn a_change_of_the_list_is_followed() {
    let mut world = World::new(["old", "kept"], []);
    world.ready().await;
    assert_eq!(world.names(), ["s__old", "s__kept"]);
    let (server, old) = (world.connected.recv().await.unwrap(), world.tool("s__old"));
    *world.pipe.tools.lock().unwrap() = vec!["kept", "new"];
    server.peer().notify_tool_list_changed().await.unwrap();
    world.tools.wait_for(|tools| tools.iter().any(|tool| tool.spec().name == "s__new")).await.unwrap();
    assert_eq!(world.names(), ["s__kept", "s__new"]);
    assert_eq!(text(&world.call("s__new").await.unwrap()), "done");
    let error = old.call(json!({}), context("chat")).await.unwrap_err();
    assert_eq!(error.text, "The MCP server s no longer has the tool old.");
}

#[tokio::test]
async fn a_server_is_told_that_a_call_is_cancelled() {
    let mut world = World::new(["wait"], []);
    world.ready().await;
    let (tool, context) = (world.tool("s__wait"), context("chat"));
    let cancelled = context.cancelled.clone();
    let call = tokio::spawn(async move { tool.call(json!({}), context).await });
    assert_eq!(world.noticed.recv().await.unwrap(), "called wait");
    cancelled.cancel();
    assert_eq!(call.await.unwrap().unwrap_err().error_type, ErrorType::Cancelled);
    assert_eq!(world.noticed.recv().await.unwrap(), "cancelled");
}

#[tokio::test]
async fn a_server_is_told_that_a_call_is_dropped() {
    let mut world = World::new(["wait"], []);
    world.ready().await;
    let tool = world.tool("s__wait");
    let call = tokio::spawn(async move { tool.call(json!({}), context("chat")).await });
    assert_eq!(world.noticed.recv().await.unwrap(), "called wait");
    call.abort();
    assert_eq!(world.noticed.recv().await.unwrap(), "cancelled");
}

#[tokio::test]
async fn a_server_is_told_by_a_task_that_has_used_up_its_turn() {
    let mut world = World::new(["wait"], []);
    world.ready().await;
    let tool = world.tool("s__wait");
    let mut call = tool.call(json!({}), context("chat"));
    assert!(call.as_mut().now_or_never().is_none());
    assert_eq!(world.noticed.recv().await.unwrap(), "called wait");
    let mut budget = pin!(async {
        loop {
            tokio::task::consume_budget().await;
        }
    });
    assert!(budget.as_mut().now_or_never().is_none());
    drop(call);
    assert_eq!(world.noticed.recv().await.unwrap(), "cancelled");
}

#[tokio::test]
async fn what_the_server_says_about_bad_input_reaches_the_model() {
    let world = World::new(["refuse"], []);
    world.ready().await;
    let error = world.call("s__refuse").await.unwrap_err();
    assert_eq!(error.error_type, ErrorType::InvalidFormat);
    assert_eq!(error.text, "The MCP server s refused the call: no such place");
}

#[tokio::test]
async fn a_server_may_not_ask_for_anything_else() {
    let world = World::new(["ask for roots"], []);
    world.ready().await;
    assert_eq!(text(&world.call("s__ask_for_roots").await.unwrap()), "refused");
}

#[tokio::test]
async fn a_question_that_the_library_does_not_understand_is_still_asked() {
    let world = World::new(["ask strangely", "ask for a visit"], []);
    world.ready().await;
    let call = async |name| {
        let context = context("chat").with_host(Arc::new(Agreeing));
        world.tool(name).call(json!({}), context).await.unwrap()
    };
    let output = call("s__ask_strangely").await;
    let answer = text(&output);
    assert!(answer.contains("Accept") && answer.contains("Where?") && answer.contains("where"), "{answer}");
    let output = call("s__ask_for_a_visit").await;
    assert!(text(&output).contains("only elicitation in form mode is supported"), "{output}");
}

#[tokio::test]
async fn the_question_of_a_call_that_ends_is_answered_with_cancel() {
    let mut world = World::new(["ask"], []);
    world.ready().await;
    let (questions, mut asked) = mpsc::unbounded_channel();
    let (tool, context) = (world.tool("s__ask"), context("chat").with_host(Arc::new(Silent(questions))));
    let cancelled = context.cancelled.clone();
    let call = tokio::spawn(async move { tool.call(json!({}), context).await });
    asked.recv().await.unwrap();
    cancelled.cancel();
    assert_eq!(call.await.unwrap().unwrap_err().error_type, ErrorType::Cancelled);
    assert!(asked.recv().await.is_none(), "the question is withdrawn");
    assert_eq!(world.noticed.recv().await.unwrap(), "called ask");
    let answer = world.noticed.recv().await.unwrap();
    assert!(answer.contains("action: Cancel"), "{answer}");
}

#[tokio::test(start_paused = true)]
async fn a_call_does_not_wait_for_a_hub_that_is_gone() {
    let mut world = World::new(["work"], []);
    world.ready().await;
    let (tool, server) = (world.tool("s__work"), world.connected.recv().await.unwrap());
    world.pipe.attempts.lock().unwrap().extend([Attempt::Fails; 100]);
    server.cancel().await.unwrap();
    let call = tokio::spawn(async move { tool.call(json!({}), context("chat")).await });
    for _ in 0..5 {
        world.tried.recv().await.unwrap();
    }
    assert!(!call.is_finished());
    drop(world);
    assert_eq!(call.await.unwrap().unwrap_err().text, "The MCP server s is no longer configured.");
}

#[tokio::test(start_paused = true)]
async fn a_lost_connection_ends_the_call_and_its_question_at_once() {
    let mut world = World::new(["ask"], []);
    world.ready().await;
    let server = world.connected.recv().await.unwrap();
    let (questions, mut asked) = mpsc::unbounded_channel();
    let (tool, context) = (world.tool("s__ask"), context("chat").with_host(Arc::new(Silent(questions))));
    let call = tokio::spawn(async move { tool.call(json!({}), context).await });
    assert_eq!(asked.recv().await.unwrap().message, "Which one?");
    let since = Instant::now();
    server.cancellation_token().cancel();
    let error = call.await.unwrap().unwrap_err();
    assert_eq!(error.error_type, ErrorType::Network);
    // The server itself winds up for two seconds, as somebody waits for its answer. We do not.
    assert!(since.elapsed() <= Duration::from_secs(2), "{:?}", since.elapsed());
    assert!(asked.recv().await.is_none(), "nobody is asked any more");
}

#[tokio::test(start_paused = true)]
async fn a_server_that_fails_is_tried_again_after_longer_and_longer_pauses() {
    let mut world = World::new(["work"], [Attempt::Fails; 10]);
    let mut tries = Vec::new();
    for _ in 0..11 {
        tries.push(world.tried.recv().await.unwrap());
    }
    let pauses: Vec<u128> = tries.windows(2).map(|pair| (pair[1] - pair[0]).as_millis()).collect();
    assert_eq!(pauses, [200, 400, 800, 1_600, 3_200, 6_400, 12_800, 25_600, 30_000, 30_000]);
}

#[tokio::test(start_paused = true)]
async fn a_good_connection_makes_the_next_pause_short_again() {
    let mut world = World::new(["work"], [Attempt::Fails; 5]);
    let server = world.connected.recv().await.unwrap();
    while world.tried.try_recv().is_ok() {}
    advance(Duration::from_secs(31)).await;
    let lost = Instant::now();
    server.cancel().await.unwrap();
    assert_eq!(world.tried.recv().await.unwrap() - lost, Duration::from_millis(200));
}

#[tokio::test(start_paused = true)]
async fn a_call_waits_for_a_server_that_is_down() {
    let mut world = World::new(["work"], []);
    world.ready().await;
    *world.pipe.attempts.lock().unwrap() = [Attempt::Fails; 4].into();
    world.connected.recv().await.unwrap().cancel().await.unwrap();
    assert_eq!(world.names(), ["s__work"], "its tools stay while it is down");
    assert_eq!(text(&world.call("s__work").await.unwrap()), "done");
    assert_eq!(world.changes.load(Ordering::SeqCst), 1, "the same tools are no change");
}

#[tokio::test(start_paused = true)]
async fn a_server_that_says_nothing_is_given_up() {
    let mut world = World::new(["work"], [Attempt::Mute]);
    let since = world.tried.recv().await.unwrap();
    world.hub.ready(Duration::from_secs(5)).await;
    assert_eq!(since.elapsed(), Duration::from_secs(5), "who is late is not waited for");
    assert_eq!(world.tried.recv().await.unwrap() - since, Duration::from_millis(60_200));
    world.connected.recv().await.unwrap();
}

#[tokio::test]
async fn a_removed_server_takes_its_tools_and_calls_with_it() {
    let mut world = World::new(["wait"], []);
    world.ready().await;
    let tool = world.tool("s__wait");
    let call = tokio::spawn(async move { tool.call(json!({}), context("chat")).await });
    assert_eq!(world.noticed.recv().await.unwrap(), "called wait");
    world.set([]);
    assert!(world.names().is_empty());
    assert_eq!(call.await.unwrap().unwrap_err().error_type, ErrorType::Network);
    world.set(["t"]);
    world.ready().await;
    assert_eq!(world.names(), ["t__wait"]);
}

#[tokio::test]
async fn after_the_shutdown_nothing_is_started() {
    let mut world = World::new(["work"], []);
    world.ready().await;
    world.tried.recv().await.unwrap();
    world.hub.shutdown().await;
    world.set(["t"]);
    world.ready().await;
    assert!(world.tried.try_recv().is_err());
}

#[tokio::test(start_paused = true)]
async fn a_question_outlives_the_call_that_it_was_put_through_while_another_may_have_asked_it() {
    let mut world = World::new(["ask later", "wait"], []);
    world.ready().await;
    let mut chat = Chat::new();
    let asking = chat.begin(&mut world, "s__ask_later", "a").await;
    let waiting = chat.begin(&mut world, "s__wait", "b").await;
    world.pipe.go.notify_one();
    let asked = chat.asked.recv().await.unwrap();
    assert_eq!((asked.call.as_str(), asked.elicitation.other_candidates), ("b", vec![ToolCallId::new("a")]));
    waiting.cancelled.cancel();
    assert_eq!(waiting.outcome.await.unwrap().unwrap_err().error_type, ErrorType::Cancelled);
    assert!(asked.reply.send(ElicitationReply::Accept(json!({"one": 1}))).is_ok(), "somebody still asks");
    let output = asking.outcome.await.unwrap().unwrap();
    assert!(text(&output).contains("action: Accept"), "{output}");
}

#[tokio::test(start_paused = true)]
async fn two_questions_at_once_live_until_the_last_call_that_may_have_asked_them_has_ended() {
    let mut world = World::new(["ask later"], []);
    world.ready().await;
    let mut chat = Chat::new();
    let one = chat.begin(&mut world, "s__ask_later", "a").await;
    let two = chat.begin(&mut world, "s__ask_later", "b").await;
    world.pipe.go.notify_waiters();
    let (first, mut second) = (chat.asked.recv().await.unwrap(), chat.asked.recv().await.unwrap());
    two.cancelled.cancel();
    assert_eq!(two.outcome.await.unwrap().unwrap_err().error_type, ErrorType::Cancelled);
    assert!(first.reply.send(ElicitationReply::Accept(json!({"one": 1}))).is_ok(), "somebody still asks");
    let answered = world.noticed.recv().await.unwrap();
    assert!(answered.contains("action: Accept"), "{answered}");
    one.cancelled.cancel();
    one.outcome.await.unwrap().ok();
    second.reply.closed().await;
    let answered = world.noticed.recv().await.unwrap();
    assert!(answered.contains("action: Cancel"), "{answered}");
}

#[tokio::test(start_paused = true)]
async fn no_call_that_may_have_asked_runs_out_of_time_while_the_person_thinks() {
    let mut world = World::new(["ask later", "wait"], []);
    world.ready().await;
    let mut chat = Chat::new();
    let asking = chat.begin(&mut world, "s__ask_later", "a").await;
    let waiting = chat.begin(&mut world, "s__wait", "b").await;
    world.pipe.go.notify_one();
    let asked = chat.asked.recv().await.unwrap();
    sleep(Duration::from_secs(3600)).await;
    asked.reply.send(ElicitationReply::Decline).unwrap();
    let output = asking.outcome.await.unwrap().unwrap();
    assert!(text(&output).contains("action: Decline"), "{output}");
    let error = waiting.outcome.await.unwrap().unwrap_err();
    assert_eq!(error.error_type, ErrorType::Timeout, "its time goes on after the answer");
}

#[tokio::test(start_paused = true)]
async fn a_server_that_is_replaced_keeps_its_tools_until_the_new_one_has_listed() {
    let mut world = World::new(["work", "old"], []);
    world.ready().await;
    let held = world.tool("s__work");
    *world.pipe.attempts.lock().unwrap() = [Attempt::Fails; 4].into();
    *world.pipe.tools.lock().unwrap() = vec!["work", "new"];
    world.set_at("elsewhere", ["s"]);
    assert_eq!(world.names(), ["s__work", "s__old"]);
    let listed = world.tool("s__work");
    assert_eq!(text(&held.call(json!({}), context("chat")).await.unwrap()), "done");
    assert_eq!(text(&listed.call(json!({}), context("chat")).await.unwrap()), "done");
    world.tools.wait_for(|tools| tools.iter().any(|tool| tool.spec().name == "s__new")).await.unwrap();
    assert_eq!(world.names(), ["s__work", "s__new"]);
}

#[tokio::test(start_paused = true)]
async fn a_call_that_waits_for_a_server_goes_to_the_one_that_replaces_it() {
    let mut world = World::new(["work"], []);
    world.ready().await;
    world.pipe.attempts.lock().unwrap().extend([Attempt::Fails; 100]);
    world.connected.recv().await.unwrap().cancel().await.unwrap();
    let tool = world.tool("s__work");
    let call = tokio::spawn(async move { tool.call(json!({}), context("chat")).await });
    for _ in 0..5 {
        world.tried.recv().await.unwrap();
    }
    assert!(!call.is_finished());
    world.set_at("elsewhere", ["s"]);
    world.pipe.attempts.lock().unwrap().clear();
    assert_eq!(text(&call.await.unwrap().unwrap()), "done");
}

#[tokio::test]
async fn a_call_that_runs_fails_when_its_server_is_replaced() {
    let mut world = World::new(["wait"], []);
    world.ready().await;
    let tool = world.tool("s__wait");
    let call = tokio::spawn(async move { tool.call(json!({}), context("chat")).await });
    assert_eq!(world.noticed.recv().await.unwrap(), "called wait");
    world.set_at("elsewhere", ["s"]);
    assert_eq!(call.await.unwrap().unwrap_err().error_type, ErrorType::Network);
}

#[tokio::test]
async fn a_tool_works_for_as_long_as_there_is_a_server_of_that_name() {
    let world = World::new(["work"], []);
    world.ready().await;
    let tool = world.tool("s__work");
    world.set([]);
    let error = tool.call(json!({}), context("chat")).await.unwrap_err();
    assert_eq!(error.text, "The MCP server s is no longer configured.");
    world.set_at("elsewhere", ["s"]);
    assert!(world.names().is_empty(), "a name that was gone begins anew");
    assert_eq!(text(&tool.call(json!({}), context("chat")).await.unwrap()), "done");
}
