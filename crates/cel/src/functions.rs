//! From a function's name and what it is called with to the module that knows it.

use crate::Host;
use crate::authority;
use crate::convert;
use crate::error::EvalError;
use crate::eval::Outcome;
use crate::lists;
use crate::meter::Meter;
use crate::net;
use crate::operators;
use crate::optional;
use crate::quantity;
use crate::semver;
use crate::text;
use crate::time;
use crate::url;
use crate::value::Value;

/// The value of a function.
pub fn call(name: &str, args: &[Value], host: &dyn Host, meter: &mut Meter) -> Outcome {
    if let Some(outcome) = operators::call(name, args, meter) {
        return outcome;
    }
    if let Some(outcome) = convert::call(name, args, meter) {
        return outcome;
    }
    let outcome = match args.first() {
        Some(Value::String(_) | Value::Pattern(_)) => text::call(name, args, meter).or_else(|| of_text(name, args)),
        Some(Value::List(_)) => lists::call(name, args, meter).or_else(|| optional::call(name, args)),
        Some(Value::Timestamp(_) | Value::Duration(_)) => time::call(name, args),
        Some(Value::Quantity(_)) => quantity::call(name, args),
        Some(Value::Ip(_) | Value::Cidr(_)) => net::call(name, args),
        Some(Value::Url(_)) => url::call(name, args),
        Some(Value::Semver(_)) => semver::call(name, args),
        Some(Value::Authority(_)) => authority::call(name, args, host, meter),
        _ => None,
    };
    let outcome = outcome
        .or_else(|| optional::call(name, args))
        .or_else(|| lists::make(name, args, meter));
    outcome.unwrap_or_else(|| Err(EvalError::overload()))
}

/// What texts become.
fn of_text(name: &str, args: &[Value]) -> Option<Outcome> {
    quantity::of_text(name, args)
        .or_else(|| net::of_text(name, args))
        .or_else(|| url::of_text(name, args))
        .or_else(|| semver::of_text(name, args))
}
