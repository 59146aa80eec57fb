//! The control protocol read from somebody who means harm.

use ackwise_fuzz::Target;
use ackwise_probe::protocol::{Answer, MAX_REQUEST, Request, parse, read, write_message};

fn said<M: std::fmt::Debug>(read: &Result<M, impl std::fmt::Display>) -> String {
    match read {
        Ok(frame) => format!("{frame:?}").chars().take(24).collect(),
        // Without the places in the input.
        Err(error) => error
            .to_string()
            .split(" at line")
            .next()
            .unwrap_or("")
            .to_owned(),
    }
}

/// No input ends the reader otherwise than with an error, and none makes it keep more than it
/// read.
#[test]
fn any_bytes_are_read_or_refused() {
    let corpus = concat!(env!("CARGO_MANIFEST_DIR"), "/tests/corpus/protocol");
    let target = Target {
        name: "probe-protocol",
        corpus: corpus.into(),
        more: Vec::new(),
        words: &[
            "\u{1}",
            "\u{2}",
            "{\"hello\":{\"version\":1}}",
            "\"collect\"",
            "stage",
            "\"",
            "[",
            "{",
        ],
        longest: 400,
    };
    let summary = target.run(|input| {
        let request = read::<Request>(&mut &input[..], MAX_REQUEST);
        let answer = parse::<Answer>(input);
        if let Ok(ackwise_probe::protocol::Frame::Records(records)) = &answer {
            assert!(records.len() * 50 < input.len());
        }
        vec![said(&request), said(&answer)]
    });
    assert!(summary.sayings > 8, "{summary:?}");
}

#[test]
fn a_long_frame_is_refused_before_it_is_read() {
    // Says 4 GiB, and has nothing.
    let error = read::<Request>(&mut &[0xff; 4][..], MAX_REQUEST).unwrap_err();
    assert!(error.to_string().contains("4294967295 bytes"), "{error}");
}

#[test]
fn messages_come_back_as_they_were() {
    let request = Request::Hello { version: 7 };
    let mut bytes = Vec::new();
    write_message(&mut bytes, &request).unwrap();
    let frame = read::<Request>(&mut &bytes[..], MAX_REQUEST).unwrap();
    assert_eq!(frame, ackwise_probe::protocol::Frame::Message(request));
}
