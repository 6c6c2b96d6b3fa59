//! Processes, and an API server as anybody may talk to it.

use std::ffi::OsStr;
use std::io::{BufRead, BufReader, Read, Write};
use std::net::{SocketAddr, TcpStream};
use std::path::Path;
use std::process::{Child, Command, Stdio};
use std::sync::mpsc::{Receiver, sync_channel};
use std::time::Duration;

use serde_json::{Value, json};

/// Far beyond the few seconds that anything here takes; it only ends a run that hangs.
pub const DEADLINE: Duration = Duration::from_secs(120);

/// The program of all services and commands.
pub const BAILIFF: &str = env!("CARGO_BIN_EXE_bailiff");

/// It with these arguments.
pub fn command(args: &[impl AsRef<OsStr>]) -> Command {
    let mut command = Command::new(BAILIFF);
    // Every flag is an environment variable too: those of whoever runs the tests mean nothing here.
    command.env_clear().args(args).stdin(Stdio::null());
    command
}

/// What a command ended with.
#[derive(Debug)]
pub struct Ended {
    pub code: Option<i32>,
    pub stdout: String,
    pub stderr: String,
}

/// Runs a command to its end.
pub fn bailiff(args: &[&str]) -> Ended {
    Ended::of(command(args).stdout(Stdio::piped()).stderr(Stdio::piped()))
}

/// The same, where nobody reads its output.
pub fn bailiff_unread(args: &[&str]) -> Ended {
    let (_, closed) = std::io::pipe().unwrap();
    Ended::of(command(args).stdout(closed).stderr(Stdio::piped()))
}

/// The same, where there is no room for its output.
pub fn bailiff_on_full_disk(args: &[&str]) -> Ended {
    let full = std::fs::OpenOptions::new().write(true).open("/dev/full").unwrap();
    Ended::of(command(args).stdout(full).stderr(Stdio::piped()))
}

/// The same, where nobody reads its errors either.
pub fn bailiff_unheard(args: &[&str]) -> Ended {
    let (_, closed) = std::io::pipe().unwrap();
    Ended::of(command(args).stdout(closed.try_clone().unwrap()).stderr(closed))
}

impl Ended {
    fn of(command: &mut Command) -> Self {
        let child = command.spawn().unwrap();
        let output = child.wait_with_output().unwrap();
        Self {
            code: output.status.code(),
            stdout: String::from_utf8(output.stdout).unwrap(),
            stderr: String::from_utf8(output.stderr).unwrap(),
        }
    }

    /// Its standard output, one JSON value per line.
    pub fn json(&self) -> Vec<Value> {
        let parse = |line| serde_json::from_str(line).unwrap_or_else(|error| panic!("{error}: {line}"));
        self.stdout.lines().map(parse).collect()
    }
}

/// A command that serves until it is stopped. Dropping it kills it.
pub struct Serving {
    child: Child,
    log: Receiver<String>,
}

impl Serving {
    pub fn start(args: &[impl AsRef<OsStr>]) -> Self {
        Self::spawn(&mut command(args))
    }

    /// The same, of which the output is waited for, and not the log.
    pub fn start_telling(args: &[impl AsRef<OsStr>]) -> Self {
        let mut child = command(args).stdout(Stdio::piped()).stderr(Stdio::inherit()).spawn().unwrap();
        let stdout = child.stdout.take().unwrap();
        Self {
            child,
            log: lines_of(stdout),
        }
    }

    /// The bus or a stage, as an image runs it.
    pub fn start_service(name: &str, args: &[impl AsRef<OsStr>]) -> Self {
        Self::spawn(command(&[name]).args(args))
    }

    fn spawn(command: &mut Command) -> Self {
        let mut child = command.stdout(Stdio::null()).stderr(Stdio::piped()).spawn().unwrap();
        let stderr = child.stderr.take().unwrap();
        Self {
            child,
            log: lines_of(stderr),
        }
    }

    /// Waits for a line of its log.
    pub fn until(&self, wanted: &str) -> String {
        let mut seen = Vec::new();
        loop {
            match self.log.recv_timeout(DEADLINE) {
                Ok(line) if line.contains(wanted) => return line,
                Ok(line) => seen.push(line),
                Err(error) => panic!("{wanted:?} was not logged, {error}: {seen:#?}"),
            }
        }
    }

    /// Ends it as the kubelet would, and tells its exit code.
    pub fn stop(self) -> Option<i32> {
        self.end().0
    }

    /// The same, and what it said and nobody has waited for.
    pub fn end(mut self) -> (Option<i32>, Vec<String>) {
        let pid = self.child.id().to_string();
        assert!(Command::new("kill").args(["-TERM", &pid]).status().unwrap().success());
        let code = self.child.wait().unwrap().code();
        (code, self.log.iter().collect())
    }
}

/// Asks until it is so.
pub fn until(what: &str, is_so: impl Fn() -> bool) {
    // So that what is waited for gets its turn meanwhile.
    const PAUSE: Duration = Duration::from_millis(20);
    let asked = async {
        while !is_so() {
            tokio::time::sleep(PAUSE).await;
        }
    };
    let runtime = tokio::runtime::Builder::new_current_thread().enable_time().build().unwrap();
    let came = runtime.block_on(async { tokio::time::timeout(DEADLINE, asked).await });
    assert!(came.is_ok(), "{what}: not within {DEADLINE:?}");
}

/// The lines of a stream, as they come.
pub fn lines_of(stream: impl Read + Send + 'static) -> Receiver<String> {
    // More than is ever said, so that nobody waits for the reader.
    let (sender, lines) = sync_channel(100_000);
    std::thread::spawn(move || {
        for line in BufReader::new(stream).lines().map_while(Result::ok) {
            if sender.send(line).is_err() {
                break;
            }
        }
    });
    lines
}

impl Drop for Serving {
    fn drop(&mut self) {
        // It may have ended already.
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

/// A pod on a node, which tolerates no silent one.
pub fn mk_pod(name: &str, node: &str) -> Value {
    let tolerations = ["node.kubernetes.io/not-ready", "node.kubernetes.io/unreachable"]
        .map(|key| json!({"key": key, "operator": "Exists", "effect": "NoExecute", "tolerationSeconds": 0}));
    json!({
        "apiVersion": "v1", "kind": "Pod", "metadata": {"name": name},
        "spec": {"nodeName": node, "tolerations": tolerations, "containers": [{"name": "main", "image": "pause"}]},
    })
}

/// The value of a field of a log line.
pub fn field(line: &str, name: &str) -> String {
    let after = line
        .split(&format!("{name}="))
        .nth(1)
        .unwrap_or_else(|| panic!("no {name} in {line}"));
    after.split_whitespace().next().unwrap().to_owned()
}

/// The API server that a kubeconfig leads to, over plain HTTP.
pub struct ApiServer {
    address: String,
    token: String,
}

impl ApiServer {
    pub fn of(kubeconfig: &Path) -> Self {
        let config: Value = serde_json::from_str(&std::fs::read_to_string(kubeconfig).unwrap()).unwrap();
        let server = config["clusters"][0]["cluster"]["server"].as_str().unwrap();
        Self {
            address: server.split("://").nth(1).unwrap().to_owned(),
            token: config["users"][0]["user"]["token"].as_str().unwrap().to_owned(),
        }
    }

    /// Sends a request and skips the head of the answer. HTTP/1.0, so that the answer ends with the connection.
    fn send(&self, method: &str, path: &str, kind: &str, body: &str) -> BufReader<TcpStream> {
        let mut stream = TcpStream::connect(&self.address).unwrap();
        stream.set_read_timeout(Some(DEADLINE)).unwrap();
        let (length, token) = (body.len(), &self.token);
        let head = format!(
            "{method} {path} HTTP/1.0\r\nHost: sandbox\r\nAuthorization: Bearer {token}\r\nContent-Type: {kind}\r\nContent-Length: \
             {length}\r\n\r\n"
        );
        stream.write_all((head + body).as_bytes()).unwrap();
        let mut answer = BufReader::new(stream);
        let mut line = String::new();
        answer.read_line(&mut line).unwrap();
        assert!(line.contains(" 20"), "{method} {path}: {line}");
        while !line.trim().is_empty() {
            line.clear();
            answer.read_line(&mut line).unwrap();
        }
        answer
    }

    /// Where it listens.
    pub fn address(&self) -> SocketAddr {
        self.address.parse().unwrap()
    }

    /// A kubeconfig that leads to it by way of another address.
    pub fn write_kubeconfig(&self, file: &Path, by: SocketAddr) {
        let config = json!({
            "apiVersion": "v1", "kind": "Config", "current-context": "c",
            "clusters": [{"name": "c", "cluster": {"server": format!("http://{by}")}}],
            "users": [{"name": "u", "user": {"token": self.token}}],
            "contexts": [{"name": "c", "context": {"cluster": "c", "user": "u"}}],
        });
        std::fs::write(file, config.to_string()).unwrap();
    }

    /// Watches, until the server ends it.
    pub fn watch(&self, path: &str) -> BufReader<TcpStream> {
        let path = format!("{path}?watch=true&timeoutSeconds=3600");
        self.send("GET", &path, "application/json", "")
    }

    pub fn request(&self, method: &str, path: &str, kind: &str, body: &Value) -> Value {
        let mut text = String::new();
        self.send(method, path, kind, &body.to_string())
            .read_to_string(&mut text)
            .unwrap();
        serde_json::from_str(&text).unwrap()
    }

    /// Sets annotations of a node.
    pub fn annotate(&self, node: &str, annotations: &Value) {
        let patch = json!({"metadata": {"annotations": annotations}});
        self.request(
            "PATCH",
            &format!("/api/v1/nodes/{node}"),
            "application/merge-patch+json",
            &patch,
        );
    }

    /// Watches until an object is as it is wanted, and returns it.
    pub fn until(&self, path: &str, what: &str, wanted: impl Fn(&Value) -> bool) -> Value {
        // The server ends the watch: a reader that waits for news would not notice how long it has waited.
        let path = format!("{path}?watch=true&timeoutSeconds={}", DEADLINE.as_secs());
        for line in self.send("GET", &path, "application/json", "").lines() {
            let mut event: Value = serde_json::from_str(&line.unwrap()).unwrap();
            if wanted(&event["object"]) {
                return event["object"].take();
            }
        }
        panic!("{what} was not seen");
    }
}
