//! Opens connections to PostgreSQL: reads the URL and sets up TLS.
//!
//! tokio-postgres knows three of the six values of `sslmode`, and no certificates, so these parameters are read here.

use std::{str::FromStr, time::Duration};

use deadpool_postgres::{ClientWrapper, ConfigConnectImpl, Connect as _, Manager, ManagerConfig};
use percent_encoding::percent_decode_str;
use tokio_postgres::{
    Config, Error,
    config::{Host, SslMode},
};
use tokio_postgres_rustls::MakeRustlsConnect;

use super::tls::{self, Certificates, Verify};
use crate::error::describe;

/// The time that a connection may take to open.
const CONNECT: Duration = Duration::from_secs(5);
/// This end gives up a connection as soon as the server does.
const UNACKNOWLEDGED: Duration = Duration::from_secs(7);
const KEEPALIVE_IDLE: Duration = Duration::from_secs(3);
const KEEPALIVE_INTERVAL: Duration = Duration::from_secs(2);
const KEEPALIVES: u32 = 2;
const PORT: u16 = 5432;

/// Opens connections to the database that a URL names.
#[derive(Clone)]
pub struct Connector {
    config: Config,
    tls: MakeRustlsConnect,
}

// === impl Connector ===

impl Connector {
    /// Returns a connector for this URL, or the reason why there is none.
    pub fn new(url: &str) -> Result<Self, String> {
        let (place, parameters) = url.split_once('?').unwrap_or((url, ""));
        let mut certificates = Certificates::default();
        let (mut ssl_mode, mut verify) = (SslMode::Prefer, Verify::Nothing);
        let mut others = Vec::new();
        for parameter in parameters.split('&').filter(|parameter| !parameter.is_empty()) {
            let (key, value) = parameter.split_once('=').unwrap_or((parameter, ""));
            let value = || percent_decode_str(value).decode_utf8_lossy().into_owned();
            match key {
                "sslmode" => {
                    (ssl_mode, verify) = match &*value() {
                        "disable" | "allow" => (SslMode::Disable, Verify::Nothing),
                        "prefer" => (SslMode::Prefer, Verify::Nothing),
                        "require" => (SslMode::Require, Verify::Nothing),
                        "verify-ca" => (SslMode::Require, Verify::Authority),
                        "verify-full" => (SslMode::Require, Verify::Full),
                        other => {
                            return Err(format!(
                                "sslmode is {other:?}; use disable, prefer, require, verify-ca or verify-full"
                            ));
                        }
                    }
                }
                "sslrootcert" => certificates.root = Some(value()),
                "sslcert" => certificates.client = Some(value()),
                "sslkey" => certificates.key = Some(value()),
                _ => others.push(parameter),
            }
        }
        let mut config =
            Config::from_str(&format!("{place}?{}", others.join("&"))).map_err(|error| describe(&error))?;
        if config.get_hosts().is_empty() {
            config.host("localhost");
        }
        config
            .ssl_mode(ssl_mode)
            .connect_timeout(CONNECT)
            .tcp_user_timeout(UNACKNOWLEDGED)
            .keepalives_idle(KEEPALIVE_IDLE)
            .keepalives_interval(KEEPALIVE_INTERVAL)
            .keepalives_retries(KEEPALIVES);
        if config.get_application_name().is_none() {
            config.application_name("fermata");
        }
        let tls = MakeRustlsConnect::new(tls::client_config(verify, &certificates)?);
        Ok(Self { config, tls }.with(&[("client_min_messages", "warning")]))
    }

    /// Returns a connector whose sessions have these settings, unless the URL has them.
    #[must_use]
    pub fn with(mut self, settings: &[(&str, &str)]) -> Self {
        let mut options = self.options().to_owned();
        for (name, value) in settings {
            if !options.contains(name) {
                options.push_str(&format!(" -c {name}={value}"));
            }
        }
        self.config.options(options.trim());
        self
    }

    /// Returns the settings of its sessions, as options of the server's command line.
    pub fn options(&self) -> &str {
        self.config.get_options().unwrap_or_default()
    }

    /// Returns the address of the server, for the operator.
    pub fn server(&self) -> String {
        match self.config.get_hosts().first() {
            Some(Host::Unix(folder)) => folder.display().to_string(),
            Some(Host::Tcp(name)) => {
                format!("{name}:{}", self.config.get_ports().first().copied().unwrap_or(PORT))
            }
            None => String::new(),
        }
    }

    /// Returns the name of the user.
    pub fn user(&self) -> &str {
        self.config.get_user().unwrap_or_default()
    }

    /// Returns the name of the database, which is the user's name if the URL has none.
    pub fn database(&self) -> &str {
        self.config.get_dbname().unwrap_or(self.user())
    }

    /// Opens a connection that no pool has.
    pub async fn connect(&self) -> Result<ClientWrapper, Error> {
        let connect = ConfigConnectImpl { tls: self.tls.clone() };
        let (client, task) = connect.connect(&self.config).await?;
        Ok(ClientWrapper::new(client, task))
    }

    pub fn into_manager(self) -> Manager {
        Manager::from_config(self.config, self.tls, ManagerConfig::default())
    }
}

#[cfg(test)]
mod tests {
    use std::{net::Ipv4Addr, sync::Arc};

    use rcgen::CertifiedKey;
    use tokio::{
        io::{AsyncReadExt, AsyncWriteExt},
        net::TcpListener,
    };
    use tokio_rustls::{TlsAcceptor, rustls::ServerConfig};

    use super::*;

    /// Returns whether a client with these parameters trusts a server with this certificate.
    async fn trusts(parameters: &str, certified: &CertifiedKey<rcgen::KeyPair>) -> bool {
        let key = certified.signing_key.serialize_der().try_into().unwrap();
        let provider = Arc::new(rustls::crypto::aws_lc_rs::default_provider());
        let config = ServerConfig::builder_with_provider(provider)
            .with_safe_default_protocol_versions()
            .unwrap()
            .with_no_client_auth()
            .with_single_cert(vec![certified.cert.der().clone()], key)
            .unwrap();
        let listener = TcpListener::bind((Ipv4Addr::LOCALHOST, 0)).await.unwrap();
        let url = format!("postgres://u@127.0.0.1:{}/d?{parameters}", listener.local_addr().unwrap().port());
        let connector = Connector::new(&url).unwrap();
        let serving = async {
            let (mut client, _) = listener.accept().await.unwrap();
            client.read_exact(&mut [0; 8]).await.unwrap();
            client.write_all(b"S").await.unwrap();
            TlsAcceptor::from(Arc::new(config)).accept(client).await.is_ok()
        };
        let (connected, is_trusted) = tokio::join!(connector.connect(), serving);
        assert!(connected.is_err(), "nobody is there behind TLS");
        is_trusted
    }

    #[tokio::test]
    async fn a_server_is_trusted_as_far_as_sslmode_says() {
        let here = rcgen::generate_simple_self_signed(["127.0.0.1".to_owned()]).unwrap();
        let elsewhere = rcgen::generate_simple_self_signed(["elsewhere.example".to_owned()]).unwrap();
        for (mode, of_unknown_authority, for_other_name) in [
            ("prefer", true, true),
            ("require", true, true),
            ("verify-ca", false, true),
            ("verify-full", false, false),
        ] {
            let unknown = format!("sslmode={mode}");
            assert_eq!(trusts(&unknown, &here).await, of_unknown_authority, "{mode}");
            for (certified, expected) in [(&here, true), (&elsewhere, for_other_name)] {
                let path = std::env::temp_dir().join(format!("fermata-root-{}.pem", uuid::Uuid::new_v4()));
                std::fs::write(&path, certified.cert.pem()).unwrap();
                let known = format!("{unknown}&sslrootcert={}", path.display());
                assert_eq!(trusts(&known, certified).await, expected, "{mode}");
                std::fs::remove_file(path).unwrap();
            }
        }
    }

    #[test]
    fn whatever_the_url_says_reaches_the_driver() {
        let url = "postgres://us%2Fer:p%40ss%2Fw%C3%B6rd@db.example:6543/chats?application_name=a&options=-c%20lock_timeout%3D1s";
        let Connector { config, .. } = Connector::new(url).unwrap();
        assert_eq!(config.get_user(), Some("us/er"));
        assert_eq!(config.get_password(), Some("p@ss/wörd".as_bytes()));
        assert_eq!(config.get_ports(), [6543]);
        assert_eq!((config.get_dbname(), config.get_application_name()), (Some("chats"), Some("a")));
        assert_eq!(config.get_options(), Some("-c lock_timeout=1s -c client_min_messages=warning"));
        assert_eq!(config.get_ssl_mode(), SslMode::Prefer);
        let host = |url| {
            let connector = Connector::new(url).unwrap();
            connector.config.get_hosts().to_vec()
        };
        assert_eq!(host("postgres://u@[::1]/d"), [Host::Tcp("::1".into())]);
        assert_eq!(host("postgres:///d?user=u"), [Host::Tcp("localhost".into())]);
        assert_eq!(host("postgres:///d?host=/run/sockets&user=u"), [Host::Unix("/run/sockets".into())]);
    }

    #[test]
    fn what_cannot_be_used_says_why() {
        let refused = |parameters: &str| {
            let url = format!("postgres://u@h/d?sslmode=verify-full&{parameters}");
            Connector::new(&url).err().unwrap()
        };
        let missing = refused("sslrootcert=/nowhere/root.pem");
        assert!(missing.starts_with("sslrootcert=/nowhere/root.pem: "), "{missing}");
        let half = refused("sslcert=/nowhere/client.pem");
        assert!(half.contains("together"), "{half}");
    }
}
