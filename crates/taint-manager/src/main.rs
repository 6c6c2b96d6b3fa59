//! Binary of the taint-manager.

use std::process::ExitCode;

use bailiff_taint_manager::TaintManager;

fn main() -> ExitCode {
    bailiff_stage::service::main::<TaintManager>()
}
