//! What comes over the wire need not be HTTP, nor come at once, nor be all there.

use proptest::prelude::*;

use super::*;

/// Sends pieces, a second apart, and reads all there is until the server closes, or for `patience`.
async fn talk(pieces: &[&[u8]], hangs_up: bool, patience: Duration) -> String {
    let bench = Bench::new(Config::default());
    let (client, _conversation) = bench.connect();
    let (mut reader, mut writer) = tokio::io::split(client);
    let pieces: Vec<Vec<u8>> = pieces.iter().map(|piece| piece.to_vec()).collect();
    let sending = tokio::spawn(async move {
        for piece in pieces {
            // The server may have closed already.
            let _ = writer.write_all(&piece).await;
            tokio::time::sleep(Duration::from_secs(1)).await;
        }
        if hangs_up {
            let _ = writer.shutdown().await;
        }
        writer
    });
    let mut answer = Vec::new();
    let mut chunk = [0; 4096];
    let start = Instant::now();
    while start.elapsed() < patience {
        match tokio::time::timeout(patience, reader.read(&mut chunk)).await {
            Ok(Ok(length)) if length > 0 => answer.extend_from_slice(&chunk[..length]),
            _ => break,
        }
    }
    sending.abort();
    String::from_utf8_lossy(&answer).into_owned()
}

/// The status lines of answers that came one after another.
fn statuses(answer: &str) -> Vec<u16> {
    let lines = answer.split("HTTP/1.1 ").skip(1);
    lines.filter_map(|line| line.get(..3)?.parse().ok()).collect()
}

const GET: &str = "GET /version HTTP/1.1\r\nHost: s\r\n\r\n";
const POST: &str = "POST /api/v1/namespaces HTTP/1.1\r\nHost: s\r\nContent-Type: application/json\r\n";
const NAMESPACE: &str = r#"{"apiVersion":"v1","kind":"Namespace","metadata":{"name":"a"}}"#;

#[tokio::test(start_paused = true)]
async fn requests_are_answered_however_they_arrive() {
    let length = NAMESPACE.len();
    let chunked = format!("{POST}Transfer-Encoding: chunked\r\n\r\n{length:x}\r\n{NAMESPACE}\r\n0\r\n\r\n");
    let sized = format!("{POST}Content-Length: {length}\r\n\r\n{NAMESPACE}");
    let (short, long) = (length - 1, length + 1);
    let cases: &[(&str, Vec<String>, &[u16])] = &[
        ("three at once", vec![GET.repeat(3)], &[200, 200, 200]),
        ("byte by byte", GET.chars().map(String::from).collect(), &[200]),
        (
            "a body in pieces",
            sized
                .as_bytes()
                .chunks(8)
                .map(|piece| String::from_utf8_lossy(piece).into_owned())
                .collect(),
            &[201],
        ),
        ("chunks", vec![chunked.clone()], &[201]),
        (
            "chunks in pieces, then another",
            vec![chunked[..150].to_owned(), chunked[150..].to_owned() + GET],
            &[201, 200],
        ),
        (
            "less than there is",
            vec![format!("{POST}Content-Length: {short}\r\n\r\n{NAMESPACE}")],
            &[400, 400],
        ),
        (
            "more than there is",
            vec![format!("{POST}Content-Length: {long}\r\n\r\n{NAMESPACE}")],
            &[400],
        ),
        (
            "no number of bytes",
            vec![format!("{POST}Content-Length: -1\r\n\r\n{NAMESPACE}")],
            &[400],
        ),
        (
            "two lengths",
            vec![format!("{POST}Content-Length: 1\r\nContent-Length: 2\r\n\r\n{NAMESPACE}")],
            &[400],
        ),
        (
            "no length of a chunk",
            vec![format!(
                "{POST}Transfer-Encoding: chunked\r\n\r\nx\r\n{NAMESPACE}\r\n0\r\n\r\n"
            )],
            &[400],
        ),
        (
            "an endless chunk",
            vec![format!("{POST}Transfer-Encoding: chunked\r\n\r\nffffffffffffffffff\r\n")],
            &[400],
        ),
        ("no HTTP", vec!["\0\u{1}\u{2}hello\r\n\r\n".to_owned()], &[400]),
        ("no path", vec!["GET  HTTP/1.1\r\n\r\n".to_owned()], &[400]),
        (
            "another authority",
            vec!["GET http://elsewhere/version HTTP/1.1\r\nHost: s\r\n\r\n".to_owned()],
            &[200],
        ),
        (
            "no resource",
            vec!["OPTIONS * HTTP/1.1\r\nHost: s\r\n\r\n".to_owned()],
            &[404],
        ),
        (
            "a tunnel",
            vec!["CONNECT elsewhere:443 HTTP/1.1\r\nHost: elsewhere:443\r\n\r\n".to_owned()],
            &[405],
        ),
        (
            "many headers",
            vec![format!("GET /version HTTP/1.1\r\nHost: s\r\n{}\r\n", "X: y\r\n".repeat(200))],
            &[431],
        ),
        (
            "a very long path",
            vec![format!("GET /{} HTTP/1.1\r\nHost: s\r\n\r\n", "x".repeat(70_000))],
            &[431],
        ),
        (
            "a header that is no text",
            vec!["GET /version HTTP/1.1\r\nHost: s\r\nAccept: \u{e9}\r\n\r\n".to_owned()],
            &[200],
        ),
        (
            "an upgrade",
            vec!["GET /version HTTP/1.1\r\nHost: s\r\nConnection: upgrade\r\nUpgrade: websocket\r\n\r\n".to_owned()],
            &[200],
        ),
        (
            "a promise to go on",
            vec![
                format!("{POST}Expect: 100-continue\r\nContent-Length: {length}\r\n\r\n"),
                NAMESPACE.to_owned(),
            ],
            &[100, 201],
        ),
    ];
    let mut wrong = Vec::new();
    for (what, pieces, wanted) in cases {
        let pieces: Vec<&[u8]> = pieces.iter().map(String::as_bytes).collect();
        for hangs_up in [true, false] {
            let answer = talk(&pieces, hangs_up, BODY * 2).await;
            // A client that is silent but there may still mean to go on.
            let late: &[u16] = if *what == "more than there is" && !hangs_up {
                &[504]
            } else {
                wanted
            };
            if statuses(&answer) != late {
                wrong.push(format!("{what}, hangs up: {hangs_up}: {answer}"));
            }
        }
    }
    assert!(wrong.is_empty(), "{wrong:#?}");
}

#[tokio::test(start_paused = true)]
async fn a_body_that_never_ends_is_waited_for_a_minute() {
    let answer = talk(&[format!("{POST}Content-Length: 100\r\n\r\n{{").as_bytes()], false, BODY * 2).await;
    assert_eq!(statuses(&answer), [504], "{answer}");
    assert!(answer.contains("\"reason\":\"Timeout\""), "{answer}");
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 200, failure_persistence: None, ..ProptestConfig::default() })]

    /// Bytes of requests, some of them changed, cut at will: the server answers or closes, and never blames itself.
    #[test]
    fn bent_bytes_are_answered_or_end_the_connection(
        changes in proptest::collection::vec((any::<prop::sample::Index>(), any::<u8>(), 0..3_u8), 0..6),
        cut in any::<prop::sample::Index>(),
        hangs_up in any::<bool>(),
    ) {
        let length = NAMESPACE.len();
        let mut bytes = format!("{GET}{POST}Content-Length: {length}\r\n\r\n{NAMESPACE}{WATCH}\r\nHost: s\r\n\r\n{GET}").into_bytes();
        for (at, byte, how) in changes {
            let at = at.index(bytes.len());
            match how {
                0 => bytes[at] = byte,
                1 => bytes.insert(at, byte),
                _ => {
                    bytes.remove(at);
                }
            }
        }
        let (head, tail) = bytes.split_at(cut.index(bytes.len()));
        let runtime = tokio::runtime::Builder::new_current_thread().enable_time().start_paused(true).build().unwrap();
        let answer = runtime.block_on(talk(&[head, tail], hangs_up, BODY * 2));
        prop_assert!(statuses(&answer).iter().all(|status| *status < 500 || *status == 504), "{}", answer);
    }
}
