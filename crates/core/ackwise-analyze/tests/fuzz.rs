//! Arbitrary capture files: they are analysed, or the error has a reason.

mod common;

use ackwise_analyze::{Analyzer, Options, read};
use ackwise_fuzz::{Target, corpus, template};

fn messages(bytes: &[u8]) -> Vec<String> {
    let mut analyzer = Analyzer::new(Options::default());
    let mut packets = 0u64;
    let end = read(bytes, &mut |packet| {
        packets += 1;
        assert!(packet.bytes.len() <= packet.wire_len as usize);
        analyzer.packet(packet);
    });
    let analysis = analyzer.finish();
    assert_eq!(analysis.packets, packets);
    let u = &analysis.unread;
    let unread = [
        u.not_tcp,
        u.fragments,
        u.cut,
        u.malformed,
        u.encrypted,
        u.unsupported,
    ];
    assert!(analysis.tcp.acks <= analysis.tcp.packets);
    let mut words: Vec<_> = unread.iter().map(|n| format!("{}", n.min(&1))).collect();
    for policy in &analysis.policies {
        assert_eq!(
            policy.acks,
            policy.reasons.iter().map(|r| r.acks).sum::<u64>()
        );
        assert!(policy.saved <= policy.acks, "{policy:?}");
        words.extend(policy.reasons.iter().map(|r| r.reason.to_owned()));
    }
    match end {
        Ok(end) => words.push(format!("cut {}", end.cut_at.is_some())),
        Err(error) => words.push(template(&error.to_string())),
    }
    words.iter().map(|w| template(w)).collect()
}

#[test]
fn fuzz_capture_file() {
    let target = Target {
        name: "capture",
        corpus: corpus(env!("CARGO_MANIFEST_DIR"), "capture"),
        extra_files: Vec::new(),
        dictionary: &[
            "\u{a}\r\r\n",
            "E",
            "\0\0\0\u{1}",
            "\u{8}\0",
            "\u{1f}",
            "\u{10}",
        ],
        max_len: 8 << 10,
    };
    let seen = target.run(messages);
    assert!(seen.messages > 10, "{seen:?}");
}
