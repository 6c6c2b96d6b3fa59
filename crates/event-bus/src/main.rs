//! Binary of the event bus.

use std::process::ExitCode;

fn main() -> ExitCode {
    bailiff_event_bus::service::main()
}
