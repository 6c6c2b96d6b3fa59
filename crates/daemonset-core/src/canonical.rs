//! The bytes of a revision's `data` as upstream writes them (DS-151).
//!
//! Revisions are compared byte by byte (DS-150), by this program, by kube-controller-manager and by `kubectl rollout undo`
//! (DS-215), so these bytes are a contract. They are made from the API server's raw JSON: numbers, nulls, empty objects and
//! unknown fields survive (DS-206).

use std::collections::BTreeMap;
use std::fmt::Write;

use serde_json::value::RawValue;

/// JSON that cannot be brought into canonical form.
#[derive(Debug, thiserror::Error)]
pub enum Error {
    /// The template is no JSON object.
    #[error("not a JSON object")]
    NotAnObject,
    /// A part of it cannot be read.
    #[error("unreadable JSON")]
    Unreadable(#[from] serde_json::Error),
}

/// `{"spec":{"template":T}}` with `"$patch":"replace"` in T: what is recorded of a template.
pub fn data_of_template(template: &RawValue) -> Result<Vec<u8>, Error> {
    let text = template.get();
    if !text.starts_with('{') {
        return Err(Error::NotAnObject);
    }
    let mut members: BTreeMap<String, &RawValue> = serde_json::from_str(text)?;
    let replace: &RawValue = serde_json::from_str(r#""replace""#)?;
    members.insert("$patch".to_owned(), replace);
    let mut out = String::with_capacity(text.len() + 64);
    out.push_str(r#"{"spec":{"template":"#);
    write_members(&members, &mut out)?;
    out.push_str("}}");
    Ok(out.into_bytes())
}

fn write_value(raw: &RawValue, out: &mut String) -> Result<(), Error> {
    let text = raw.get();
    match text.as_bytes().first() {
        Some(b'{') => write_members(&serde_json::from_str(text)?, out)?,
        Some(b'[') => {
            let items: Vec<&RawValue> = serde_json::from_str(text)?;
            out.push('[');
            for (index, item) in items.iter().enumerate() {
                if index > 0 {
                    out.push(',');
                }
                write_value(item, out)?;
            }
            out.push(']');
        }
        Some(b'"') => write_string(&serde_json::from_str::<String>(text)?, out),
        // Numbers, booleans and null are taken as they are.
        _ => out.push_str(text),
    }
    Ok(())
}

fn write_members(members: &BTreeMap<String, &RawValue>, out: &mut String) -> Result<(), Error> {
    out.push('{');
    for (index, (key, value)) in members.iter().enumerate() {
        if index > 0 {
            out.push(',');
        }
        write_string(key, out);
        out.push(':');
        write_value(value, out)?;
    }
    out.push('}');
    Ok(())
}

/// A string as Go's encoding/json escapes it, HTML escaping included.
fn write_string(text: &str, out: &mut String) {
    out.push('"');
    for character in text.chars() {
        match character {
            '"' => out.push_str("\\\""),
            '\\' => out.push_str("\\\\"),
            '\u{8}' => out.push_str("\\b"),
            '\u{c}' => out.push_str("\\f"),
            '\n' => out.push_str("\\n"),
            '\r' => out.push_str("\\r"),
            '\t' => out.push_str("\\t"),
            '<' | '>' | '&' | '\u{2028}' | '\u{2029}' | '\0'..='\u{1f}' => {
                // Writing to a String cannot fail.
                let _ = write!(out, "\\u{:04x}", u32::from(character));
            }
            other => out.push(other),
        }
    }
    out.push('"');
}

#[cfg(test)]
mod tests {
    use super::*;

    fn check(template: &str, wanted: &str) {
        let raw: &RawValue = serde_json::from_str(template).expect("JSON");
        let data = data_of_template(raw).expect("canonical");
        assert_eq!(String::from_utf8(data).expect("text"), wanted);
    }

    /// DS-151, DS-152, DS-206
    #[test]
    fn keys_are_sorted_and_everything_survives() {
        check(r#"{ }"#, r#"{"spec":{"template":{"$patch":"replace"}}}"#);
        check(
            r#"{"spec": {"b": null, "a": [ {"z":1,"y":{}} , 2 ]}, "metadata": {"creationTimestamp": null}, "Z": 1.50, "futureField": 12345678901234567890123}"#,
            r#"{"spec":{"template":{"$patch":"replace","Z":1.50,"futureField":12345678901234567890123,"metadata":{"creationTimestamp":null},"spec":{"a":[{"y":{},"z":1},2],"b":null}}}}"#,
        );
    }

    /// DS-151
    #[test]
    fn strings_are_escaped_as_go_does() {
        let cases = [
            (r#""a<b>&c""#, r#""a\u003cb\u003e\u0026c""#),
            (r#""\u2028\u2029""#, r#""\u2028\u2029""#),
            (r#""\"\\\/""#, r#""\"\\/""#),
            (r#""\b\f\n\r\t""#, r#""\b\f\n\r\t""#),
            (r#""\u0000\u001f\u007f""#, "\"\\u0000\\u001f\u{7f}\""),
            (r#""\u00e9\ud83d\ude00""#, "\"\u{e9}\u{1f600}\""),
        ];
        for (value, wanted) in cases {
            check(
                &format!(r#"{{"a":{value}}}"#),
                &format!(r#"{{"spec":{{"template":{{"$patch":"replace","a":{wanted}}}}}}}"#),
            );
        }
    }

    #[test]
    fn what_is_no_object_is_refused() {
        let raw: &RawValue = serde_json::from_str("[]").expect("JSON");
        assert!(matches!(data_of_template(raw), Err(Error::NotAnObject)));
    }
}
