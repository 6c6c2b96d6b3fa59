//! Requests to processes of this machine, over plain HTTP: one a connection, so that an answer ends with it.

use std::io::{Read, Write};
use std::net::{SocketAddr, TcpStream};
use std::path::Path;
use std::time::Duration;

use serde_json::Value;

/// Far beyond what an answer takes on a machine that is busy; it only ends a run that hangs.
const DEADLINE: Duration = Duration::from_secs(60);

/// Somebody who answers.
#[derive(Clone, Debug)]
pub struct Server {
    address: SocketAddr,
    token: String,
}

impl Server {
    /// One that wants no token.
    pub const fn at(address: SocketAddr) -> Self {
        let token = String::new();
        Self { address, token }
    }

    /// The API server of a kubeconfig that the sandbox wrote.
    ///
    /// # Errors
    /// When there is none.
    pub fn of(kubeconfig: &Path) -> Result<Self, String> {
        let text = std::fs::read_to_string(kubeconfig).map_err(|error| format!("{}: {error}", kubeconfig.display()))?;
        let config: Value = serde_json::from_str(&text).map_err(|error| format!("{}: {error}", kubeconfig.display()))?;
        let url = config["clusters"][0]["cluster"]["server"].as_str().unwrap_or_default();
        let address = url.split("://").nth(1).unwrap_or_default();
        Ok(Self {
            address: address
                .parse()
                .map_err(|error| format!("server '{url}' of the sandbox: {error}"))?,
            token: config["users"][0]["user"]["token"].as_str().unwrap_or_default().to_owned(),
        })
    }

    /// The body of an answer, whatever its status is.
    ///
    /// # Errors
    /// When nothing is answered.
    pub fn get(&self, path: &str) -> Result<String, String> {
        self.ask("GET", path, "").map(|(_, body)| body)
    }

    /// Changes an object.
    ///
    /// # Errors
    /// When it is not changed.
    pub fn patch(&self, path: &str, patch: &Value) -> Result<(), String> {
        match self.ask("PATCH", path, &patch.to_string())? {
            (200, _) => Ok(()),
            (status, body) => Err(format!("PATCH {path} was answered {status}: {body}")),
        }
    }

    fn ask(&self, method: &str, path: &str, body: &str) -> Result<(u16, String), String> {
        self.exchange(method, path, body)
            .map_err(|error| format!("{method} {path} at {}: {error}", self.address))
    }

    fn exchange(&self, method: &str, path: &str, body: &str) -> std::io::Result<(u16, String)> {
        let mut stream = TcpStream::connect(self.address)?;
        stream.set_read_timeout(Some(DEADLINE))?;
        let (length, token) = (body.len(), &self.token);
        let head = format!(
            "{method} {path} HTTP/1.0\r\nHost: localhost\r\nAuthorization: Bearer {token}\r\n\
             Content-Type: application/merge-patch+json\r\nContent-Length: {length}\r\n\r\n"
        );
        stream.write_all((head + body).as_bytes())?;
        let mut answer = String::new();
        stream.read_to_string(&mut answer)?;
        split(&answer).ok_or_else(|| std::io::Error::other("no HTTP was answered"))
    }
}

/// Status and body of an answer.
fn split(answer: &str) -> Option<(u16, String)> {
    let (head, body) = answer.split_once("\r\n\r\n")?;
    let status = head.split(' ').nth(1)?.parse().ok()?;
    Some((status, body.to_owned()))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_answer_is_status_and_body() {
        let answer = "HTTP/1.0 503 Service Unavailable\r\nContent-Type: text/plain\r\n\r\n[-]x failed\r\n\r\nmore";
        assert_eq!(split(answer), Some((503, "[-]x failed\r\n\r\nmore".to_owned())));
        for broken in ["", "HTTP/1.0 200 OK\r\n", "what\r\n\r\n"] {
            assert_eq!(split(broken), None, "{broken}");
        }
    }
}
