//! Scenarios for unit tests.

use ackwise_scenario::{Direction, Link, Node, NodeKind, Scenario};

/// A node with default settings.
pub(crate) fn node(name: &str, kind: NodeKind) -> Node {
    Node {
        name: name.to_owned(),
        kind,
        sysctl: Default::default(),
    }
}

/// A plain link.
pub(crate) fn link(name: &str, a: &str, b: &str) -> Link {
    Link {
        name: name.to_owned(),
        between: [a.to_owned(), b.to_owned()],
        forward: Direction::default(),
        reverse: Direction::default(),
        duplex: Default::default(),
        wifi: None,
        offload: true,
        mtu: 1500,
        overhead: 14,
    }
}

/// A scenario with these nodes and links, and defaults otherwise.
pub(crate) fn scenario(nodes: Vec<Node>, links: Vec<Link>) -> Scenario {
    let text = r#"
        [scenario]
        name = "unit-test"
        duration = "1 s"
        [[node]]
        name = "a"
        [[node]]
        name = "b"
        [[link]]
        name = "ab"
        between = ["a", "b"]
        [[flow]]
        name = "f"
        from = "a"
        to = "b"
        app = "bulk"
        [[arm]]
        name = "baseline"
    "#;
    let parsed = Scenario::parse("unit-test.toml", text).expect("the text above is valid");
    Scenario {
        nodes,
        links,
        ..parsed
    }
}
