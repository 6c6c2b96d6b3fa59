//! Binary `bailiff-bench`.

use std::process::ExitCode;

fn main() -> ExitCode {
    bailiff_bench::main()
}
