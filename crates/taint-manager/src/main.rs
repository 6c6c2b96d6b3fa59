//! Binary of the taint-manager.

use std::process::ExitCode;

use bailiff_runtime::Allocator;
use bailiff_taint_manager::TaintManager;

#[global_allocator]
static ALLOCATOR: Allocator = Allocator;

fn main() -> ExitCode {
    bailiff_stage::service::main::<TaintManager>()
}
