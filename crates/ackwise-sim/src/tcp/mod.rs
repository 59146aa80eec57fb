//! The two ends of a connection, as state machines without I/O.
