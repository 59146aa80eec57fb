//! Loads, attaches, feeds and observes the eBPF datapath.
