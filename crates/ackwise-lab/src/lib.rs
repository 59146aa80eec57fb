//! Runs a scenario on the real Linux stack.
