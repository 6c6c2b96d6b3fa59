//! taint-manager
