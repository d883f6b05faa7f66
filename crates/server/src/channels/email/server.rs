//! The mail server that mails are handed to.
//!
//! Invariant: a connection goes to an address that was checked; TLS checks the name.

use std::net::IpAddr;

use fermata_engine::{SystemResolver, resolver::allowed_addresses};
use fermata_tools::{HostName, hosts::is_public_address};
use lettre::{
    AsyncSmtpTransport, AsyncTransport, Message, Tokio1Executor,
    transport::smtp::{
        authentication::Credentials,
        client::{Tls, TlsParameters},
    },
};

use super::SendError;
use crate::config::SmtpUrl;

/// A mail server.
pub struct MailServer {
    url: SmtpUrl,
    is_private: bool,
    resolver: SystemResolver,
}

// === impl MailServer ===

impl MailServer {
    pub fn new(url: SmtpUrl, is_private: bool) -> Self {
        Self { url, is_private, resolver: SystemResolver::default() }
    }

    /// Hands a mail to the server.
    pub async fn send(&self, message: Message) -> Result<(), SendError> {
        let address = self.address().await?;
        let host = self.url.host();
        let tls = if self.url.uses_tls() {
            let parameters = TlsParameters::new(host.to_owned());
            Tls::Wrapper(
                parameters.map_err(|error| SendError::Failed(format!("TLS cannot be set up: {error}")))?,
            )
        } else {
            Tls::None
        };
        let mut transport = AsyncSmtpTransport::<Tokio1Executor>::builder_dangerous(address.to_string())
            .port(self.url.port())
            .tls(tls);
        if let Some((user, password)) = self.url.credentials() {
            transport = transport.credentials(Credentials::new(user, password));
        }
        let sent = transport.build().send(message).await;
        // The text of an error may have what the server said, which names addresses, and never the password.
        sent.map(drop).map_err(|error| SendError::Failed(format!("the mail server refused a mail: {error}")))
    }

    async fn address(&self) -> Result<IpAddr, SendError> {
        let host = self.url.host();
        let is_allowed: fn(IpAddr) -> bool = if self.is_private { |_| true } else { is_public_address };
        let found = match HostName::parse(host) {
            Some(HostName::Address(address)) if is_allowed(address) => vec![address],
            Some(HostName::Address(_)) => {
                return Err(SendError::Refused(format!(
                    "{host} is not a public address; private = true allows it"
                )));
            }
            Some(HostName::Domain(_)) | None => {
                let found = allowed_addresses(&self.resolver, host, is_allowed).await;
                found.map_err(|refusal| SendError::Failed(refusal.to_string()))?
            }
        };
        found.into_iter().next().ok_or_else(|| SendError::Failed(format!("the name {host} has no address")))
    }
}
