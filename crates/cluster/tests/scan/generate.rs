//! Objects of every shape that the API's types allow, from a string of bytes: shorter strings make smaller objects.

use bailiff_cluster::scan::Message;
use bailiff_sandbox::schema::{Type, lookup};
use serde_json::{Map, Value, json};

/// Decisions that are not made yet. At the end of it all are no.
pub struct Tape<'a> {
    bytes: std::slice::Iter<'a, u8>,
}

impl<'a> Tape<'a> {
    pub fn new(bytes: &'a [u8]) -> Self {
        Self { bytes: bytes.iter() }
    }

    fn next(&mut self) -> u8 {
        self.bytes.next().copied().unwrap_or(0)
    }

    /// An object of a kind, in which the fields that are read are there more often than others.
    pub fn object(&mut self, kind: &'static Message) -> Value {
        self.structure(kind.name)
    }

    fn structure(&mut self, name: &str) -> Value {
        let mut fields = Map::new();
        let Some(shape) = lookup(name) else { return Value::Null };
        for field in shape.fields.iter().filter(|field| !field.number.is_empty()) {
            // These the API wants.
            let is_main = matches!(field.name, "metadata" | "spec" | "status" | "selector");
            if is_main || self.next() % 3 == 1 {
                let value = self.value(&field.ty);
                fields.insert(field.name.to_owned(), value);
            }
        }
        Value::Object(fields)
    }

    fn value(&mut self, ty: &Type) -> Value {
        match ty {
            Type::String => self.text().into(),
            Type::Bool => (self.next() % 2 == 1).into(),
            Type::Int32 | Type::Int64 | Type::Number => self.number().into(),
            Type::Time => format!("2026-03-01T10:{:02}:07Z", self.next() % 60).into(),
            Type::MicroTime => format!("2026-03-01T10:{:02}:07.{:06}Z", self.next() % 60, u32::from(self.next()) * 37).into(),
            Type::Quantity => format!("{}Mi", self.next()).into(),
            Type::IntOrString if self.next() % 2 == 1 => "25%".into(),
            Type::IntOrString => self.number().into(),
            Type::Bytes => "AAEC/w==".into(),
            Type::Any => json!({"f:spec": {"f:taints": self.number()}}),
            Type::Struct(name) => self.structure(name),
            Type::List(item, _) => (0..self.next() % 3).map(|_| self.value(item)).collect(),
            Type::Map(item, _) => {
                let entries = (0..self.next() % 3).map(|_| (self.text(), self.value(item)));
                Value::Object(entries.collect())
            }
        }
    }

    fn number(&mut self) -> i32 {
        i32::from(self.next().cast_signed()) * 9_999_991
    }

    fn text(&mut self) -> String {
        let texts = [
            "",
            "a",
            "Ready",
            "node.kubernetes.io/not-ready",
            "ü\u{2028}\"\\",
            "True",
            "b\tc\n",
        ];
        texts[usize::from(self.next()) % texts.len()].to_owned()
    }
}
