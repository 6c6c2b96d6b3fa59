//! The zone-evictor's binary.

use std::process::ExitCode;

use bailiff_runtime::Allocator;
use bailiff_zone_evictor::ZoneEvictor;

#[global_allocator]
static ALLOCATOR: Allocator = Allocator;

fn main() -> ExitCode {
    bailiff_stage::service::main::<ZoneEvictor>()
}
