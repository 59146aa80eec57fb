//! The first process of an emulated machine, for tests: the command itself has
//! the same within it.

use std::process::ExitCode;

use ackwise_lab::slow::guest;

fn main() -> ExitCode {
    if !guest::is_guest() {
        eprintln!("this program is the first process of an emulated machine, and nothing else");
        return ExitCode::from(2);
    }
    match guest::main() {
        Ok(()) => ExitCode::SUCCESS,
        Err(error) => {
            eprintln!("{error}");
            ExitCode::FAILURE
        }
    }
}
