//! Nothing that an expression says makes it cost more than it may, overflow the stack, or panic.

use std::fmt::Write as _;

use bailiff_cel::{Check, Decision, Env, EvalError, Host, Meter, Program, Type, Value};
use proptest::prelude::*;

/// Budget of one evaluation, as Kubernetes has it.
const BUDGET: u64 = 1_000_000;

/// Everything is the same list.
struct Same(serde_json::Value);

impl Host for Same {
    fn variable(&self, _name: &str, _meter: &mut Meter) -> Result<Value, EvalError> {
        Value::from_json(&self.0)
    }

    fn decide(&self, _check: &Check) -> Decision {
        Decision::default()
    }
}

fn env() -> Env {
    let mut env = Env::default();
    env.declare("object", Type::Dyn);
    env
}

fn run(text: &str) -> Result<Value, String> {
    let program = Program::compile(text, &env()).map_err(|error| error.to_string())?;
    let host = Same(serde_json::json!({"list": (0..200).collect::<Vec<_>>(), "text": "a".repeat(1000), "map": {"a": {"b": 1}}}));
    let mut meter = Meter::new(BUDGET);
    program.evaluate(&host, &mut meter).map_err(|error| error.to_string())
}

fn nested(open: &str, middle: &str, close: &str, levels: usize) -> String {
    format!("{}{middle}{}", open.repeat(levels), close.repeat(levels))
}

#[test]
fn deep_expressions_are_refused_or_evaluated() {
    for levels in [10, 100, 124, 240, 251, 1000, 30_000] {
        for (open, middle, close) in [
            ("(", "1", ")"),
            ("[", "1", "]"),
            ("{1:", "1", "}"),
            ("!", "true", ""),
            ("-", "object", ""),
            ("dyn(", "1", ")"),
            ("", "object", ".list"),
            ("", "object", "[0]"),
            ("", "1", " + 1"),
            ("", "true", " && true"),
            ("true ? 1 : ", "1", ""),
            ("[1].map(x, ", "x", ")"),
            ("1 + (", "1", ")"),
            ("f(", "", ")"),
            ("a.b(", "", ")"),
        ] {
            let text = nested(open, middle, close, levels);
            let outcome = run(&text);
            if levels <= 10 && !open.starts_with(['f', 'a']) {
                let refused = matches!(&outcome, Err(why) if why.starts_with("compilation failed"));
                assert!(!refused, "{text}: {outcome:?}");
            }
        }
    }
}

#[test]
fn costly_expressions_are_cut_off() {
    let mut doubled = String::from("['a']");
    for _ in 0..40 {
        doubled = format!("[{doubled}].map(x, [x, x])[0]");
    }
    for text in [
        "object.list.all(a, object.list.all(b, object.list.all(c, object.list.all(d, true))))",
        "object.list.map(a, object.list.map(b, object.list.map(c, object.text + object.text)))",
        "lists.range(9000000000).size() == 1",
        "object.list.all(a, object.list.all(b, !object.text.matches('(a+)+b' + string(a))))",
        "object.list.map(a, object.list.map(b, object.text.replace('a', object.text)))",
        "object.list.all(a, object.list.all(b, object.list == object.list))",
        "object.list.map(a, object.text.replace('', object.text)).join(object.text).split('').sort() == []",
        &format!("{doubled} == {doubled}"),
        &format!("'%s'.format([{doubled}]) == ''"),
    ] {
        let outcome = run(text).expect_err(text);
        let cut = outcome.contains("cost limit exceeded") || outcome.contains("recursion limit") || outcome.contains("levels deep");
        assert!(cut, "{text}: {outcome}");
    }
}

/// Words that expressions are made of.
const WORDS: [&str; 64] = [
    "object",
    ".",
    "list",
    "text",
    "map",
    "(",
    ")",
    "[",
    "]",
    "{",
    "}",
    ",",
    ":",
    "?",
    "||",
    "&&",
    "!",
    "-",
    "+",
    "*",
    "/",
    "%",
    "==",
    "!=",
    "<",
    ">=",
    "in",
    "1",
    "0",
    "-9223372036854775808",
    "1u",
    "2.5",
    "'a'",
    "\"\\n\"",
    "b'x'",
    "true",
    "null",
    "has",
    "all",
    "exists",
    "map",
    "filter",
    "x",
    "y",
    "size",
    "matches",
    "'['",
    "'(a*)*'",
    "substring",
    "split",
    "format",
    "'%s%d'",
    "quantity",
    "ip",
    "cidr",
    "'10.0.0.0/8'",
    "url",
    "duration",
    "'1h'",
    "timestamp",
    "'2026-01-02T03:04:05Z'",
    "optional.of",
    "?.",
    "transformMap",
];

proptest! {
    #![proptest_config(ProptestConfig { failure_persistence: None, cases: 2000, ..ProptestConfig::default() })]

    #[test]
    fn any_text_is_refused_or_evaluated(text in "\\PC{0,60}") {
        let _ = run(&text);
    }

    #[test]
    fn any_words_are_refused_or_evaluated(words in proptest::collection::vec(proptest::sample::select(&WORDS[..]), 0..20)) {
        let mut text = String::new();
        for word in words {
            let _ = write!(text, "{word}");
        }
        let _ = run(&text);
    }

    #[test]
    fn any_call_is_refused_or_evaluated(
        function in proptest::sample::select(&["substring", "charAt", "indexOf", "lastIndexOf", "split", "replace", "slice", "flatten",
            "findAll", "join", "format", "containsIP", "add", "sub", "getHours"][..]),
        of in proptest::sample::select(&["object.text", "object.list", "'é😀a'", "''", "[[1],[2]]", "['a','b']", "cidr('::/0')",
            "quantity('-9E')", "duration('-2562047h')", "timestamp('9999-12-31T23:59:59Z')", "'%.9f%d%x'"][..]),
        args in proptest::collection::vec(proptest::sample::select(&["0", "1", "-1", "9223372036854775807", "-9223372036854775808", "'a'", "''",
            "object.text", "[1.5, 2]", "[]", "'+99:99'", "quantity('1e20')"][..]), 0..4),
    ) {
        let text = format!("dyn({of}).{function}({}) == 1", args.join(", "));
        let _ = run(&text);
    }
}
