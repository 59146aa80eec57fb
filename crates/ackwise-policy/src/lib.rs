//! The safe Rust face of policy/: the ACK policies and the contract, as the kernel runs them.
