//! What `ackwise up` decides: a function of the facts and of what was asked for.

use ackwise_config::interfaces::UplinkQueue;
use ackwise_config::uplink::UplinkRate;
use ackwise_netdev::OLDEST_LINUX;
use ackwise_netdev::qdisc::{Cake, CakeFilter};
use serde::Serialize;

use super::facts::{Facts, Owner};

/// The fastest rate at which the gateway stands in for a kernel without cake. A gateway moves
/// 470,000 packets a second on a core (decision 16); this rate is 17,000 full packets a second, or
/// 380,000 of 66 bytes, so that it never fills a core.
pub const GATEWAY_MAX_BPS: u64 = 200_000_000;
/// Where an ACK filter helps beside thinning (docs/which-technique-wins.md).
const BRINGS_MORE: &str = "would bring more beside uploads on a thin uplink";
/// From this speed on a receiver aggregates (GRO), and sends few ACKs anyway.
const FAST_MBPS: u32 = 1_000;

/// What the user asked for.
#[derive(Debug, Clone, Copy, Default)]
pub struct UplinkRequest {
    pub rate: Option<UplinkRate>,
    pub overhead: Option<u32>,
    pub router: bool,
    pub queue: Option<UplinkQueue>,
}

/// The role of this box, seen from the interface.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize)]
#[serde(rename_all = "kebab-case")]
pub enum Role {
    /// It receives data itself: its own TCP makes the ACKs.
    Receiver,
    /// It forwards, and its default route leads through the interface.
    Router,
    /// It forwards, and its default route, if it has one, leads elsewhere.
    Inside,
}

/// What is done with the queue.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize)]
#[serde(rename_all = "kebab-case")]
pub enum Queue {
    /// It stays as it is.
    Keep,
    /// The kernel's cake replaces it.
    Cake(Cake),
    /// The queue of a gateway is put before it.
    Gateway { rate_bps: u64, overhead: u32 },
}

/// What is done, and why.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub struct Plan {
    pub role: Role,
    pub queue: Queue,
    /// The minimum of a measured rate, bit/s; the rate of `queue` is the maximum. `None` if the
    /// rate is fixed.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub min_bps: Option<u64>,
    /// Whether `adaptive` thins the outgoing ACKs before they reach the queue.
    pub thins: bool,
    /// The reasons, the most important first.
    pub why: Vec<String>,
    /// What is not known, and what else would help.
    pub notes: Vec<String>,
    /// That the rate is not used, if it is not; one of the notes.
    #[serde(skip)]
    pub rate_unused: Option<String>,
}

impl Plan {
    /// Says that the rate is not used.
    fn leave_rate_unused(&mut self, why: String) {
        self.rate_unused = Some(why.clone());
        self.notes.push(why);
    }
}

/// Why nothing is done.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub struct Refusal {
    pub what: String,
    #[serde(rename = "mend")]
    pub hint: String,
    /// Whether what was asked for can never work, rather than just not now.
    #[serde(skip)]
    pub bad_input: bool,
}

impl Refusal {
    fn bad_input(what: String, hint: String) -> Self {
        Self {
            what,
            hint,
            bad_input: true,
        }
    }
}

/// Decides what to do, or refuses.
pub fn decide(facts: &Facts, uplink: &UplinkRequest) -> Result<Plan, Refusal> {
    check_not_active(facts)?;
    not_ifb(facts)?;
    let (role, reason) = role(facts, uplink);
    let mut plan = Plan {
        role,
        queue: Queue::Keep,
        min_bps: None,
        thins: true,
        why: vec![reason],
        notes: Vec::new(),
        rate_unused: None,
    };
    match uplink.rate {
        None => without_rate(facts, &mut plan),
        Some(rate) => with_rate(facts, uplink, rate, &mut plan)?,
    }
    able(facts, &plan)?;
    add_notes(facts, &mut plan);
    Ok(plan)
}

/// Refuses to thin ACKs on a kernel that is known to lack what this takes.
fn able(facts: &Facts, plan: &Plan) -> Result<(), Refusal> {
    let Some(what) = facts.kernel.lacks.filter(|_| plan.thins) else {
        return Ok(());
    };
    let release = &facts.kernel.release;
    Err(Refusal::bad_input(
        format!("this kernel ({release}) lacks {what}, without which no ACK can be thinned"),
        format!(
            "use Linux {OLDEST_LINUX} or newer with BTF, or the gateway's queue, which takes \
             neither (--up RATE --queue gateway)"
        ),
    ))
}

fn check_not_active(facts: &Facts) -> Result<(), Refusal> {
    let interface = &facts.interface;
    let Some(first) = facts.at_work.as_ref().and_then(|all| all.first()) else {
        return Ok(());
    };
    let end = match first.what {
        "up" => format!("ackwise down {interface}"),
        "gateway" => format!("ackwise gateway down {interface}"),
        _ => format!("ackwise detach {interface}"),
    };
    Err(Refusal {
        what: format!(
            "ackwise is already running on {interface}: {}, process {}",
            first.what, first.pid
        ),
        hint: format!("`{end}` stops it"),
        bad_input: false,
    })
}

fn not_ifb(facts: &Facts) -> Result<(), Refusal> {
    if !facts.link.is_ifb() {
        return Ok(());
    }
    let interface = &facts.interface;
    Err(Refusal::bad_input(
        format!("{interface} is an ifb device, which drops what ackwise sends by it"),
        "name the interface whose packets are redirected to it".to_owned(),
    ))
}

/// The role of this box, and how it is known.
fn role(facts: &Facts, uplink: &UplinkRequest) -> (Role, String) {
    let interface = &facts.interface;
    let elsewhere = facts.default_route.elsewhere.join(", ");
    if uplink.router {
        return (
            Role::Router,
            "--router says that this box owns the uplink".to_owned(),
        );
    }
    if facts.link.port_of.as_deref() == Some("bridge") {
        let reason =
            format!("{interface} is a port of a bridge, so ACKs of other hosts leave here");
        return (Role::Router, reason);
    }
    match (facts.forwards.any(), facts.default_route.is_here()) {
        (true, true) => {
            let reason =
                format!("this box forwards, and its default route is on {interface}, its uplink");
            (Role::Router, reason)
        }
        (true, false) if elsewhere.is_empty() => {
            let reason = "this box forwards, and has no default route".to_owned();
            (Role::Inside, reason)
        }
        (true, false) => {
            let reason = format!("this box forwards, and its default route is on {elsewhere}");
            (Role::Inside, reason)
        }
        (false, _) if facts.forwards.unknown() => {
            let reason =
                "whether this box forwards is not known; it is treated as one that receives";
            (Role::Receiver, reason.to_owned())
        }
        (false, _) => {
            let reason = "this host does not forward: the ACKs that leave here are its own";
            (Role::Receiver, reason.to_owned())
        }
    }
}

fn without_rate(facts: &Facts, plan: &mut Plan) {
    let interface = &facts.interface;
    match (facts.queue.owner, plan.role) {
        (Owner::Somebody, role) => {
            plan.why.push(keep_reason(facts));
            if role == Role::Router {
                let note = turn_filter_on(facts).or_else(|| remove_shaper(facts));
                plan.notes.extend(note);
            }
        }
        (_, Role::Inside) => {
            let uplink = facts.default_route.elsewhere.first();
            if let Some(uplink) = uplink {
                plan.notes.push(format!(
                    "to thin the ACKs that leave by the uplink: `ackwise up {uplink}`"
                ));
            }
        }
        (_, Role::Router) => plan.notes.push(format!(
            "no rate is given, so packets still queue in the modem; `ackwise up {interface} --up \
             RATE`, with 95 % of the uplink's rate, makes them queue here, shares the uplink among \
             flows and keeps it free of ACKs while uploads run"
        )),
        (_, Role::Receiver) => {}
    }
}

/// The reason for leaving somebody's queue alone.
fn keep_reason(facts: &Facts) -> String {
    let queue = &facts.queue;
    let handle = queue.root.as_ref().map_or("", |root| root.handle.as_str());
    let whose = if queue.sqm {
        "sqm-scripts"
    } else {
        "someone else"
    };
    format!("{queue} {handle} is set by {whose} and may shape, so it stays as it is")
}

/// How somebody's cake that shapes without an ACK filter gets one.
fn turn_filter_on(facts: &Facts) -> Option<String> {
    let interface = &facts.interface;
    let root = facts.queue.root.as_ref()?;
    let shapes_without = root.ack_filter == Some(CakeFilter::None) && root.rate_bps.is_some();
    shapes_without.then(|| {
        format!(
            "an ACK filter in this cake {BRINGS_MORE}: `tc qdisc change dev {interface} root cake \
             ack-filter-aggressive` turns it on until the queue is set again; whatever sets it can do \
             that as well"
        )
    })
}

/// How a queue with an ACK filter takes the place of somebody's shaper that can have none.
fn remove_shaper(facts: &Facts) -> Option<String> {
    let root = facts.queue.root.as_ref()?;
    let has_none = ["hfsc", "htb", "tbf"].contains(&root.kind.as_str());
    has_none.then(|| {
        format!(
            "ackwise's own queue, which filters ACKs, {BRINGS_MORE}: remove this one ({}), and give \
             `--up RATE`",
            removal(facts)
        )
    })
}

/// How somebody's queue is removed, and what goes with it.
fn removal(facts: &Facts) -> String {
    let interface = &facts.interface;
    if facts.queue.sqm {
        return "stop sqm-scripts, which ends their shaping of downloads as well".to_owned();
    }
    format!(
        "stop the service that set it, or run `tc qdisc del dev {interface} root`; its options and \
         classes are lost"
    )
}

fn refuse_non_uplink(facts: &Facts, plan: &Plan) -> Refusal {
    let interface = &facts.interface;
    // The route may appear later, by DHCP or PPP: the service manager tries again.
    if facts.default_route.elsewhere.is_empty() {
        return Refusal {
            what: format!(
                "--up limits what leaves by the uplink, and it is not known whether {interface} is \
                 the uplink: {}",
                plan.why[0]
            ),
            hint: "try again when there is a default route, or add --router if this is the uplink"
                .to_owned(),
            bad_input: false,
        };
    }
    Refusal::bad_input(
        format!(
            "--up limits what leaves by the uplink, and {interface} is not the uplink: {}",
            plan.why[0]
        ),
        "name the interface of the uplink, or add --router if it is this one".to_owned(),
    )
}

fn with_rate(
    facts: &Facts,
    uplink: &UplinkRequest,
    rate: UplinkRate,
    plan: &mut Plan,
) -> Result<(), Refusal> {
    let rate_bps = rate.bps;
    if plan.role == Role::Inside {
        return Err(refuse_non_uplink(facts, plan));
    }
    if facts.queue.owner == Owner::Somebody {
        if uplink.queue.is_some() {
            return Err(Refusal::bad_input(
                format!("--queue: {}", keep_reason(facts)),
                removal(facts),
            ));
        }
        plan.why.push(keep_reason(facts));
        plan.leave_rate_unused(format!(
            "--up is not used: it is the rate of ackwise's own queue, which filters ACKs, and the \
             present one stays; to change that, {}",
            removal(facts)
        ));
        plan.notes.extend(turn_filter_on(facts));
        return Ok(());
    }
    let gateway = Queue::Gateway {
        rate_bps,
        overhead: uplink.overhead.unwrap_or(0),
    };
    match (uplink.queue, facts.kernel.cake) {
        (Some(UplinkQueue::Cake), Some(false)) => {
            return Err(Refusal::bad_input(
                "--queue cake: this kernel has no cake".to_owned(),
                "install the module sch_cake, or leave --queue out".to_owned(),
            ));
        }
        (Some(UplinkQueue::Gateway), _) => {
            plan.why.push("--queue says gateway".to_owned());
            plan.queue = gateway;
        }
        (None, Some(false)) if rate_bps > GATEWAY_MAX_BPS => plan.leave_rate_unused(
            "--up is not used: this kernel has no cake, and the gateway's queue, which would stand \
             in for it, is for up to 200 Mbit/s; install the module sch_cake"
                .to_owned(),
        ),
        (None, Some(false)) => {
            plan.why
                .push("this kernel has no cake, so the gateway's queue takes its place".to_owned());
            plan.queue = gateway;
        }
        (_, known) => {
            if known.is_none() {
                let note = "whether this kernel has cake cannot be told without root";
                plan.notes.push(note.to_owned());
            }
            plan.why.push(cake_reason(facts));
            plan.queue = Queue::Cake(Cake {
                rate_bps,
                overhead: uplink.overhead.and_then(|bytes| i32::try_from(bytes).ok()),
                filter: CakeFilter::Aggressive,
            });
        }
    }
    if plan.queue != Queue::Keep && rate.min_bps.is_some() {
        plan.min_bps = rate.min_bps;
        plan.notes.push(MEASURED.to_owned());
    }
    // A gateway filters packets before a program on the interface sees them.
    plan.thins = !matches!(plan.queue, Queue::Gateway { .. });
    Ok(())
}

/// What a measured rate depends on.
const MEASURED: &str = "the rate is measured with the TCP timestamps of the packets that pass; \
                        until packets queue behind the interface, and without timestamps, it is \
                        the maximum";

fn cake_reason(facts: &Facts) -> String {
    let queue = &facts.queue;
    match queue.owner {
        Owner::SomebodyPlain => format!(
            "a rate is given, and {queue} does not shape; it is restored as it is at the end"
        ),
        Owner::Ackwise => "a rate is given; what a killed `ackwise up` left behind is cleaned up \
                           first"
            .to_owned(),
        Owner::Kernel | Owner::Somebody => {
            format!("a rate is given, and {queue} is the kernel's default, which nobody chose")
        }
    }
}

/// Adds notes on anything else worth knowing.
fn add_notes(facts: &Facts, plan: &mut Plan) {
    let mut note = |text: String| plan.notes.push(text);
    if !facts.link.up {
        note(format!(
            "{} is down: nothing leaves until it is up",
            facts.interface
        ));
    }
    match facts.device {
        None => note("the link's speed, and whether it is Wi-Fi, is not known".to_owned()),
        Some(device) if device.wifi && plan.min_bps.is_some() => {}
        Some(device) if device.wifi && plan.queue != Queue::Keep => note(
            "the rate of Wi-Fi changes: whenever it is below the fixed one, packets queue in its \
             driver again"
                .to_owned(),
        ),
        Some(device) if device.wifi => {
            note(
                "on Wi-Fi, ACKs and data share the air: each ACK saved is airtime for data"
                    .to_owned(),
            );
        }
        Some(device)
            if plan.role == Role::Receiver
                && plan.queue == Queue::Keep
                && facts.link.kind.is_none()
                && device.speed_mbps.is_some_and(|speed| speed >= FAST_MBPS) =>
        {
            note(
                "the link is fast: where segments arrive in bulk, the kernel aggregates them and \
                 sends few ACKs already; `ackwise status` shows what is saved"
                    .to_owned(),
            );
        }
        Some(_) => {}
    }
    if facts.left_by_killed {
        note("what a killed `ackwise up` left behind is cleaned up first".to_owned());
    }
    if facts.at_work.is_none() {
        note("whether ackwise is already running here cannot be told without root".to_owned());
    }
}

#[cfg(test)]
#[path = "decision_tests.rs"]
mod tests;
