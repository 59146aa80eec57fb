//! The table of decisions.

use ackwise_netdev::surroundings::{Device, Link};

use super::super::facts::{self, ActiveDaemon, DefaultRoute, Forwards, Kernel, Root};
use super::*;

/// A host with a default route through eth0, on a kernel that supports everything.
fn host() -> Facts {
    Facts {
        interface: "eth0".to_owned(),
        index: 2,
        link: Link {
            up: true,
            ..Link::default()
        },
        device: Some(Device {
            speed_mbps: Some(100),
            wifi: false,
        }),
        default_route: DefaultRoute {
            v4: true,
            ..DefaultRoute::default()
        },
        forwards: Forwards {
            v4: Some(false),
            v6: Some(false),
        },
        queue: queue("fq_codel", Owner::Kernel),
        at_work: Some(Vec::new()),
        left_by_killed: false,
        kernel: Kernel {
            release: "6.12".to_owned(),
            tcx: true,
            cake: Some(true),
            lacks: None,
        },
    }
}

/// The facts of [`host`], changed to a router.
fn router() -> Facts {
    Facts {
        forwards: Forwards {
            v4: Some(true),
            v6: Some(false),
        },
        ..host()
    }
}

fn queue(kind: &str, owner: Owner) -> facts::Queue {
    facts::Queue {
        root: Some(Root {
            kind: kind.to_owned(),
            handle: "8001:".to_owned(),
            rate_bps: None,
            ack_filter: None,
        }),
        owner,
        sqm: false,
        found: None,
    }
}

fn at(rate_bps: u64) -> UplinkRequest {
    UplinkRequest {
        rate: Some(UplinkRate {
            bps: rate_bps,
            min_bps: None,
        }),
        ..UplinkRequest::default()
    }
}

const NOTHING: UplinkRequest = UplinkRequest {
    rate: None,
    overhead: None,
    router: false,
    queue: None,
};

const CAKE: Queue = Queue::Cake(Cake {
    rate_bps: 5_000_000,
    overhead: None,
    filter: CakeFilter::Aggressive,
});

const GATEWAY: Queue = Queue::Gateway {
    rate_bps: 5_000_000,
    overhead: 0,
};

/// One line of the table; its texts are parts of the reasons and notes.
struct Case {
    facts: Facts,
    uplink: UplinkRequest,
    role: Role,
    queue: Queue,
    thins: bool,
    says: &'static str,
}

fn case(facts: Facts, uplink: UplinkRequest, role: Role, queue: Queue, says: &'static str) -> Case {
    Case {
        facts,
        uplink,
        role,
        queue,
        thins: !matches!(queue, Queue::Gateway { .. }),
        says,
    }
}

fn check(cases: Vec<Case>) {
    for Case {
        facts,
        uplink,
        role,
        queue,
        thins,
        says,
    } in cases
    {
        let plan = decide(&facts, &uplink).unwrap_or_else(|refusal| panic!("{says}: {refusal:?}"));
        assert_eq!(
            (plan.role, plan.queue, plan.thins),
            (role, queue, thins),
            "{plan:?}"
        );
        let message = [plan.why, plan.notes].concat().join("; ");
        assert!(message.contains(says), "no {says:?} in: {message}");
    }
}

#[test]
fn without_a_rate_only_acks_are_thinned() {
    let keep = Queue::Keep;
    let bridge = Facts {
        link: Link {
            up: true,
            port_of: Some("bridge".to_owned()),
            ..Link::default()
        },
        default_route: DefaultRoute::default(),
        ..host()
    };
    let inside = Facts {
        default_route: DefaultRoute {
            elsewhere: vec!["wan0".to_owned()],
            ..DefaultRoute::default()
        },
        ..router()
    };
    let alone = Facts {
        default_route: DefaultRoute::default(),
        ..router()
    };
    let silent = Facts {
        forwards: Forwards::default(),
        ..host()
    };
    let only_v6 = Facts {
        forwards: Forwards {
            v4: Some(false),
            v6: Some(true),
        },
        default_route: DefaultRoute {
            v6: true,
            ..DefaultRoute::default()
        },
        ..host()
    };
    let with_router = UplinkRequest {
        router: true,
        ..NOTHING
    };
    check(vec![
        case(host(), NOTHING, Role::Receiver, keep, "does not forward"),
        case(router(), NOTHING, Role::Router, keep, "--up RATE"),
        case(
            only_v6,
            NOTHING,
            Role::Router,
            keep,
            "its default route is on eth0, its uplink",
        ),
        case(bridge, NOTHING, Role::Router, keep, "port of a bridge"),
        case(inside, NOTHING, Role::Inside, keep, "`ackwise up wan0`"),
        case(
            alone.clone(),
            NOTHING,
            Role::Inside,
            keep,
            "no default route",
        ),
        case(alone, with_router, Role::Router, keep, "--router says"),
        case(silent, NOTHING, Role::Receiver, keep, "is not known"),
    ]);
}

#[test]
fn a_rate_brings_a_queue() {
    let fq_codel = Facts {
        queue: queue("fq_codel", Owner::SomebodyPlain),
        ..router()
    };
    let left = Facts {
        queue: queue("cake", Owner::Ackwise),
        ..router()
    };
    let cake = |cake| Facts {
        kernel: Kernel {
            cake,
            ..host().kernel
        },
        ..router()
    };
    let chosen = |queue| UplinkRequest {
        queue: Some(queue),
        ..at(5_000_000)
    };
    let fast = at(GATEWAY_MAX_BPS + 1);
    check(vec![
        case(
            router(),
            at(5_000_000),
            Role::Router,
            CAKE,
            "which nobody chose",
        ),
        case(
            host(),
            at(5_000_000),
            Role::Receiver,
            CAKE,
            "which nobody chose",
        ),
        case(
            fq_codel,
            at(5_000_000),
            Role::Router,
            CAKE,
            "is restored as it is",
        ),
        case(left, at(5_000_000), Role::Router, CAKE, "cleaned up first"),
        case(
            cake(None),
            at(5_000_000),
            Role::Router,
            CAKE,
            "without root",
        ),
        case(
            cake(Some(false)),
            at(5_000_000),
            Role::Router,
            GATEWAY,
            "has no cake",
        ),
        case(
            cake(Some(false)),
            fast,
            Role::Router,
            Queue::Keep,
            "200 Mbit/s",
        ),
        case(
            router(),
            chosen(UplinkQueue::Gateway),
            Role::Router,
            GATEWAY,
            "--queue says",
        ),
        case(
            router(),
            chosen(UplinkQueue::Cake),
            Role::Router,
            CAKE,
            "which nobody chose",
        ),
    ]);
}

#[test]
fn an_ifb_is_refused_whatever_is_asked_for() {
    let mut facts = host();
    facts.link.kind = Some("ifb".to_owned());
    for uplink in [NOTHING, at(5_000_000)] {
        let refusal = decide(&facts, &uplink).unwrap_err();
        assert!(refusal.bad_input, "{refusal:?}");
    }
}

#[test]
fn the_overhead_reaches_the_queue() {
    let mut without_cake = router();
    without_cake.kernel.cake = Some(false);
    let overhead = UplinkRequest {
        overhead: Some(22),
        ..at(5_000_000)
    };
    let plan = decide(&router(), &overhead).unwrap();
    assert!(matches!(
        plan.queue,
        Queue::Cake(Cake {
            overhead: Some(22),
            ..
        })
    ));
    let plan = decide(&without_cake, &overhead).unwrap();
    assert!(matches!(plan.queue, Queue::Gateway { overhead: 22, .. }));
}

#[test]
fn somebody_s_shaper_is_left_alone() {
    for kind in ["cake", "htb", "tbf", "hfsc"] {
        let facts = Facts {
            queue: queue(kind, Owner::Somebody),
            ..router()
        };
        for uplink in [NOTHING, at(5_000_000)] {
            let plan = decide(&facts, &uplink).unwrap();
            assert_eq!((plan.queue, plan.thins), (Queue::Keep, true), "{kind}");
            let reason = format!("{kind} 8001: is set by someone else");
            assert!(plan.why[1].contains(&reason), "{plan:?}");
            let more = plan
                .notes
                .iter()
                .any(|note| note.contains("--up is not used"));
            assert_eq!(more, uplink.rate.is_some(), "{plan:?}");
        }
        let forced = UplinkRequest {
            queue: Some(UplinkQueue::Cake),
            ..at(5_000_000)
        };
        let refusal = decide(&facts, &forced).unwrap_err();
        assert!(
            refusal.bad_input && refusal.hint.contains("tc qdisc del"),
            "{refusal:?}"
        );
    }
    let mut sqm = router();
    sqm.queue = queue("cake", Owner::Somebody);
    sqm.queue.sqm = true;
    assert!(decide(&sqm, &NOTHING).unwrap().why[1].contains("set by sqm-scripts"));
}

/// How many notes contain this text, for facts with somebody's queue.
fn notes_with(text: &str, facts: Facts, root: Root, uplink: &UplinkRequest) -> usize {
    let mut facts = facts;
    facts.queue.owner = Owner::Somebody;
    facts.queue.root = Some(root);
    let notes = decide(&facts, uplink).unwrap().notes;
    notes.iter().filter(|note| note.contains(text)).count()
}

/// A router is told how to turn on the filter of somebody's cake, if it shapes without one.
#[test]
fn somebody_s_cake_can_filter() {
    let cake = |ack_filter, rate_bps| Root {
        ack_filter: Some(ack_filter),
        rate_bps,
        ..queue("cake", Owner::Somebody).root.unwrap()
    };
    let rate = Some(9_000_000);
    let command = "tc qdisc change dev eth0 root cake ack-filter-aggressive";
    for uplink in [NOTHING, at(5_000_000)] {
        for (root, told) in [
            (cake(CakeFilter::None, rate), 1),
            (cake(CakeFilter::Filter, rate), 0),
            (cake(CakeFilter::Aggressive, rate), 0),
            // Packets do not wait here.
            (cake(CakeFilter::None, None), 0),
        ] {
            assert_eq!(notes_with(command, router(), root, &uplink), told);
        }
    }
}

/// A router is told once how ackwise's queue takes the place of a shaper without an ACK filter.
#[test]
fn somebody_s_shaper_can_be_removed() {
    let root = |kind| queue(kind, Owner::Somebody).root.unwrap();
    let filters = "ackwise's own queue, which filters ACKs";
    for uplink in [NOTHING, at(5_000_000)] {
        for kind in ["hfsc", "htb", "tbf"] {
            for told in [filters, "tc qdisc del dev eth0 root"] {
                assert_eq!(notes_with(told, router(), root(kind), &uplink), 1, "{kind}");
            }
            let mut sqm = router();
            sqm.queue.sqm = true;
            assert_eq!(
                notes_with("shaping of downloads", sqm, root(kind), &uplink),
                1
            );
        }
    }
    for kind in ["cake_mq", "mq", "netem", "prio"] {
        assert_eq!(
            notes_with(filters, router(), root(kind), &NOTHING),
            0,
            "{kind}"
        );
    }
    let mut inside = router();
    inside.default_route = DefaultRoute {
        elsewhere: vec!["wan0".to_owned()],
        ..DefaultRoute::default()
    };
    for elsewhere in [host(), inside] {
        assert_eq!(notes_with(filters, elsewhere, root("htb"), &NOTHING), 0);
    }
}

#[test]
fn what_cannot_be_is_refused() {
    let inside = Facts {
        default_route: DefaultRoute {
            elsewhere: vec!["wan0".to_owned()],
            ..DefaultRoute::default()
        },
        ..router()
    };
    let refusal = decide(&inside, &at(5_000_000)).unwrap_err();
    assert!(
        refusal.bad_input && refusal.what.contains("wan0"),
        "{refusal:?}"
    );
    let with_router = UplinkRequest {
        router: true,
        ..at(5_000_000)
    };
    assert_eq!(decide(&inside, &with_router).unwrap().queue, CAKE);

    let mut none = router();
    none.kernel.cake = Some(false);
    let cake = UplinkRequest {
        queue: Some(UplinkQueue::Cake),
        ..at(5_000_000)
    };
    assert!(decide(&none, &cake).unwrap_err().bad_input);

    for (what, end) in [
        ("attach", "ackwise detach eth0"),
        ("gateway", "ackwise gateway down eth0"),
        ("up", "ackwise down eth0"),
    ] {
        let mut busy = host();
        busy.at_work = Some(vec![ActiveDaemon { what, pid: 77 }]);
        let refusal = decide(&busy, &NOTHING).unwrap_err();
        assert!(
            !refusal.bad_input && refusal.what.contains("77"),
            "{refusal:?}"
        );
        assert!(refusal.hint.contains(end), "{refusal:?}");
    }
}

#[test]
fn what_is_unknown_or_in_vain_is_said() {
    let says = |facts: &Facts, uplink: &UplinkRequest, text: &str| {
        let plan = decide(facts, uplink).unwrap();
        let message = plan.notes.join("; ");
        assert!(message.contains(text), "no {text:?} in: {message}");
    };
    let mut facts = host();
    assert_eq!(decide(&facts, &NOTHING).unwrap().notes, [""; 0]);
    facts.device = Some(Device {
        speed_mbps: Some(10_000),
        wifi: false,
    });
    says(&facts, &NOTHING, "aggregates");
    facts.device = Some(Device {
        speed_mbps: None,
        wifi: true,
    });
    says(&facts, &NOTHING, "share the air");
    says(&facts, &at(5_000_000), "changes");
    facts.device = None;
    says(&facts, &NOTHING, "is not known");
    facts.at_work = None;
    says(&facts, &NOTHING, "cannot be told without root");
    facts.link.up = false;
    says(&facts, &NOTHING, "is down");
}

#[test]
fn nothing_is_promised_on_a_kernel_that_lacks_something() {
    let mut facts = router();
    facts.kernel.lacks = Some("the BPF helper bpf_loop()");
    for asked in [NOTHING, at(5_000_000)] {
        let refusal = decide(&facts, &asked).unwrap_err();
        assert!(refusal.bad_input);
        assert!(
            refusal.what.contains("lacks the BPF helper bpf_loop()"),
            "{}",
            refusal.what
        );
    }
    let gateway = UplinkRequest {
        queue: Some(UplinkQueue::Gateway),
        ..at(5_000_000)
    };
    assert_eq!(decide(&facts, &gateway).unwrap().queue, GATEWAY);
}
