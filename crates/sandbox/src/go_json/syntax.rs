//! What Go's decoder says of a text that is no JSON.

/// What is wrong with it; nothing if it is JSON, however deep.
pub fn fault(text: &[u8]) -> Option<String> {
    check(text).err()
}

/// What a value is in.
#[derive(Clone, Copy)]
enum Within {
    Object,
    List,
}

fn check(text: &[u8]) -> Result<(), String> {
    let mut scanner = Scanner { rest: text };
    // No recursion: a body may be nested as deep as it is long.
    let mut open = Vec::new();
    loop {
        if scanner.begins(&mut open)? {
            continue;
        }
        loop {
            scanner.space();
            match open.last().copied() {
                None => return scanner.end(),
                Some(Within::Object) => match scanner.next()? {
                    b',' => {
                        scanner.key()?;
                        break;
                    }
                    b'}' => open.pop(),
                    other => return Err(invalid(other, "after object key:value pair")),
                },
                Some(Within::List) => match scanner.next()? {
                    b',' => break,
                    b']' => open.pop(),
                    other => return Err(invalid(other, "after array element")),
                },
            };
        }
    }
}

struct Scanner<'a> {
    rest: &'a [u8],
}

impl Scanner<'_> {
    /// Reads up to the next value, if one begins that holds others; else the value.
    fn begins(&mut self, open: &mut Vec<Within>) -> Result<bool, String> {
        self.space();
        match self.peek()? {
            b'{' => {
                self.skip();
                self.space();
                if self.peek()? == b'}' {
                    self.skip();
                    return Ok(false);
                }
                self.key()?;
                open.push(Within::Object);
                Ok(true)
            }
            b'[' => {
                self.skip();
                self.space();
                if self.peek()? == b']' {
                    self.skip();
                    return Ok(false);
                }
                open.push(Within::List);
                Ok(true)
            }
            _ => self.scalar().map(|()| false),
        }
    }

    fn scalar(&mut self) -> Result<(), String> {
        match self.next()? {
            b'"' => self.string(),
            b'-' => {
                let digit = self.digit("in numeric literal")?;
                self.number(digit)
            }
            digit @ b'0'..=b'9' => self.number(digit),
            b't' => self.literal("true"),
            b'f' => self.literal("false"),
            b'n' => self.literal("null"),
            other => Err(invalid(other, "looking for beginning of value")),
        }
    }

    /// The name of a field, and what parts it from its value.
    fn key(&mut self) -> Result<(), String> {
        self.space();
        match self.next()? {
            b'"' => self.string()?,
            other => return Err(invalid(other, "looking for beginning of object key string")),
        }
        self.space();
        match self.next()? {
            b':' => Ok(()),
            other => Err(invalid(other, "after object key")),
        }
    }

    /// The rest of a string.
    fn string(&mut self) -> Result<(), String> {
        loop {
            match self.next()? {
                b'"' => return Ok(()),
                b'\\' => self.escape()?,
                control @ ..0x20 => return Err(invalid(control, "in string literal")),
                _ => {}
            }
        }
    }

    fn escape(&mut self) -> Result<(), String> {
        match self.next()? {
            b'b' | b'f' | b'n' | b'r' | b't' | b'\\' | b'/' | b'"' => Ok(()),
            b'u' => (0..4).try_for_each(|_| match self.next()? {
                digit if digit.is_ascii_hexdigit() => Ok(()),
                other => Err(invalid(other, "in \\u hexadecimal character escape")),
            }),
            other => Err(invalid(other, "in string escape code")),
        }
    }

    /// The rest of a number.
    fn number(&mut self, first: u8) -> Result<(), String> {
        if first != b'0' {
            self.digits();
        }
        if self.rest.first() == Some(&b'.') {
            self.skip();
            self.digit("after decimal point in numeric literal")?;
            self.digits();
        }
        if matches!(self.rest.first(), Some(b'e' | b'E')) {
            self.skip();
            if matches!(self.rest.first(), Some(b'+' | b'-')) {
                self.skip();
            }
            self.digit("in exponent of numeric literal")?;
            self.digits();
        }
        Ok(())
    }

    fn digit(&mut self, place: &str) -> Result<u8, String> {
        match self.next()? {
            digit @ b'0'..=b'9' => Ok(digit),
            other => Err(invalid(other, place)),
        }
    }

    fn digits(&mut self) {
        while self.rest.first().is_some_and(u8::is_ascii_digit) {
            self.skip();
        }
    }

    /// The rest of a word.
    fn literal(&mut self, word: &str) -> Result<(), String> {
        word.bytes().skip(1).try_for_each(|expected| match self.next()? {
            found if found == expected => Ok(()),
            other => {
                let place = format!("in literal {word} (expecting {})", quoted(expected));
                Err(invalid(other, &place))
            }
        })
    }

    fn end(&self) -> Result<(), String> {
        match self.rest.first() {
            None => Ok(()),
            Some(other) => Err(invalid(*other, "after top-level value")),
        }
    }

    fn space(&mut self) {
        while matches!(self.rest.first(), Some(b' ' | b'\t' | b'\r' | b'\n')) {
            self.skip();
        }
    }

    fn peek(&self) -> Result<u8, String> {
        self.rest.first().copied().ok_or_else(ended)
    }

    fn next(&mut self) -> Result<u8, String> {
        let byte = self.peek()?;
        self.skip();
        Ok(byte)
    }

    fn skip(&mut self) {
        self.rest = self.rest.get(1..).unwrap_or_default();
    }
}

fn ended() -> String {
    "unexpected end of JSON input".to_owned()
}

fn invalid(byte: u8, place: &str) -> String {
    format!("invalid character {} {place}", quoted(byte))
}

/// A byte as Go quotes it, which takes it for a character.
fn quoted(byte: u8) -> String {
    let shown = match byte {
        b'\'' => "\\'".to_owned(),
        b'\\' => "\\\\".to_owned(),
        0x07 => "\\a".to_owned(),
        0x08 => "\\b".to_owned(),
        b'\t' => "\\t".to_owned(),
        b'\n' => "\\n".to_owned(),
        0x0b => "\\v".to_owned(),
        0x0c => "\\f".to_owned(),
        b'\r' => "\\r".to_owned(),
        0x20..=0x7e | 0xa1..=0xac | 0xae..=0xff => char::from(byte).to_string(),
        ..=0x7f => format!("\\x{byte:02x}"),
        _ => format!("\\u{byte:04x}"),
    };
    format!("'{shown}'")
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    #[test]
    fn what_is_wrong_is_told_as_go_tells_it() {
        for (text, wanted) in [
            ("", "unexpected end of JSON input"),
            (" {\"a\" : [1, 2", "unexpected end of JSON input"),
            (
                "{not json",
                "invalid character 'n' looking for beginning of object key string",
            ),
            (
                "{\"a\":1,}",
                "invalid character '}' looking for beginning of object key string",
            ),
            ("{\"a\" 1}", "invalid character '1' after object key"),
            ("{\"a\":1 \"b\"}", "invalid character '\"' after object key:value pair"),
            ("[1 2]", "invalid character '2' after array element"),
            ("[1,]", "invalid character ']' looking for beginning of value"),
            ("{} x", "invalid character 'x' after top-level value"),
            ("01", "invalid character '1' after top-level value"),
            ("-a", "invalid character 'a' in numeric literal"),
            ("1.x", "invalid character 'x' after decimal point in numeric literal"),
            ("1e+'", "invalid character '\\'' in exponent of numeric literal"),
            ("nul1", "invalid character '1' in literal null (expecting 'l')"),
            ("\"a\nb\"", "invalid character '\\n' in string literal"),
            ("\"\\x\"", "invalid character 'x' in string escape code"),
            ("\"\\u00g0\"", "invalid character 'g' in \\u hexadecimal character escape"),
            ("\u{1}", "invalid character '\\x01' looking for beginning of value"),
            ("é", "invalid character 'Ã' looking for beginning of value"),
        ] {
            assert_eq!(fault(text.as_bytes()).as_deref(), Some(wanted), "{text:?}");
        }
        assert_eq!(fault(&[b'['; 1_000_000]), Some(ended()));
    }

    proptest! {
        /// Whatever is refused here is refused by the parser, and the other way round.
        #[test]
        fn there_is_a_fault_exactly_in_what_is_no_json(text in "[\\[\\]{}:,\"\\\\0-9.eE+\\-trufalsn ]{0,12}") {
            let parsed = serde_json::from_str::<serde::de::IgnoredAny>(&text);
            prop_assert_eq!(fault(text.as_bytes()).is_none(), parsed.is_ok(), "{}", text);
        }
    }
}
