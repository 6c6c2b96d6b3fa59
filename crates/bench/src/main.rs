//! Binary `bailiff-bench`.

use std::process::ExitCode;

use bailiff_runtime::Allocator;

#[global_allocator]
static ALLOCATOR: Allocator = Allocator;

fn main() -> ExitCode {
    bailiff_bench::main()
}
