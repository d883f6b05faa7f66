//! The URL of Redis, whose password is never shown.

use fermata_engine::peer_transport::{PeerTransport, TransportError};
use fermata_peers::RedisTransport;

use crate::{
    messages::{instance, message},
    server::{Server, connect, key},
};

#[test]
fn a_url_that_is_not_one_of_redis_is_refused_without_being_quoted() {
    let urls = [
        "",
        "localhost:6379",
        "127.0.0.1",
        "http://hunter2@localhost",
        "redis://",
        "redis://:hunter2@",
        "redis://:hunter2@localhost:port",
        "redis://:hunt/er2@localhost",
        "redis://:hunter2@localhost/name",
        "redis://:hunter2@localhost?protocol=hunter2",
        "redis://0.0.0.0",
        "rediss://:hunter2@localhost#hunter2",
    ];
    for url in urls {
        let text = RedisTransport::connect(url, "test", &key()).unwrap_err().to_string();
        assert!(text.contains("REDIS_URL") && !text.contains("hunt"), "{url}: {text}");
    }
}

#[test]
fn texts_about_a_transport_contain_no_secret() {
    for scheme in ["redis", "rediss"] {
        let transport = connect(&format!("{scheme}://me:hunter2@redis.test:6380/3"), "shop");
        for text in [transport.to_string(), format!("{transport:?}")] {
            assert!(text.contains("redis.test:6380") && text.contains("shop"), "{text}");
            assert!(!text.contains("hunter2") && !text.contains("me:"), "{text}");
        }
    }
}

#[tokio::test]
async fn a_wrong_password_is_not_shown() {
    let Some(server) = Server::start(&["--requirepass", "swordfish"]) else { return };
    let (port, a) = (server.port(), instance("a"));
    let transport = connect(&format!("redis://:hunter2@127.0.0.1:{port}"), "test");
    let Err(TransportError::Unavailable(text)) = transport.open(&a).await else {
        panic!("the connection was accepted")
    };
    assert!(text.contains(&port.to_string()) && !text.contains("hunter2"), "{text}");
    let transport = connect(&format!("redis://:swordfish@127.0.0.1:{port}"), "test");
    transport.open(&a).await.unwrap();
    transport.send(&a, vec![message("let in")]).await.unwrap();
    assert_eq!(transport.receive(&a).await.unwrap(), [message("let in")]);
}

#[tokio::test]
async fn a_redis_without_tls_is_not_used_if_the_url_asks_for_tls() {
    let Some(server) = Server::start(&[]) else { return };
    let url = format!("rediss://:hunter2@127.0.0.1:{}", server.port());
    let transport = connect(&url, "test");
    let Err(TransportError::Unavailable(text)) = transport.open(&instance("a")).await else {
        panic!("the connection was accepted")
    };
    assert!(!text.contains("hunter2"), "{text}");
}

#[cfg(unix)]
#[tokio::test]
async fn a_redis_behind_a_socket_in_the_file_system_is_reached() {
    let socket =
        std::path::Path::new(env!("CARGO_TARGET_TMPDIR")).join(format!("{}.sock", std::process::id()));
    let Some(_server) = Server::start(&["--unixsocket", socket.to_str().unwrap()]) else { return };
    let transport = connect(&format!("unix://{}", socket.display()), "test");
    let a = instance("a");
    transport.open(&a).await.unwrap();
    transport.send(&a, vec![message("near")]).await.unwrap();
    assert_eq!(transport.receive(&a).await.unwrap(), [message("near")]);
}
