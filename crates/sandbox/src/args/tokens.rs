//! The file of `--token-auth-file`, as kube-apiserver reads it: CSV lines of token, user name, user uid and optional groups.

use crate::User;

/// A bearer token and who it stands for.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct StaticToken {
    /// The token.
    pub token: String,
    /// Who it stands for.
    pub user: User,
}

/// A line that is no token.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("line {line}: {problem}; wanted is token,user,uid or token,user,uid,\"group1,group2\"")]
pub struct Malformed {
    /// Counted from one.
    pub line: usize,
    /// What is wrong.
    pub problem: &'static str,
}

/// Reads the tokens of a file. Blank lines are skipped.
///
/// # Errors
/// The first line that is none.
pub fn parse_tokens(text: &str) -> Result<Vec<StaticToken>, Malformed> {
    let lines = text.lines().enumerate().filter(|(_, line)| !line.trim().is_empty());
    lines
        .map(|(nth, line)| parse_line(line).map_err(|problem| Malformed { line: nth + 1, problem }))
        .collect()
}

fn parse_line(line: &str) -> Result<StaticToken, &'static str> {
    let fields = split(line)?;
    let [token, name, uid, rest @ ..] = fields.as_slice() else {
        return Err("too few fields");
    };
    if token.is_empty() || name.is_empty() {
        return Err("the token or the user is empty");
    }
    let groups: Vec<&str> = match rest {
        [] => Vec::new(),
        [groups] => groups.split(',').map(str::trim).filter(|group| !group.is_empty()).collect(),
        _ => return Err("too many fields; several groups need quotes"),
    };
    let mut user = User::new(name, &groups);
    user.uid = uid.as_str().into();
    Ok(StaticToken {
        token: token.clone(),
        user,
    })
}

/// Fields of one line; a quoted one may hold commas, and quotes as two of them.
fn split(line: &str) -> Result<Vec<String>, &'static str> {
    let mut fields = Vec::new();
    let mut rest = line.trim();
    loop {
        let (field, after) = match rest.strip_prefix('"') {
            Some(quoted) => unquote(quoted)?,
            None => {
                let end = rest.find(',').unwrap_or(rest.len());
                (rest[..end].trim().to_owned(), &rest[end..])
            }
        };
        fields.push(field);
        match after.trim_start().strip_prefix(',') {
            Some(next) => rest = next.trim_start(),
            None if after.trim().is_empty() => return Ok(fields),
            None => return Err("text after a closing quote"),
        }
    }
}

fn unquote(quoted: &str) -> Result<(String, &str), &'static str> {
    let mut field = String::new();
    let mut rest = quoted;
    loop {
        let end = rest.find('"').ok_or("a quote is not closed")?;
        field.push_str(&rest[..end]);
        rest = &rest[end + 1..];
        match rest.strip_prefix('"') {
            Some(next) => {
                field.push('"');
                rest = next;
            }
            None => return Ok((field, rest)),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn mk_token(token: &str, name: &str, uid: &str, groups: &[&str]) -> StaticToken {
        let mut user = User::new(name, groups);
        user.uid = uid.into();
        StaticToken {
            token: token.to_owned(),
            user,
        }
    }

    #[test]
    fn lines_are_tokens_as_kube_apiserver_reads_them() {
        let text = "admintoken,admin,1,\"system:masters\"\n\nbobtoken, bob, 2\nt,\"a \"\"b\"\"\",3,\"x, y\"\n";
        let wanted = [
            mk_token("admintoken", "admin", "1", &["system:masters"]),
            mk_token("bobtoken", "bob", "2", &[]),
            mk_token("t", "a \"b\"", "3", &["x", "y"]),
        ];
        assert_eq!(parse_tokens(text).unwrap(), wanted);
    }

    #[test]
    fn what_is_no_token_is_refused_by_its_line() {
        let cases = [
            ("t,u", "too few fields"),
            (",u,1", "the token or the user is empty"),
            ("t,u,1,a,b", "too many fields; several groups need quotes"),
            ("t,u,1,\"a", "a quote is not closed"),
            ("t,u,1,\"a\"b", "text after a closing quote"),
        ];
        for (line, problem) in cases {
            let error = parse_tokens(&format!("ok,ok,ok\n{line}\n")).unwrap_err();
            assert_eq!(error, Malformed { line: 2, problem }, "{line}");
        }
    }
}
