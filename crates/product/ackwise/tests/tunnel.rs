//! `ackwise tunnel` from the outside, without root.

mod common;

use std::os::unix::fs::PermissionsExt;
use std::path::Path;
use std::process::Command;

use common::ACKWISE;

#[test]
fn a_key_is_made_once_and_for_its_owner() {
    let directory = tempfile::tempdir().expect("a directory");
    let path = directory.path().join("key");
    let keygen = || {
        ACKWISE
            .command()
            .args(["tunnel", "keygen"])
            .arg(&path)
            .output()
            .expect("runs")
    };
    let made = keygen();
    assert!(made.status.success());
    let public = String::from_utf8(made.stdout).expect("text");
    let secret = std::fs::read_to_string(&path).expect("written");
    for key in [&public, &secret] {
        assert!(ackwise_tunnel::key_from_base64(key).is_ok(), "{key}");
    }
    assert_ne!(public, secret);
    let mode = std::fs::metadata(&path)
        .expect("there")
        .permissions()
        .mode();
    assert_eq!(mode & 0o777, 0o600);
    let again = ACKWISE
        .command()
        .args(["tunnel", "pubkey"])
        .arg(&path)
        .output();
    assert_eq!(again.expect("runs").stdout, public.as_bytes());
    assert_eq!(keygen().status.code(), Some(2));
    assert_eq!(std::fs::read_to_string(&path).expect("there"), secret);
}

#[test]
fn a_key_in_a_directory_that_is_not_there() {
    let directory = tempfile::tempdir().expect("a directory");
    let missing = directory.path().join("etc");
    let run = ACKWISE
        .command()
        .args(["tunnel", "keygen"])
        .arg(missing.join("key"))
        .output()
        .expect("runs");
    assert_eq!(run.status.code(), Some(2));
    let output = String::from_utf8_lossy(&run.stderr);
    let hint = format!("mkdir -p {}", missing.display());
    assert!(output.contains(&hint), "{output}");
}

#[test]
fn half_a_key_is_not_left() {
    let directory = tempfile::tempdir().expect("a directory");
    let path = directory.path().join("key");
    // A full disk: no file may be longer than 0 bytes.
    let full = "trap '' XFSZ; ulimit -f 0; exec \"$0\" tunnel keygen \"$1\"";
    let run = Command::new("sh")
        .args(["-c", full])
        .args([Path::new(ACKWISE.path()), &path])
        .output()
        .expect("runs");
    assert_eq!(run.status.code(), Some(1));
    let output = String::from_utf8_lossy(&run.stderr);
    assert!(output.contains("cannot write"), "{output}");
    assert!(!path.exists());
}

/// The key pair of RFC 7748 §6.1, in the encoding of `wg`.
#[test]
fn a_public_key_is_that_of_wireguard() {
    let run = |input: &str| {
        let mut command = ACKWISE.command();
        let run = command.args(["tunnel", "pubkey"]).write_stdin(input);
        run.output().expect("runs")
    };
    let made = run("dwdtCnMYpX08FsFyUbJmRd9ML4frwJkqsXf7pR25LCo=\n");
    let public = String::from_utf8(made.stdout).expect("text");
    assert_eq!(public, "hSDwCYkwp1R0i33ctD73Wg2/Og0mOBr066SpjqqbTmo=\n");
    let refused = run("dwdtCnMYpX08FsFy");
    assert_eq!(refused.status.code(), Some(2));
    let output = String::from_utf8_lossy(&refused.stderr);
    assert!(output.contains("44 characters of base64"), "{output}");
}
