//! Text to tokens.

use crate::error::{Issue, Issues};

/// What a token is.
#[derive(Clone, Debug, PartialEq)]
pub enum Token {
    /// A name.
    Name(String),
    /// `123`, `0x1f`; the digits as written.
    Int(String),
    /// `123u`; the digits as written, without the mark.
    Uint(String),
    /// `1.5`, `1e3`.
    Double(f64),
    /// A text.
    Text(String),
    /// `b'…'`.
    Bytes(Vec<u8>),
    /// An operator or a bracket.
    Symbol(&'static str),
    /// Nothing follows.
    End,
}

/// A token, and where it begins and ends in bytes.
#[derive(Clone, Debug)]
pub struct Spanned {
    /// What it is.
    pub token: Token,
    /// First byte.
    pub at: usize,
    /// First byte after it.
    pub end: usize,
}

const SYMBOLS: [&str; 26] = [
    "==", "!=", "<=", ">=", "&&", "||", "[", "]", "{", "}", "(", ")", ".", ",", "-", "?", ":", "+", "*", "/", "%", "<", ">", "!",
    "=", "`",
];

/// The tokens of a text; what is none is an issue, and skipped.
pub fn tokens(text: &str, issues: &mut Issues) -> Vec<Spanned> {
    let mut lexer = Lexer { text, at: 0 };
    let mut tokens = Vec::new();
    loop {
        lexer.skip_blanks();
        let at = lexer.at;
        let Some(first) = lexer.rest().chars().next() else {
            tokens.push(Spanned {
                token: Token::End,
                at,
                end: at,
            });
            return tokens;
        };
        match lexer.next(first) {
            Ok(token) => tokens.push(Spanned {
                token,
                at,
                end: lexer.at,
            }),
            Err(()) => {
                let seen = text.get(at..lexer.at).unwrap_or_default();
                issues.push(Issue::new(at, format!("Syntax error: token recognition error at: '{seen}'")));
            }
        }
    }
}

struct Lexer<'a> {
    text: &'a str,
    at: usize,
}

impl<'a> Lexer<'a> {
    fn rest(&self) -> &'a str {
        self.text.get(self.at..).unwrap_or_default()
    }

    fn skip_blanks(&mut self) {
        loop {
            let rest = self.rest();
            let trimmed = rest.trim_start_matches([' ', '\t', '\n', '\r', '\u{c}']);
            self.at += rest.len() - trimmed.len();
            if !trimmed.starts_with("//") {
                return;
            }
            self.at += trimmed.find('\n').unwrap_or(trimmed.len());
        }
    }

    fn next(&mut self, first: char) -> Result<Token, ()> {
        let rest = self.rest();
        if let Some((raw, bytes, quoted)) = prefix(rest) {
            self.at += quoted;
            return self.text(raw, bytes);
        }
        if first.is_ascii_alphabetic() || first == '_' {
            let length = rest
                .find(|c: char| !c.is_ascii_alphanumeric() && c != '_')
                .unwrap_or(rest.len());
            self.at += length;
            return Ok(Token::Name(rest.get(..length).unwrap_or_default().to_owned()));
        }
        let digit_follows = rest.chars().nth(1).is_some_and(|c| c.is_ascii_digit());
        if first.is_ascii_digit() || (first == '.' && digit_follows) {
            return Ok(self.number());
        }
        let symbol = SYMBOLS.iter().find(|symbol| rest.starts_with(**symbol));
        match symbol {
            Some(symbol) if *symbol != "=" => {
                self.at += symbol.len();
                Ok(Token::Symbol(symbol))
            }
            _ => {
                // As much as the reference recogniser swallows: the character that could have begun a token, and the next.
                let width = first.len_utf8();
                self.at += width;
                if matches!(first, '=' | '&' | '|') {
                    self.at += self.rest().chars().next().map_or(0, char::len_utf8);
                }
                Err(())
            }
        }
    }

    fn number(&mut self) -> Token {
        let rest = self.rest();
        if let Some(hex) = rest.strip_prefix("0x").or_else(|| rest.strip_prefix("0X")) {
            let length = hex.find(|c: char| !c.is_ascii_hexdigit()).unwrap_or(hex.len());
            if length > 0 {
                self.at += 2 + length;
                return self.whole(rest.get(..2 + length).unwrap_or_default());
            }
        }
        let digits = |text: &str| text.find(|c: char| !c.is_ascii_digit()).unwrap_or(text.len());
        let after = |length: usize| rest.get(length..).unwrap_or_default();
        let mut length = digits(rest);
        let mut is_double = false;
        if let Some(fraction) = after(length).strip_prefix('.')
            && digits(fraction) > 0
        {
            length += 1 + digits(fraction);
            is_double = true;
        }
        if let Some(exponent) = after(length).strip_prefix(['e', 'E']) {
            let signed = exponent.strip_prefix(['+', '-']).unwrap_or(exponent);
            if digits(signed) > 0 {
                length += 1 + exponent.len() - signed.len() + digits(signed);
                is_double = true;
            }
        }
        self.at += length;
        let text = rest.get(..length).unwrap_or_default();
        if is_double {
            return Token::Double(text.parse().unwrap_or(f64::NAN));
        }
        self.whole(text)
    }

    fn whole(&mut self, digits: &str) -> Token {
        if self.rest().starts_with(['u', 'U']) {
            self.at += 1;
            return Token::Uint(digits.to_owned());
        }
        Token::Int(digits.to_owned())
    }

    /// The text from its opening quotes on.
    fn text(&mut self, raw: bool, bytes: bool) -> Result<Token, ()> {
        let rest = self.rest();
        let quote = rest.chars().next().unwrap_or('"');
        let triple = rest.starts_with("\"\"\"") || rest.starts_with("'''");
        self.at += if triple { 3 } else { 1 };
        let mut out = Vec::new();
        loop {
            let rest = self.rest();
            let Some(next) = rest.chars().next() else { return Err(()) };
            let closes = next == quote && (!triple || rest.starts_with("\"\"\"") || rest.starts_with("'''"));
            if closes {
                self.at += if triple { 3 } else { 1 };
                break;
            }
            if matches!(next, '\n' | '\r') && !triple {
                return Err(());
            }
            self.at += next.len_utf8();
            if next == '\\' && !raw {
                self.escape(bytes, &mut out)?;
            } else {
                out.extend_from_slice(next.encode_utf8(&mut [0; 4]).as_bytes());
            }
        }
        if bytes {
            return Ok(Token::Bytes(out));
        }
        String::from_utf8(out).map(Token::Text).map_err(|_| ())
    }

    /// What follows a backslash.
    fn escape(&mut self, bytes: bool, out: &mut Vec<u8>) -> Result<(), ()> {
        let next = self.rest().chars().next().ok_or(())?;
        self.at += next.len_utf8();
        let simple = match next {
            'a' => 7,
            'b' => 8,
            'f' => 12,
            'n' => 10,
            'r' => 13,
            't' => 9,
            'v' => 11,
            '\\' | '\'' | '"' | '`' | '?' => u8::try_from(next).unwrap_or(b'?'),
            'x' | 'X' => return self.code(2, 16, bytes, out),
            'u' if !bytes => return self.code(4, 16, false, out),
            'U' if !bytes => return self.code(8, 16, false, out),
            '0'..='3' => {
                self.at -= 1;
                return self.code(3, 8, bytes, out);
            }
            _ => return Err(()),
        };
        out.push(simple);
        Ok(())
    }

    fn code(&mut self, digits: usize, radix: u32, byte: bool, out: &mut Vec<u8>) -> Result<(), ()> {
        let text = self.rest().get(..digits).ok_or(())?;
        if !text.chars().all(|c| c.is_digit(radix)) {
            return Err(());
        }
        let code = u32::from_str_radix(text, radix).map_err(|_| ())?;
        self.at += digits;
        if byte {
            out.push(u8::try_from(code).map_err(|_| ())?);
            return Ok(());
        }
        let character = char::from_u32(code).ok_or(())?;
        out.extend_from_slice(character.encode_utf8(&mut [0; 4]).as_bytes());
        Ok(())
    }
}

/// Whether a text begins here: raw or not, bytes or not, and how far away the quotes are.
fn prefix(rest: &str) -> Option<(bool, bool, usize)> {
    let mut raw = false;
    let mut bytes = false;
    for (at, character) in rest.char_indices().take(3) {
        match character {
            '"' | '\'' => return Some((raw, bytes, at)),
            'r' | 'R' if !raw => raw = true,
            'b' | 'B' if !bytes => bytes = true,
            _ => return None,
        }
    }
    None
}
