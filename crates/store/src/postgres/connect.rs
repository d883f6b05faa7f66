//! Opens connections to PostgreSQL.
//!
//! sqlx reads the URL, the variables of the environment and the file of passwords, because it opens the connection that migrates. All
//! others are opened with the same options by tokio-postgres, which can send a query before the one before it was answered.

use std::time::Duration;

use deadpool_postgres::{ClientWrapper, ConfigConnectImpl, Connect as _, Manager, ManagerConfig};
use fermata_engine::store::StoreError;
use percent_encoding::percent_decode_str;
use sqlx::{
    ConnectOptions as _,
    postgres::{PgConnectOptions, PgSslMode},
};
use tokio_postgres::{Config, config::SslMode};
use tokio_postgres_rustls::MakeRustlsConnect;

use super::tls::{self, Certificates, Verify};
use crate::error::{Fault, describe};

/// The time that a connection may take to open.
const CONNECT: Duration = Duration::from_secs(5);
/// This end gives up a connection as soon as the server does.
const UNACKNOWLEDGED: Duration = Duration::from_secs(7);
const KEEPALIVE_IDLE: Duration = Duration::from_secs(3);
const KEEPALIVE_INTERVAL: Duration = Duration::from_secs(2);
const KEEPALIVES: u32 = 2;

/// Opens connections.
#[derive(Clone)]
pub struct Connector {
    config: Config,
    tls: MakeRustlsConnect,
}

// === impl Connector ===

impl Connector {
    /// Returns a connector with these options, or the reason why there is none.
    pub fn new(options: &PgConnectOptions) -> Result<Self, String> {
        let mut config = Config::new();
        config
            .user(options.get_username())
            .port(options.get_port())
            .connect_timeout(CONNECT)
            .tcp_user_timeout(UNACKNOWLEDGED)
            .keepalives_idle(KEEPALIVE_IDLE)
            .keepalives_interval(KEEPALIVE_INTERVAL)
            .keepalives_retries(KEEPALIVES);
        match options.get_socket() {
            Some(folder) => config.host_path(folder),
            // An IPv6 address stands in brackets in a URL.
            None => config.host(options.get_host().trim_start_matches('[').trim_end_matches(']')),
        };
        if let Some(database) = options.get_database() {
            config.dbname(database);
        }
        if let Some(name) = options.get_application_name() {
            config.application_name(name);
        }
        if let Some(settings) = options.get_options() {
            config.options(settings);
        }
        // The password and the paths of certificates can be read in no other way. Names that no URL can have are left out of it.
        let url = options.clone().username("user").host("host").to_url_lossy();
        if let Some(password) = url.password() {
            config.password(percent_decode_str(password).collect::<Vec<u8>>());
        }
        let mut certificates = Certificates::default();
        for (key, value) in url.query_pairs() {
            // sqlx writes this before a path.
            let value = value.strip_prefix("file: ").unwrap_or(&value).to_owned();
            match &*key {
                "sslrootcert" => certificates.root = Some(value),
                "sslcert" => certificates.client = Some(value),
                "sslkey" => certificates.key = Some(value),
                _ => {}
            }
        }
        let (mode, verify) = match options.get_ssl_mode() {
            PgSslMode::Disable | PgSslMode::Allow => (SslMode::Disable, Verify::Nothing),
            PgSslMode::Prefer => (SslMode::Prefer, Verify::Nothing),
            PgSslMode::Require => (SslMode::Require, Verify::Nothing),
            PgSslMode::VerifyCa => (SslMode::Require, Verify::Authority),
            PgSslMode::VerifyFull => (SslMode::Require, Verify::Full),
        };
        config.ssl_mode(mode);
        let tls = MakeRustlsConnect::new(tls::client_config(verify, &certificates)?);
        Ok(Self { config, tls })
    }

    /// Opens a connection that no pool has.
    pub async fn connect(&self) -> Result<ClientWrapper, Fault> {
        let connect = ConfigConnectImpl { tls: self.tls.clone() };
        let (client, task) =
            connect.connect(&self.config).await.map_err(|error| StoreError::Unavailable(describe(&error)))?;
        Ok(ClientWrapper::new(client, task))
    }

    pub fn into_manager(self) -> Manager {
        Manager::from_config(self.config, self.tls, ManagerConfig::default())
    }
}

#[cfg(test)]
mod tests {
    use std::{net::Ipv4Addr, str::FromStr, sync::Arc};

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
        let connector = Connector::new(&PgConnectOptions::from_str(&url).unwrap()).unwrap();
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
        let Connector { config, .. } = Connector::new(&PgConnectOptions::from_str(url).unwrap()).unwrap();
        assert_eq!(config.get_user(), Some("us/er"));
        assert_eq!(config.get_password(), Some("p@ss/wörd".as_bytes()));
        assert_eq!(config.get_ports(), [6543]);
        assert_eq!((config.get_dbname(), config.get_application_name()), (Some("chats"), Some("a")));
        assert_eq!(config.get_options(), Some("-c lock_timeout=1s"));
        assert_eq!(config.get_ssl_mode(), SslMode::Prefer);
        let host = |url| {
            let connector = Connector::new(&PgConnectOptions::from_str(url).unwrap()).unwrap();
            connector.config.get_hosts().to_vec()
        };
        assert_eq!(host("postgres://u@[::1]/d"), [tokio_postgres::config::Host::Tcp("::1".into())]);
        assert_eq!(host("postgres://u@h/d?hostaddr=::1"), [tokio_postgres::config::Host::Tcp("::1".into())]);
        assert_eq!(
            host("postgres:///d?host=/run/sockets&user=u"),
            [tokio_postgres::config::Host::Unix("/run/sockets".into())]
        );
    }

    #[test]
    fn what_cannot_be_used_says_why() {
        let refused = |parameters: &str| {
            let url = format!("postgres://u@h/d?sslmode=verify-full&{parameters}");
            Connector::new(&PgConnectOptions::from_str(&url).unwrap()).err().unwrap()
        };
        let missing = refused("sslrootcert=/nowhere/root.pem");
        assert!(missing.starts_with("sslrootcert=/nowhere/root.pem: "), "{missing}");
        let half = refused("sslcert=/nowhere/client.pem");
        assert!(half.contains("together"), "{half}");
    }
}
