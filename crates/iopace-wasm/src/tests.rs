//! Tests that look inside.
