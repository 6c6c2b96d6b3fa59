//! What an evaluation may cost, in units like those of the reference implementation: one for a step, a tenth for a byte of text.

use std::collections::BTreeMap;
use std::sync::Arc;

use regex::{Regex, RegexBuilder};

use crate::ast::MOST_LEVELS;
use crate::error::EvalError;
use crate::value::{Pattern, Value};

/// What compiling a regular expression that is no constant costs: about what it takes, in steps.
const REGEX: u64 = 2000;
/// Bytes that a compiled regular expression may take.
const REGEX_SIZE: usize = 1 << 18;
/// Regular expressions that are remembered within an evaluation.
const REMEMBERED: usize = 32;
/// Evaluations within another: variables that use variables, each as high as a tree may be.
const MOST_NESTED: usize = 2 * MOST_LEVELS;

/// What is left of a budget.
#[derive(Debug)]
pub struct Meter {
    left: u64,
    depth: usize,
    patterns: BTreeMap<Arc<str>, Arc<Pattern>>,
}

impl Meter {
    /// A budget of so many units.
    pub fn new(budget: u64) -> Self {
        Self {
            left: budget,
            depth: 0,
            patterns: BTreeMap::new(),
        }
    }

    /// Units that are left.
    pub fn left(&self) -> u64 {
        self.left
    }

    /// Takes units.
    ///
    /// # Errors
    /// When there are not so many.
    pub fn charge(&mut self, units: u64) -> Result<(), EvalError> {
        match self.left.checked_sub(units) {
            Some(left) => {
                self.left = left;
                Ok(())
            }
            None => {
                self.left = 0;
                Err(EvalError::Cost)
            }
        }
    }

    /// Takes what handling elements costs.
    ///
    /// # Errors
    /// When there is not so much.
    pub fn charge_items(&mut self, items: usize) -> Result<(), EvalError> {
        self.charge(u64::try_from(items).unwrap_or(u64::MAX))
    }

    /// Takes what handling bytes of text costs.
    ///
    /// # Errors
    /// When there is not so much.
    pub fn charge_text(&mut self, bytes: usize) -> Result<(), EvalError> {
        self.charge_items(bytes.div_ceil(10))
    }

    /// Goes one level down.
    ///
    /// # Errors
    /// When that is too deep.
    pub fn enter(&mut self) -> Result<(), EvalError> {
        self.depth += 1;
        if self.depth > MOST_NESTED {
            return Err(EvalError::Cost);
        }
        self.charge(1)
    }

    /// Goes one level up.
    pub fn leave(&mut self) {
        self.depth = self.depth.saturating_sub(1);
    }

    /// The regular expression that a value is.
    ///
    /// # Errors
    /// When it is none.
    pub fn pattern(&mut self, value: &Value) -> Result<Arc<Pattern>, EvalError> {
        if let Value::Pattern(pattern) = value {
            return Ok(pattern.clone());
        }
        let source = value.as_str().ok_or_else(EvalError::overload)?;
        if let Some(pattern) = self.patterns.get(source) {
            return Ok(pattern.clone());
        }
        self.charge(REGEX)?;
        self.charge_items(source.len())?;
        let pattern = Arc::new(compile(source)?);
        if self.patterns.len() < REMEMBERED {
            self.patterns.insert(pattern.source.clone(), pattern.clone());
        }
        Ok(pattern)
    }
}

/// A regular expression from its text.
///
/// # Errors
/// When it is none.
pub fn compile(source: &str) -> Result<Pattern, EvalError> {
    let regex: Result<Regex, regex::Error> = RegexBuilder::new(source).size_limit(REGEX_SIZE).build();
    match regex {
        Ok(regex) => Ok(Pattern {
            source: source.into(),
            regex,
        }),
        Err(_) => Err(EvalError::value(format!("error parsing regexp: `{source}`"))),
    }
}
