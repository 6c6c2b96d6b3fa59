//! taint-core
