//! Tests of hubs whose servers run in the test's process, at the other end of a pipe, so that time can be paused.

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

/// The outcome of an attempt to connect.
#[derive(Clone, Copy)]
enum Attempt {
    Fails,
    /// The connection opens, but the server never sends anything.
    Mute,
}

/// A connector to servers in this process.
struct PipeConnector {
    tools: Arc<Mutex<Vec<&'static str>>>,
    /// The outcomes of the next attempts to connect. All attempts after them succeed.
    attempts: Mutex<VecDeque<Attempt>>,
    /// Gets the time of each attempt to connect.
    tried: mpsc::UnboundedSender<Instant>,
    /// Gets the server's end of each connection.
    connected: mpsc::UnboundedSender<RunningService<RoleServer, ScriptedServer>>,
    /// Gets what the servers observe.
    noticed: mpsc::UnboundedSender<String>,
    /// Lets a call continue that waits for it.
    go: Arc<Notify>,
    /// The number of connections so far.
    sessions: AtomicUsize,
    /// The unused ends of mute connections, which are kept so that the connections stay open.
    mute: Mutex<Vec<tokio::io::DuplexStream>>,
}

/// A server whose tools do what their names say.
struct ScriptedServer {
    /// The number of its connection, counted from 1.
    session: usize,
    tools: Arc<Mutex<Vec<&'static str>>>,
    noticed: mpsc::UnboundedSender<String>,
    go: Arc<Notify>,
}

/// A hub with one server, `s`, and everything that a test can observe of it.
struct World {
    hub: Hub,
    pipe: Arc<PipeConnector>,
    tools: watch::Receiver<Vec<Arc<dyn Tool>>>,
    changes: Arc<AtomicUsize>,
    tried: mpsc::UnboundedReceiver<Instant>,
    connected: mpsc::UnboundedReceiver<RunningService<RoleServer, ScriptedServer>>,
    noticed: mpsc::UnboundedReceiver<String>,
}

/// A person who agrees to everything.
struct Agreeing;

/// A person who gets elicitations and never replies.
struct Silent(mpsc::UnboundedSender<Elicitation>);

/// A person who replies to each elicitation when the test says so.
struct Thoughtful(mpsc::UnboundedSender<Asked>);

/// An elicitation that waits for the person's reply.
struct Asked {
    call: ToolCallId,
    elicitation: Elicitation,
    reply: oneshot::Sender<ElicitationReply>,
}

#[async_trait]
impl Connector for PipeConnector {
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
                let server = ScriptedServer { session, tools, noticed, go };
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

impl ServerHandler for ScriptedServer {
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
                let answer = elicit(&context).await;
                let _ = self.noticed.send(answer.clone());
                answer
            }
            "ask later" => {
                self.go.notified().await;
                let answer = elicit(&context).await;
                let _ = self.noticed.send(answer.clone());
                answer
            }
            "which" => format!("session {}", self.session),
            "ask strangely" => {
                format!("{:?}", context.peer.send_request(unreadable_elicitation("form")).await)
            }
            "ask for a visit" => {
                format!("{:?}", context.peer.send_request(unreadable_elicitation("url")).await)
            }
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

async fn elicit(context: &RequestContext<RoleServer>) -> String {
    let params = ElicitRequestParams::FormElicitationParams {
        meta: None,
        message: "Which one?".into(),
        requested_schema: ElicitationSchema::builder().build().unwrap(),
    };
    let request = ServerRequest::ElicitRequest(ElicitRequest::new(params));
    format!("{:?}", context.peer.send_request(request).await)
}

/// Creates an elicitation that the library cannot read, because its schema is not allowed by the protocol.
fn unreadable_elicitation(mode: &str) -> ServerRequest {
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
        let pipe = Arc::new(PipeConnector {
            tools: Arc::new(Mutex::new(tools.into())),
            attempts: Mutex::new(attempts.into()),
            tried,
            connected,
            noticed,
            go: Arc::default(),
            sessions: AtomicUsize::new(0),
            mute: Mutex::default(),
        });
        let (published, tools) = watch::channel(Vec::new());
        let changes = Arc::new(AtomicUsize::new(0));
        let counted = changes.clone();
        let on_change = move |tools| {
            counted.fetch_add(1, Ordering::SeqCst);
            published.send_replace(tools);
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

    /// Configures the servers with this URL.
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

/// A chat whose calls a test makes, and the elicitations that its person gets.
struct Chat {
    name: &'static str,
    person: Arc<Thoughtful>,
    asked: mpsc::UnboundedReceiver<Asked>,
}

/// A running call.
struct RunningCall {
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
    async fn begin(&self, world: &mut World, tool: &str, id: &str) -> RunningCall {
        let begun = self.call(world, tool, id);
        assert!(world.noticed.recv().await.unwrap().starts_with("called "));
        begun
    }

    /// Begins a call that may take ten seconds.
    fn call(&self, world: &World, tool: &str, id: &str) -> RunningCall {
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
        RunningCall { cancelled, outcome }
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
async fn tools_are_listed_again_when_they_have_changed() {
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
async fn a_server_is_notified_when_a_call_is_cancelled() {
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
async fn a_server_is_notified_when_a_call_is_dropped() {
    let mut world = World::new(["wait"], []);
    world.ready().await;
    let tool = world.tool("s__wait");
    let call = tokio::spawn(async move { tool.call(json!({}), context("chat")).await });
    assert_eq!(world.noticed.recv().await.unwrap(), "called wait");
    call.abort();
    assert_eq!(world.noticed.recv().await.unwrap(), "cancelled");
}

#[tokio::test]
async fn a_server_is_notified_by_a_task_that_has_used_up_its_budget() {
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
async fn the_error_of_a_server_about_invalid_input_reaches_the_model() {
    let world = World::new(["refuse"], []);
    world.ready().await;
    let error = world.call("s__refuse").await.unwrap_err();
    assert_eq!(error.error_type, ErrorType::InvalidFormat);
    assert_eq!(error.text, "The MCP server s refused the call: no such place");
}

#[tokio::test]
async fn a_server_may_not_send_other_requests() {
    let world = World::new(["ask for roots"], []);
    world.ready().await;
    assert_eq!(text(&world.call("s__ask_for_roots").await.unwrap()), "refused");
}

#[tokio::test]
async fn an_elicitation_that_the_library_cannot_read_is_still_shown() {
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
async fn the_elicitation_of_a_call_that_ends_is_cancelled() {
    let mut world = World::new(["ask"], []);
    world.ready().await;
    let (elicitations, mut asked) = mpsc::unbounded_channel();
    let (tool, context) = (world.tool("s__ask"), context("chat").with_host(Arc::new(Silent(elicitations))));
    let cancelled = context.cancelled.clone();
    let call = tokio::spawn(async move { tool.call(json!({}), context).await });
    asked.recv().await.unwrap();
    cancelled.cancel();
    assert_eq!(call.await.unwrap().unwrap_err().error_type, ErrorType::Cancelled);
    assert!(asked.recv().await.is_none(), "the elicitation is withdrawn");
    assert_eq!(world.noticed.recv().await.unwrap(), "called ask");
    let answer = world.noticed.recv().await.unwrap();
    assert!(answer.contains("action: Cancel"), "{answer}");
}

#[tokio::test(start_paused = true)]
async fn a_call_does_not_wait_for_a_hub_that_was_dropped() {
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
async fn a_lost_connection_ends_the_call_and_its_elicitation_immediately() {
    let mut world = World::new(["ask"], []);
    world.ready().await;
    let server = world.connected.recv().await.unwrap();
    let (elicitations, mut asked) = mpsc::unbounded_channel();
    let (tool, context) = (world.tool("s__ask"), context("chat").with_host(Arc::new(Silent(elicitations))));
    let call = tokio::spawn(async move { tool.call(json!({}), context).await });
    assert_eq!(asked.recv().await.unwrap().message, "Which one?");
    let since = Instant::now();
    server.cancellation_token().cancel();
    let error = call.await.unwrap().unwrap_err();
    assert_eq!(error.error_type, ErrorType::Network);
    // The server itself takes two seconds to end, because its request still waits for a response. The call must not wait for that.
    assert!(since.elapsed() <= Duration::from_secs(2), "{:?}", since.elapsed());
    assert!(asked.recv().await.is_none(), "the elicitation is withdrawn");
}

#[tokio::test(start_paused = true)]
async fn a_server_that_fails_is_tried_again_after_increasing_pauses() {
    let mut world = World::new(["work"], [Attempt::Fails; 10]);
    let mut tries = Vec::new();
    for _ in 0..11 {
        tries.push(world.tried.recv().await.unwrap());
    }
    let pauses: Vec<u128> = tries.windows(2).map(|pair| (pair[1] - pair[0]).as_millis()).collect();
    assert_eq!(pauses, [200, 400, 800, 1_600, 3_200, 6_400, 12_800, 25_600, 30_000, 30_000]);
}

#[tokio::test(start_paused = true)]
async fn a_long_connection_resets_the_pause() {
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
    assert_eq!(world.changes.load(Ordering::SeqCst), 1, "an unchanged list is not published again");
}

#[tokio::test(start_paused = true)]
async fn a_server_that_sends_nothing_is_tried_again_after_the_timeout() {
    let mut world = World::new(["work"], [Attempt::Mute]);
    let since = world.tried.recv().await.unwrap();
    world.hub.ready(Duration::from_secs(5)).await;
    assert_eq!(since.elapsed(), Duration::from_secs(5), "ready does not wait longer than the given time");
    assert_eq!(world.tried.recv().await.unwrap() - since, Duration::from_millis(60_200));
    world.connected.recv().await.unwrap();
}

#[tokio::test]
async fn the_tools_and_calls_of_a_removed_server_end_with_it() {
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
async fn no_server_is_started_after_the_shutdown() {
    let mut world = World::new(["work"], []);
    world.ready().await;
    world.tried.recv().await.unwrap();
    world.hub.shutdown().await;
    world.set(["t"]);
    world.ready().await;
    assert!(world.tried.try_recv().is_err());
}

#[tokio::test(start_paused = true)]
async fn an_elicitation_outlives_its_newest_call_while_it_may_belong_to_another() {
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
    assert!(
        asked.reply.send(ElicitationReply::Accept(json!({"one": 1}))).is_ok(),
        "another call may have elicited"
    );
    let output = asking.outcome.await.unwrap().unwrap();
    assert!(text(&output).contains("action: Accept"), "{output}");
}

#[tokio::test(start_paused = true)]
async fn two_elicitations_live_until_the_last_call_that_they_may_belong_to_has_ended() {
    let mut world = World::new(["ask later"], []);
    world.ready().await;
    let mut chat = Chat::new();
    let one = chat.begin(&mut world, "s__ask_later", "a").await;
    let two = chat.begin(&mut world, "s__ask_later", "b").await;
    world.pipe.go.notify_waiters();
    let (first, mut second) = (chat.asked.recv().await.unwrap(), chat.asked.recv().await.unwrap());
    two.cancelled.cancel();
    assert_eq!(two.outcome.await.unwrap().unwrap_err().error_type, ErrorType::Cancelled);
    assert!(
        first.reply.send(ElicitationReply::Accept(json!({"one": 1}))).is_ok(),
        "another call may have elicited"
    );
    let answered = world.noticed.recv().await.unwrap();
    assert!(answered.contains("action: Accept"), "{answered}");
    one.cancelled.cancel();
    one.outcome.await.unwrap().ok();
    second.reply.closed().await;
    let answered = world.noticed.recv().await.unwrap();
    assert!(answered.contains("action: Cancel"), "{answered}");
}

#[tokio::test(start_paused = true)]
async fn the_time_of_all_calls_that_may_have_elicited_is_paused_until_the_reply() {
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
async fn a_call_that_waits_for_a_server_is_made_by_its_successor() {
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
async fn a_tool_works_as_long_as_a_server_of_its_name_is_configured() {
    let world = World::new(["work"], []);
    world.ready().await;
    let tool = world.tool("s__work");
    world.set([]);
    let error = tool.call(json!({}), context("chat")).await.unwrap_err();
    assert_eq!(error.text, "The MCP server s is no longer configured.");
    world.set_at("elsewhere", ["s"]);
    assert!(world.names().is_empty(), "the tools of a removed server are forgotten");
    assert_eq!(text(&tool.call(json!({}), context("chat")).await.unwrap()), "done");
}
