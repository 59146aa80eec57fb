//! Parses a policy and its parameters from arguments or from a scenario.

use ackwise_policy::{Config, Policy};

use crate::error::BadInput;

/// The policy of this name, or an error that lists the policies.
///
/// # Errors
///
/// If no policy has this name.
pub fn by_name(name: &str) -> Result<Policy, BadInput> {
    Policy::by_name(name).map_err(|e| {
        let advice = e.advice();
        BadInput::new(e).hint(advice)
    })
}

/// Parses `--policy NAME --set KEY=VALUE …`, or `--policy NAME:KEY=VALUE,…`, the form in which a
/// policy is displayed.
///
/// # Errors
///
/// If the policy or a parameter is unknown, or a value is out of range.
pub fn configure(policy: &str, settings: &[String]) -> Result<Config, BadInput> {
    let (name, inline) = policy.split_once(':').unwrap_or((policy, ""));
    let known = by_name(name)?;
    let mut config = Config::new(known);
    let inline = inline.split(',').filter(|part| !part.trim().is_empty());
    let inline = inline.map(|part| (format!("--policy {policy}"), part));
    set_all(&mut config, inline)?;
    let settings = settings.iter();
    let settings = settings.map(|setting| (format!("--set {setting}"), setting.as_str()));
    set_all(&mut config, settings)?;
    Ok(config)
}

/// Sets parameters, each at most once. Each comes with the argument that contains it.
fn set_all<'a>(
    config: &mut Config,
    settings: impl Iterator<Item = (String, &'a str)>,
) -> Result<(), BadInput> {
    let name = config.policy().name();
    let mut seen = Vec::new();
    for (argument, setting) in settings {
        let Some((key, value)) = setting.split_once('=') else {
            let why = format!("{argument}: {setting:?} is not KEY=VALUE");
            return Err(
                BadInput::new(why).hint(format!("`ackwise policies {name}` lists the parameters"))
            );
        };
        let key = key.trim();
        if seen.contains(&key) {
            let why = format!("{argument}: {key} is given twice");
            return Err(BadInput::new(why).hint("leave one of them out"));
        }
        seen.push(key);
        config
            .set(key, value)
            .map_err(|e| BadInput::new(format!("{argument}: {e}")).hint(e.advice()))?;
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn settings_are_checked() {
        let set = |s: &[&str]| {
            configure(
                "every-n",
                &s.iter().map(|s| (*s).to_owned()).collect::<Vec<_>>(),
            )
        };
        assert_eq!(set(&["n=4"]).unwrap().get("n"), Ok(4));
        for (bad, says) in [
            ("n", "not KEY=VALUE"),
            ("n=", "whole number"),
            ("n=four", "whole number"),
            ("n=0", "from 1 to 256"),
            ("n=99999999999999999999", "whole number"),
            ("wram=1", "did you mean warm?"),
        ] {
            let e = set(&[bad]).unwrap_err().to_string();
            assert!(e.contains(says), "{bad}: {e}");
        }
    }

    #[test]
    fn a_parameter_is_given_once() {
        let twice = ["n=4".to_owned(), "n=5".to_owned()];
        let e = configure("every-n", &twice).unwrap_err().to_string();
        assert!(e.contains("--set n=5: n is given twice"), "{e}");
        let e = configure("every-n:n=4,n=5", &[]).unwrap_err().to_string();
        assert!(e.contains("n is given twice"), "{e}");
    }

    #[test]
    fn a_policy_is_taken_as_it_is_shown() {
        let shown = configure("every-n:n=4,warm=0", &["n=5".to_owned()]).unwrap();
        assert_eq!((shown.get("n"), shown.get("warm")), (Ok(5), Ok(0)));
        let again = configure(&shown.to_string(), &[]).unwrap();
        assert_eq!(again.to_string(), shown.to_string());
        for (bad, says) in [
            (
                "every-n:n=0",
                "--policy every-n:n=0: every-n: n must be from 1 to 256",
            ),
            ("every-n:n", "\"n\" is not KEY=VALUE"),
            ("every_n:n=4", "did you mean every-n?"),
        ] {
            let e = configure(bad, &[]).unwrap_err().to_string();
            assert!(e.contains(says), "{bad}: {e}");
        }
    }
}
