//! `ackwise policies`: the policies of this build.

use ackwise_cli::{Format, policy, text};
use ackwise_policy::{Capabilities, Policy};
use serde::Serialize;

use crate::cli::PoliciesArgs;

/// Where a policy can run in this build, and the capabilities of each environment.
const ENVIRONMENTS: [(&str, Capabilities); 2] = [
    ("datapath", Capabilities::DATAPATH),
    ("stack", Capabilities::STACK),
];

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
    environments: Vec<&'static str>,
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
            environments: ENVIRONMENTS
                .iter()
                .filter(|(_, can)| policy.check(*can).is_ok())
                .map(|(environment, _)| *environment)
                .collect(),
        }
    }
}

/// Lists all policies, or shows one.
pub fn show(args: &PoliciesArgs, format: Format) -> anyhow::Result<()> {
    let wanted = args.name.as_deref().map(policy::by_name).transpose()?;
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
        if !p.environments.contains(&"datapath") {
            let places = places(&p.environments);
            out.push_str(&format!("{:widest$}  runs only in: {places}\n", ""));
        }
        out.push('\n');
    }
    out.push_str("ackwise policies NAME shows one with its parameters and their bounds.\n");
    out
}

/// Where a policy runs, for a person. The simulator runs all policies.
fn places(environments: &[&str]) -> String {
    let place = |environment: &&str| match *environment {
        "datapath" => "`ackwise attach` and `ackwise up`",
        _ => "the kernel series",
    };
    let places: Vec<&str> = environments.iter().map(place).collect();
    format!("{}, the simulator", places.join(", "))
}

fn one(p: &Entry) -> String {
    let mut out = format!(
        "{}: {}\nSource: {}\nRuns in: {}\n",
        p.name,
        p.summary,
        p.source,
        places(&p.environments)
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

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_list_says_which_policies_attach_refuses() {
        let shown = all(&Policy::all().map(Entry::of).collect::<Vec<_>>());
        let limited: Vec<_> = shown
            .split("\n\n")
            .filter(|it| it.contains("runs only in"))
            .collect();
        assert_eq!(limited.len(), 1, "{shown}");
        assert!(limited[0].starts_with("rate-limit-literal"), "{shown}");
    }

    #[test]
    fn every_policy_says_what_it_is() {
        for policy in Policy::all().map(Entry::of) {
            assert!(
                !policy.summary.is_empty() && !policy.source.is_empty(),
                "{}",
                policy.name
            );
            assert!(
                !policy.environments.is_empty(),
                "{} runs nowhere",
                policy.name
            );
        }
    }
}
