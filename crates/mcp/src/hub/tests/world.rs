//! A hub with servers in the test's process, and the chats whose calls it makes.

use std::{
    collections::{BTreeMap, VecDeque},
    sync::{
        Arc, Mutex,
        atomic::{AtomicUsize, Ordering},
    },
    time::Duration,
};

use async_trait::async_trait;
use fermata_protocol::{ChatId, ToolCallId};
use fermata_tools::{
    CallContext, Elicitation, ElicitationReply, ErrorPolicy, Execution, Owner, Tool, ToolError, ToolHost,
};
use rmcp::{
    ErrorData, RoleServer, ServerHandler, ServiceExt,
    model::{
        CallToolRequestParams, CallToolResponse, CallToolResult, ContentBlock, CustomRequest, ElicitRequest,
        ElicitRequestParams, ElicitationSchema, ErrorCode, InputRequest, InputRequiredResult, JsonObject,
        ListToolsResult, PaginatedRequestParams, ServerCapabilities, ServerRequest,
    },
    service::{RequestContext, RunningService, ServiceError},
    transport::async_rw::AsyncRwTransport,
};
use serde_json::{Value, json};
use tokio::{
    io::{duplex, split},
    sync::{Notify, mpsc, oneshot, watch},
    task::JoinHandle,
    time::Instant,
};
use tokio_util::sync::CancellationToken;

use crate::{
    client::Client,
    config::{Protocol, ServerConfig, Transport},
    failure::ConnectError,
    hub::{Hub, ToolCatalog},
    link::Link,
    supervisor::{Connector, LiveConnection},
};

/// The outcome of an attempt to connect.
#[derive(Clone, Copy)]
pub(super) enum Attempt {
    Fails,
    /// The connection opens, but the server never sends anything.
    Mute,
}

/// A connector to servers in this process.
pub(super) struct PipeConnector {
    pub(super) tools: Arc<Mutex<Vec<&'static str>>>,
    /// The outcomes of the next attempts to connect. All attempts after them succeed.
    pub(super) attempts: Mutex<VecDeque<Attempt>>,
    /// Gets the time of each attempt to connect.
    tried: mpsc::UnboundedSender<Instant>,
    /// Gets the server's end of each connection.
    connected: mpsc::UnboundedSender<RunningService<RoleServer, ScriptedServer>>,
    /// Gets what the servers observe.
    noticed: mpsc::UnboundedSender<String>,
    /// Lets a call continue that waits for it.
    pub(super) go: Arc<Notify>,
    /// The number of connections so far.
    sessions: AtomicUsize,
    /// The version that is spoken.
    protocol: Protocol,
    /// The unused ends of mute connections, which are kept so that the connections stay open.
    mute: Mutex<Vec<tokio::io::DuplexStream>>,
}

/// A server whose tools do what their names say.
pub(super) struct ScriptedServer {
    /// The number of its connection, counted from 1.
    session: usize,
    tools: Arc<Mutex<Vec<&'static str>>>,
    noticed: mpsc::UnboundedSender<String>,
    go: Arc<Notify>,
}

/// A hub with one server, `s`, and everything that a test can observe of it.
pub(super) struct World {
    pub(super) hub: Hub,
    pub(super) pipe: Arc<PipeConnector>,
    pub(super) tools: watch::Receiver<Vec<Arc<dyn Tool>>>,
    pub(super) changes: Arc<AtomicUsize>,
    pub(super) tried: mpsc::UnboundedReceiver<Instant>,
    pub(super) connected: mpsc::UnboundedReceiver<RunningService<RoleServer, ScriptedServer>>,
    pub(super) noticed: mpsc::UnboundedReceiver<String>,
}

/// A host that accepts each elicitation.
pub(super) struct AcceptingHost;

/// A host that hands each elicitation to the test, which replies to it.
struct ManualHost(mpsc::UnboundedSender<PendingElicitation>);

/// An elicitation that waits for the test's reply.
pub(super) struct PendingElicitation {
    pub(super) call: ToolCallId,
    pub(super) elicitation: Elicitation,
    pub(super) reply: oneshot::Sender<ElicitationReply>,
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
        LiveConnection::handshake(client, AsyncRwTransport::new_client(read, write), link, self.protocol)
            .await
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
        let tool = |name| {
            let mut tool = rmcp::model::Tool::new(name, "", schema.clone());
            if name == "measure" {
                let output =
                    json!({"type": "object", "properties": {"n": {"type": "integer"}}, "required": ["n"]});
                tool.output_schema = output.as_object().cloned().map(Arc::new);
            }
            tool
        };
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
            "ask for roots" => {
                let roots = ServerRequest::ListRootsRequest(Default::default());
                match context.peer.send_request(roots).await {
                    Err(ServiceError::McpError(error)) if error.code == ErrorCode::METHOD_NOT_FOUND => {
                        "refused".into()
                    }
                    other => format!("{other:?}"),
                }
            }
            "needs input" => match request.input_responses {
                Some(responses) => format!("{} with {:?}", json!(responses), request.request_state),
                None => {
                    let requests =
                        [("which".to_owned(), InputRequest::Elicitation(ElicitRequest::new(which())))];
                    return Ok(InputRequiredResult::new(Some(requests.into()), Some("half".into())).into());
                }
            },
            "needs roots" => {
                let roots = InputRequest::ListRoots(Default::default());
                let requests = [("roots".to_owned(), roots)].into();
                return Ok(InputRequiredResult::new(Some(requests), None).into());
            }
            "never has enough" => return Ok(InputRequiredResult::from_request_state("again").into()),
            "measure" => return Ok(CallToolResult::structured(json!({"n": "many"})).into()),
            "refuse" => return Err(ErrorData::invalid_params("no such place", None)),
            _ => "done".into(),
        };
        Ok(CallToolResult::success(vec![ContentBlock::text(text)]).into())
    }
}

fn which() -> ElicitRequestParams {
    ElicitRequestParams::FormElicitationParams {
        meta: None,
        message: "Which one?".into(),
        requested_schema: ElicitationSchema::builder().build().unwrap(),
    }
}

async fn elicit(context: &RequestContext<RoleServer>) -> String {
    let request = ServerRequest::ElicitRequest(ElicitRequest::new(which()));
    format!("{:?}", context.peer.send_request(request).await)
}

/// Creates an elicitation that the library cannot read, because its schema is not allowed by the protocol.
fn unreadable_elicitation(mode: &str) -> ServerRequest {
    let schema = json!({"type": "object", "properties": {"where": {"type": "object"}}});
    let params = json!({"mode": mode, "message": "Where?", "requestedSchema": schema});
    ServerRequest::CustomRequest(CustomRequest::new("elicitation/create", Some(params)))
}

#[async_trait]
impl ToolHost for ManualHost {
    fn report(&self, _: &ToolCallId, _: Value) {}

    async fn elicit(&self, call: &ToolCallId, elicitation: Elicitation) -> ElicitationReply {
        let (reply, answer) = oneshot::channel();
        let _ = self.0.send(PendingElicitation { call: call.clone(), elicitation, reply });
        answer.await.unwrap_or(ElicitationReply::Cancel)
    }
}

#[async_trait]
impl ToolHost for AcceptingHost {
    fn report(&self, _: &ToolCallId, _: Value) {}

    async fn elicit(&self, _: &ToolCallId, elicitation: Elicitation) -> ElicitationReply {
        ElicitationReply::Accept(json!({"asked": elicitation.message, "for": elicitation.requested_schema}))
    }
}

impl World {
    pub(super) fn new<const N: usize, const M: usize>(
        tools: [&'static str; N],
        attempts: [Attempt; M],
    ) -> Self {
        Self::speaking(Protocol::V2025November, tools, attempts)
    }

    pub(super) fn speaking<const N: usize, const M: usize>(
        protocol: Protocol,
        tools: [&'static str; N],
        attempts: [Attempt; M],
    ) -> Self {
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
            protocol,
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

    pub(super) fn set<const N: usize>(&self, servers: [&str; N]) {
        self.set_to(&at(""), servers);
    }

    /// Configures the servers with this configuration.
    pub(super) fn set_to<const N: usize>(&self, config: &ServerConfig, servers: [&str; N]) {
        let servers = servers.map(|name| (name.to_owned(), config.clone())).into();
        self.hub.set(servers, |_, _| self.pipe.clone());
    }

    pub(super) async fn ready(&self) {
        self.hub.ready(Duration::from_secs(3600)).await;
    }

    pub(super) fn names(&self) -> Vec<String> {
        self.tools.borrow().iter().map(|tool| tool.spec().name).collect()
    }

    pub(super) fn tool(&self, name: &str) -> Arc<dyn Tool> {
        self.tools.borrow().iter().find(|tool| tool.spec().name == name).unwrap().clone()
    }

    pub(super) async fn call(&self, name: &str) -> Result<Value, ToolError> {
        self.tool(name).call(json!({}).into(), context()).await
    }
}

/// A chat whose calls a test makes, and the elicitations that these calls lead to.
pub(super) struct Chat {
    name: &'static str,
    host: Arc<ManualHost>,
    pub(super) asked: mpsc::UnboundedReceiver<PendingElicitation>,
}

/// A running call.
pub(super) struct RunningCall {
    pub(super) cancelled: CancellationToken,
    pub(super) outcome: JoinHandle<Result<Value, ToolError>>,
}

impl Chat {
    pub(super) fn named(name: &'static str) -> Self {
        let (asks, asked) = mpsc::unbounded_channel();
        Self { name, host: Arc::new(ManualHost(asks)), asked }
    }

    /// Begins a call that may take ten seconds, and waits until the server has it.
    pub(super) async fn begin(&self, world: &mut World, tool: &str, id: &str) -> RunningCall {
        let begun = self.call(world, tool, id);
        assert!(world.noticed.recv().await.unwrap().starts_with("called "));
        begun
    }

    /// Begins a call that may take ten seconds.
    pub(super) fn call(&self, world: &World, tool: &str, id: &str) -> RunningCall {
        let context = CallContext::new(Owner::anyone(), ChatId::new(self.name), ToolCallId::new(id));
        let cancelled = context.cancelled.clone();
        let execution = Execution {
            tool: world.tool(tool),
            input: json!({}).into(),
            context: context.with_host(self.host.clone()),
            timeout: Duration::from_secs(10),
            retries: 0,
            error_policy: ErrorPolicy::default(),
            checker: Arc::default(),
            check_timeout: Duration::from_secs(5),
            empty_at: None,
        };
        let outcome = tokio::spawn(execution.outcome());
        RunningCall { cancelled, outcome }
    }
}

impl RunningCall {
    /// Returns the texts of the output.
    pub(super) async fn text(self) -> String {
        let output = self.outcome.await.unwrap().unwrap();
        output["content"].as_array().unwrap().iter().filter_map(|block| block["text"].as_str()).collect()
    }

    pub(super) async fn error(self) -> ToolError {
        self.outcome.await.unwrap().unwrap_err()
    }
}

pub(super) fn at(url: &str) -> ServerConfig {
    ServerConfig::new(Transport::Http { url: url.to_owned(), headers: BTreeMap::new() })
}

pub(super) fn context() -> CallContext {
    CallContext::new(Owner::anyone(), ChatId::new("chat"), ToolCallId::new("call"))
}

pub(super) fn text(output: &Value) -> &str {
    output["content"][0]["text"].as_str().unwrap()
}
