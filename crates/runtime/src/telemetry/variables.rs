//! What OpenTelemetry's environment variables ask for, beyond where traces go, which are flags too.
//!
//! A value that means nothing is refused, as any wrong flag is. What is asked for and not done is said in a warning: it must not look as
//! if it were. Which variables there are, and which mean nothing here, is in docs/traces.md.

use std::ops::RangeInclusive;
use std::time::Duration;

use crate::trace::Batching;

/// OpenTelemetry's default for what an export may take.
const EXPORT_TIMEOUT: Duration = Duration::from_secs(10);
/// Longer than this nobody waits for a collector, or keeps spans that a kill would lose.
const LONGEST: u64 = 3_600_000;
/// A span takes about 1 kB, and whoever asks for more of them than 100 MB hold has mistyped.
const MOST_QUEUED: usize = 100_000;
/// Collectors take messages of 4 MiB, and a span takes up to 1 kB of one.
const MOST_AT_ONCE: usize = 4_096;

/// Samplers that keep everything, which is what is done.
const KEEPING: [&str; 2] = ["always_on", "parentbased_always_on"];

/// The value of a variable means nothing.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("invalid value '{value}' for environment variable {variable}: allowed is {allowed}")]
pub struct Error {
    /// Its name.
    pub variable: &'static str,
    /// Its value.
    pub value: String,
    /// What is allowed.
    pub allowed: String,
}

/// What the variables ask for.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Variables {
    /// Traces may leave the process, if there is somewhere to go.
    pub exports: bool,
    /// Traces are to leave it: there should be somewhere to go.
    pub insists: bool,
    /// How spans wait for their export.
    pub batching: Batching,
    /// How long the collector may take to answer.
    pub answer_within: Duration,
    /// What is asked for and not done, as sentences.
    pub unheeded: Vec<String>,
}

/// Reads variables; an empty one counts as none, as OpenTelemetry says.
struct Reader<F>(F);

// === impl Variables ===

impl Variables {
    /// What this process's environment asks for.
    ///
    /// # Errors
    /// The first variable whose value means nothing.
    pub fn of_process() -> Result<Self, Error> {
        Self::read(|name| std::env::var_os(name).map(|value| value.to_string_lossy().into_owned()))
    }

    /// What variables of these values ask for.
    ///
    /// # Errors
    /// The first variable whose value means nothing.
    pub fn read(value_of: impl Fn(&str) -> Option<String>) -> Result<Self, Error> {
        let reader = Reader(value_of);
        let disabled = reader.one_of("OTEL_SDK_DISABLED", &["false", "true"])?;
        let exporter = reader.one_of("OTEL_TRACES_EXPORTER", &["otlp", "none"])?;
        let answer_within = reader.answer_within()?;
        Ok(Self {
            exports: disabled != Some("true") && exporter != Some("none"),
            insists: exporter == Some("otlp"),
            batching: reader.batching(answer_within)?,
            answer_within,
            unheeded: reader.unheeded(),
        })
    }
}

// === impl Reader ===

impl<F: Fn(&str) -> Option<String>> Reader<F> {
    fn value(&self, variable: &str) -> Option<String> {
        let value = (self.0)(variable)?;
        let trimmed = value.trim();
        (!trimmed.is_empty()).then(|| trimmed.to_owned())
    }

    /// One of these words, in whatever case.
    fn one_of(&self, variable: &'static str, words: &[&'static str]) -> Result<Option<&'static str>, Error> {
        let Some(value) = self.value(variable) else {
            return Ok(None);
        };
        let found = words.iter().find(|word| word.eq_ignore_ascii_case(&value));
        found.map(|word| Some(*word)).ok_or_else(|| Error {
            variable,
            value,
            allowed: words.join(" or "),
        })
    }

    /// A whole number of this range, which is of `what`.
    fn number(&self, variable: &'static str, range: RangeInclusive<u64>, what: &str) -> Result<Option<u64>, Error> {
        let Some(value) = self.value(variable) else {
            return Ok(None);
        };
        let parsed = value.parse().ok().filter(|number| range.contains(number));
        parsed.map(Some).ok_or_else(|| Error {
            variable,
            value,
            allowed: format!("a whole number {what} from {} to {}", range.start(), range.end()),
        })
    }

    fn millis(&self, variable: &'static str, least: u64) -> Result<Option<Duration>, Error> {
        let number = self.number(variable, least..=LONGEST, "of milliseconds")?;
        Ok(number.map(Duration::from_millis))
    }

    fn spans(&self, variable: &'static str, most: usize) -> Result<Option<usize>, Error> {
        let number = self.number(variable, 1..=most as u64, "of spans")?;
        Ok(number.map(|number| usize::try_from(number).expect("it is at most `most`")))
    }

    fn answer_within(&self) -> Result<Duration, Error> {
        let general = self.millis("OTEL_EXPORTER_OTLP_TIMEOUT", 1)?;
        let of_traces = self.millis("OTEL_EXPORTER_OTLP_TRACES_TIMEOUT", 1)?;
        Ok(of_traces.or(general).unwrap_or(EXPORT_TIMEOUT))
    }

    fn batching(&self, answer_within: Duration) -> Result<Batching, Error> {
        let standard = Batching::default();
        let queue = self.spans("OTEL_BSP_MAX_QUEUE_SIZE", MOST_QUEUED)?.unwrap_or(standard.queue);
        let most = queue.min(MOST_AT_ONCE);
        let batch = self.spans("OTEL_BSP_MAX_EXPORT_BATCH_SIZE", most)?;
        Ok(Batching {
            queue,
            batch: batch.unwrap_or(standard.batch.min(queue)),
            delay: self.millis("OTEL_BSP_SCHEDULE_DELAY", 0)?.unwrap_or(standard.delay),
            timeout: self.millis("OTEL_BSP_EXPORT_TIMEOUT", 1)?.unwrap_or(answer_within),
        })
    }

    fn unheeded(&self) -> Vec<String> {
        let other_than = |variable: &str, done: &[&str], instead: &str| {
            let value = self.value(variable)?;
            let is_done = done.iter().any(|word| word.eq_ignore_ascii_case(&value));
            (!is_done).then(|| format!("{variable}={value} is not obeyed: {instead}"))
        };
        let kept = "no incident is ever sampled out; OTEL_TRACES_EXPORTER=none turns traces off";
        let mut unheeded = vec![other_than("OTEL_TRACES_SAMPLER", &KEEPING, kept)];
        let files = "https:// takes the files of the --tls flags";
        for signal in ["", "TRACES_"] {
            for (what, done, instead) in [
                ("PROTOCOL", &["grpc"][..], "traces travel over gRPC"),
                ("COMPRESSION", &["none"], "traces are not compressed"),
                ("CERTIFICATE", &[], files),
                ("CLIENT_CERTIFICATE", &[], files),
                ("CLIENT_KEY", &[], files),
            ] {
                unheeded.push(other_than(&format!("OTEL_EXPORTER_OTLP_{signal}{what}"), done, instead));
            }
        }
        unheeded.into_iter().flatten().collect()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn read(pairs: &[(&str, &str)]) -> Result<Variables, Error> {
        Variables::read(|name| {
            let found = pairs.iter().find(|(variable, _)| *variable == name);
            found.map(|(_, value)| (*value).to_owned())
        })
    }

    #[test]
    fn without_variables_traces_leave_as_ever() {
        let expected = Variables {
            exports: true,
            insists: false,
            batching: Batching::default(),
            answer_within: Duration::from_secs(10),
            unheeded: Vec::new(),
        };
        assert_eq!(read(&[]), Ok(expected.clone()));
        let empty = [
            "OTEL_SDK_DISABLED",
            "OTEL_TRACES_EXPORTER",
            "OTEL_BSP_MAX_QUEUE_SIZE",
            "OTEL_TRACES_SAMPLER",
        ];
        assert_eq!(read(&empty.map(|name| (name, " "))), Ok(expected));
    }

    #[test]
    fn traces_are_turned_off_in_two_ways() {
        for (variable, value, exports) in [
            ("OTEL_SDK_DISABLED", "true", false),
            ("OTEL_SDK_DISABLED", "TRUE", false),
            ("OTEL_SDK_DISABLED", "false", true),
            ("OTEL_TRACES_EXPORTER", "none", false),
            ("OTEL_TRACES_EXPORTER", "otlp", true),
        ] {
            let asked = read(&[(variable, value)]).expect(value);
            assert_eq!(asked.exports, exports, "{variable}={value}");
            assert_eq!(asked.insists, value == "otlp", "{variable}={value}");
        }
    }

    #[test]
    fn spans_wait_as_they_are_told_to() {
        let asked = read(&[
            ("OTEL_BSP_MAX_QUEUE_SIZE", "100"),
            ("OTEL_BSP_SCHEDULE_DELAY", "0"),
            ("OTEL_EXPORTER_OTLP_TIMEOUT", "20000"),
        ]);
        let asked = asked.expect("allowed");
        let (timeout, delay) = (Duration::from_secs(20), Duration::ZERO);
        assert_eq!(asked.answer_within, timeout);
        // A batch is no larger than the queue.
        let expected = Batching {
            queue: 100,
            batch: 100,
            delay,
            timeout,
        };
        assert_eq!(asked.batching, expected);
        let asked = read(&[
            ("OTEL_BSP_MAX_EXPORT_BATCH_SIZE", "7"),
            ("OTEL_BSP_EXPORT_TIMEOUT", "3000"),
            ("OTEL_EXPORTER_OTLP_TIMEOUT", "20000"),
            ("OTEL_EXPORTER_OTLP_TRACES_TIMEOUT", "1000"),
        ]);
        let asked = asked.expect("allowed");
        assert_eq!(asked.answer_within, Duration::from_secs(1));
        assert_eq!((asked.batching.batch, asked.batching.timeout), (7, Duration::from_secs(3)));
    }

    #[test]
    fn what_means_nothing_is_answered_with_variable_value_and_what_is_allowed() {
        for (variable, value, allowed) in [
            ("OTEL_SDK_DISABLED", "yes", "false or true"),
            ("OTEL_TRACES_EXPORTER", "zipkin", "otlp or none"),
            ("OTEL_TRACES_EXPORTER", "otlp,none", "otlp or none"),
            ("OTEL_BSP_MAX_QUEUE_SIZE", "0", "a whole number of spans from 1 to 100000"),
            ("OTEL_BSP_MAX_QUEUE_SIZE", "-1", "a whole number of spans from 1 to 100000"),
            (
                "OTEL_BSP_MAX_EXPORT_BATCH_SIZE",
                "5000",
                "a whole number of spans from 1 to 4096",
            ),
            (
                "OTEL_BSP_SCHEDULE_DELAY",
                "5s",
                "a whole number of milliseconds from 0 to 3600000",
            ),
            (
                "OTEL_BSP_EXPORT_TIMEOUT",
                "0",
                "a whole number of milliseconds from 1 to 3600000",
            ),
            (
                "OTEL_EXPORTER_OTLP_TIMEOUT",
                "soon",
                "a whole number of milliseconds from 1 to 3600000",
            ),
            (
                "OTEL_EXPORTER_OTLP_TRACES_TIMEOUT",
                "0",
                "a whole number of milliseconds from 1 to 3600000",
            ),
        ] {
            let error = read(&[(variable, value)]).expect_err(value).to_string();
            let expected = format!("invalid value '{value}' for environment variable {variable}: allowed is {allowed}");
            assert_eq!(error, expected);
        }
        let both = [("OTEL_BSP_MAX_QUEUE_SIZE", "100"), ("OTEL_BSP_MAX_EXPORT_BATCH_SIZE", "101")];
        let error = read(&both).expect_err("a batch comes from the queue");
        assert_eq!(error.allowed, "a whole number of spans from 1 to 100");
    }

    #[test]
    fn what_is_not_done_is_said() {
        for (variable, value, is_said) in [
            ("OTEL_TRACES_SAMPLER", "always_on", false),
            ("OTEL_TRACES_SAMPLER", "parentbased_always_on", false),
            ("OTEL_TRACES_SAMPLER", "traceidratio", true),
            ("OTEL_TRACES_SAMPLER", "always_off", true),
            ("OTEL_EXPORTER_OTLP_PROTOCOL", "grpc", false),
            ("OTEL_EXPORTER_OTLP_PROTOCOL", "http/protobuf", true),
            ("OTEL_EXPORTER_OTLP_TRACES_PROTOCOL", "http/json", true),
            ("OTEL_EXPORTER_OTLP_COMPRESSION", "none", false),
            ("OTEL_EXPORTER_OTLP_TRACES_COMPRESSION", "gzip", true),
            ("OTEL_EXPORTER_OTLP_CERTIFICATE", "/ca.crt", true),
        ] {
            let said = read(&[(variable, value)]).expect(value).unheeded;
            assert_eq!(said.len(), usize::from(is_said), "{said:?}");
            let beginning = format!("{variable}={value} is not obeyed: ");
            assert!(said.iter().all(|sentence| sentence.starts_with(&beginning)), "{said:?}");
        }
    }
}
