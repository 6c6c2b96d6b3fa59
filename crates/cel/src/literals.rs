//! Constants that can be judged before anything is evaluated: moments, times, regular expressions.

use std::sync::Arc;

use crate::ast::{Expr, Node};
use crate::convert;
use crate::error::{Issue, Issues};
use crate::meter;
use crate::value::Value;

/// Judges the constants of a call, and compiles regular expressions.
pub fn check(function: &str, call: &mut Expr, issues: &mut Issues) {
    let at = call.at;
    let Node::Call { target, args, .. } = &mut call.node else {
        return;
    };
    match (function, args.as_mut_slice()) {
        ("timestamp", [arg]) => moment(arg, "invalid timestamp argument", convert::timestamp_of, issues),
        ("duration", [arg]) => moment(arg, "invalid duration argument", convert::duration_of, issues),
        ("matches" | "find" | "findAll", args) => {
            let nth = usize::from(target.is_none());
            if let Some(arg) = args.get_mut(nth) {
                regex(arg, function, issues);
            }
        }
        ("format", [arg]) => {
            if let (Some(target), Node::List(values)) = (target, &arg.node)
                && let Node::Literal(Value::String(text)) = &target.node
            {
                let wanted = text.replace("%%", "").matches('%').count();
                if values.len() > wanted {
                    let given = values.len();
                    let why = format!("too many arguments supplied to string.format (expected {wanted}, got {given})");
                    issues.push(Issue::new(at, why));
                }
            }
        }
        _ => {}
    }
}

fn moment<T>(arg: &Expr, why: &str, read: fn(&str) -> Option<T>, issues: &mut Issues) {
    if let Node::Literal(Value::String(text)) = &arg.node
        && read(text).is_none()
    {
        issues.push(Issue::new(arg.at, why));
    }
}

fn regex(arg: &mut Expr, function: &str, issues: &mut Issues) {
    if let Node::Literal(Value::String(text)) = &arg.node {
        match meter::compile(text) {
            Ok(pattern) => arg.node = Node::Literal(Value::Pattern(Arc::new(pattern))),
            Err(_) => issues.push(Issue::new(arg.at, format!("invalid {function} argument"))),
        }
    }
}
