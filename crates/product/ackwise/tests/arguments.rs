//! Bad input: each error says what is wrong, where, and how to fix it, and exits with 2.

mod common;

use std::fs;
use std::os::unix::fs::{MetadataExt, PermissionsExt};
use std::os::unix::process::CommandExt;
use std::process::Command;

use ackwise_testbed::program::Ended;
use common::ACKWISE;
use serde_json::Value;

#[test]
fn policies_that_are_not_there() {
    ACKWISE.refuses(
        &["attach", "lo", "--policy", "adaptiv"],
        &["adaptiv", "did you mean adaptive?"],
    );
    ACKWISE.refuses(
        &["attach", "lo", "--policy", "frobnicate"],
        &["frobnicate", "adaptive", "every-n"],
    );
    ACKWISE.refuses(&["policies", "everyn"], &["did you mean every-n?"]);
}

#[test]
fn parameters_that_are_not_there_or_out_of_range() {
    let every_n = |set: &'static str| ["attach", "lo", "--policy", "every-n", "--set", set];
    ACKWISE.refuses(&every_n("n"), &["--set n: \"n\" is not KEY=VALUE"]);
    ACKWISE.refuses(&every_n("m=8"), &["no parameter", "n, warm"]);
    ACKWISE.refuses(&every_n("n=0"), &["n must be from 1 to 256", "not 0"]);
    ACKWISE.refuses(&every_n("n=257"), &["257"]);
    ACKWISE.refuses(&every_n("n=-1"), &["whole number"]);
    ACKWISE.refuses(&every_n("n=eight"), &["whole number", "eight"]);
}

#[test]
fn arguments_that_miss_their_place() {
    ACKWISE.refuses(&["up"], &["no interface is named", "--all"]);
    ACKWISE.refuses(&["up", "lo", "--guard", "10m"], &["write --guard=10m"]);
    let most = "a rate must be from 1 bit/s to 1000 Gbit/s";
    ACKWISE.refuses(&["up", "lo", "--up", "2000gbit"], &[most]);
    // The same bounds as in the file.
    for command in ["up", "attach"] {
        ACKWISE.refuses(&[command, "lo", "--guard=999ms"], &["at least 1s"]);
    }
    ACKWISE.refuses(
        &["gateway", "up", "lo", "--acks-first", "8"],
        &["write --acks-first=8"],
    );
    ACKWISE.refuses(
        &["up", "lo", "--up", "5mbit", "--overhead", "-5"],
        &["-5 is not in 0..=256"],
    );
    ACKWISE.refuses(
        &["probe", "192.0.2.1", "--listen", "192.0.2.2"],
        &["cannot be used with"],
    );
    let twice = [
        "attach", "lo", "--policy", "every-n", "--set", "n=4", "--set", "n=5",
    ];
    ACKWISE.refuses(&twice, &["--set n=5: n is given twice"]);
}

#[test]
fn numbers_and_times() {
    ACKWISE.refuses(
        &["attach", "lo", "--hold-ms", "0"],
        &["--hold-ms", "between 1 and 200"],
    );
    ACKWISE.refuses(
        &["attach", "lo", "--hold-ms", "1e9"],
        &["between 1 and 200"],
    );
    ACKWISE.refuses(
        &["attach", "lo", "--hold-ms", "NaN"],
        &["between 1 and 200"],
    );
    for command in ["attach", "up"] {
        for (flows, bound) in [("3", "64"), ("2000000", "1048576")] {
            ACKWISE.refuses(
                &[command, "lo", "--max-flows", flows],
                &["--max-flows", bound],
            );
        }
    }
    ACKWISE.refuses(
        &["attach", "lo", "--duration", "soon"],
        &["--duration", "a number and a unit"],
    );
    ACKWISE.refuses(&["attach", "lo", "--duration", "0s"], &["more than 0"]);
    ACKWISE.refuses(
        &["attach", "lo", "--obey-ack-rate"],
        &["--obey-ack-rate", "add --policy every-n --set n=1"],
    );
    ACKWISE.refuses(
        &["attach", "lo", "--ack-request"],
        &["--ack-request", "add --position sender"],
    );
    ACKWISE.refuses(&["ask", "--segments", "128"], &["128", "1..=127"]);
    ACKWISE.refuses(
        &["ask", "--segments", "8", "--per-window", "4"],
        &["cannot be used with"],
    );
    for (cgroup, why) in [
        ("/nowhere", "No such file or directory"),
        ("/etc/passwd", "it is not a directory"),
        ("/etc", "it is not a cgroup of version 2"),
    ] {
        ACKWISE.refuses(
            &["ask", "--cgroup", cgroup],
            &[cgroup, why, "name a directory"],
        );
    }
    for other in ["--segments", "--per-window"] {
        ACKWISE.refuses(
            &["ask", "--ack-congestion-control", other, "8"],
            &["--ack-congestion-control", "cannot be used with", other],
        );
    }
    ACKWISE.refuses(
        &["attach", "lo", "--metrics", "9478"],
        &["--metrics", "socket address"],
    );
}

#[test]
fn matches_and_choices() {
    ACKWISE.refuses(
        &["attach", "lo", "--match", "https"],
        &["--match https", "remote-port=PORT"],
    );
    ACKWISE.refuses(
        &["attach", "lo", "--match", "remote=10.0.0.0/40"],
        &["prefix length", "0 to 32"],
    );
    ACKWISE.refuses(
        &["attach", "lo", "--position", "middle"],
        &["receiver", "router", "sender"],
    );
    ACKWISE.refuses(
        &["attach", "lo", "--attach-mode", "xdp"],
        &["auto", "tcx", "clsact"],
    );
    ACKWISE.refuses(&["attach"], &["<INTERFACE>"]);
    ACKWISE.refuses(&["status", "--flows", "3"], &["INTERFACE"]);
    ACKWISE.refuses(&["atach", "lo"], &["attach"]);
    ACKWISE.refuses(&[], &["Usage"]);
}

#[test]
fn policies_as_json_have_the_promised_shape() {
    let Ended { code, out, err } = ACKWISE.run(&["policies", "--format", "json"]);
    assert_eq!((code, err.as_str()), (0, ""));
    let listed: Value = serde_json::from_str(&out).unwrap();
    let policies = listed["policies"].as_array().unwrap();
    let names: Vec<_> = policies
        .iter()
        .map(|p| p["name"].as_str().unwrap())
        .collect();
    for name in [
        "none",
        "every-n",
        "adaptive",
        "rate-limit",
        "police",
        "tack",
    ] {
        assert!(names.contains(&name), "{name} is not in {names:?}");
    }
    let keys = |v: &Value| v.as_object().unwrap().keys().cloned().collect::<Vec<_>>();
    for p in policies {
        assert_eq!(
            keys(p),
            ["environments", "name", "parameters", "source", "summary"]
        );
        assert!(
            p["environments"]
                .as_array()
                .unwrap()
                .iter()
                .any(|h| h == "stack"),
            "{p}"
        );
        for q in p["parameters"].as_array().unwrap() {
            assert_eq!(keys(q), ["about", "default", "max", "min", "name", "unit"]);
            let [min, value, max] = ["min", "default", "max"].map(|k| q[k].as_u64().unwrap());
            assert!(min <= value && value <= max, "{q}");
        }
    }
    let every_n = policies.iter().find(|p| p["name"] == "every-n").unwrap();
    assert_eq!(every_n["parameters"][0]["name"], "n");
}

#[test]
fn one_policy_shows_its_bounds() {
    let Ended { code, out, .. } = ACKWISE.run(&["policies", "every-n"]);
    assert_eq!(code, 0);
    for word in ["every-n", "RFC 5681", "256", "segments"] {
        assert!(out.contains(word), "no {word} in {out}");
    }
}

#[test]
fn completions_are_a_script() {
    ACKWISE.completes(&["ackwise", "attach-mode"]);
}

#[test]
fn each_subcommand_has_a_manual_page() {
    let directory = tempfile::tempdir().unwrap();
    let pages = directory.path().join("pages");
    let ended = ACKWISE.run(&["man", pages.to_str().unwrap()]);
    assert_eq!(ended.code, 0, "{}", ended.err);
    let page = |name: &str| fs::read_to_string(pages.join(name)).unwrap();
    assert!(page("ackwise.8").contains("ackwise\\-attach(8)"));
    assert!(page("ackwise-attach.8").contains("\\fB\\-\\-hold\\-ms\\fR"));
    assert!(page("ackwise-gateway-up.8").contains("\\fB\\-\\-rate\\fR"));
    // Hidden subcommands have no page.
    assert!(!pages.join("ackwise-man.8").exists());
    assert!(!pages.join("ackwise-reproduce.8").exists());
    let nowhere = ACKWISE.run(&["man", "/proc/version/pages"]);
    assert_eq!(nowhere.code, 1);
    assert!(
        nowhere
            .err
            .contains("cannot make the directory /proc/version/pages"),
        "{}",
        nowhere.err
    );
}

#[test]
fn a_reader_that_goes_away_is_no_error() {
    let (reader, writer) = std::io::pipe().unwrap();
    drop(reader);
    let out = Command::new(ACKWISE.path())
        .args(["completions", "bash"])
        .stdout(writer)
        .output()
        .unwrap();
    assert_eq!(out.status.code(), Some(0));
    assert_eq!(String::from_utf8_lossy(&out.stderr), "");
}

#[test]
fn without_root_attach_says_so() {
    // If we are root, run as somebody else, from a copy, since that user may not read our files.
    let dir = tempfile::Builder::new()
        .prefix("ackwise-test")
        .tempdir_in("/tmp")
        .unwrap();
    fs::set_permissions(dir.path(), fs::Permissions::from_mode(0o755)).unwrap();
    let exe = dir.path().join("ackwise");
    ACKWISE.install(&exe);
    let run_dir = dir.path().join("run");
    let run = |args: &[&str]| {
        let mut c = Command::new(&exe);
        c.args(args)
            .current_dir("/")
            .env("ACKWISE_RUN_DIR", &run_dir);
        if nix::unistd::geteuid().is_root() {
            c.uid(65534).gid(65534);
        }
        Ended::of(&c.output().unwrap())
    };
    let Ended { code, err, .. } = run(&["attach", "lo"]);
    assert_eq!(code, 1, "{err}");
    assert!(err.contains("root") && err.contains("CAP_BPF"), "{err}");
    // These commands need no root.
    assert_eq!(run(&["policies"]).code, 0);
    let Ended { code, err, .. } = run(&["status"]);
    assert_eq!(code, 0, "{err}");
    // Not everybody may see who is attached.
    fs::create_dir(&run_dir).unwrap();
    fs::set_permissions(&run_dir, fs::Permissions::from_mode(0o000)).unwrap();
    for args in [
        &["status"][..],
        &["down"],
        &["gateway", "down", "lo"],
        &["tunnel", "down", "awtun0"],
    ] {
        let Ended { code, err, .. } = run(args);
        assert_eq!(code, 1, "{err}");
        assert!(
            err.contains("Permission denied (os error 13); run as root"),
            "{err}"
        );
        // In another directory nobody is attached, whoever is.
        assert!(!err.contains("ACKWISE_RUN_DIR"), "{err}");
    }
}

#[test]
fn the_version_is_the_workspaces() {
    ACKWISE.has_version("ackwise", env!("CARGO_PKG_VERSION"));
}

/// Lines for the journal have their priority; on any other standard error they have none.
#[test]
fn the_journal_is_told_priorities() {
    let file = tempfile::NamedTempFile::new().unwrap();
    let about = file.as_file().metadata().unwrap();
    let stream = format!("{}:{}", about.dev(), about.ino());
    for (stream, begins) in [(stream.as_str(), "<3>ackwise: "), ("1:1", "ackwise: ")] {
        file.as_file().set_len(0).unwrap();
        let status = Command::new(ACKWISE.path())
            .args(["up", "nothere0", "--policy", "nonsense"])
            .env("JOURNAL_STREAM", stream)
            .stderr(file.reopen().unwrap())
            .status()
            .unwrap();
        assert_eq!(status.code(), Some(2));
        let output = fs::read_to_string(file.path()).unwrap();
        assert!(output.starts_with(begins), "{output}");
        let marked = output.lines().all(|line| line.starts_with("<3>"));
        assert_eq!(marked, begins.starts_with('<'), "{output}");
    }
}
