//! `ackwise policies`, and reading a policy from arguments.

use ackwise_policy::{Capabilities, Config, Policy};
use serde::Serialize;

use crate::cli::{Format, PoliciesArgs};
use crate::error::BadInput;
use crate::text;

/// Where a policy can run in this build, and what each of these can do.
const HOMES: [(&str, Capabilities); 2] = {
    let datapath = Capabilities::SEE_DATA.union(Capabilities::HOLD);
    [
        ("datapath", datapath),
        ("stack", datapath.union(Capabilities::MAKE_ACKS)),
    ]
};

#[derive(Serialize)]
struct Listing {
    policies: Vec<Entry>,
}

#[derive(Serialize)]
struct Entry {
    name: &'static str,
    summary: &'static str,
    source: &'static str,
    parameters: Vec<Parameter>,
    homes: Vec<&'static str>,
}

#[derive(Serialize)]
struct Parameter {
    name: &'static str,
    unit: &'static str,
    default: u32,
    min: u32,
    max: u32,
    about: &'static str,
}

impl Entry {
    fn of(policy: Policy) -> Self {
        Self {
            name: policy.name(),
            summary: policy.summary(),
            source: policy.source(),
            parameters: policy
                .params()
                .iter()
                .map(|p| Parameter {
                    name: p.name,
                    unit: p.unit,
                    default: p.default,
                    min: p.min,
                    max: p.max,
                    about: p.doc,
                })
                .collect(),
            homes: HOMES
                .iter()
                .filter(|(_, can)| policy.check(*can).is_ok())
                .map(|(home, _)| *home)
                .collect(),
        }
    }
}

/// Lists all policies, or shows one.
pub fn show(args: &PoliciesArgs, format: Format) -> anyhow::Result<()> {
    let wanted = args.name.as_deref().map(by_name).transpose()?;
    let policies: Vec<_> = Policy::all()
        .filter(|p| wanted.is_none_or(|w| w == *p))
        .map(Entry::of)
        .collect();
    match (format, wanted) {
        (Format::Json, _) => text::print_json(&Listing { policies }),
        (Format::Text, Some(_)) => text::print(&policies.iter().map(one).collect::<String>()),
        (Format::Text, None) => text::print(&all(&policies)),
    }
}

fn all(policies: &[Entry]) -> String {
    let widest = policies.iter().map(|p| p.name.len()).max().unwrap_or(0);
    let mut out = String::new();
    for p in policies {
        let parameters: String = p
            .parameters
            .iter()
            .map(|q| format!(" {}={}", q.name, q.default))
            .collect();
        out.push_str(&format!("{:widest$}  {}\n", p.name, p.summary));
        out.push_str(&format!("{:widest$}  source: {}\n", "", p.source));
        if !parameters.is_empty() {
            out.push_str(&format!("{:widest$}  --set{parameters}\n", ""));
        }
        out.push('\n');
    }
    out.push_str("ackwise policies NAME shows one with its parameters and their bounds.\n");
    out
}

fn one(p: &Entry) -> String {
    let mut out = format!(
        "{}: {}\nSource: {}\nRuns in: {}\n",
        p.name,
        p.summary,
        p.source,
        p.homes.join(", ")
    );
    if p.parameters.is_empty() {
        out.push_str("It has no parameters.\n");
        return out;
    }
    let mut rows = vec![
        ["PARAMETER", "DEFAULT", "FROM", "TO", "UNIT", "WHAT IT IS"]
            .map(str::to_owned)
            .to_vec(),
    ];
    rows.extend(p.parameters.iter().map(|q| {
        vec![
            q.name.to_owned(),
            q.default.to_string(),
            q.min.to_string(),
            q.max.to_string(),
            q.unit.to_owned(),
            q.about.to_owned(),
        ]
    }));
    out.push_str(&text::columns(&rows, &[false, true, true, true]));
    out
}

/// The policy of that name, or an error that helps.
pub fn by_name(name: &str) -> Result<Policy, BadInput> {
    Policy::by_name(name).map_err(|e| {
        let near = nearest(name, Policy::all().map(Policy::name));
        let error = BadInput::new(e);
        match near {
            Some(near) => error.mend(format!("did you mean {near}?")),
            None => error.mend("`ackwise policies` says what each does"),
        }
    })
}

/// `--policy NAME --set KEY=VALUE …`, or `--policy NAME:KEY=VALUE,…` as a policy is shown.
pub fn configure(policy: &str, settings: &[String]) -> Result<Config, BadInput> {
    let (name, inline) = policy.split_once(':').unwrap_or((policy, ""));
    let known = by_name(name)?;
    let mut config = Config::new(known);
    let inline = inline.split(',').filter(|part| !part.trim().is_empty());
    let inline = inline.map(|part| (format!("--policy {policy}"), part));
    let settings = settings
        .iter()
        .map(|setting| (format!("--set {setting}"), setting.as_str()));
    for (argument, setting) in inline.chain(settings) {
        let Some((key, value)) = setting.split_once('=') else {
            let why = format!("{argument}: {setting:?} is not KEY=VALUE");
            return Err(
                BadInput::new(why).mend(format!("`ackwise policies {name}` lists the parameters"))
            );
        };
        let key = key.trim();
        config.set(key, value).map_err(|e| {
            let error = BadInput::new(format!("{argument}: {e}"));
            let params = known.params().iter().map(|p| p.name);
            match nearest(key, params).filter(|near| *near != key) {
                Some(near) => error.mend(format!("did you mean {near}?")),
                None => error.mend(format!("`ackwise policies {name}` lists names and bounds")),
            }
        })?;
    }
    Ok(config)
}

/// The known name that was probably meant.
pub fn nearest<'a>(name: &str, known: impl Iterator<Item = &'a str>) -> Option<&'a str> {
    let close = |k: &&str| strsim::damerau_levenshtein(name, k) <= 1 + k.chars().count() / 3;
    known
        .filter(close)
        .min_by_key(|k| strsim::damerau_levenshtein(name, k))
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

    #[test]
    fn a_slip_is_recognised_and_nonsense_is_not() {
        let near = |name| nearest(name, ["adaptive", "every-n", "tack"].into_iter());
        assert_eq!(near("adaptiv"), Some("adaptive"));
        assert_eq!(near("every_n"), Some("every-n"));
        assert_eq!(near("frobnicate"), None);
    }

    #[test]
    fn every_policy_says_what_it_is() {
        for policy in Policy::all().map(Entry::of) {
            assert!(
                !policy.summary.is_empty() && !policy.source.is_empty(),
                "{}",
                policy.name
            );
            assert!(!policy.homes.is_empty(), "{} runs nowhere", policy.name);
        }
    }
}
