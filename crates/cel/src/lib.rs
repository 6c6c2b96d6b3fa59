//! The Common Expression Language as Kubernetes speaks it: read, checked for types, evaluated within a budget.
//!
//! Pure: neither clock, nor I/O, nor randomness; maps are gone through in the order of their keys. What an expression can cost is
//! bounded whatever it says: text and tree when it is compiled, steps, bytes and levels of values when it is evaluated. It knows
//! nothing of policies; who may do what is asked of its [`Host`].

mod ast;
mod authority;
mod checker;
mod convert;
mod env;
mod error;
mod eval;
mod fold;
mod functions;
mod lexer;
mod lists;
mod literals;
mod macros;
mod meter;
mod net;
mod operators;
mod optional;
mod parser;
mod quantity;
mod semver;
mod text;
mod time;
mod types;
mod url;
mod value;

pub use authority::{Authority, Check, Decision};
pub use env::Env;
pub use error::{CompileError, EvalError, Issue};
pub use meter::Meter;
pub use parser::is_identifier;
pub use types::Type;
pub use value::{Key, List, Map, Value};

use error::Issues;

/// What evaluation asks of its surroundings.
pub trait Host {
    /// The value of a variable.
    ///
    /// # Errors
    /// When it has none.
    fn variable(&self, name: &str, meter: &mut Meter) -> Result<Value, EvalError>;

    /// Whether somebody may do something.
    fn decide(&self, check: &Check) -> Decision;
}

/// An expression that was compiled.
#[derive(Clone, Debug)]
pub struct Program {
    expr: ast::Expr,
    result: Type,
}

impl Program {
    /// Reads an expression and finds the types of its parts.
    ///
    /// # Errors
    /// When it cannot be read, names what there is not, or applies what does not fit.
    pub fn compile(text: &str, env: &Env) -> Result<Self, CompileError> {
        let mut issues = Issues::default();
        let parsed = parser::parse(text, &mut issues);
        let (Some(mut expr), true) = (parsed, issues.is_empty()) else {
            return Err(CompileError::Issues(issues.report(text)));
        };
        let result = checker::check(env, &mut expr, &mut issues);
        if !issues.is_empty() {
            return Err(CompileError::Issues(issues.report(text)));
        }
        convert::check_constants(&expr).map_err(CompileError::Constant)?;
        Ok(Self { expr, result })
    }

    /// The type of its value.
    pub fn result(&self) -> &Type {
        &self.result
    }

    /// Its value.
    ///
    /// # Errors
    /// When it has none, or costs more than the meter has left.
    pub fn evaluate(&self, host: &dyn Host, meter: &mut Meter) -> Result<Value, EvalError> {
        eval::evaluate(&self.expr, host, meter)
    }
}
