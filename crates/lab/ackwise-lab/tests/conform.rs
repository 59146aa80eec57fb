//! `ackwise-lab conform`, from the outside. It needs neither root nor a kernel: the filters run in
//! its own process.

use ackwise_testbed::program::{Ended, Program};
use serde_json::Value;

/// The command under test.
const LAB: Program = Program::new(env!("CARGO_BIN_EXE_ackwise-lab"));

#[test]
fn the_document_names_devices_and_what_they_failed() {
    let args = [
        "conform",
        "--device",
        "ns2-filter",
        "--device",
        "contract-queue",
    ];
    let run = LAB.run(&[&args[..], &["--format", "json"]].concat());
    // A filter that fails a must was named explicitly.
    assert_eq!(run.code, 1, "{}", run.err);
    let document: Value = serde_json::from_str(&run.out).expect("JSON");
    let devices = document["devices"].as_array().expect("devices");
    assert_eq!(devices[0]["name"], "ns2-filter");
    assert_eq!(devices[0]["outcome"], "unsafe");
    let failed = devices[0]["failed"].as_array().expect("failed cases");
    let of = |case: &str| failed.iter().find(|it| it["case"] == case);
    let once = of("ece-once").expect("a lost ECE");
    assert_eq!(once["rfc"], "RFC 3168 §6.1.3");
    assert!(
        once["what"]
            .as_str()
            .is_some_and(|what| what.starts_with("lost: "))
    );
    assert_eq!(devices[1]["outcome"], "careless");
    assert!(devices[1]["passed"].as_u64() > Some(70));
}

/// There is no kernel, so devices that need one cannot be built. The others are judged
/// nevertheless.
#[test]
fn a_device_that_cannot_be_built_does_not_end_the_others() {
    let directory = tempfile::tempdir().expect("a directory");
    let page = directory.path().join("page.html");
    let all = ["conform", "--all", "--case", "plain", "--case", "ece-once"];
    let run = |more: &[&str]| {
        let mut command = LAB.command();
        command
            .env("XDG_CACHE_HOME", directory.path())
            .env_remove("ACKWISE_KERNEL");
        Ended::of(&command.args(all).args(more).output().expect("runs"))
    };
    let json = run(&["--format", "json"]);
    assert_eq!(json.code, 1, "{}", json.err);
    assert!(json.err.contains("cake-ack-filter, "), "{}", json.err);
    let document: Value = serde_json::from_str(&json.out).expect("JSON");
    let names = |part: &str| {
        let all = document[part].as_array().expect("devices").iter();
        all.map(|it| it["name"].as_str().expect("a name").to_owned())
            .collect::<Vec<_>>()
    };
    assert_eq!(names("devices"), ["ns2-filter", "contract-queue"]);
    let broken = names("broken");
    assert!(
        broken.len() > 20 && broken.contains(&"pfifo".to_owned()),
        "{broken:?}"
    );
    let error = document["broken"][0]["error"].as_str().expect("an error");
    assert!(error.contains("kernel/build"), "{error}");

    let text = run(&["--html", page.to_str().expect("UTF-8")]);
    assert_eq!(text.code, 1, "{}", text.err);
    let page = std::fs::read_to_string(page).expect("a page");
    for output in [&text.out, &page] {
        assert!(output.contains("contract-queue"), "{output}");
        assert!(
            output.contains("pfifo: ") && output.contains("kernel/build"),
            "{output}"
        );
    }
}

/// A device that cannot be built does not prevent the results of the other named ones.
#[test]
fn of_several_devices_each_is_judged_once_whatever_becomes_of_the_others() {
    let directory = tempfile::tempdir().expect("a directory");
    let run = |devices: &[&str]| {
        let mut command = LAB.command();
        command
            .env("XDG_CACHE_HOME", directory.path())
            .env_remove("ACKWISE_KERNEL")
            .args(["conform", "--format", "json", "--case", "plain"]);
        for device in devices {
            command.args(["--device", device]);
        }
        Ended::of(&command.output().expect("runs"))
    };
    let several = run(&["pfifo", "contract-queue", "ns2-filter", "contract-queue"]);
    assert_eq!(several.code, 1, "{}", several.err);
    assert!(
        several.err.contains("pfifo could not be judged"),
        "{}",
        several.err
    );
    let document: Value = serde_json::from_str(&several.out).expect("JSON");
    let names = |part: &str| {
        let all = document[part].as_array().expect("devices").iter();
        all.map(|it| it["name"].as_str().expect("a name").to_owned())
            .collect::<Vec<_>>()
    };
    assert_eq!(names("devices"), ["contract-queue", "ns2-filter"]);
    assert_eq!(names("broken"), ["pfifo"]);

    // If there is only one device, its error is the command's.
    let alone = run(&["pfifo"]);
    assert!(alone.code != 0 && alone.out.is_empty(), "{}", alone.out);
    assert!(alone.err.contains("kernel/build"), "{}", alone.err);
}

#[test]
fn what_a_device_of_this_process_failed_is_captured() {
    let directory = tempfile::tempdir().expect("a directory");
    let path = directory.path().to_str().expect("UTF-8");
    let args = ["conform", "--device", "ns2-filter", "--case", "ece-once"];
    let run = LAB.run(&[&args[..], &["--pcap", path]].concat());
    assert_eq!(run.code, 1, "{}", run.err);
    let packets = |end: &str| {
        let file = format!("ns2-filter/ece-once.{end}.pcap");
        let bytes = std::fs::read(directory.path().join(file)).expect("a capture");
        let (mut at, mut packets) = (24, 0);
        while at < bytes.len() {
            let length = bytes[at + 8..at + 12].try_into().expect("a length");
            at += 16 + u32::from_ne_bytes(length) as usize;
            packets += 1;
        }
        packets
    };
    let (sent, arrived) = (packets("sent"), packets("arrived"));
    assert!(0 < arrived && arrived < sent, "{arrived} of {sent}");
}

#[test]
fn a_page_and_a_text_say_the_same() {
    let directory = tempfile::tempdir().expect("a directory");
    let page = directory.path().join("page.html");
    let path = page.to_str().expect("UTF-8");
    let run = LAB.run(&["conform", "--device", "contract-queue", "--html", path]);
    assert_eq!(run.code, 0, "{}", run.err);
    let page = std::fs::read_to_string(page).expect("a page");
    for text in [&run.out, &page] {
        assert!(
            text.contains("careless") && text.contains("number-never-sent"),
            "{text}"
        );
    }
}

#[test]
fn the_list_has_devices_and_cases() {
    let run = LAB.run(&["conform", "--list"]);
    assert_eq!(run.code, 0, "{}", run.err);
    assert!(
        run.out.contains("cake-ack-filter") && run.out.contains("last-ack"),
        "{}",
        run.out
    );
}

#[test]
fn what_is_not_there_is_refused() {
    LAB.refuses(&["conform"], &["no device to judge", "--all"]);
    LAB.refuses(
        &["conform", "--device", "cak"],
        &["there is no device `cak`", "--list"],
    );
    LAB.refuses(
        &["conform", "--device", "ns2-filter", "--case", "no-case"],
        &["there is no case `no-case`", "--list"],
    );
    LAB.refuses(
        &["conform", "--device", "gateway", "--kernel", "7"],
        &["--kernel is for --qdisc and --setup", "--list"],
    );
    LAB.refuses(
        &["conform", "--device", "gateway", "--live"],
        &["--live is for --qdisc and --setup"],
    );
    LAB.refuses(
        &["conform", "--setup", "/no/such/rules.sh"],
        &["/no/such/rules.sh"],
    );

    // Nothing is judged before it is clear that the results can be written.
    let dir = tempfile::tempdir().expect("a directory");
    let script = dir.path().join("rules.sh");
    std::fs::write(&script, "true\n").expect("a file");
    let (script, dir) = (
        script.to_str().expect("UTF-8"),
        dir.path().to_str().expect("UTF-8"),
    );
    LAB.refuses(
        &["conform", "--setup", script, "--html", script],
        &["rules.sh: it is what is read"],
    );
    assert_eq!(std::fs::read_to_string(script).expect("a file"), "true\n");
    let device = ["conform", "--device", "contract-queue"];
    LAB.refuses(
        &[&device[..], &["--html", dir]].concat(),
        &["cannot be written"],
    );
    LAB.refuses(
        &[&device[..], &["--pcap", script]].concat(),
        &["rules.sh: cannot be made", "--pcap takes a directory"],
    );
}

#[test]
fn a_page_that_cannot_be_written_does_not_hide_the_table() {
    let device = ["conform", "--device", "contract-queue", "--case", "plain"];
    let run = LAB.run(&[&device[..], &["--html", "/dev/full"]].concat());
    assert_eq!(run.code, 1, "{}", run.err);
    assert!(
        run.err.contains("/dev/full: cannot be written"),
        "{}",
        run.err
    );
    assert!(run.out.contains("contract-queue"), "{}", run.out);
}
