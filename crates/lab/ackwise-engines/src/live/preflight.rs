//! Checks the preconditions before anything is built.

use std::fs;
use std::path::Path;

use ackwise_scenario::record::Testbed;
use ackwise_scenario::{App, Direction, Duplex, Environment, RunSpec, Scenario};
use jiff::Timestamp;
use nix::sys::utsname::uname;
use nix::unistd::geteuid;

use super::{Clock, daemon, datapath, stack};
use crate::command;
use crate::error::LabError;
use crate::kernel_link;
use crate::netns::get_sysctl;
use crate::tap;
use crate::topology::{self, LinkBackend, needs_shaping};

pub(super) fn missing(what: impl Into<String>, hint: impl Into<String>) -> LabError {
    LabError::Missing {
        what: what.into(),
        hint: hint.into(),
    }
}

/// Checks everything that the live engine needs for a scenario. Errors say how to provide what is
/// missing.
///
/// # Errors
/// Something is missing.
pub fn check(scenario: &Scenario) -> Result<(), LabError> {
    check_with(scenario, Clock::Real)
}

pub(super) fn check_with(scenario: &Scenario, clock: Clock) -> Result<(), LabError> {
    if !geteuid().is_root() {
        return Err(missing(
            "the live engine makes network namespaces, which needs root",
            "run it with sudo, or use `--on virtual` or `--on sim`",
        ));
    }
    let mut programs = vec![("ip", "iproute2"), ("tc", "iproute2")];
    if scenario
        .links
        .iter()
        .any(|link| !link.offload && !needs_shaping(link))
    {
        programs.push(("ethtool", "ethtool"));
    }
    if scenario
        .flows
        .iter()
        .any(|flow| matches!(flow.app, App::Iperf3 { .. }))
    {
        programs.push(("iperf3", "iperf3"));
    }
    for (program, package) in programs {
        if !command::exists(program) {
            return Err(missing(
                format!("the program `{program}` is not installed"),
                format!("apt-get install {package}"),
            ));
        }
    }
    if scenario.links.iter().any(needs_shaping) && !Path::new(tap::CONTROL).exists() {
        return Err(missing(
            format!("there is no {}, which emulated links need", tap::CONTROL),
            "modprobe tun, or run in a container that has the device",
        ));
    }
    if let Some(link) = scenario.links.iter().find(|link| link.overhead != 14) {
        let why = format!(
            "link `{}` has overhead = {}, but a real interface has Ethernet's 14 bytes; \
             leave it out, or use `--on sim`",
            link.name, link.overhead
        );
        return refuse(scenario, &format!("link.{}.overhead", link.name), why);
    }
    check_means(scenario, clock)?;
    check_congestion_control(scenario)?;
    if scenario.flows.iter().any(|flow| flow.socket.mptcp)
        && !Path::new("/proc/sys/net/mptcp/enabled").exists()
    {
        return Err(missing(
            "a flow asks for Multipath TCP, which this kernel does not have",
            "use a kernel with CONFIG_MPTCP",
        ));
    }
    check_stack(scenario)?;
    check_placements(scenario)
}

/// Returns an error for the value at a path of the scenario file.
fn refuse<T>(scenario: &Scenario, path: &str, why: String) -> Result<T, LabError> {
    let place = scenario.place_of(path);
    Err(LabError::Invalid(scenario.error_at(&place, why)))
}

/// Checks that the datapath has the policies of all arms.
pub(crate) fn check_placements(scenario: &Scenario) -> Result<(), LabError> {
    scenario
        .arms
        .iter()
        .flat_map(|arm| &arm.placements)
        .try_for_each(|placement| datapath::check(scenario, placement))
}

/// Checks features that need an engine that owns the queues. In virtual time the kernel owns them,
/// or the emulator where the kernel cannot police in the way asked for.
pub(crate) fn check_means(scenario: &Scenario, clock: Clock) -> Result<(), LabError> {
    let scenario = &daemon::without_daemons(scenario);
    // The emulator drops like a policer, and queues like a wire.
    let emulated = emulated(scenario);
    if let Some(flow) = scenario.flows.iter().find(|flow| flow.quic.is_some()) {
        let why = format!(
            "flow `{}` has transport = \"quic\", which only the simulator runs; use `--on sim`",
            flow.name
        );
        return refuse(scenario, &format!("flow.{}.transport", flow.name), why);
    }
    for flow in &scenario.flows {
        let simulated = [
            ("ack_rate_request", flow.ack_rate_request.is_some()),
            (
                "ack_congestion_control",
                flow.ack_congestion_control.is_some(),
            ),
        ];
        if let Some((key, _)) = simulated.iter().find(|(_, is_set)| *is_set) {
            let why = format!(
                "flow `{}` has '{key}', which only the simulator has; use `--on sim`",
                flow.name
            );
            return refuse(scenario, &format!("flow.{}.{key}", flow.name), why);
        }
    }
    for link in &scenario.links {
        for (name, direction) in [("forward", &link.forward), ("reverse", &link.reverse)] {
            let at = format!("{name} of link `{}`", link.name);
            let able = |key: &&str| *key == "police";
            let Some(key) = direction
                .own_queue_keys()
                .into_iter()
                .find(|key| !able(key))
            else {
                continue;
            };
            let refused = kernel_link::refused(direction);
            let (key, why) = match (clock, refused) {
                (Clock::Virtual, None) => {
                    let (other, whose) = match emulated {
                        Some(other) => (other, "scenario"),
                        None if kernel_link::can(link) => continue,
                        None => ("reorder", "link"),
                    };
                    let why = format!(
                        "`{key}` in {at} needs the kernel's queues, but `{other}` of this {whose} \
                         needs the emulator; leave one of them out, or use `--on sim`"
                    );
                    (key, why)
                }
                (Clock::Virtual, Some((key, why))) => {
                    let cake = direction.queue.as_ref().is_some_and(|it| it.cake.is_some());
                    // The simulator has no cake.
                    let or = if cake { "" } else { ", or use `--on sim`" };
                    (key, format!("in {at}: {why}{or}"))
                }
                (Clock::Real, refused) => {
                    let others = if refused.is_none() { "virtual" } else { "sim" };
                    let why = format!(
                        "`{key}` in {at} needs more than the drop-tail queues of this engine; \
                         use `--on {others}`"
                    );
                    (key, why)
                }
            };
            return refuse(scenario, &format!("link.{}.{name}.{key}", link.name), why);
        }
    }
    Ok(())
}

/// The first feature of a scenario that only the emulator has, as a key of a link.
fn emulated(scenario: &Scenario) -> Option<&'static str> {
    scenario.links.iter().find_map(|link| {
        let directions = [&link.forward, &link.reverse];
        if !directions.into_iter().all(kernel_link::can_police) {
            return Some("police");
        }
        let changing = directions.into_iter().find_map(Direction::changing_key);
        if changing.is_some() {
            return changing;
        }
        (link.duplex == Duplex::Half).then_some("duplex")
    })
}

/// Checks that the kernel's TCP has ACK policies if an arm needs them.
fn check_stack(scenario: &Scenario) -> Result<(), LabError> {
    let mut places = scenario.arms.iter().flat_map(|arm| &arm.placements);
    match places.find(|place| place.environment == Environment::Stack) {
        Some(place) if get_sysctl(stack::POLICY).is_err() => Err(missing(
            format!(
                "policy `{}` at `{}` has environment = \"stack\", but this kernel's TCP has no ACK \
                 policies: there is no sysctl {}",
                place.policy,
                place.node,
                stack::POLICY
            ),
            "leave `environment` out, use `--on virtual` or `--on sim`, or run a kernel with the series \
             of kernel/patches",
        )),
        _ => Ok(()),
    }
}

fn check_congestion_control(scenario: &Scenario) -> Result<(), LabError> {
    let available = get_sysctl("net.ipv4.tcp_available_congestion_control")
        .map_err(LabError::os("cannot read the list of congestion controls"))?;
    let fixed = scenario
        .flows
        .iter()
        .filter_map(|flow| flow.fixed_cc.as_ref());
    for wanted in scenario.sweep.cc.iter().chain(fixed) {
        if !available.split_whitespace().any(|known| known == wanted) {
            return Err(missing(
                format!("the kernel has no congestion control `{wanted}` (it has: {available})"),
                format!("modprobe tcp_{wanted}, or choose another `cc`"),
            ));
        }
    }
    Ok(())
}

/// Chooses the same backend for all runs, because an arm may need what only the emulator has.
pub(super) fn choose_for_all(
    scenario: &Scenario,
    runs: &[RunSpec],
    wanted: LinkBackend,
) -> Result<LinkBackend, LabError> {
    let mut chosen = choose_backend(&daemon::without_daemons(scenario), wanted)?;
    for spec in runs {
        let changed = daemon::without_daemons(&scenario.at(spec)?);
        if chosen == LinkBackend::Netem
            && wanted == LinkBackend::Auto
            && emulated(&changed).is_some()
        {
            chosen = LinkBackend::Emulator;
        }
    }
    Ok(chosen)
}

/// Chooses the backend of the links of a run.
pub(super) fn choose_backend(
    scenario: &Scenario,
    wanted: LinkBackend,
) -> Result<LinkBackend, LabError> {
    if !scenario.links.iter().any(needs_shaping) {
        return Ok(LinkBackend::Emulator);
    }
    let emulated = emulated(scenario);
    match wanted {
        LinkBackend::Emulator => Ok(LinkBackend::Emulator),
        LinkBackend::Netem if emulated.is_some() => Err(LabError::Scenario(format!(
            "`{}` as this scenario sets it needs the emulator: the kernel's links cannot change their \
             rate or delay, share a medium, or police in this way; use the emulator, or leave it \
             out",
            emulated.unwrap_or_default()
        ))),
        LinkBackend::Netem if !topology::netem_can(scenario) => Err(LabError::Scenario(
            "netem cannot reorder by an extra delay; use the emulator".to_owned(),
        )),
        LinkBackend::Netem if !topology::kernel_has_netem()? => Err(missing(
            "this kernel has no netem",
            "modprobe sch_netem, or use the emulator",
        )),
        LinkBackend::Netem => Ok(LinkBackend::Netem),
        LinkBackend::Auto => {
            let netem = emulated.is_none()
                && topology::netem_can(scenario)
                && topology::kernel_has_netem()?;
            Ok(if netem {
                LinkBackend::Netem
            } else {
                LinkBackend::Emulator
            })
        }
    }
}

/// Describes this machine and the current time.
pub fn environment() -> Testbed {
    let names = uname().ok();
    let text = |value: &std::ffi::OsStr| value.to_string_lossy().into_owned();
    Testbed {
        started: Some(rfc3339(Timestamp::now())),
        kernel: names
            .as_ref()
            .map(|names| format!("{} {}", text(names.sysname()), text(names.release()))),
        machine: names.as_ref().map(|names| text(names.machine())),
        cpu: fs::read_to_string("/proc/cpuinfo").ok().and_then(|info| {
            let line = info.lines().find(|line| line.starts_with("model name"))?;
            Some(line.split_once(':')?.1.trim().to_owned())
        }),
        cpus: std::thread::available_parallelism()
            .ok()
            .and_then(|count| u32::try_from(count.get()).ok()),
        ..Testbed::default()
    }
}

/// A time in UTC, to the second, in the format of RFC 3339.
fn rfc3339(time: Timestamp) -> String {
    time.strftime("%FT%TZ").to_string()
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::live::testing::{link, node, scenario};
    use ackwise_config::queues::{Queue, QueueLimit};
    use ackwise_scenario::{AckCongestionControl, AckRateRequest, NodeKind, Quic};
    use std::time::Duration;

    #[test]
    fn what_only_the_simulator_can_do_is_refused() {
        let mut scenario = scenario(
            vec![node("a", NodeKind::Host), node("b", NodeKind::Host)],
            vec![link("ab", "a", "b")],
        );
        assert!(check_means(&scenario, Clock::Real).is_ok());
        scenario.links[0].reverse.queue = Some(Queue {
            acks_first: Some(1),
            ..Queue::drop_tail(QueueLimit::Packets(9))
        });
        for clock in [Clock::Real, Clock::Virtual] {
            let refused = check_means(&scenario, clock).unwrap_err().to_string();
            assert!(refused.contains("`queue.acks_first`"), "{refused}");
            assert!(refused.contains("reverse of link `ab`"), "{refused}");
            // The queue has no position in the text, so the error points to the link's name.
            assert!(refused.starts_with("unit-test.toml:10:"), "{refused}");
            assert!(refused.contains("use `--on sim`"), "{refused}");
        }
    }

    fn assert_simulated(scenario: &Scenario, key: &str) {
        for clock in [Clock::Real, Clock::Virtual] {
            let refused = check_means(scenario, clock).unwrap_err().to_string();
            assert!(
                refused.contains(&format!("flow `f` has '{key}'")),
                "{refused}"
            );
            assert!(refused.contains("use `--on sim`"), "{refused}");
        }
    }

    #[test]
    fn requests_for_an_ack_rate_are_the_simulator_s() {
        let mut scenario = scenario(
            vec![node("a", NodeKind::Host), node("b", NodeKind::Host)],
            vec![link("ab", "a", "b")],
        );
        scenario.flows[0].ack_rate_request = Some(AckRateRequest {
            rate: None,
            immediate: true,
        });
        assert_simulated(&scenario, "ack_rate_request");
        scenario.flows[0].ack_rate_request = None;
        scenario.flows[0].ack_congestion_control = Some(AckCongestionControl { most: 16 });
        assert_simulated(&scenario, "ack_congestion_control");
    }

    #[test]
    fn quic_is_the_simulator_s() {
        let mut scenario = scenario(
            vec![node("a", NodeKind::Host), node("b", NodeKind::Host)],
            vec![link("ab", "a", "b")],
        );
        for clock in [Clock::Real, Clock::Virtual] {
            assert!(check_means(&scenario, clock).is_ok());
        }
        scenario.flows[0].quic = Some(Quic::default());
        for clock in [Clock::Real, Clock::Virtual] {
            let refused = check_means(&scenario, clock).unwrap_err().to_string();
            assert!(
                refused.contains("flow `f` has transport = \"quic\""),
                "{refused}"
            );
            assert!(refused.starts_with("unit-test.toml:13:"), "{refused}");
            assert!(refused.contains("use `--on sim`"), "{refused}");
        }
    }

    #[test]
    fn the_kernel_s_queues_are_for_virtual_time() {
        let mut scenario = scenario(
            vec![node("a", NodeKind::Host), node("b", NodeKind::Host)],
            vec![link("ab", "a", "b")],
        );
        scenario.links[0].forward.queue = Some(Queue {
            fq_codel: Some(ackwise_config::queues::FqCodel::default()),
            ..Queue::drop_tail(QueueLimit::Packets(9))
        });
        assert!(check_means(&scenario, Clock::Virtual).is_ok());
        let live = check_means(&scenario, Clock::Real).unwrap_err().to_string();
        assert!(live.contains("use `--on virtual`"), "{live}");
        scenario.links[0].reverse.jitter = Duration::from_millis(1);
        assert!(check_means(&scenario, Clock::Virtual).is_ok());
        scenario.links[0].reverse.reorder = Some(ackwise_scenario::Reorder {
            probability: 0.1,
            delay: Duration::from_millis(1),
        });
        let both = check_means(&scenario, Clock::Virtual).unwrap_err();
        assert!(both.to_string().contains("`reorder`"), "{both}");
    }

    #[test]
    fn what_the_kernel_cannot_police_is_emulated() {
        use ackwise_config::queues::{Bucket, Length, Police, PoliceHow, What};
        let mut scenario = scenario(
            vec![node("a", NodeKind::Host), node("b", NodeKind::Host)],
            vec![link("ab", "a", "b")],
        );
        let police = |how| Police {
            what: What {
                pure_acks: true,
                flows: Vec::new(),
            },
            how,
        };
        scenario.links[0].reverse.police = Some(police(PoliceHow::Even(0.5)));
        for clock in [Clock::Real, Clock::Virtual] {
            assert!(check_means(&scenario, clock).is_ok());
        }
        let backend = choose_backend(&scenario, LinkBackend::Auto).unwrap();
        assert_eq!(backend, LinkBackend::Emulator);
        scenario.links[0].forward.queue = Some(Queue {
            fq_codel: Some(ackwise_config::queues::FqCodel::default()),
            ..Queue::drop_tail(QueueLimit::Packets(9))
        });
        let both = check_means(&scenario, Clock::Virtual).unwrap_err();
        assert!(both.to_string().contains("`police`"), "{both}");
        // `tc` has a token bucket before a queue.
        scenario.links[0].reverse.police = Some(police(PoliceHow::Bucket(Bucket {
            rate_bps: 1,
            burst: 1,
            length: Length::Ip,
        })));
        scenario.links[0].reverse.rate_bps = None;
        assert!(check_means(&scenario, Clock::Virtual).is_err());
        scenario.links[0].reverse.rate_bps = Some(1);
        assert!(check_means(&scenario, Clock::Virtual).is_ok());
        scenario.links[0].reverse.police = None;
        assert!(check_means(&scenario, Clock::Virtual).is_ok());
        scenario.links[0].duplex = Duplex::Half;
        let both = check_means(&scenario, Clock::Virtual).unwrap_err();
        assert!(both.to_string().contains("`duplex`"), "{both}");
        scenario.links[0].forward.queue = None;
        let backend = choose_backend(&scenario, LinkBackend::Auto).unwrap();
        assert_eq!(backend, LinkBackend::Emulator);
    }

    #[test]
    fn moments_are_written_as_rfc_3339_has_it() {
        for (seconds, text) in [
            (0, "1970-01-01T00:00:00Z"),
            (951_782_400, "2000-02-29T00:00:00Z"),
            (1_709_251_199, "2024-02-29T23:59:59Z"),
            (4_102_444_800, "2100-01-01T00:00:00Z"),
        ] {
            assert_eq!(rfc3339(Timestamp::from_second(seconds).unwrap()), text);
        }
    }
}
