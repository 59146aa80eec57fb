//! The control protocol with a malicious peer.

use ackwise_fuzz::Target;
use ackwise_probe::protocol::{
    Answer, Frame, MAX_RECORDED, MAX_REQUEST, MAX_SENT, Request, parse, read, records_len,
    write_message,
};
use ackwise_probe::{End, Phase, Record, Records, Report, Role, Stage, StageRecords};

fn describe<M: std::fmt::Debug>(read: &Result<M, impl std::fmt::Display>) -> String {
    match read {
        Ok(frame) => format!("{frame:?}").chars().take(24).collect(),
        // Without positions in the input.
        Err(error) => error
            .to_string()
            .split(" at line")
            .next()
            .unwrap_or("")
            .to_owned(),
    }
}

/// The report if a partner claims to have sent and seen these records. The client claims to have
/// seen all of them, and its own records are the partner's, too.
fn reported(sent: &[Record], seen: &[Record]) -> Report {
    let records = |sent: &[Record], seen: &[Record]| Records {
        sent: sent.to_vec(),
        seen: seen.to_vec(),
        ..Records::default()
    };
    let stages = [Stage::Long, Stage::Short];
    let records = [End::Client, End::Server].into_iter().flat_map(|acks| {
        stages.map(|stage| StageRecords {
            stage,
            acks,
            client: records(&[], sent),
            server: records(sent, seen),
        })
    });
    Report::of("192.0.2.1".to_owned(), &records.collect::<Vec<_>>())
}

/// As many records as a partner may send, which all say the same, or what no script contains.
#[test]
fn as_many_records_as_are_taken_make_a_report() {
    let start = Record {
        at_ns: u64::MAX,
        conn: 0,
        phase: Phase::Burst,
        role: Role::Ack,
        round: 255,
        place: 5,
        ecn: 3,
        seq: 1,
        ack: 1,
        flags: u16::MAX,
        window: 0,
        payload: 1,
        options: u16::MAX,
        mss: 1,
        ts_val: 0,
        ts_ecr: 0,
        sack: 1,
        raw_seq: 1,
    };
    for varied in [false, true] {
        let record = |n: usize| Record {
            role: [Role::Ack, Role::Large][n % 2],
            at_ns: n as u64,
            conn: if varied { n as u8 } else { 0 },
            phase: Phase::ALL[if varied { n % 9 } else { 4 }],
            place: if varied { (n / 256) as u8 } else { 5 },
            ts_val: if varied { n as u32 } else { 0 },
            ..start
        };
        let sent: Vec<_> = (0..MAX_SENT).map(record).collect();
        let seen: Vec<_> = (0..MAX_RECORDED).map(record).collect();
        let report = reported(&sent, &seen);
        assert!(
            report
                .text()
                .chars()
                .all(|it| it == '\n' || !it.is_control())
        );
        assert!(serde_json::to_string(&report).unwrap().len() < 20_000);
    }
}

/// Any input leads to a result or an error, and does not make the reader keep more than it read.
#[test]
fn any_bytes_are_read_or_refused() {
    let corpus = concat!(env!("CARGO_MANIFEST_DIR"), "/tests/corpus/protocol");
    let target = Target {
        name: "probe-protocol",
        corpus: corpus.into(),
        extra_files: Vec::new(),
        dictionary: &[
            "\u{1}",
            "\u{2}",
            "{\"hello\":{\"version\":1}}",
            "\"collect\"",
            "stage",
            "\"",
            "[",
            "{",
        ],
        max_len: 400,
    };
    let summary = target.run(|input| {
        let request = read::<Request>(&mut &input[..], MAX_REQUEST);
        let answer = parse::<Answer>(input);
        let mut all = vec![describe(&request), describe(&answer)];
        if let Ok(Frame::Records(records)) = answer {
            assert_eq!(records_len(records.len()), input.len());
            // Any records lead to a report.
            let report = reported(&records, &records);
            all.extend(
                report.directions[1]
                    .facts
                    .iter()
                    .map(|it| it.kind.to_owned()),
            );
        }
        all
    });
    assert!(summary.messages > 8, "{summary:?}");
}

#[test]
fn a_long_frame_is_refused_before_it_is_read() {
    // Announces 4 GiB, and sends nothing.
    let error = read::<Request>(&mut &[0xff; 4][..], MAX_REQUEST).unwrap_err();
    assert!(error.to_string().contains("4294967295 bytes"), "{error}");
}

#[test]
fn messages_come_back_as_they_were() {
    let request = Request::Hello { version: 7 };
    let mut bytes = Vec::new();
    write_message(&mut bytes, &request).unwrap();
    let frame = read::<Request>(&mut &bytes[..], MAX_REQUEST).unwrap();
    assert_eq!(frame, Frame::Message(request));
}

/// If a partner recorded nothing, nothing can be said.
#[test]
fn of_an_empty_record_nothing_is_called_clean() {
    let report = reported(&[], &[]);
    for side in &report.directions {
        assert!(!side.clean, "{}", report.text());
        assert!(side.boxes.is_empty(), "{}", report.text());
        assert!(side.facts.iter().any(|fact| fact.kind == "too-little"));
    }
}
