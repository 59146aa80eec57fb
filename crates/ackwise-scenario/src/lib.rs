//! The scenario file, checked, and the record that every run returns.
