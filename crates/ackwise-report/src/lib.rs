//! Turns records into tables, JSON and one self-contained HTML page.
