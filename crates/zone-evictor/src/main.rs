//! The zone-evictor's binary.

use std::process::ExitCode;

use bailiff_zone_evictor::ZoneEvictor;

fn main() -> ExitCode {
    bailiff_stage::service::main::<ZoneEvictor>()
}
