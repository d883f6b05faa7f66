//! All servers and all their tools.

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
    server::{Server, Servers, State},
    supervisor::{ConfiguredConnector, Connector, Publish, Supervisor},
    tool::McpTool,
};

/// Keeps the configured servers running and their tools listed.
///
/// What it has started ends with it: with [`Hub::shutdown`] in good order, when it is dropped at once.
pub struct Hub {
    tools: Arc<ToolCatalog>,
    running: Mutex<HubState>,
}

type OnChange = Box<dyn Fn(Vec<Arc<dyn Tool>>) + Send + Sync>;

/// The tools of all servers, and who wants to know of them.
struct ToolCatalog {
    servers: Arc<Servers>,
    listed: Mutex<ToolLists>,
    on_change: OnChange,
}

/// What the server of each name listed last, be it one that was replaced. It is what `on_change` was told.
#[derive(Default)]
struct ToolLists(BTreeMap<String, Vec<rmcp::model::Tool>>);

#[derive(Default)]
struct HubState {
    servers: BTreeMap<String, RunningServer>,
    supervisors: JoinSet<()>,
    shut_down: bool,
}

struct RunningServer {
    config: ServerConfig,
    server: Arc<Server>,
    end: CancellationToken,
    ended: CancellationToken,
}

// === impl Hub ===

impl Hub {
    /// Starts the servers, by name. `on_change` gets the tools of all servers each time that they change. It is called
    /// by one at a time, must not wait and must not use the hub.
    ///
    /// # Panics
    /// Outside a Tokio runtime.
    pub fn start(
        servers: BTreeMap<String, ServerConfig>,
        on_change: impl Fn(Vec<Arc<dyn Tool>>) + Send + Sync + 'static,
    ) -> Self {
        let tools = ToolCatalog::new(on_change);
        let hub = Self { tools: Arc::new(tools), running: Mutex::default() };
        hub.set_servers(servers);
        hub
    }

    /// Changes which servers there are. Those that are no longer named, or are reached in another way, are ended, and
    /// their open calls fail; new ones are started; the others are left alone. The tools of a server that is reached in
    /// another way stay until it has listed them anew; calls of them wait for it. After [`Hub::shutdown`] nothing is
    /// started.
    ///
    /// # Panics
    /// Outside a Tokio runtime.
    pub fn set_servers(&self, servers: BTreeMap<String, ServerConfig>) {
        self.set(servers, |name, config| {
            Arc::new(ConfiguredConnector {
                config: config.clone(),
                name: name.to_owned(),
                secrets: config.secrets(),
            })
        });
    }

    fn set(
        &self,
        mut servers: BTreeMap<String, ServerConfig>,
        connector: impl Fn(&str, &ServerConfig) -> Arc<dyn Connector>,
    ) {
        let mut running = self.running();
        if running.shut_down {
            return;
        }
        while running.supervisors.try_join_next().is_some() {}
        let mut leaving = BTreeMap::new();
        for (name, kept) in mem::take(&mut running.servers) {
            if servers.get(&name) == Some(&kept.config) {
                servers.remove(&name);
                running.servers.insert(name, kept);
            } else {
                leaving.insert(name, kept);
            }
        }
        let mut starting = Vec::new();
        for (name, config) in servers {
            let connector = connector(&name, &config);
            let server = Arc::new(Server::new(name.clone(), &config, connector));
            // A server that takes another's place may need its port or its lock.
            let after = leaving.get(&name).map(|kept| kept.ended.clone());
            let kept = RunningServer::new(config, server.clone());
            starting.push((server, kept.end.clone(), kept.ended.clone(), after));
            running.servers.insert(name, kept);
        }
        // First of all: a server may list at once, and who waits for one that ends looks for the one in its place.
        self.tools.set_servers(running.servers());
        for (server, end, ended, after) in starting {
            let shared = server.shared.clone();
            let supervisor = Supervisor::new(server.clone(), shared, Some(self.tools.publish()), end.clone());
            let ended = ended.drop_guard();
            running.supervisors.spawn(async move {
                let _ended = ended;
                if let Some(after) = after {
                    after.cancelled().await;
                }
                tokio::join!(supervisor.run(), async {
                    end.cancelled().await;
                    server.sessions.close().await;
                });
            });
        }
        for kept in leaving.into_values() {
            kept.end.cancel();
        }
    }

    /// Waits, at most for so long, until each server has listed its tools or has failed once. Whether they have.
    pub async fn ready(&self, at_most: Duration) -> bool {
        let servers: Vec<Arc<Server>> =
            self.running().servers.values().map(|kept| kept.server.clone()).collect();
        let all = async {
            for server in servers {
                server.shared.wait_until_started().await;
            }
        };
        timeout(at_most, all).await.is_ok()
    }

    /// Ends all servers and waits until they have ended; takes at most some ten seconds.
    pub async fn shutdown(&self) {
        let mut supervisors = {
            let mut running = self.running();
            running.shut_down = true;
            self.tools.servers.replace(BTreeMap::new());
            for kept in mem::take(&mut running.servers).into_values() {
                kept.end.cancel();
            }
            mem::take(&mut running.supervisors)
        };
        while supervisors.join_next().await.is_some() {}
    }

    fn running(&self) -> MutexGuard<'_, HubState> {
        self.running.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl Drop for Hub {
    fn drop(&mut self) {
        // The supervisors are dropped with what they keep. Calls that wait for a server would wait for ever.
        self.tools.servers.replace(BTreeMap::new());
        for kept in self.running().servers.values() {
            kept.server.shared.set_state(State::Ended);
            kept.server.sessions.abort();
        }
    }
}

// === impl HubState ===

impl HubState {
    fn servers(&self) -> BTreeMap<String, Arc<Server>> {
        self.servers.iter().map(|(name, kept)| (name.clone(), kept.server.clone())).collect()
    }
}

// === impl RunningServer ===

impl RunningServer {
    fn new(config: ServerConfig, server: Arc<Server>) -> Self {
        Self { config, server, end: CancellationToken::new(), ended: CancellationToken::new() }
    }
}

// === impl ToolCatalog ===

impl ToolCatalog {
    fn new(on_change: impl Fn(Vec<Arc<dyn Tool>>) + Send + Sync + 'static) -> Self {
        Self { servers: Arc::default(), listed: Mutex::default(), on_change: Box::new(on_change) }
    }

    fn publish(self: &Arc<Self>) -> Publish {
        let tools = self.clone();
        Arc::new(move |server, listed| tools.update(server, listed))
    }

    /// A server has listed its tools.
    fn update(&self, server: &Arc<Server>, tools: Vec<rmcp::model::Tool>) {
        let mut listed = self.listed();
        // One that was ended may still have been listing.
        if !self.servers.is_current(server) {
            return;
        }
        let old = listed.0.entry(server.name.clone()).or_default();
        if *old != tools {
            *old = tools;
            (self.on_change)(self.all(&listed));
        }
    }

    /// These servers are wanted now. What was listed under their names stays.
    fn set_servers(&self, servers: BTreeMap<String, Arc<Server>>) {
        let mut listed = self.listed();
        let (kept, gone): (BTreeMap<_, _>, BTreeMap<_, _>) =
            mem::take(&mut listed.0).into_iter().partition(|(name, _)| servers.contains_key(name));
        listed.0 = kept;
        let trust = |name: &String| self.servers.get(name).map(|server| server.trusts_annotations);
        let before: Vec<Option<bool>> = listed.0.keys().map(trust).collect();
        self.servers.replace(servers);
        // Tools that are still there may be believed now, or no longer.
        let is_trust_changed = !listed.0.keys().map(trust).eq(before);
        if is_trust_changed || gone.values().any(|tools| !tools.is_empty()) {
            (self.on_change)(self.all(&listed));
        }
    }

    /// Held while `on_change` runs, so that what it is told last is the latest.
    fn listed(&self) -> MutexGuard<'_, ToolLists> {
        self.listed.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn all(&self, listed: &ToolLists) -> Vec<Arc<dyn Tool>> {
        let all = listed.0.iter().flat_map(|(server, tools)| tools.iter().map(move |tool| (server, tool)));
        let all: Vec<(&String, &rmcp::model::Tool)> = all.collect();
        let pairs: Vec<(&str, &str)> =
            all.iter().map(|(server, tool)| (server.as_str(), tool.name.as_ref())).collect();
        let named = assign_names(&pairs).into_iter().zip(all);
        named
            .filter_map(|(name, (server, tool))| {
                let tool = McpTool::new(self.servers.clone(), server.clone(), name?, tool);
                Some(Arc::new(tool) as Arc<dyn Tool>)
            })
            .collect()
    }
}

#[cfg(test)]
mod tests;
