//! What the four stage shells share.
