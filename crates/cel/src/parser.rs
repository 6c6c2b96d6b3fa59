//! Tokens to a tree. It stops at the first error of syntax, and says it as the reference implementation does.

use crate::ast::{Expr, MOST_LEVELS, Node};
use crate::error::{Issue, Issues};
use crate::lexer::{Spanned, Token, tokens};
use crate::macros;
use crate::value::Value;

/// Characters of an expression, as the reference implementation allows.
const MOST_CHARACTERS: usize = 100_000;

/// What an operand may begin with.
const OPERAND: &str =
    "{'[', '{', '(', '.', '-', '!', 'true', 'false', 'null', NUM_FLOAT, NUM_INT, NUM_UINT, STRING, BYTES, IDENTIFIER}";

/// Words that are no names.
const RESERVED: [&str; 17] = [
    "as",
    "break",
    "const",
    "continue",
    "else",
    "for",
    "function",
    "if",
    "import",
    "let",
    "loop",
    "package",
    "namespace",
    "return",
    "var",
    "void",
    "while",
];

/// Words that are values or operators.
const LITERALS: [&str; 4] = ["true", "false", "null", "in"];

/// Whether a name can be a variable's: a letter or `_`, then letters, digits and `_`, and no word of the language.
pub fn is_identifier(name: &str) -> bool {
    let begins = name.starts_with(|c: char| c.is_ascii_alphabetic() || c == '_');
    let form = begins && name.chars().all(|c| c.is_ascii_alphanumeric() || c == '_');
    form && !RESERVED.contains(&name) && !LITERALS.contains(&name)
}

/// Binary operators: sign, function, how tightly they bind.
const BINARY: [(&str, &str, u8); 12] = [
    ("==", "_==_", 1),
    ("!=", "_!=_", 1),
    ("<=", "_<=_", 1),
    (">=", "_>=_", 1),
    ("<", "_<_", 1),
    (">", "_>_", 1),
    ("in", "@in", 1),
    ("+", "_+_", 2),
    ("-", "_-_", 2),
    ("*", "_*_", 3),
    ("/", "_/_", 3),
    ("%", "_%_", 3),
];

/// That an error was noted.
pub struct Stop;

/// The tree of an expression, unless something is wrong with its syntax.
pub fn parse(text: &str, issues: &mut Issues) -> Option<Expr> {
    let size = text.chars().count();
    if size > MOST_CHARACTERS {
        let why = format!("expression code point size exceeds limit: size: {size}, limit {MOST_CHARACTERS}");
        issues.push(Issue::new(0, why));
        return None;
    }
    let tokens = tokens(text, issues);
    let mut parser = Parser {
        text,
        tokens,
        next: 0,
        depth: 0,
        issues,
    };
    let expr = parser.expression().ok()?;
    parser.end().ok()?;
    Some(expr)
}

pub struct Parser<'a> {
    text: &'a str,
    tokens: Vec<Spanned>,
    next: usize,
    depth: usize,
    issues: &'a mut Issues,
}

impl Parser<'_> {
    fn peek(&self) -> &Token {
        self.tokens.get(self.next).map_or(&Token::End, |spanned| &spanned.token)
    }

    fn at(&self) -> usize {
        self.tokens.get(self.next).map_or(self.text.len(), |spanned| spanned.at)
    }

    /// The next token as written.
    fn seen(&self) -> &str {
        match self.tokens.get(self.next) {
            Some(spanned) if spanned.token != Token::End => self.text.get(spanned.at..spanned.end).unwrap_or_default(),
            _ => "<EOF>",
        }
    }

    fn advance(&mut self) -> Token {
        let token = self.peek().clone();
        self.next += 1;
        token
    }

    fn is(&self, symbol: &str) -> bool {
        matches!(self.peek(), Token::Symbol(next) if *next == symbol)
    }

    fn takes(&mut self, symbol: &str) -> bool {
        let found = self.is(symbol);
        self.next += usize::from(found);
        found
    }

    /// Notes an error.
    pub fn fail<T>(&mut self, at: usize, why: impl Into<String>) -> Result<T, Stop> {
        self.issues.push(Issue::new(at, why));
        Err(Stop)
    }

    fn syntax<T>(&mut self, why: &str) -> Result<T, Stop> {
        self.fail(self.at(), format!("Syntax error: {why}"))
    }

    fn end(&mut self) -> Result<(), Stop> {
        if *self.peek() == Token::End {
            return Ok(());
        }
        let is_last = self.tokens.get(self.next + 1).is_none_or(|after| after.token == Token::End);
        let what = if is_last { "extraneous" } else { "mismatched" };
        self.syntax(&format!("{what} input '{}' expecting <EOF>", self.seen()))
    }

    fn expect(&mut self, symbol: &str) -> Result<(), Stop> {
        if self.takes(symbol) {
            return Ok(());
        }
        self.syntax(&format!("missing '{symbol}' at '{}'", self.seen()))
    }

    /// A tree that is not too high.
    fn grown(&mut self, expr: Expr) -> Result<Expr, Stop> {
        if expr.height > MOST_LEVELS {
            return self.too_deep();
        }
        Ok(expr)
    }

    fn too_deep<T>(&mut self) -> Result<T, Stop> {
        self.fail(0, format!("expression recursion limit exceeded: {MOST_LEVELS}"))
    }

    pub fn expression(&mut self) -> Result<Expr, Stop> {
        self.depth += 1;
        if self.depth > MOST_LEVELS {
            return self.too_deep();
        }
        let test = self.logic(true)?;
        let at = self.at();
        let expr = if self.takes("?") {
            let yes = self.logic(true)?;
            self.expect(":")?;
            let no = self.expression()?;
            self.grown(Expr::new(at, Node::If(Box::new([test, yes, no]))))?
        } else {
            test
        };
        self.depth -= 1;
        Ok(expr)
    }

    fn logic(&mut self, any: bool) -> Result<Expr, Stop> {
        let sign = if any { "||" } else { "&&" };
        let mut at = self.at();
        let mut terms = Vec::new();
        loop {
            let term = if any { self.logic(false)? } else { self.binary(1)? };
            terms.push((at, term));
            at = self.at();
            if !self.takes(sign) {
                break;
            }
        }
        if terms.len() > 1 {
            return self.grown(Expr::new(at, Node::Logic { any, terms }));
        }
        match terms.pop() {
            Some((_, only)) => Ok(only),
            None => Err(Stop),
        }
    }

    fn operator(&self) -> Option<(&'static str, u8)> {
        let sign = match self.peek() {
            Token::Symbol(symbol) => symbol,
            Token::Name(name) if name == "in" => "in",
            _ => return None,
        };
        let found = BINARY.iter().find(|(one, ..)| *one == sign)?;
        Some((found.1, found.2))
    }

    fn binary(&mut self, least: u8) -> Result<Expr, Stop> {
        let mut left = self.unary()?;
        while let Some((function, binds)) = self.operator()
            && binds >= least
        {
            let at = self.at();
            self.advance();
            let right = self.binary(binds + 1)?;
            left = self.grown(Expr::call(at, function, vec![left, right]))?;
        }
        Ok(left)
    }

    fn unary(&mut self) -> Result<Expr, Stop> {
        let at = self.at();
        for (sign, function) in [("!", "!_"), ("-", "-_")] {
            let mut count = 0;
            let is_negative = |next: Option<&Spanned>| matches!(next.map(|one| &one.token), Some(Token::Int(_) | Token::Double(_)));
            while self.is(sign) && !(sign == "-" && is_negative(self.tokens.get(self.next + 1))) {
                self.advance();
                count += 1;
            }
            if count > 0 {
                if *self.peek() == Token::End && sign == "-" {
                    self.issues
                        .push(Issue::new(self.at(), "Syntax error: no viable alternative at input '-'"));
                }
                let of = self.member()?;
                return if count % 2 == 1 {
                    self.grown(Expr::call(at, function, vec![of]))
                } else {
                    Ok(of)
                };
            }
        }
        self.member()
    }

    fn member(&mut self) -> Result<Expr, Stop> {
        let mut expr = self.primary()?;
        loop {
            let at = self.at();
            if self.takes(".") {
                expr = self.dotted(at, expr)?;
            } else if self.takes("[") {
                let optional = self.takes("?");
                let index = self.expression()?;
                self.expect("]")?;
                let function = if optional { "_[?_]" } else { "_[_]" };
                expr = Expr::call(at, function, vec![expr, index]);
            } else if self.is("{")
                && let Some(name) = expr.qualified()
            {
                self.advance();
                return self.message(at, name);
            } else {
                return Ok(expr);
            }
            expr = self.grown(expr)?;
        }
    }

    fn dotted(&mut self, at: usize, of: Expr) -> Result<Expr, Stop> {
        let optional = self.takes("?");
        if self.is("`") {
            return self.fail(self.at(), "unsupported syntax: '`'");
        }
        let field = match self.peek() {
            Token::Name(name) if !matches!(name.as_str(), "in" | "true" | "false" | "null") => name.clone(),
            Token::End => return self.syntax("no viable alternative at input '.'"),
            _ => {
                let seen = self.seen().to_owned();
                return self.syntax(&format!("no viable alternative at input '.{seen}'"));
            }
        };
        self.advance();
        let open = self.at();
        if !optional && self.takes("(") {
            let args = self.arguments(")")?;
            return macros::member(self, open, of, field, args);
        }
        let of = Box::new(of);
        Ok(Expr::new(at, Node::Select { of, field, optional }))
    }

    fn arguments(&mut self, close: &str) -> Result<Vec<Expr>, Stop> {
        let mut args = Vec::new();
        if self.takes(close) {
            return Ok(args);
        }
        loop {
            args.push(self.expression()?);
            if self.takes(close) {
                return Ok(args);
            }
            if !self.takes(",") {
                return self.syntax(&format!("mismatched input '{}' expecting {{'{close}', ','}}", self.seen()));
            }
        }
    }

    fn message(&mut self, at: usize, name: String) -> Result<Expr, Stop> {
        while !self.takes("}") {
            if *self.peek() == Token::End {
                return self.syntax("missing '}' at '<EOF>'");
            }
            self.advance();
        }
        Ok(Expr::new(at, Node::Message(name)))
    }

    fn primary(&mut self) -> Result<Expr, Stop> {
        let at = self.at();
        let literal = |value| Ok(Expr::new(at, Node::Literal(value)));
        match self.peek().clone() {
            Token::Name(name) => self.named(at, name),
            Token::Symbol(".") => {
                self.advance();
                match self.peek().clone() {
                    Token::Name(name) => self.named(self.at(), name),
                    _ => self.syntax(&format!("mismatched input '{}' expecting IDENTIFIER", self.seen())),
                }
            }
            Token::Symbol("(") => {
                self.advance();
                let inner = self.expression()?;
                self.expect(")")?;
                Ok(inner)
            }
            Token::Symbol("[") => {
                self.advance();
                self.list(at)
            }
            Token::Symbol("{") => {
                self.advance();
                self.map(at)
            }
            Token::Symbol("-") => {
                self.advance();
                self.number(at, true)
            }
            Token::Int(_) | Token::Uint(_) | Token::Double(_) => self.number(at, false),
            Token::Text(text) => {
                self.advance();
                literal(Value::String(text.into()))
            }
            Token::Bytes(bytes) => {
                self.advance();
                literal(Value::Bytes(bytes.into()))
            }
            Token::Symbol(_) | Token::End => self.syntax(&format!("mismatched input '{}' expecting {OPERAND}", self.seen())),
        }
    }

    fn named(&mut self, at: usize, name: String) -> Result<Expr, Stop> {
        let literal = |value| Ok(Expr::new(at, Node::Literal(value)));
        if name == "in" {
            return self.syntax(&format!("mismatched input 'in' expecting {OPERAND}"));
        }
        self.advance();
        match name.as_str() {
            "true" => return literal(Value::Bool(true)),
            "false" => return literal(Value::Bool(false)),
            "null" => return literal(Value::Null),
            reserved if RESERVED.contains(&reserved) => return self.fail(at, format!("reserved identifier: {name}")),
            _ => {}
        }
        let open = self.at();
        if self.takes("(") {
            let args = self.arguments(")")?;
            return macros::global(self, open, name, args);
        }
        Ok(Expr::new(at, Node::Name(name)))
    }

    fn number(&mut self, at: usize, negative: bool) -> Result<Expr, Stop> {
        let sign = if negative { "-" } else { "" };
        let value = match self.advance() {
            Token::Int(digits) => whole(&digits, |digits, radix| {
                i64::from_str_radix(&format!("{sign}{digits}"), radix)
            })
            .map(Value::Int)
            .map_err(|_| "invalid int literal"),
            Token::Uint(digits) => whole(&digits, u64::from_str_radix)
                .map(Value::Uint)
                .map_err(|_| "invalid uint literal"),
            Token::Double(number) => Ok(Value::Double(if negative { -number } else { number })),
            _ => Err("invalid literal"),
        };
        match value {
            Ok(value) => Ok(Expr::new(at, Node::Literal(value))),
            Err(why) => self.fail(at, why),
        }
    }

    fn list(&mut self, at: usize) -> Result<Expr, Stop> {
        let mut items = Vec::new();
        while !self.takes("]") {
            let optional = self.takes("?");
            items.push((optional, self.expression()?));
            if !self.is("]") && !self.takes(",") {
                return self.syntax(&format!("mismatched input '{}' expecting {{']', ','}}", self.seen()));
            }
        }
        self.grown(Expr::new(at, Node::List(items)))
    }

    fn map(&mut self, at: usize) -> Result<Expr, Stop> {
        let mut entries = Vec::new();
        while !self.takes("}") {
            let optional = self.takes("?");
            let key = self.expression()?;
            self.expect(":")?;
            entries.push((optional, key, self.expression()?));
            if !self.is("}") && !self.takes(",") {
                return self.syntax(&format!("mismatched input '{}' expecting {{'}}', ','}}", self.seen()));
            }
        }
        self.grown(Expr::new(at, Node::Map(entries)))
    }
}

fn whole<T>(digits: &str, read: impl Fn(&str, u32) -> T) -> T {
    match digits.strip_prefix("0x").or_else(|| digits.strip_prefix("0X")) {
        Some(hex) => read(hex, 16),
        None => read(digits, 10),
    }
}
