//! TLS to PostgreSQL, as `sslmode` and its neighbours in the URL ask for it.

use std::{fs, sync::Arc};

use rustls::{
    CertificateError, ClientConfig, DigitallySignedStruct, RootCertStore, SignatureScheme,
    client::{
        WebPkiServerVerifier,
        danger::{HandshakeSignatureValid, ServerCertVerified, ServerCertVerifier},
    },
    crypto::aws_lc_rs,
    pki_types::{CertificateDer, PrivateKeyDer, ServerName, UnixTime, pem::PemObject},
};

/// The certificates and the key that a URL names: each a path, or the PEM text itself.
#[derive(Default)]
pub struct Certificates {
    /// `sslrootcert`: authorities that are trusted beside those that everybody trusts.
    pub root: Option<String>,
    /// `sslcert`: the certificate that identifies this client to the server.
    pub client: Option<String>,
    /// `sslkey`: the key of that certificate.
    pub key: Option<String>,
}

/// The part of the server's certificate that is verified, by the names of libpq.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Verify {
    /// `prefer` and `require`: nothing. The connection is encrypted, and leads to any server that answers.
    Nothing,
    /// `verify-ca`: a trusted authority has issued it.
    Authority,
    /// `verify-full`: it is also for the name in the URL.
    Full,
}

/// Verifies as much of the server's certificate as is wanted, and always that the server has its key.
#[derive(Debug)]
struct Verifier {
    verify: Verify,
    full: Arc<WebPkiServerVerifier>,
}

/// Returns the settings of the TLS connections, or the reason why there are none.
pub fn client_config(verify: Verify, certificates: &Certificates) -> Result<ClientConfig, String> {
    let provider = Arc::new(aws_lc_rs::default_provider());
    let mut roots: RootCertStore = webpki_roots::TLS_SERVER_ROOTS.iter().cloned().collect();
    if let (Verify::Authority | Verify::Full, Some(root)) = (verify, &certificates.root) {
        for root in read_certificates("sslrootcert", root)? {
            roots.add(root).map_err(|error| format!("sslrootcert: {error}"))?;
        }
    }
    let full = WebPkiServerVerifier::builder_with_provider(Arc::new(roots), provider.clone()).build();
    let full = full.map_err(|error| error.to_string())?;
    let config = ClientConfig::builder_with_provider(provider)
        .with_safe_default_protocol_versions()
        .map_err(|error| error.to_string())?
        .dangerous()
        .with_custom_certificate_verifier(Arc::new(Verifier { verify, full }));
    match (&certificates.client, &certificates.key) {
        (None, None) => Ok(config.with_no_client_auth()),
        (Some(client), Some(key)) => {
            let key = PrivateKeyDer::from_pem_slice(&pem("sslkey", key)?);
            let key = key.map_err(|error| format!("sslkey: {error}"))?;
            let chain = read_certificates("sslcert", client)?;
            config.with_client_auth_cert(chain, key).map_err(|error| format!("sslcert and sslkey: {error}"))
        }
        (_, _) => Err("sslcert and sslkey are of use together only".into()),
    }
}

fn read_certificates(parameter: &str, value: &str) -> Result<Vec<CertificateDer<'static>>, String> {
    let read: Result<Vec<_>, _> = CertificateDer::pem_slice_iter(&pem(parameter, value)?).collect();
    read.map_err(|error| format!("{parameter}: {error}"))
}

/// Returns the text of a parameter that has it, or a path to it.
fn pem(parameter: &str, value: &str) -> Result<Vec<u8>, String> {
    if value.starts_with("-----BEGIN") {
        return Ok(value.as_bytes().to_owned());
    }
    fs::read(value).map_err(|error| format!("{parameter}={value}: {error}"))
}

// === impl Verifier ===

impl ServerCertVerifier for Verifier {
    fn verify_server_cert(
        &self,
        end_entity: &CertificateDer<'_>,
        intermediates: &[CertificateDer<'_>],
        server_name: &ServerName<'_>,
        ocsp_response: &[u8],
        now: UnixTime,
    ) -> Result<ServerCertVerified, rustls::Error> {
        if self.verify == Verify::Nothing {
            return Ok(ServerCertVerified::assertion());
        }
        let verified =
            self.full.verify_server_cert(end_entity, intermediates, server_name, ocsp_response, now);
        match verified {
            // The name is looked at last.
            Err(rustls::Error::InvalidCertificate(
                CertificateError::NotValidForName | CertificateError::NotValidForNameContext { .. },
            )) if self.verify == Verify::Authority => Ok(ServerCertVerified::assertion()),
            verified => verified,
        }
    }

    fn verify_tls12_signature(
        &self,
        message: &[u8],
        certificate: &CertificateDer<'_>,
        signature: &DigitallySignedStruct,
    ) -> Result<HandshakeSignatureValid, rustls::Error> {
        self.full.verify_tls12_signature(message, certificate, signature)
    }

    fn verify_tls13_signature(
        &self,
        message: &[u8],
        certificate: &CertificateDer<'_>,
        signature: &DigitallySignedStruct,
    ) -> Result<HandshakeSignatureValid, rustls::Error> {
        self.full.verify_tls13_signature(message, certificate, signature)
    }

    fn supported_verify_schemes(&self) -> Vec<SignatureScheme> {
        self.full.supported_verify_schemes()
    }
}
