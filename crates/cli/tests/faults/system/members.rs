//! The members of etcd, the ways between them, and the space they have.

use std::io::{Read, Write};
use std::net::{SocketAddr, TcpStream};
use std::time::Duration;

use serde_json::{Value, json};

use crate::etcd::Cluster;
use crate::proxy::Proxy;

/// How many there are.
pub const MEMBERS: usize = 3;
/// Room for the bus many times over, and soon filled by somebody else.
const QUOTA: usize = 16 << 20;
/// Members say in this header of each request to another who they are.
const FROM: &str = "X-Server-From";
/// Other keys, in base64: `filler/` and what follows all that begin so.
const FILLER: (&str, &str) = ("ZmlsbGVyLw==", "ZmlsbGVyMA==");

/// The members.
pub struct Members {
    cluster: Cluster,
    /// The ways to each of them, for the others.
    ways: Vec<Proxy>,
}

impl Members {
    /// Starts them.
    pub fn start() -> Self {
        let mut cluster = Cluster::prepare(MEMBERS, None);
        let peers = cluster.peers().into_iter();
        let ways: Vec<Proxy> = peers.map(|peer| Proxy::of_known(peer, FROM)).collect();
        let all: Vec<String> = ways
            .iter()
            .enumerate()
            .map(|(index, way)| format!("{}=http://{}", Cluster::name(index), way.address))
            .collect();
        for (index, way) in ways.iter().enumerate() {
            cluster.set_arguments(
                index,
                &[
                    format!("--initial-advertise-peer-urls=http://{}", way.address),
                    format!("--initial-cluster={}", all.join(",")),
                    format!("--quota-backend-bytes={QUOTA}"),
                ],
            );
            cluster.run(index);
        }
        Self { cluster, ways }
    }

    /// Where they listen for clients.
    pub fn addresses(&self) -> Vec<SocketAddr> {
        let addresses = self.cluster.addresses();
        addresses.iter().map(|address| address.to_string().parse().unwrap()).collect()
    }

    /// Kills a member; its data are kept.
    pub fn kill(&mut self, member: usize) {
        self.cluster.kill(member);
    }

    /// Starts a member that was killed.
    pub fn run(&mut self, member: usize) {
        self.cluster.run(member);
    }

    /// Stops all as SIGSTOP does, or lets them go on.
    pub fn stop(&self, is_stopped: bool) {
        for member in 0..MEMBERS {
            if is_stopped {
                self.cluster.stop(member);
            } else {
                self.cluster.go_on(member);
            }
        }
    }

    /// The member that leads, if the first one knows of any.
    pub fn leader(&self) -> Option<usize> {
        let status = self.ask(0, "maintenance/status", &json!({}));
        let leader: u64 = status["leader"].as_str()?.parse().unwrap();
        (0..MEMBERS).find(|member| self.id(*member) == leader)
    }

    /// Nothing gets through between this member and the others.
    pub fn part(&self, member: usize, is_parted: bool) {
        // So it writes it.
        let id = format!("{:x}", self.id(member));
        for (index, way) in self.ways.iter().enumerate() {
            if index == member {
                way.cut(is_parted);
            } else {
                way.close_to(&id, is_parted);
            }
        }
    }

    /// The member can read and write. One that was just started does not even listen.
    pub fn is_healthy(&self, member: usize) -> bool {
        let answer = self.send(member, "GET /health", "");
        answer.is_ok_and(|answer| answer.contains(r#""health":"true""#))
    }

    fn id(&self, member: usize) -> u64 {
        // It answers this by itself, cut off or not.
        let answer = self.ask(member, "kv/range", &json!({"key": FILLER.0, "serializable": true}));
        answer["header"]["member_id"].as_str().unwrap().parse().unwrap()
    }

    /// Writes other keys until there is no space left for anybody. Answers how many it took.
    pub fn fill(&self) -> usize {
        let value = "A".repeat(1 << 20);
        let most = 4 * QUOTA / value.len();
        let is_full = |answer: &Value| answer["error"].as_str().is_some_and(|error| error.contains("space exceeded"));
        let put = json!({"key": FILLER.0, "value": value});
        let written = (0..most).find(|_| is_full(&self.ask(0, "kv/put", &put)));
        assert!(!self.alarms().is_empty(), "etcd is not full");
        written.expect("a quota ends")
    }

    /// What an administrator does about it.
    pub fn make_space(&self) {
        let deleted = self.ask(0, "kv/deleterange", &json!({"key": FILLER.0, "range_end": FILLER.1}));
        let revision = &deleted["header"]["revision"];
        self.ask(0, "kv/compaction", &json!({"revision": revision, "physical": true}));
        for member in 0..MEMBERS {
            self.ask(member, "maintenance/defragment", &json!({}));
        }
        for alarm in self.alarms() {
            let disarm = json!({"action": "DEACTIVATE", "memberID": alarm["memberID"], "alarm": alarm["alarm"]});
            self.ask(0, "maintenance/alarm", &disarm);
        }
        assert_eq!(self.alarms(), Vec::<Value>::new(), "there is space again");
    }

    fn alarms(&self) -> Vec<Value> {
        let answer = self.ask(0, "maintenance/alarm", &json!({"action": "GET"}));
        answer["alarms"].as_array().cloned().unwrap_or_default()
    }

    /// Asks a member by its gateway for JSON.
    fn ask(&self, member: usize, what: &str, body: &Value) -> Value {
        let answer = self.send(member, &format!("POST /v3/{what}"), &body.to_string()).unwrap();
        let (_, body) = answer.split_once("\r\n\r\n").unwrap();
        serde_json::from_str(body).unwrap_or_else(|error| panic!("{what}: {error}: {answer}"))
    }

    /// HTTP/1.0, so that the answer ends with the connection.
    fn send(&self, member: usize, what: &str, body: &str) -> std::io::Result<String> {
        let mut stream = TcpStream::connect(self.addresses()[member])?;
        stream.set_read_timeout(Some(Duration::from_secs(20)))?;
        let head = format!("{what} HTTP/1.0\r\nContent-Length: {}\r\n\r\n", body.len());
        stream.write_all((head + body).as_bytes())?;
        let mut answer = String::new();
        stream.read_to_string(&mut answer)?;
        Ok(answer)
    }
}
