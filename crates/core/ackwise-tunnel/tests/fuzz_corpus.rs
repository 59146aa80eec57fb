//! Replays what the fuzzers have found worth keeping: see `fuzz/run.sh`.

#[path = "../fuzz/codec.rs"]
mod codec;
#[path = "../fuzz/input.rs"]
mod input;
#[path = "../fuzz/session.rs"]
mod session;

fn play(name: &str, run: fn(&[u8])) {
    let directory = format!("{}/fuzz/corpus/{name}", env!("CARGO_MANIFEST_DIR"));
    let mut count = 0;
    for entry in std::fs::read_dir(&directory).expect("a directory") {
        let path = entry.expect("an entry").path();
        println!("{}", path.display());
        run(&std::fs::read(&path).expect("a file"));
        count += 1;
    }
    assert!(count >= 20, "{count} files in {directory}");
}

#[test]
fn codec_inputs() {
    play("codec", codec::run);
}

#[test]
fn session_inputs() {
    play("session", session::run);
}
