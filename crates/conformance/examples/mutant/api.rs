//! The way between a stage and the API server, on which words are exchanged for others of the same length.

use std::net::SocketAddr;

use serde_json::{Value, json};
use tokio::io::{AsyncRead, AsyncReadExt as _, AsyncWrite, AsyncWriteExt as _};
use tokio::net::{TcpListener, TcpStream};

use crate::Failure;
use crate::mutations::{Mutation, Words};

/// Patches an object of the server of a kubeconfig; true if the server allows it.
pub async fn patch(kubeconfig: &str, path: &str, patch: &str) -> Result<bool, Failure> {
    let kubeconfig: Value = serde_json::from_str(kubeconfig)?;
    let (address, token) = (address_of(&kubeconfig)?, &kubeconfig["users"][0]["user"]["token"]);
    let token = token.as_str().ok_or("the kubeconfig has no token")?;
    let mut stream = TcpStream::connect(address).await?;
    let request = format!(
        "PATCH {path} HTTP/1.1\r\nHost: {address}\r\nAuthorization: Bearer {token}\r\nContent-Type: application/json-patch+json\r\n\
         Content-Length: {}\r\nConnection: close\r\n\r\n{patch}",
        patch.len()
    );
    stream.write_all(request.as_bytes()).await?;
    let mut answer = Vec::new();
    stream.read_to_end(&mut answer).await?;
    Ok(answer.starts_with(b"HTTP/1.1 200 "))
}

fn address_of(kubeconfig: &Value) -> Result<SocketAddr, Failure> {
    let server = kubeconfig["clusters"][0]["cluster"]["server"].as_str();
    let server = server.and_then(|url| url.strip_prefix("https://"));
    Ok(server.ok_or("the kubeconfig names no server")?.parse()?)
}

/// Opens the way to the server of a kubeconfig; returns one that leads over it. The server speaks plain text, too, on which words can
/// be exchanged.
pub async fn serve(kubeconfig: &str, mutation: &'static Mutation) -> Result<String, Failure> {
    let mut kubeconfig: Value = serde_json::from_str(kubeconfig)?;
    let address = address_of(&kubeconfig)?;
    let listener = TcpListener::bind(("127.0.0.1", 0)).await?;
    kubeconfig["clusters"][0]["cluster"] = json!({"server": format!("http://{}", listener.local_addr()?)});
    tokio::spawn(async move {
        while let Ok((client, _)) = listener.accept().await {
            tokio::spawn(carry(client, address, mutation));
        }
    });
    Ok(kubeconfig.to_string())
}

async fn carry(client: TcpStream, server: SocketAddr, mutation: &'static Mutation) {
    let Ok(server) = TcpStream::connect(server).await else {
        return;
    };
    let _ = (client.set_nodelay(true), server.set_nodelay(true));
    let (from_client, to_client) = client.into_split();
    let (from_server, to_server) = server.into_split();
    // Whichever side ends, ends both.
    tokio::select! {
        _ = exchange(from_client, to_server, mutation.requests) => {}
        _ = exchange(from_server, to_client, mutation.answers) => {}
    }
}

async fn exchange(mut from: impl AsyncRead + Unpin, mut to: impl AsyncWrite + Unpin, words: Words) -> std::io::Result<()> {
    let longest = words.iter().map(|(word, _)| word.len()).max().unwrap_or(0);
    let (mut held, mut chunk) = (Vec::new(), vec![0; 64 * 1024]);
    loop {
        let read = from.read(&mut chunk).await?;
        if read == 0 {
            return to.write_all(&held).await;
        }
        held.extend_from_slice(&chunk[..read]);
        for (word, other) in words {
            replace(&mut held, word.as_bytes(), other.as_bytes());
        }
        // What may be the beginning of a word waits for its end.
        let kept = (1..longest.min(held.len() + 1)).rev().find(|length| {
            let end = &held[held.len() - length..];
            words.iter().any(|(word, _)| word.as_bytes().starts_with(end))
        });
        let ready = held.len() - kept.unwrap_or(0);
        to.write_all(&held[..ready]).await?;
        held.drain(..ready);
    }
}

fn replace(text: &mut [u8], word: &[u8], other: &[u8]) {
    assert_eq!(word.len(), other.len(), "lengths of messages are told before them");
    let mut place = 0;
    while let Some(found) = text[place..].windows(word.len()).position(|part| part == word) {
        text[place + found..place + found + word.len()].copy_from_slice(other);
        place += found + word.len();
    }
}
