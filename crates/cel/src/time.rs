//! Parts of moments and times.

use jiff::civil::DateTime;
use jiff::tz::{Offset, TimeZone};
use jiff::{SignedDuration, Timestamp};

use crate::error::EvalError;
use crate::eval::Outcome;
use crate::value::Value;

/// The value of a function of a moment or time, if it is one of these.
pub fn call(name: &str, args: &[Value]) -> Option<Outcome> {
    match args {
        [Value::Timestamp(moment)] => of_moment(name, *moment, "UTC"),
        [Value::Timestamp(moment), zone] => of_moment(name, *moment, zone.as_str()?),
        [Value::Duration(time)] => of_time(name, *time),
        _ => None,
    }
}

fn of_moment(name: &str, moment: Timestamp, zone: &str) -> Option<Outcome> {
    let local = match civil(moment, zone) {
        Ok(local) => local,
        Err(error) => return Some(Err(error)),
    };
    let number = match name {
        "getFullYear" => i64::from(local.year()),
        "getMonth" => i64::from(local.month()) - 1,
        "getDayOfYear" => i64::from(local.date().day_of_year()) - 1,
        "getDayOfMonth" => i64::from(local.day()) - 1,
        "getDate" => i64::from(local.day()),
        "getDayOfWeek" => i64::from(local.weekday().to_sunday_zero_offset()),
        "getHours" => i64::from(local.hour()),
        "getMinutes" => i64::from(local.minute()),
        "getSeconds" => i64::from(local.second()),
        "getMilliseconds" => i64::from(local.millisecond()),
        _ => return None,
    };
    Some(Ok(Value::Int(number)))
}

/// The wall clock of a zone: UTC, or a distance to it such as `+02:00`. Names of places would need a database of the machine.
fn civil(moment: Timestamp, zone: &str) -> Result<DateTime, EvalError> {
    let unknown = || EvalError::value(format!("unknown time zone {zone}"));
    if matches!(zone, "" | "UTC") {
        return Ok(TimeZone::UTC.to_datetime(moment));
    }
    let (sign, rest) = match zone.strip_prefix('-') {
        Some(rest) => (-1, rest),
        None => (1, zone.strip_prefix('+').unwrap_or(zone)),
    };
    let (hours, minutes) = rest.split_once(':').ok_or_else(unknown)?;
    let read = |text: &str| text.parse::<i32>().ok().filter(|number| (0..60).contains(number));
    let (hours, minutes) = (read(hours).ok_or_else(unknown)?, read(minutes).ok_or_else(unknown)?);
    let offset = Offset::from_seconds(sign * (hours * 3600 + minutes * 60)).map_err(|_| unknown())?;
    Ok(offset.to_datetime(moment))
}

fn of_time(name: &str, time: SignedDuration) -> Option<Outcome> {
    let number = match name {
        "getHours" => time.as_hours(),
        "getMinutes" => time.as_mins(),
        "getSeconds" => time.as_secs(),
        "getMilliseconds" => i64::try_from(time.as_millis()).unwrap_or(i64::MAX),
        _ => return None,
    };
    Some(Ok(Value::Int(number)))
}
