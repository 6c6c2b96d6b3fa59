//! Writes the requests of recorded transcripts as seeds of the target `texts`: `cargo run --example seeds TRANSCRIPTS CORPUS`.

use std::error::Error;
use std::path::Path;

use serde_json::Value;

fn main() -> Result<(), Box<dyn Error>> {
    let arguments: Vec<String> = std::env::args().skip(1).collect();
    let [transcripts, corpus] = arguments.as_slice() else {
        return Err("usage: seeds TRANSCRIPTS CORPUS".into());
    };
    std::fs::create_dir_all(corpus)?;
    for entry in std::fs::read_dir(transcripts)? {
        let path = entry?.path();
        if path.extension().is_none_or(|extension| extension != "json") {
            continue;
        }
        let topic: Value = serde_json::from_slice(&std::fs::read(&path)?)?;
        let name = path.file_stem().unwrap_or_default().to_string_lossy().into_owned();
        let requests: Vec<Vec<u8>> = topic["steps"].as_array().into_iter().flatten().filter_map(request).collect();
        // As many as are played of one input.
        for (nth, part) in requests.chunks(16).enumerate() {
            std::fs::write(Path::new(corpus).join(format!("{name}-{nth}")), part.join(&0xff))?;
        }
    }
    Ok(())
}

/// A recorded request in the form that the target reads.
fn request(step: &Value) -> Option<Vec<u8>> {
    let request = step.get("request")?;
    let text = |value: &Value| value.as_str().unwrap_or_default().to_owned();
    let pairs = request["query"].as_object().into_iter().flatten();
    let query: Vec<String> = pairs.map(|(key, value)| format!("{key}={}", text(value))).collect();
    let mut path = text(&request["path"]);
    if !query.is_empty() {
        path = format!("{path}?{}", query.join("&"));
    }
    let headers = &request["headers"];
    let head = format!(
        "{} {path}\n{}\n{}\n",
        text(&request["method"]),
        text(&headers["content-type"]),
        text(&headers["accept"])
    );
    let body = match &request["body"] {
        Value::Null => String::new(),
        Value::String(text) => text.clone(),
        body => body.to_string(),
    };
    Some([head.into_bytes(), body.into_bytes()].concat())
}
