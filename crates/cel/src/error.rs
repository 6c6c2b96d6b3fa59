//! What is wrong with an expression, in the words of the reference implementation.

use std::fmt;

/// One thing that is wrong with an expression's text.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Issue {
    /// Where, in bytes.
    pub at: usize,
    /// What.
    pub message: String,
}

/// Everything that is wrong with an expression.
#[derive(Clone, Debug, Default)]
pub struct Issues {
    list: Vec<Issue>,
}

/// What is wrong with an expression, shown with the place in its text.
#[derive(Clone, Debug)]
pub struct Report {
    text: String,
    issues: Vec<Issue>,
}

/// Why an expression is not accepted.
#[derive(Clone, Debug, thiserror::Error)]
pub enum CompileError {
    /// It cannot be read, or its types do not fit.
    #[error("compilation failed: {0}")]
    Issues(Report),
    /// It can be read, but says something that can never be evaluated.
    #[error("program instantiation failed: {0}")]
    Constant(String),
}

/// Why an evaluation has no value.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum EvalError {
    /// What was asked for cannot be had: a key, a conversion, a quotient.
    #[error("{0}")]
    Value(String),
    /// It takes more than it may.
    #[error("operation cancelled: actual cost limit exceeded")]
    Cost,
}

/// Issues that are told of one expression; what follows from the first few helps nobody.
const MOST: usize = 30;

impl Issue {
    /// An issue at a place.
    pub fn new(at: usize, message: impl Into<String>) -> Self {
        Self {
            at,
            message: message.into(),
        }
    }
}

impl Issues {
    /// Adds one.
    pub fn push(&mut self, issue: Issue) {
        if self.list.len() < MOST {
            self.list.push(issue);
        }
    }

    /// Whether there is none.
    pub fn is_empty(&self) -> bool {
        self.list.is_empty()
    }

    /// The issues with the text that they are about, by place.
    pub fn report(mut self, text: &str) -> Report {
        self.list.sort_by_key(|issue| issue.at);
        Report {
            text: text.to_owned(),
            issues: self.list,
        }
    }
}

impl EvalError {
    /// An error that says this.
    pub fn value(message: impl Into<String>) -> Self {
        Self::Value(message.into())
    }

    /// The operation is not defined for these values.
    pub fn overload() -> Self {
        Self::value("no such overload")
    }
}

impl fmt::Display for Report {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        for (nth, issue) in self.issues.iter().enumerate() {
            let before = self.text.get(..issue.at).unwrap_or(&self.text);
            let line = before.matches('\n').count() + 1;
            let start = before.rfind('\n').map_or(0, |newline| newline + 1);
            let column = before.get(start..).map_or(0, |text| text.chars().count());
            let shown = self
                .text
                .get(start..)
                .and_then(|rest| rest.split('\n').next())
                .unwrap_or_default();
            let lead = if nth == 0 { "" } else { "\n" };
            write!(f, "{lead}ERROR: <input>:{line}:{}: {}", column + 1, issue.message)?;
            write!(f, "\n | {shown}\n | {}^", ".".repeat(column))?;
        }
        Ok(())
    }
}
