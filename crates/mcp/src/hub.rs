//! The servers and their tools.

use std::{
    collections::BTreeMap,
    mem,
    sync::{Arc, Mutex, MutexGuard, PoisonError},
    time::Duration,
};

use fermata_tools::Tool;
use tokio::{task::JoinSet, time::timeout};
use tokio_util::sync::CancellationToken;

use crate::{
    config::ServerConfig,
    names::assign_names,
    server::Server,
    servers::Servers,
    session::State,
    sessions::Sessions,
    supervisor::{ConfiguredConnector, Connector, Publish},
    tool::McpTool,
};

/// A configured server, and whether it can be used.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ServerStatus {
    /// The server's name in the settings.
    pub name: String,
    /// Its state.
    pub state: ServerState,
}

/// The state of a configured server.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum ServerState {
    /// The first connection is being opened.
    Starting,
    /// It is connected.
    Connected {
        /// The version of MCP that is spoken.
        protocol: String,
        /// The names of its tools on the server.
        tools: Vec<String>,
    },
    /// There is no connection. It is opened again later.
    Down {
        /// The reason, with the last lines of a program's standard error. It contains no secret of the configuration.
        reason: String,
    },
}

/// Keeps the configured servers connected and their tools listed.
///
/// [`Hub::shutdown`] ends all connections and programs properly. When a hub is dropped, they are ended immediately.
pub struct Hub {
    catalog: Arc<ToolCatalog>,
    state: Mutex<HubState>,
}

type OnChange = Box<dyn Fn(Vec<Arc<dyn Tool>>) + Send + Sync>;

/// The tools of all servers, and the callback that gets them when they change.
struct ToolCatalog {
    servers: Arc<Servers>,
    lists: Mutex<ToolLists>,
    on_change: OnChange,
}

/// The tools that each server listed last, by the name of the server. A server that replaces another one keeps its list until
/// it has listed its own tools. The latest call of `on_change` was with these tools.
type ToolLists = BTreeMap<String, Vec<rmcp::model::Tool>>;

#[derive(Default)]
struct HubState {
    servers: BTreeMap<String, RunningServer>,
    supervisors: JoinSet<()>,
    is_shut_down: bool,
}

struct RunningServer {
    config: ServerConfig,
    sessions: Arc<Sessions>,
    stop: CancellationToken,
    /// Cancelled when the server has ended.
    ended: CancellationToken,
}

// === impl Hub ===

impl Hub {
    /// Starts a hub with these servers, which are given by name.
    ///
    /// `on_change` gets the tools of all servers each time that they change. Its calls do not overlap. It must not block and
    /// must not use the hub.
    ///
    /// # Panics
    /// Panics if it is called outside a Tokio runtime.
    pub fn start(
        servers: BTreeMap<String, ServerConfig>,
        on_change: impl Fn(Vec<Arc<dyn Tool>>) + Send + Sync + 'static,
    ) -> Self {
        let hub = Self { catalog: Arc::new(ToolCatalog::new(on_change)), state: Mutex::default() };
        hub.set_servers(servers);
        hub
    }

    /// Replaces the configured servers.
    ///
    /// A server that is no longer named, or whose configuration differs, is ended and its open calls fail. Servers with an
    /// unchanged configuration are not affected. If a server's configuration differs, its tools stay available until the new
    /// server has listed its own, and calls of them wait for it. After [`Hub::shutdown`] this does nothing.
    ///
    /// # Panics
    /// Panics if it is called outside a Tokio runtime.
    pub fn set_servers(&self, servers: BTreeMap<String, ServerConfig>) {
        self.set(servers, |name, config| Arc::new(ConfiguredConnector::new(name, config)));
    }

    fn set(
        &self,
        mut servers: BTreeMap<String, ServerConfig>,
        connector: impl Fn(&str, &ServerConfig) -> Arc<dyn Connector>,
    ) {
        let mut state = self.state();
        if state.is_shut_down {
            return;
        }
        while state.supervisors.try_join_next().is_some() {}
        let mut leaving = BTreeMap::new();
        for (name, running) in mem::take(&mut state.servers) {
            if servers.get(&name) == Some(&running.config) {
                servers.remove(&name);
                state.servers.insert(name, running);
            } else {
                leaving.insert(name, running);
            }
        }
        let catalog = self.catalog.clone();
        let publish: Publish = Arc::new(move |server, tools| catalog.update(server, tools));
        let mut starting = Vec::new();
        for (name, config) in servers {
            let connector = connector(&name, &config);
            let server = Arc::new(Server::new(name.clone(), &config));
            let sessions = Arc::new(Sessions::new(server, connector));
            let running = RunningServer {
                config,
                sessions: sessions.clone(),
                stop: CancellationToken::new(),
                ended: CancellationToken::new(),
            };
            let predecessor_ended = leaving.get(&name).map(|leaving| leaving.ended.clone());
            starting.push((sessions, running.stop.clone(), running.ended.clone(), predecessor_ended));
            state.servers.insert(name, running);
        }
        // This comes before the supervisors start and the old servers end: a server may list its tools immediately, and a call
        // that waits for a server that ends looks for its successor.
        self.catalog.set_servers(state.servers());
        for (sessions, stop, ended, predecessor_ended) in starting {
            let supervisor =
                sessions.supervisor(sessions.shared.clone(), Some(publish.clone()), stop.clone());
            let ended = ended.drop_guard();
            state.supervisors.spawn(async move {
                let _ended = ended;
                // The new server may need the port or a lock of the one that it replaces.
                if let Some(predecessor_ended) = predecessor_ended {
                    predecessor_ended.cancelled().await;
                }
                tokio::join!(supervisor.run(), async {
                    stop.cancelled().await;
                    sessions.close().await;
                });
            });
        }
        for running in leaving.into_values() {
            running.stop.cancel();
        }
    }

    /// Waits until each server has listed its tools or has failed once, for at most this time. Returns `false` if the time was
    /// not enough.
    pub async fn ready(&self, at_most: Duration) -> bool {
        let servers = self.state().servers();
        let all_started = async {
            for sessions in servers.values() {
                sessions.shared.wait_until_started().await;
            }
        };
        timeout(at_most, all_started).await.is_ok()
    }

    /// Returns the configured servers and their states of this moment, in the order of their names.
    pub fn servers(&self) -> Vec<ServerStatus> {
        let servers = self.state().servers();
        servers
            .into_iter()
            .map(|(name, sessions)| ServerStatus { name, state: sessions.shared.state().into() })
            .collect()
    }

    /// Ends all servers and waits until they have ended, which takes about ten seconds at most.
    pub async fn shutdown(&self) {
        let mut supervisors = {
            let mut state = self.state();
            state.is_shut_down = true;
            self.catalog.servers.replace(BTreeMap::new());
            for running in mem::take(&mut state.servers).into_values() {
                running.stop.cancel();
            }
            mem::take(&mut state.supervisors)
        };
        while supervisors.join_next().await.is_some() {}
    }

    fn state(&self) -> MutexGuard<'_, HubState> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl Drop for Hub {
    fn drop(&mut self) {
        // The supervisors and their connections are dropped with the state. Without the following, calls that wait for a server
        // would wait for ever.
        self.catalog.servers.replace(BTreeMap::new());
        for running in self.state().servers.values() {
            running.sessions.shared.set_state(State::Ended);
            running.sessions.abort();
        }
    }
}

// === impl ServerState ===

impl From<State> for ServerState {
    fn from(state: State) -> Self {
        match state {
            State::Up(connection) => Self::Connected {
                protocol: connection.protocol.as_ref().to_owned(),
                tools: connection.tools.iter().cloned().collect(),
            },
            State::Down(reason) => Self::Down { reason: reason.as_ref().to_owned() },
            State::Starting | State::Ended => Self::Starting,
        }
    }
}

// === impl HubState ===

impl HubState {
    fn servers(&self) -> BTreeMap<String, Arc<Sessions>> {
        self.servers.iter().map(|(name, running)| (name.clone(), running.sessions.clone())).collect()
    }
}

// === impl ToolCatalog ===

impl ToolCatalog {
    fn new(on_change: impl Fn(Vec<Arc<dyn Tool>>) + Send + Sync + 'static) -> Self {
        Self { servers: Arc::default(), lists: Mutex::default(), on_change: Box::new(on_change) }
    }

    /// Replaces the tools of a server with those that it has listed.
    fn update(&self, server: &Arc<Server>, tools: Vec<rmcp::model::Tool>) {
        let mut lists = self.lists();
        // A server that was ended may have been listing its tools at that time.
        if !self.servers.is_current(server) {
            return;
        }
        let known = lists.entry(server.name.clone()).or_default();
        if *known != tools {
            *known = tools;
            (self.on_change)(self.all_tools(&lists));
        }
    }

    /// Replaces the servers. The tools that are listed under their names stay.
    fn set_servers(&self, servers: BTreeMap<String, Arc<Sessions>>) {
        let mut lists = self.lists();
        let mut has_changed = false;
        lists.retain(|name, tools| {
            let is_configured = servers.contains_key(name);
            has_changed |= !is_configured && !tools.is_empty();
            is_configured
        });
        // The policies of listed tools change if their annotations are now trusted, or are no longer trusted.
        for name in lists.keys() {
            let trust_before = self.servers.get(name).map(|sessions| sessions.server.trusts_annotations);
            let trust_now = servers.get(name).map(|sessions| sessions.server.trusts_annotations);
            has_changed |= trust_before != trust_now;
        }
        self.servers.replace(servers);
        if has_changed {
            (self.on_change)(self.all_tools(&lists));
        }
    }

    /// Locks the lists. The lock is held while `on_change` runs, so that the last call has the latest tools.
    fn lists(&self) -> MutexGuard<'_, ToolLists> {
        self.lists.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn all_tools(&self, lists: &ToolLists) -> Vec<Arc<dyn Tool>> {
        let mut listed = Vec::new();
        for (server, tools) in lists {
            listed.extend(tools.iter().map(|tool| (server, tool)));
        }
        let server_and_tool: Vec<(&str, &str)> =
            listed.iter().map(|(server, tool)| (server.as_str(), tool.name.as_ref())).collect();
        let mut all = Vec::<Arc<dyn Tool>>::new();
        for (name, (server, tool)) in assign_names(&server_and_tool).into_iter().zip(listed) {
            if let Some(name) = name {
                all.push(Arc::new(McpTool::new(self.servers.clone(), server.clone(), name, tool)));
            }
        }
        all
    }
}

#[cfg(test)]
mod tests;
