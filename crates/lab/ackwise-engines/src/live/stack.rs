//! Sets the ACK policy of a receiver's TCP, on a kernel with `kernel/patches`.

use ackwise_scenario::{Environment, Placement, Scenario};

use crate::error::LabError;
use crate::netns::set_sysctls;
use crate::topology::Topology;

/// Sysctl: the policy of new connections of a namespace.
pub(super) const POLICY: &str = "net.ipv4.tcp_ack_policy";
/// Sysctl: the longest hold, µs.
const HOLD: &str = "net.ipv4.tcp_ack_hold_us";

/// Sets the policies of an arm whose environment is the kernel's TCP.
///
/// # Errors
/// The kernel has no such policy or parameter; the kernel log says more.
pub(super) fn set(
    scenario: &Scenario,
    placements: &[Placement],
    topology: &Topology,
) -> Result<(), LabError> {
    for placement in placements
        .iter()
        .filter(|one| one.environment == Environment::Stack)
    {
        let node = scenario
            .nodes
            .iter()
            .position(|node| node.name == placement.node)
            .ok_or_else(|| LabError::Scenario("an arm names an unknown node".to_owned()))?;
        let policy = written(placement);
        let hold = placement.hold.map(|hold| hold.as_micros().to_string());
        topology.namespaces[node].inside(|| {
            set_sysctls(
                std::iter::once((POLICY, policy.as_str()))
                    .chain(hold.as_deref().map(|hold| (HOLD, hold))),
            )
        })?;
    }
    Ok(())
}

/// The policy in the syntax of `--policy`: `every-n:n=8,warm=0`.
fn written(placement: &Placement) -> String {
    let mut text = placement.policy.clone();
    for (index, setting) in placement.set.iter().enumerate() {
        text.push(if index == 0 { ':' } else { ',' });
        text.push_str(&format!("{}={}", setting.name, setting.value));
    }
    text
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_policy_is_written_as_the_kernel_reads_it() {
        let text = r#"
[scenario]
name = "stack"
duration = "1 s"
[[node]]
name = "a"
[[node]]
name = "b"
[[link]]
name = "wan"
between = ["a", "b"]
[[flow]]
name = "f"
from = "a"
to = "b"
app = "bulk"
[[arm]]
name = "kernel"
policy = "every-n"
at = "b"
link = "wan"
environment = "stack"
set = { n = 8, warm = 0 }
"#;
        let scenario =
            Scenario::parse("stack.toml", text).unwrap_or_else(|error| panic!("{error}"));
        assert_eq!(
            written(&scenario.arms[0].placements[0]),
            "every-n:n=8,warm=0"
        );
    }
}
