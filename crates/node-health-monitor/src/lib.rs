//! node-health-monitor
