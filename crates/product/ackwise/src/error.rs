//! What goes wrong, and the exit code that says which kind it was.

use std::fmt;

/// The command did what it was asked to.
pub const EXIT_OK: u8 = 0;
/// It was asked for something sensible, and that failed.
pub const EXIT_FAILED: u8 = 1;
/// It was asked for something that cannot be: an argument, a name, a file's content.
pub const EXIT_BAD_INPUT: u8 = 2;

/// Bad input: what, where, and how to mend it. Ends with [`EXIT_BAD_INPUT`].
#[derive(Debug)]
pub struct BadInput {
    what: String,
    mend: Option<String>,
}

impl BadInput {
    /// Says what is wrong.
    pub fn new(what: impl fmt::Display) -> Self {
        Self {
            what: what.to_string(),
            mend: None,
        }
    }

    /// Says how to mend it.
    pub fn mend(mut self, how: impl fmt::Display) -> Self {
        self.mend = Some(how.to_string());
        self
    }

    /// Both, where a line is all there is.
    pub fn in_one_line(&self) -> String {
        match &self.mend {
            Some(mend) => format!("{}; {mend}", self.what),
            None => self.what.clone(),
        }
    }
}

impl fmt::Display for BadInput {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.what)?;
        match &self.mend {
            Some(mend) => write!(f, "\n  {mend}"),
            None => Ok(()),
        }
    }
}

impl std::error::Error for BadInput {}

/// The one place that turns an error into an exit code.
pub fn exit_code(error: &anyhow::Error) -> u8 {
    if error.is::<BadInput>() || error.chain().any(is_bad_input) {
        EXIT_BAD_INPUT
    } else {
        EXIT_FAILED
    }
}

fn is_bad_input(error: &(dyn std::error::Error + 'static)) -> bool {
    use ackwise_datapath::Error as Datapath;
    use ackwise_netdev::Error as Netdev;
    use ackwise_reproduce::Error as Reproduce;

    if let Some(e) = error.downcast_ref::<Datapath>() {
        return matches!(
            e,
            Datapath::NoInterface(_)
                | Datapath::LinkType { .. }
                | Datapath::Capability { .. }
                | Datapath::Option { .. }
        );
    }
    if let Some(e) = error.downcast_ref::<ackwise_gateway::Error>() {
        use ackwise_gateway::Error as Gateway;
        return matches!(
            e,
            Gateway::NotThere(_)
                | Gateway::Netdev(Netdev::NoInterface(_) | Netdev::LinkType { .. })
        );
    }
    if let Some(e) = error.downcast_ref::<ackwise_tunneld::Error>() {
        use ackwise_tunneld::Error as Tunnel;
        return matches!(
            e,
            Tunnel::NotThere(_)
                | Tunnel::Key { .. }
                | Tunnel::OwnKey(_)
                | Tunnel::NoUser(_)
                | Tunnel::Netdev(Netdev::NoInterface(_) | Netdev::LinkType { .. })
        );
    }
    if let Some(e) = error.downcast_ref::<Reproduce>() {
        return matches!(
            e,
            Reproduce::UnknownPaper { .. } | Reproduce::WrongEngine { .. }
        );
    }
    if let Some(e) = error.downcast_ref::<ackwise_sim::SimError>() {
        use ackwise_sim::SimError;
        return matches!(e, SimError::Invalid(_) | SimError::TooLarge { .. });
    }
    error.is::<BadInput>()
        || error.is::<ackwise_scenario::ScenarioError>()
        || matches!(
            error.downcast_ref(),
            Some(ackwise_engines::LabError::Scenario(_) | ackwise_engines::LabError::Invalid(_))
        )
}

/// Prints an error for a person: the error, then what led to it.
pub fn print(error: &anyhow::Error) {
    let mut text = format!("ackwise: {error}");
    let mut said = error.to_string();
    for cause in error.chain().skip(1) {
        let cause = cause.to_string();
        // Libraries that print their source themselves would say it twice.
        if !said.contains(&cause) {
            text.push_str(&format!("\n  because: {cause}"));
            said.push_str(&cause);
        }
    }
    eprintln!("{text}");
}

#[cfg(test)]
mod tests {
    use super::*;
    use anyhow::Context;

    #[test]
    fn bad_input_is_found_below_context() {
        let e = Err::<(), _>(BadInput::new("no such policy").mend("try adaptive"))
            .context("while reading --policy")
            .unwrap_err();
        assert_eq!(exit_code(&e), EXIT_BAD_INPUT);
        assert_eq!(
            exit_code(&anyhow::anyhow!("the kernel said no")),
            EXIT_FAILED
        );
    }
}
