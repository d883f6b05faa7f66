//! All servers and all their tools.

use std::{
    collections::{BTreeMap, BTreeSet},
    mem,
    sync::{Arc, Mutex, MutexGuard, PoisonError},
    time::Duration,
};

use fermata_tools::Tool;
use tokio::{task::JoinSet, time::timeout};
use tokio_util::sync::CancellationToken;

use crate::{
    config::{Secrets, ServerConfig},
    keeper::{Configured, Connector, Keeper, Publish},
    names::names,
    server::{Server, State},
    tool::McpTool,
};

/// Keeps the configured servers running and their tools listed.
///
/// What it has started ends with it: with [`Hub::shutdown`] in good order, when it is dropped at once.
pub struct Hub {
    tools: Arc<Tools>,
    running: Mutex<Running>,
}

type OnChange = Box<dyn Fn(Vec<Arc<dyn Tool>>) + Send + Sync>;

/// The tools of all servers, and who wants to know of them.
struct Tools {
    listed: Mutex<Listed>,
    on_change: OnChange,
}

/// The servers that are wanted, with what they listed last. What they are is what `on_change` was told.
#[derive(Default)]
struct Listed(BTreeMap<String, (Arc<Server>, Vec<rmcp::model::Tool>)>);

#[derive(Default)]
struct Running {
    servers: BTreeMap<String, Kept>,
    keepers: JoinSet<()>,
    shut_down: bool,
}

struct Kept {
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
        let tools = Tools { listed: Mutex::default(), on_change: Box::new(on_change) };
        let hub = Self { tools: Arc::new(tools), running: Mutex::default() };
        hub.set_servers(servers);
        hub
    }

    /// Changes which servers there are. Those that are no longer named, or are reached in another way, are ended, and
    /// their open calls fail; new ones are started; the others are left alone. After [`Hub::shutdown`] nothing is
    /// started.
    ///
    /// # Panics
    /// Outside a Tokio runtime.
    pub fn set_servers(&self, servers: BTreeMap<String, ServerConfig>) {
        self.set(servers, |name, config, secrets| {
            Arc::new(Configured { config: config.clone(), name: name.to_owned(), secrets: secrets.clone() })
        });
    }

    fn set(
        &self,
        mut servers: BTreeMap<String, ServerConfig>,
        connector: impl Fn(&str, &ServerConfig, &Secrets) -> Arc<dyn Connector>,
    ) {
        let mut running = self.running();
        if running.shut_down {
            return;
        }
        while running.keepers.try_join_next().is_some() {}
        let mut leaving = BTreeMap::new();
        for (name, kept) in mem::take(&mut running.servers) {
            if servers.get(&name) == Some(&kept.config) {
                servers.remove(&name);
                running.servers.insert(name, kept);
            } else {
                kept.end.cancel();
                leaving.insert(name, kept.ended);
            }
        }
        let mut new = Vec::new();
        for (name, config) in servers {
            let secrets = config.secrets();
            let connector = connector(&name, &config, &secrets);
            let server = Arc::new(Server::new(name.clone(), secrets));
            new.push(server.clone());
            // A server that takes another's place may need its port or its lock.
            let kept =
                running.keep(server, config, connector, self.tools.publish(), leaving.get(&name).cloned());
            running.servers.insert(name, kept);
        }
        self.tools.replace(|name| running.servers.contains_key(name), new);
    }

    /// Waits, at most for so long, until each server has listed its tools or has failed once. Whether they have.
    pub async fn ready(&self, at_most: Duration) -> bool {
        let servers: Vec<Arc<Server>> =
            self.running().servers.values().map(|kept| kept.server.clone()).collect();
        let all = async {
            for server in servers {
                server.started().await;
            }
        };
        timeout(at_most, all).await.is_ok()
    }

    /// Ends all servers and waits until they have ended; takes at most some ten seconds.
    pub async fn shutdown(&self) {
        let mut keepers = {
            let mut running = self.running();
            running.shut_down = true;
            for kept in mem::take(&mut running.servers).into_values() {
                kept.end.cancel();
            }
            mem::take(&mut running.keepers)
        };
        while keepers.join_next().await.is_some() {}
    }

    fn running(&self) -> MutexGuard<'_, Running> {
        self.running.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl Drop for Hub {
    fn drop(&mut self) {
        // The keepers are dropped with what they keep. Calls that wait for a server would wait for ever.
        for kept in self.running().servers.values() {
            kept.server.is(State::Ended);
        }
    }
}

// === impl Running ===

impl Running {
    fn keep(
        &mut self,
        server: Arc<Server>,
        config: ServerConfig,
        connector: Arc<dyn Connector>,
        publish: Publish,
        after: Option<CancellationToken>,
    ) -> Kept {
        let (end, ended) = (CancellationToken::new(), CancellationToken::new());
        let keeper = Keeper::new(server.clone(), connector, publish, end.clone());
        let guard = ended.clone().drop_guard();
        self.keepers.spawn(async move {
            let _ended = guard;
            if let Some(after) = after {
                after.cancelled().await;
            }
            keeper.run().await;
        });
        Kept { config, server, end, ended }
    }
}

// === impl Tools ===

impl Tools {
    fn publish(self: &Arc<Self>) -> Publish {
        let tools = self.clone();
        Arc::new(move |server, listed| tools.list(server, listed))
    }

    /// A server has listed its tools.
    fn list(&self, server: &Arc<Server>, tools: Vec<rmcp::model::Tool>) {
        let mut listed = self.listed();
        // One that was ended may still have been listing.
        match listed.0.get_mut(&server.name) {
            Some((wanted, old)) if Arc::ptr_eq(wanted, server) && *old != tools => *old = tools,
            Some(_) | None => return,
        }
        (self.on_change)(listed.tools());
    }

    /// Other servers are wanted now: of the old ones those that are `kept`, and the `new` ones.
    fn replace(&self, kept: impl Fn(&str) -> bool, new: Vec<Arc<Server>>) {
        let mut listed = self.listed();
        let replaced: BTreeSet<String> = new.iter().map(|server| server.name.clone()).collect();
        let before = mem::take(&mut listed.0);
        let mut changed = false;
        for (name, (server, tools)) in before {
            if kept(&name) && !replaced.contains(&name) {
                listed.0.insert(name, (server, tools));
            } else {
                changed |= !tools.is_empty();
            }
        }
        listed.0.extend(new.into_iter().map(|server| (server.name.clone(), (server, Vec::new()))));
        if changed {
            (self.on_change)(listed.tools());
        }
    }

    /// Held while `on_change` runs, so that what it is told last is the latest.
    fn listed(&self) -> MutexGuard<'_, Listed> {
        self.listed.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

// === impl Listed ===

impl Listed {
    fn tools(&self) -> Vec<Arc<dyn Tool>> {
        let all = self.0.values().flat_map(|(server, tools)| tools.iter().map(move |tool| (server, tool)));
        let all: Vec<(&Arc<Server>, &rmcp::model::Tool)> = all.collect();
        let pairs: Vec<(&str, &str)> =
            all.iter().map(|(server, tool)| (server.name.as_str(), tool.name.as_ref())).collect();
        let named = names(&pairs).into_iter().zip(all);
        named
            .filter_map(|(name, (server, tool))| {
                Some(Arc::new(McpTool::new(server.clone(), name?, tool)) as Arc<dyn Tool>)
            })
            .collect()
    }
}

#[cfg(test)]
mod tests;
