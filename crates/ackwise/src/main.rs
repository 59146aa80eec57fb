//! The ackwise command.

fn main() {}
