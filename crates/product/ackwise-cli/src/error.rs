//! Errors, and the exit code that tells their kind.

use std::error::Error;
use std::fmt;
use std::io::{self, Write};

use crate::text;

/// The command succeeded.
pub const EXIT_OK: u8 = 0;
/// The request was valid, but failed.
pub const EXIT_FAILED: u8 = 1;
/// The request was invalid: an argument, a name, or the content of a file. Also if this kernel can
/// never do what was asked.
pub const EXIT_BAD_INPUT: u8 = 2;

/// Bad input: what is wrong, where, and how to fix it. Exits with [`EXIT_BAD_INPUT`].
#[derive(Debug)]
pub struct BadInput {
    what: String,
    hint: Option<String>,
}

impl BadInput {
    /// Creates an error that says what is wrong.
    pub fn new(what: impl fmt::Display) -> Self {
        Self {
            what: what.to_string(),
            hint: None,
        }
    }

    /// Adds how to fix it.
    pub fn hint(mut self, how: impl fmt::Display) -> Self {
        self.hint = Some(how.to_string());
        self
    }
}

impl fmt::Display for BadInput {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.what)?;
        match &self.hint {
            Some(hint) => write!(f, "\n  {hint}"),
            None => Ok(()),
        }
    }
}

impl Error for BadInput {}

/// The exit code of an error: [`EXIT_BAD_INPUT`] if it or one of its causes is bad input,
/// otherwise [`EXIT_FAILED`]. `is_bad_input` recognises further errors as bad input.
pub fn exit_code(error: &anyhow::Error, is_bad_input: fn(&(dyn Error + 'static)) -> bool) -> u8 {
    let bad = |e: &(dyn Error + 'static)| is_product_bad_input(e) || is_bad_input(e);
    if error.is::<BadInput>() || error.chain().any(bad) {
        EXIT_BAD_INPUT
    } else {
        EXIT_FAILED
    }
}

/// Whether an error of the product's libraries means bad input.
fn is_product_bad_input(error: &(dyn Error + 'static)) -> bool {
    #[cfg(target_os = "linux")]
    if crate::live_error::is_bad_input(error) {
        return true;
    }
    error.is::<ackwise_config::ConfigError>() || error.is::<BadInput>()
}

/// Prints an error of a program on standard error: the error, then its causes.
pub fn print(program: &str, error: &anyhow::Error) {
    let text = format!("{program}: {}", with_causes(error, "\n  because: "));
    let text = text::printable(&text);
    // The exit code reports the error even if nobody can read the message.
    let _ = write!(io::stderr().lock(), "{}", crate::journal::error(&text));
}

/// An error and its causes, for a log or an answer: `cannot set the rate: permission denied`.
pub fn in_line(error: &anyhow::Error) -> String {
    with_causes(error, ": ")
}

fn with_causes(error: &anyhow::Error, before_cause: &str) -> String {
    let mut text = error.to_string();
    for cause in error.chain().skip(1) {
        let cause = cause.to_string();
        // Libraries that print their source themselves would repeat it.
        if !text.contains(&cause) {
            text.push_str(before_cause);
            text.push_str(&cause);
        }
    }
    text
}

#[cfg(test)]
mod tests {
    use super::*;
    use anyhow::Context;

    #[test]
    fn a_cause_that_the_error_names_itself_is_not_repeated() {
        let file = ackwise_config::ConfigError::Read {
            path: "up.toml".into(),
            source: io::ErrorKind::NotFound.into(),
        };
        let named = anyhow::Error::from(file);
        assert_eq!(
            in_line(&named),
            "up.toml: cannot read this file: entity not found"
        );
        let other = Err::<(), _>(io::Error::from(io::ErrorKind::NotFound));
        let other = other.context("setting the rate").unwrap_err();
        assert_eq!(in_line(&other), "setting the rate: entity not found");
    }

    #[test]
    fn bad_input_is_found_below_context() {
        let e = Err::<(), _>(BadInput::new("no such policy").hint("try adaptive"))
            .context("while reading --policy")
            .unwrap_err();
        assert_eq!(exit_code(&e, |_| false), EXIT_BAD_INPUT);
        assert_eq!(
            exit_code(&anyhow::anyhow!("the kernel said no"), |_| false),
            EXIT_FAILED
        );
    }
}
