//! The first program of a virtual machine, for tests of the suite. The command has the same code
//! built in.

use std::process::ExitCode;

fn main() -> ExitCode {
    ackwise_conform::run_if_guest();
    eprintln!("this program is the first process of a virtual machine, and nothing else");
    ExitCode::from(2)
}
