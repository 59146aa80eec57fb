//! `ackwise up --explain`: the facts and the decision, without a change.

mod common;

use std::net::TcpListener;

use ackwise_testbed::Netns;
use ackwise_testbed::program::{Ended, root};
use common::{ACKWISE, Net};
use serde_json::Value;

#[test]
fn an_explanation_takes_no_root_and_touches_nothing() {
    root();
    let net = Net::new();
    net.forward();
    let before = net.queues();
    let directory = tempfile::tempdir().unwrap();
    let program = directory.path().join("ackwise");
    std::fs::set_permissions(
        directory.path(),
        std::os::unix::fs::PermissionsExt::from_mode(0o755),
    )
    .unwrap();
    ACKWISE.install(&program);
    let out = net
        .in_receiver("setpriv")
        .args(["--reuid", "65534", "--regid", "65534", "--clear-groups"])
        .arg(&program)
        .args(["up", &net.iface, "--explain", "--up", "5mbit"])
        .output()
        .unwrap();
    let Ended { code, out, err } = Ended::of(&out);
    assert_eq!(code, 0, "{err}");
    for output in [
        "here (IPv4)",
        "IPv4 yes",
        "noqueue 0:",
        "decision",
        "without root",
    ] {
        assert!(out.contains(output), "no {output:?} in {out}");
    }
    let Ended { code, out, err } = net.run(&["--format", "json", "up", &net.iface, "--explain"]);
    assert_eq!(code, 0, "{err}");
    let shown: Value = serde_json::from_str(&out).unwrap();
    assert_eq!(shown["facts"]["forwards"]["v4"], true, "{out}");
    assert_eq!(shown["decision"]["plan"]["role"], "router", "{out}");
    assert_eq!(net.queues(), before);
    assert_eq!(net.programs(), 0);
    // A running attachment is reported, too.
    let attached = net.attach(&[]);
    let Ended { code, out, err } = net.run(&["up", &net.iface, "--explain"]);
    assert_eq!(code, 1, "{err}");
    assert!(out.contains(&attached.pid().to_string()), "{out}");
    assert!(out.contains("nothing: ackwise is already running"), "{out}");
    assert!(err.contains("ackwise detach"), "{err}");
}

/// What `up` would refuse for its user and its metrics, `--explain` refuses in the same words.
#[test]
fn explaining_finds_a_user_and_an_address_that_cannot_be() {
    root();
    let net = Net::new();
    net.add_default_route();
    let up = |more: &[&str]| net.run(&[&["up", &net.iface], more].concat());
    let file = tempfile::NamedTempFile::new().unwrap();
    let path = file.path().to_str().unwrap();
    let text = format!(
        "[[interface]]\nname = \"{}\"\nmetrics = \"192.0.2.9:9100\"\n",
        net.iface
    );
    std::fs::write(path, text).unwrap();
    for (arguments, says) in [
        (&["--user", "no-such-user"][..], "no-such-user"),
        (&["--metrics", "192.0.2.9:9100"], "cannot listen there"),
        (
            &["--config", path],
            ":3:11: 'metrics': cannot listen on 192.0.2.9",
        ),
    ] {
        let really = up(arguments);
        assert_eq!(really.code, 2, "{}", really.err);
        assert!(really.err.contains(says), "{}", really.err);
        let Ended { code, out, err } = up(&[arguments, &["--explain"]].concat());
        assert_eq!((code, &err), (2, &really.err));
        assert!(out.contains("decision"), "{out}");
        assert!(out.contains("nothing: "), "{out}");
    }
    // The port may be that of the ackwise that runs now.
    let taken = Netns::named(&net.receiver).run(|| TcpListener::bind("127.0.0.1:0").unwrap());
    let address = taken.local_addr().unwrap().to_string();
    assert_eq!(up(&["--metrics", &address]).code, 2);
    let Ended { code, err, .. } = up(&["--metrics", &address, "--user", "root", "--explain"]);
    assert_eq!(code, 0, "{err}");
}
