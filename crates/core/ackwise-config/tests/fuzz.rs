//! Arbitrary configuration files. A reader accepts them or says what is wrong, and where; it never
//! panics, and its report is bounded.

use std::path::{Path, PathBuf};

use ackwise_config::ConfigError;
use ackwise_config::gateway::Gateway;
use ackwise_config::interfaces::Interfaces;
use ackwise_config::tunnel::Tunnel;
use ackwise_fuzz::{Target, corpus, template};

const NAME: &str = "some.conf";

/// The report about a text. Each mistake has a place in the text, and the whole is not much longer
/// than the text.
fn said<T>(text: &str, read: &Result<T, ConfigError>) -> Vec<String> {
    let Err(error) = read else {
        return vec!["fine".to_owned()];
    };
    let found = error.diagnostics();
    assert!(!found.is_empty(), "{error}");
    let lines = text.split('\n').count();
    let mut bytes = 0;
    for mistake in found {
        assert!((1..=lines).contains(&mistake.line), "{mistake:?}");
        let line = text.split('\n').nth(mistake.line - 1).expect("it is there");
        assert!(
            mistake.column >= 1 && mistake.column <= line.chars().count() + 1,
            "{mistake:?}"
        );
        assert!(!mistake.message.is_empty(), "{mistake:?}");
        bytes += mistake.message.len() + mistake.source_line.len();
    }
    let shown = error.to_string();
    let place = format!("{NAME}:{}:{}", found[0].line, found[0].column);
    assert!(shown.contains(&place), "no {place} in: {shown}");
    let most = 50_000 + 100 * text.len();
    assert!(
        bytes + shown.len() < most,
        "{} bytes say what is wrong with {}",
        bytes,
        text.len()
    );
    found.iter().map(|m| template(&m.message)).collect()
}

fn target<'a>(name: &'a str, more: &[&str], words: &'a [&'a str]) -> Target<'a> {
    let root = Path::new(env!("CARGO_MANIFEST_DIR"));
    Target {
        name,
        corpus: corpus(env!("CARGO_MANIFEST_DIR"), name),
        extra_files: more
            .iter()
            .map(|path| root.join(path))
            .collect::<Vec<PathBuf>>(),
        dictionary: words,
        max_len: 16 << 10,
    }
}

#[test]
fn fuzz_gateway_file() {
    let words = [
        "interface",
        "rate",
        "min_rate",
        "overhead",
        "queue",
        "acc",
        "limit",
        "ack_filter",
        "acks_first",
        "discipline",
        "\"red\"",
        "\"drop-tail\"",
        "ecn",
        "true",
        "\"1 Mbit/s\"",
        "\"50 packets\"",
        "\"rfc3449\"",
        "\"10 ms\"",
        "{ ",
        " }",
        "[queue]\n",
        " = ",
        "[[",
        "\n",
    ];
    let seen = target("gateway", &[], &words).run(|bytes| {
        let text = String::from_utf8_lossy(bytes);
        let read = Gateway::parse(NAME, &text);
        said(&text, &read)
    });
    assert!(seen.messages > 20, "{seen:?}");
}

#[test]
fn fuzz_interfaces_file() {
    let words = [
        "[[interface]]\n",
        "name",
        "up",
        "overhead",
        "router",
        "queue",
        "policy",
        "guard",
        "max_flows",
        "metrics",
        "user",
        "\"cake\"",
        "\"gateway\"",
        "\"1mbit..40mbit\"",
        "\"auto\"",
        "\"5 min\"",
        "\"127.0.0.1:9478\"",
        "true",
        " = ",
        "\n",
    ];
    let more = ["tests/interfaces/mistakes.toml"];
    let seen = target("interfaces", &more, &words).run(|bytes| {
        let text = String::from_utf8_lossy(bytes);
        let read = Interfaces::parse(NAME, &text);
        said(&text, &read)
    });
    assert!(seen.messages > 15, "{seen:?}");
}

#[test]
fn fuzz_tunnel_file() {
    let words = [
        "device",
        "listen_port",
        "listen",
        "private_key",
        "interface",
        "period",
        "follow_rtt",
        "encoding",
        "other_packets",
        "respace",
        "encryption",
        "max_datagram",
        "flows",
        "user",
        "fwmark",
        "[[peer]]\n",
        "name",
        "public_key",
        "endpoint",
        "allowed_ips",
        "memory",
        "\"198.51.100.0/24\"",
        "\"::/0\"",
        "\"5 ms\"",
        "\"0.0.0.0:51830\"",
        "\"[::]:51830\"",
        "\"aligned\"",
        "\"bypass\"",
        "true",
        "[",
        "]",
        " = ",
        "\n",
    ];
    let more = ["tests/tunnel/bare.toml", "tests/tunnel/mistakes.toml"];
    let seen = target("tunnel", &more, &words).run(|bytes| {
        let text = String::from_utf8_lossy(bytes);
        let read = Tunnel::parse(NAME, &text);
        if let Ok(tunnel) = &read {
            let written = tunnel.to_toml().expect("it came from a text");
            let again = Tunnel::parse(NAME, &written);
            let again = again.unwrap_or_else(|e| panic!("{e}\nin what was written:\n{written}"));
            assert_eq!(&again, tunnel, "{written}");
        }
        said(&text, &read)
    });
    assert!(seen.messages > 20, "{seen:?}");
}
