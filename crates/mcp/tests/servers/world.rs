//! A hub, and the persons whose calls it makes.

use std::{
    collections::{BTreeMap, VecDeque},
    future::pending,
    path::{Path, PathBuf},
    sync::{Arc, Mutex},
    time::Duration,
};

use async_trait::async_trait;
use fermata_mcp::{Hub, ServerConfig, Transport};
use fermata_protocol::{ChatId, ToolCallId};
use fermata_tools::{CallContext, Elicitation, ElicitationReply, Owner, Tool, ToolError, ToolHost, ToolSpec};
use serde_json::Value;
use tokio::{
    sync::{mpsc, watch},
    task::JoinHandle,
    time::timeout,
};

/// The time limit of a test; after it, something hangs.
pub const TIME_LIMIT: Duration = Duration::from_secs(60);

/// A hub with the tools that it published last.
pub struct World {
    pub hub: Hub,
    tools: watch::Receiver<Tools>,
}

type Tools = Vec<Arc<dyn Tool>>;

/// A person who gets the reports and elicitations of a call, and replies with prepared answers.
pub struct Person {
    pub context: CallContext,
    pub reports: mpsc::UnboundedReceiver<Value>,
    pub elicitations: mpsc::UnboundedReceiver<Elicitation>,
}

struct RecordingHost {
    reports: mpsc::UnboundedSender<Value>,
    elicitations: mpsc::UnboundedSender<Elicitation>,
    answers: Mutex<VecDeque<ElicitationReply>>,
}

impl World {
    /// Starts a hub and waits until all its servers have started.
    pub async fn with<const N: usize>(servers: [(&str, ServerConfig); N]) -> Self {
        let (published, tools) = watch::channel(Tools::new());
        let hub = Hub::start(named(servers), move |tools| _ = published.send_replace(tools));
        hub.ready(TIME_LIMIT).await;
        Self { hub, tools }
    }

    pub fn specs(&self) -> BTreeMap<String, ToolSpec> {
        self.tools.borrow().iter().map(|tool| tool.spec()).map(|spec| (spec.name.clone(), spec)).collect()
    }

    /// Waits until the tool is listed.
    pub async fn tool(&self, name: &str) -> Arc<dyn Tool> {
        let find = |tools: &Tools| tools.iter().find(|tool| tool.spec().name == name).cloned();
        let mut tools = self.tools.clone();
        let found = async { tools.wait_for(|tools| find(tools).is_some()).await.map(|tools| find(&tools)) };
        in_time(found).await.unwrap().unwrap()
    }

    /// Waits until the specs of the listed tools meet a condition.
    pub async fn wait_for(&self, condition: impl Fn(&[ToolSpec]) -> bool) {
        let mut tools = self.tools.clone();
        let met = tools.wait_for(|tools| {
            let specs: Vec<ToolSpec> = tools.iter().map(|tool| tool.spec()).collect();
            condition(&specs)
        });
        in_time(met).await.unwrap();
    }

    /// Calls a tool in a chat of its own.
    pub async fn call(&self, tool: &str, input: Value) -> Result<Value, ToolError> {
        self.call_as(tool, input, &Person::new("chat", [])).await
    }

    pub async fn call_as(&self, tool: &str, input: Value, person: &Person) -> Result<Value, ToolError> {
        let tool = self.tool(tool).await;
        in_time(tool.call(input.into(), person.context.clone())).await
    }

    /// Begins a call.
    pub async fn begin(
        &self,
        tool: &str,
        input: Value,
        person: &Person,
    ) -> JoinHandle<Result<Value, ToolError>> {
        let (tool, context) = (self.tool(tool).await, person.context.clone());
        tokio::spawn(async move { tool.call(input.into(), context).await })
    }
}

impl Person {
    pub fn new<const N: usize>(chat: &str, answers: [ElicitationReply; N]) -> Self {
        let (report_sender, reports) = mpsc::unbounded_channel();
        let (elicitation_sender, elicitations) = mpsc::unbounded_channel();
        let host = RecordingHost {
            reports: report_sender,
            elicitations: elicitation_sender,
            answers: Mutex::new(answers.into()),
        };
        let context = CallContext::new(Owner::new("ann"), ChatId::new(chat), ToolCallId::new("call"));
        Self { context: context.with_host(Arc::new(host)), reports, elicitations }
    }
}

#[async_trait]
impl ToolHost for RecordingHost {
    fn report(&self, _: &ToolCallId, output: Value) {
        let _ = self.reports.send(output);
    }

    async fn elicit(&self, _: &ToolCallId, elicitation: Elicitation) -> ElicitationReply {
        let _ = self.elicitations.send(elicitation);
        let answer = self.answers.lock().unwrap().pop_front();
        match answer {
            Some(answer) => answer,
            None => pending().await,
        }
    }
}

pub async fn in_time<T>(work: impl Future<Output = T>) -> T {
    timeout(TIME_LIMIT, work).await.expect("it hangs")
}

pub fn named<const N: usize>(servers: [(&str, ServerConfig); N]) -> BTreeMap<String, ServerConfig> {
    servers.map(|(name, config)| (name.to_owned(), config)).into()
}

pub fn program<const N: usize>(command: &str, args: [&str; N]) -> ServerConfig {
    ServerConfig::new(Transport::Program {
        command: command.into(),
        args: args.map(str::to_owned).into(),
        env: BTreeMap::new(),
    })
}

/// Returns the texts of an output.
pub fn text(output: &Value) -> String {
    let texts = output["content"].as_array().unwrap().iter().filter_map(|block| block["text"].as_str());
    texts.collect::<Vec<_>>().join("\n")
}

/// Returns the program of the reference server, which `make unit` installs.
pub fn everything() -> PathBuf {
    let folder = Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/npm");
    let program = folder.join("node_modules/@modelcontextprotocol/server-everything/dist/index.js");
    assert!(
        program.exists(),
        "the real server is missing: run `make unit`, or `npm ci` in {}",
        folder.display()
    );
    program
}

/// Returns the configuration of the reference server as a program.
pub fn everything_as_a_program() -> ServerConfig {
    program("node", [everything().to_str().unwrap(), "stdio"])
}
