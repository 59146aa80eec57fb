//! The first program of a virtual machine, for tests of the lab. The command `ackwise` serves as
//! its own.

fn main() {
    ackwise_engines::virt::run_if_guest();
    eprintln!(
        "ackwise-guest: this program is the first process of a virtual machine, and nothing else"
    );
    std::process::exit(2);
}
