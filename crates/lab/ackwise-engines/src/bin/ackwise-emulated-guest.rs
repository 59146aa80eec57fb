//! The first process of an emulated machine, for tests. The command has the same code built in.

use std::process::ExitCode;

fn main() -> ExitCode {
    ackwise_engines::emulated::run_if_guest();
    eprintln!("this program is the first process of an emulated machine, and nothing else");
    ExitCode::from(2)
}
