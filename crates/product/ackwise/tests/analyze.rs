//! `ackwise analyze` as a user meets it.

mod common;

use std::fs;

use ackwise_testbed::program::Ended;
use common::ACKWISE;
use serde_json::Value;

const DATA: &str = concat!(env!("CARGO_MANIFEST_DIR"), "/../../../tests/data");

fn capture(name: &str) -> String {
    format!("{DATA}/{name}")
}

fn found(args: &[&str]) -> Value {
    let Ended { code, out, err } = ACKWISE.run(args);
    assert_eq!(code, 0, "{err}");
    serde_json::from_str(&out).unwrap()
}

#[test]
fn each_file_has_a_finding() {
    let (loss, ipv6) = (capture("loss.pcap"), capture("ipv6.pcap"));
    let output = found(&["analyze", "--format", "json", &loss, &ipv6]);
    let files = output["files"].as_array().unwrap();
    assert_eq!(files.len(), 2);
    for (file, name) in files.iter().zip([&loss, &ipv6]) {
        assert_eq!(file["file"], **name);
        assert_eq!(file["cut_at"], Value::Null);
        assert_eq!(file["policies"][0]["policy"], "adaptive");
        assert_eq!(file["advice"]["text"].as_array().unwrap().len(), 3);
        assert!(file["tcp"]["acks"].as_u64().unwrap() > 200);
    }
    assert_eq!(files[0]["packets"], 1500);
    assert!(
        files[1]["flows"][0]["from"]
            .as_str()
            .unwrap()
            .starts_with("[fd77::1]:")
    );
}

#[test]
fn rates_and_policies_are_taken() {
    let loss = capture("loss.pcap");
    let args = [
        "analyze",
        "--format",
        "json",
        "--up",
        "5mbit",
        "--down",
        "40 Mbit/s",
        "--wifi",
        "65mbit",
        "--policy",
        "every-n:n=4",
        &loss,
    ];
    let output = found(&args);
    let file = &output["files"][0];
    assert_eq!(file["policies"].as_array().unwrap().len(), 1);
    let policy = file["policies"][0]["policy"].as_str().unwrap();
    assert!(policy.starts_with("every-n:n=4"), "{policy}");
    let peak = file["line"]["ack_peak_bps"].as_f64().unwrap();
    let share = file["line"]["ack_peak_share_of_uplink"].as_f64().unwrap();
    assert!((share - peak / 5e6).abs() < 1e-9, "{share} of {peak}");
    assert!(file["line"]["k"].as_f64().unwrap() > 0.2);
    let time = &file["airtime"];
    assert!(time["acks_alone_s"].as_f64() >= time["acks_shared_s"].as_f64());
}

#[test]
fn a_person_gets_text_of_eighty_columns_and_a_page() {
    let dir = tempfile::tempdir().unwrap();
    let (page, table) = (dir.path().join("a.html"), dir.path().join("a.csv"));
    let args = [
        "analyze",
        &capture("loss.pcap"),
        "--html",
        page.to_str().unwrap(),
        "--csv",
        table.to_str().unwrap(),
    ];
    let Ended { code, out, err } = ACKWISE.run(&args);
    assert_eq!(code, 0, "{err}");
    for part in [
        "of the packets",
        "Segments per ACK",
        "saved",
        "Flows with the most ACKs",
    ] {
        assert!(out.contains(part), "{part}: {out}");
    }
    let page = fs::read_to_string(page).unwrap();
    assert!(page.contains("<svg") && page.ends_with("</html>\n"));
    assert!(!page.contains("http://") && !page.contains("https://"));
    let table = fs::read_to_string(table).unwrap();
    let columns: Vec<_> = table.lines().map(|l| l.split(',').count()).collect();
    assert!(
        columns.len() > 3 && columns.iter().all(|n| *n == columns[0]),
        "{table}"
    );
}

#[test]
fn standard_input_is_a_file_too() {
    let mut c = ACKWISE.command();
    c.args(["analyze", "--format", "json", "-"]);
    c.write_stdin(fs::read(capture("loss.pcap")).unwrap());
    let Ended { code, out, err } = Ended::of(&c.output().unwrap());
    assert_eq!(code, 0, "{err}");
    let output: Value = serde_json::from_str(&out).unwrap();
    assert_eq!(output["files"][0]["packets"], 1500);
}

#[test]
fn files_that_cannot_be_read_are_told() {
    let dir = tempfile::tempdir().unwrap();
    let write = |name: &str, bytes: &[u8]| {
        let path = dir.path().join(name);
        fs::write(&path, bytes).unwrap();
        path.to_str().unwrap().to_owned()
    };
    let empty = write("empty.pcap", b"");
    ACKWISE.refuses(&["analyze", &empty], &["empty.pcap: it is empty"]);
    let text = write("notes.txt", b"these are some notes");
    ACKWISE.refuses(
        &["analyze", &text],
        &["notes.txt", "no capture file", "tcpdump -i"],
    );
    ACKWISE.refuses(
        &["analyze", "/nowhere.pcap"],
        &["/nowhere.pcap", "No such file"],
    );
    ACKWISE.refuses(
        &["analyze", dir.path().to_str().unwrap()],
        &["it is a directory"],
    );
    ACKWISE.refuses(&["analyze", &text, "--up", "fast"], &["--up", "fast"]);
    let loss = capture("loss.pcap");
    ACKWISE.refuses(
        &["analyze", &loss, "--policy", "adaptiv"],
        &["did you mean adaptive?"],
    );
    let mut bytes = fs::read(&loss).unwrap();
    bytes[20] = 147; // a link type for private use
    let private = write("private.pcap", &bytes);
    ACKWISE.refuses(&["analyze", &private], &["link type 147", "Ethernet"]);
    bytes[20] = 1;
    bytes.truncate(5000);
    let cut = write("cut.pcap", &bytes);
    let Ended { code, out, err } = ACKWISE.run(&["analyze", &cut]);
    assert_eq!(code, 0, "{err}");
    assert!(out.contains("is cut off after byte"), "{out}");
}

/// A gzip file of stored blocks with a wrong checksum.
fn gzip_with_a_wrong_checksum(bytes: &[u8]) -> Vec<u8> {
    let mut file = vec![0x1f, 0x8b, 8, 0, 0, 0, 0, 0, 0, 255];
    for block in bytes.chunks(60_000) {
        let len = block.len() as u16;
        file.push(0);
        file.extend([len.to_le_bytes(), (!len).to_le_bytes()].concat());
        file.extend(block);
    }
    file.extend([1, 0, 0, 255, 255]);
    file.extend([[0; 4], (bytes.len() as u32).to_le_bytes()].concat());
    file
}

#[test]
fn a_compressed_capture_is_cut_off_or_damaged() {
    let dir = tempfile::tempdir().unwrap();
    let path = dir.path().join("loss.pcap.gz");
    let name = path.to_str().unwrap();
    let bytes = gzip_with_a_wrong_checksum(&fs::read(capture("loss.pcap")).unwrap());
    fs::write(&path, &bytes).unwrap();
    ACKWISE.refuses(
        &["analyze", name],
        &[
            "after 158622 unpacked bytes, the compressed data are damaged",
            "copy the file again, or capture anew",
        ],
    );
    for end in [bytes.len() - 3, 100_000] {
        fs::write(&path, &bytes[..end]).unwrap();
        let Ended { code, out, err } = ACKWISE.run(&["analyze", name]);
        assert_eq!(code, 0, "{err}");
        assert!(out.contains("is cut off after byte"), "{out}");
    }
}

#[test]
fn outputs_that_cannot_be_written_are_told_before_the_work() {
    let dir = tempfile::tempdir().unwrap();
    let at = |name: &str| dir.path().join(name).to_str().unwrap().to_owned();
    let (input, page) = (at("in.pcap"), at("page.html"));
    fs::copy(capture("loss.pcap"), &input).unwrap();
    let refused = |outputs: &[&str], says: &[&str]| {
        // A missing file would be reported if it were opened.
        for file in [&input, "/nowhere.pcap"] {
            ACKWISE.refuses(&[&["analyze", &input, file], outputs].concat(), says);
        }
    };
    let folder = dir.path().to_str().unwrap();
    refused(&["--csv", folder], &[folder, "cannot be written"]);
    let nowhere = at("none/x.html");
    refused(&["--html", &nowhere], &[&nowhere, "cannot be written"]);
    refused(&["--csv", &input], &["in.pcap: it is what is read"]);
    refused(&["--html", &page, "--csv", &page], &["two outputs"]);
    assert!(!fs::exists(&page).unwrap());
    assert!(fs::read(&input).unwrap() == fs::read(capture("loss.pcap")).unwrap());
}

#[test]
fn standard_input_is_read_once() {
    ACKWISE.refuses(
        &["analyze", "-", "-"],
        &["standard input is named twice", "name it once"],
    );
}
