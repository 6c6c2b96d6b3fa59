//! bailiff
fn main() {}
