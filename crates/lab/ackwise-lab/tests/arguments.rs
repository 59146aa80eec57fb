//! Bad input: each message says what is wrong, where, and how to fix it, and the exit code is 2.

use std::fs;
use std::process::Command;

use ackwise_testbed::program::{Ended, Program};
use serde_json::Value;

/// The command under test.
const LAB: Program = Program::new(env!("CARGO_BIN_EXE_ackwise-lab"));

#[test]
fn scenarios_and_results() {
    let dir = tempfile::tempdir().unwrap();
    let file = |name: &str, text: &str| {
        let path = dir.path().join(name);
        fs::write(&path, text).unwrap();
        path.to_str().unwrap().to_owned()
    };
    // Without --on the engine is the simulator.
    LAB.refuses(
        &["run", "/nowhere.toml"],
        &["/nowhere.toml", "No such file"],
    );
    for engine in ["live", "virtual", "sim"] {
        LAB.refuses(
            &["run", "/nowhere.toml", "--on", engine],
            &["/nowhere.toml", "No such file"],
        );
    }
    let broken = file("broken.toml", "name = \"x\"\nfrobs = 3\n[[link]\n");
    LAB.refuses(&["run", &broken, "--on", "live"], &["broken.toml:3:"]);
    // The message lists the existing kernels.
    LAB.refuses(
        &["run", &broken, "--on", "virtual", "--kernel", "6.18"],
        &["--kernel", "no kernel 6.18", "6.12, 7, 6.12-netfilter"],
    );

    // The error comes before anything runs.
    let scenario = concat!(
        env!("CARGO_MANIFEST_DIR"),
        "/../../../scenarios/first-look.toml"
    );
    LAB.refuses(
        &["run", scenario, "--csv", &broken],
        &["broken.toml", "cannot be made"],
    );

    let record = dir.path().join("record.json");
    let record = record.to_str().unwrap();
    let whole = LAB.run(&["run", scenario, "--duration", "100ms", "--output", record]);
    assert_eq!(whole.code, 0, "{}", whole.err);
    let page = dir.path().join("page.html");
    let shown = ["report", record, "--html", page.to_str().unwrap()];
    for (flag, says) in [
        ("--csv", "cannot be made"),
        ("--parquet", "cannot be written"),
    ] {
        let bad = format!("{broken}/not-a-directory");
        let arguments = [&shown[..], &[flag, &bad]].concat();
        LAB.refuses(&arguments, &["not-a-directory", says]);
        assert!(!page.exists(), "{flag}: half of what was asked for");
    }

    LAB.refuses(&["report", "/nowhere.json"], &["/nowhere.json"]);
    let json = file("not.json", "{\"runs\": 3}");
    LAB.refuses(&["report", &json], &["not.json", "ackwise-lab run"]);
    let json = file("empty.json", "{\"schema\": 1}");
    LAB.refuses(&["report", &json], &["empty.json: it has no runs"]);
    LAB.refuses(
        &["report", dir.path().to_str().unwrap()],
        &["cannot be read"],
    );
    // These have no end.
    LAB.refuses(
        &["report", "/dev/zero"],
        &["/dev/zero: it is no JSON object"],
    );
    LAB.refuses(&["tunnel-bench", "--pcap", "/dev/zero"], &["/dev/zero: "]);
    let raw = file(
        "raw.toml",
        "[scenario]\nname = \"\\u001b[31m\"\nno = \"\u{1b}[31m\"\n",
    );
    let run = LAB.run(&["run", &raw]);
    assert!(run.code == 2 && !run.err.contains('\u{1b}'), "{}", run.err);
}

/// A command that is refused leaves no directory behind, and one that is not makes what it needs.
#[test]
fn nothing_is_made_for_what_is_refused() {
    let dir = tempfile::tempdir().unwrap();
    let path = |name: &str| dir.path().join(name).to_str().unwrap().to_owned();
    let scenarios = concat!(env!("CARGO_MANIFEST_DIR"), "/../../../scenarios");
    let scenario = format!("{scenarios}/first-look.toml");
    let (bad, record) = (path("bad.toml"), path("r.json"));
    fs::write(&bad, "[scenario]\nname = 5\n").unwrap();
    fs::create_dir(path("there")).unwrap();
    let before = fs::read_dir(dir.path()).unwrap().count();
    for tables in [path("new"), path("new/inner"), path("there/inner")] {
        let page = format!("{tables}/page.html");
        let into = ["--csv", &tables, "--html", &page];
        for (command, says) in [
            (&["run", bad.as_str()][..], "bad.toml:2:"),
            (&["run", "/nowhere.toml"], "/nowhere.toml"),
            (&["run", &scenario, "--arm", "nothing"], "nothing"),
            (&["run", &scenario, "--duration", "9999d"], "duration"),
            (&["report", "/nowhere.json"], "/nowhere.json"),
        ] {
            LAB.refuses(&[command, &into].concat(), &[says]);
            assert_eq!(fs::read_dir(dir.path()).unwrap().count(), before, "{says}");
            assert_eq!(fs::read_dir(path("there")).unwrap().count(), 0, "{says}");
        }
    }
    // Other files may go to the directory of the tables, too.
    let radio = format!("{scenarios}/papers/ayadi-2013/chain.toml");
    let short = ["--seed", "1", "--arm", "tcp"];
    for (name, command) in [
        ("a", &["run", scenario.as_str(), "--duration", "100ms"][..]),
        ("b", &[&["run", &radio], &short[..]].concat()),
    ] {
        let tables = path(&format!("{name}/tables"));
        let (page, json) = (format!("{tables}/page.html"), format!("{tables}/r.json"));
        let outputs = ["--csv", &tables, "--html", &page, "--output", &json];
        let Ended { code, err, .. } = LAB.run(&[command, &outputs].concat());
        assert_eq!(code, 0, "{err}");
        for file in ["runs.csv", "page.html", "r.json"] {
            assert!(fs::exists(format!("{tables}/{file}")).unwrap(), "{file}");
        }
        fs::copy(&json, &record).unwrap();
        let tables = path(&format!("{name}/again"));
        let page = format!("{tables}/page.html");
        let shown = ["report", &record, "--csv", &tables, "--html", &page];
        assert_eq!(LAB.run(&shown).code, 0);
        assert!(fs::exists(page).unwrap());
    }
}

/// A result file is neither read nor overwritten, and no option is ignored.
#[test]
fn no_file_is_overwritten_and_no_option_ignored() {
    let dir = tempfile::tempdir().unwrap();
    let path = |name: &str| dir.path().join(name).to_str().unwrap().to_owned();
    let scenarios = concat!(env!("CARGO_MANIFEST_DIR"), "/../../../scenarios");
    let text = fs::read_to_string(format!("{scenarios}/first-look.toml")).unwrap();
    let (scenario, record, other) = (path("s.toml"), path("r.json"), path("o"));
    fs::write(&scenario, &text).unwrap();
    LAB.refuses(
        &["run", &scenario, "--output", &scenario],
        &["s.toml", "is what is read"],
    );
    assert_eq!(fs::read_to_string(&scenario).unwrap(), text);
    let run = ["run", scenario.as_str(), "--duration", "100ms"];
    let ran = LAB.run(&[&run[..], &["--output", &record]].concat());
    assert_eq!(ran.code, 0, "{}", ran.err);
    let written = fs::read_to_string(&record).unwrap();
    let mut piped = LAB.command();
    let piped = piped.args(["report", "-"]).write_stdin(written.as_str());
    let piped = Ended::of(&piped.output().unwrap());
    assert_eq!((piped.code, piped.err.as_str()), (0, ""));
    assert_eq!(piped.out, LAB.run(&["report", &record]).out);
    // The draws of another experiment do not stay beside other runs.
    let tables = path("csv");
    fs::create_dir(&tables).unwrap();
    let radio = format!("{scenarios}/papers/ayadi-2013/chain.toml");
    let few = ["--seed", "1", "--arm", "tcp", "--csv", &tables];
    for command in [
        &["report", &record, "--csv", &tables][..],
        &[&["run", &radio], &few[..]].concat(),
    ] {
        let draws = "line,draw,cc,seed,arm,score,value,to_best,drawn\n";
        fs::write(path("csv/draws.csv"), draws).unwrap();
        let Ended { code, err, .. } = LAB.run(command);
        assert_eq!(code, 0, "{err}");
        assert!(!fs::exists(path("csv/draws.csv")).unwrap());
        assert!(fs::exists(path("csv/runs.csv")).unwrap());
    }
    assert!(!fs::exists(path("csv/series.csv")).unwrap());
    // Somebody's own table stays.
    fs::write(path("csv/draws.csv"), "day,card\n").unwrap();
    assert_eq!(LAB.run(&["report", &record, "--csv", &tables]).code, 0);
    assert!(fs::exists(path("csv/draws.csv")).unwrap());
    LAB.refuses(
        &["report", &record, "--html", &record],
        &["r.json", "is what is read"],
    );
    assert_eq!(fs::read_to_string(&record).unwrap(), written);
    let refused: [(&[&str], &str); 9] = [
        (
            &["--on", "virtual", "--max-events", "9"],
            "on the simulator",
        ),
        (&["--on", "live", "--max-memory", "9"], "on the simulator"),
        (&["--output", "-"], "/dev/stdout"),
        (&["--html", &other, "--output", &other], "two outputs"),
        (&["--shard", "1/2", "--output", &other], "--shard"),
        (&["--shard", "1/2", "--csv", &other], "--shard"),
        (&["--kernel", "7"], "--on virtual"),
        (&["-j", "0"], "from 1 to 65535"),
        (&["-j", "100000"], "from 1 to 65535"),
    ];
    for (more, says) in refused {
        LAB.refuses(&[&run[..], more].concat(), &[says]);
    }
    LAB.refuses(&["report", &record, "--output", &other], &["--output"]);
    LAB.refuses(&["report", &record, "--set", "abc"], &["--set"]);
    LAB.refuses(&["trace", "lte", "--format", "json"], &["--format json"]);
    LAB.refuses(&["tunnel-bench", "--pcap", &other], &["cannot be read"]);
    assert!(!fs::exists(&other).unwrap());
}

/// Traces and stored results are inputs as well.
#[test]
fn no_trace_and_no_stored_result_is_overwritten() {
    let dir = tempfile::tempdir().unwrap();
    let path = |name: &str| dir.path().join(name).to_str().unwrap().to_owned();
    let scenarios = concat!(env!("CARGO_MANIFEST_DIR"), "/../../../scenarios");
    let text = fs::read_to_string(format!("{scenarios}/first-look.toml")).unwrap();
    let (scenario, results) = (path("s.toml"), path("results"));
    let arm = "[[arm]]\nname = \"varying\"\nchange = ";
    let named = [
        format!("{arm}{{ link.x.up.rate = {{ trace = \"t.trace\" }} }}"),
        format!("{arm}{{ \"link.x.up.rate.trace\" = \"t.trace\" }}"),
        "[sweep]\n\"link.x.up.rate.trace\" = [\"s.trace\", \"t.trace\"]".to_owned(),
        "[sweep.draw]\nlink.x.up.rate.trace.choice = [\"s.trace\", \"t.trace\"]".to_owned(),
        "[sweep.draw]\nday = { choice = [\"s.trace\", \"t.trace\"] }".to_owned(),
    ];
    fs::write(path("t.trace"), "kept").unwrap();
    let trace = path("t.trace");
    for named in named {
        // No table may be there twice.
        let text = text.replace("[sweep]", "[other]");
        fs::write(&scenario, format!("{text}\n{named}\n")).unwrap();
        for option in ["--output", "--html", "--parquet"] {
            LAB.refuses(
                &["run", &scenario, option, &trace],
                &["t.trace: it is what is read"],
            );
        }
    }
    assert_eq!(fs::read_to_string(&trace).unwrap(), "kept");

    fs::write(&scenario, &text).unwrap();
    let run = [
        "run",
        scenario.as_str(),
        "--duration",
        "100ms",
        "--into",
        &results,
    ];
    let ran = LAB.run(&run);
    assert_eq!(ran.code, 0, "{}", ran.err);
    let stored = fs::read_dir(&results)
        .unwrap()
        .next()
        .unwrap()
        .unwrap()
        .path();
    let before = fs::read(&stored).unwrap();
    let merge = ["report", "--merge", &results];
    for option in ["--output", "--parquet"] {
        let all = [option, stored.to_str().unwrap()];
        LAB.refuses(&[&merge[..], &all].concat(), &["it is what is read"]);
        let new = format!("{results}/all.parquet");
        let all = [option, new.as_str()];
        LAB.refuses(
            &[&merge[..], &all].concat(),
            &["all.parquet", "another directory"],
        );
    }
    assert_eq!(fs::read(&stored).unwrap(), before);
    assert_eq!(LAB.run(&merge).code, 0);

    // What an earlier merge wrote beside the results is no input.
    let (page, record) = (path("results/page.html"), path("results/all.json"));
    let outputs = ["--html", &page, "--output", &record, "--csv", &results];
    for _ in 0..2 {
        let merged = LAB.run(&[&merge[..], &outputs].concat());
        assert_eq!(merged.code, 0, "{}", merged.err);
    }
}

/// The results are complete even if nobody reads the progress.
#[test]
fn a_full_standard_error_loses_no_result() {
    let scenario = concat!(
        env!("CARGO_MANIFEST_DIR"),
        "/../../../scenarios/first-look.toml"
    );
    let run = |arguments: &[&str]| {
        let full = fs::OpenOptions::new().write(true).open("/dev/full");
        let mut command = Command::new(env!("CARGO_BIN_EXE_ackwise-lab"));
        let command = command.args(arguments).stderr(full.unwrap());
        Ended::of(&command.output().unwrap())
    };
    let ended = run(&["run", scenario, "--duration", "100ms"]);
    assert_eq!(ended.code, 0);
    assert!(ended.out.contains("adaptive"), "{}", ended.out);
    assert_eq!(run(&["run", "/nowhere.toml"]).code, 2, "not a panic");
}

/// Otherwise the work of the first engine would be lost.
#[test]
fn the_other_engine_is_looked_at_before_the_first_runs() {
    let scenario = concat!(
        env!("CARGO_MANIFEST_DIR"),
        "/../../../scenarios/cross-check.toml"
    );
    let arguments = ["run", scenario, "--against", "virtual"];
    let mut command = LAB.command();
    command.args(arguments).args(["--kernel", "/nowhere/linux"]);
    let Ended { code, out, err } = Ended::of(&command.output().unwrap());
    assert_eq!((code, out.as_str()), (2, ""), "{err}");
    assert!(err.contains("there is no kernel"), "{err}");
    assert!(!err.contains("1 of "), "it ran on the simulator: {err}");
}

/// A named kernel that does not exist, by its release, its path or the environment.
#[test]
fn a_kernel_that_was_not_built_is_bad_input() {
    let cache = tempfile::tempdir().unwrap();
    let scenario = concat!(
        env!("CARGO_MANIFEST_DIR"),
        "/../../../scenarios/first-look.toml"
    );
    let run = |kernel: Option<&str>, variable: &str| {
        let mut command = LAB.command();
        command.args(["run", scenario, "--on", "virtual"]);
        command.args(kernel.into_iter().flat_map(|name| ["--kernel", name]));
        command
            .env("XDG_CACHE_HOME", cache.path())
            .env("ACKWISE_KERNEL", variable);
        Ended::of(&command.output().unwrap())
    };
    for (kernel, variable, says) in [
        (
            Some("7"),
            "",
            "--kernel 7: there is no kernel for virtual time at",
        ),
        (Some("7"), "", "um-7/linux: No such file"),
        (Some("7"), "", "run `kernel/build um --kernel 7`"),
        (
            Some("/nowhere/linux"),
            "",
            "--kernel /nowhere/linux: there is no kernel",
        ),
        (
            None,
            "7",
            "ACKWISE_KERNEL=7: there is no kernel for virtual time at",
        ),
        (None, "6.18", "ACKWISE_KERNEL=6.18: there is no kernel 6.18"),
        (Some("/"), "", "at /: it is not a file"),
        (Some(scenario), "", "first-look.toml: it is not executable"),
    ] {
        let Ended { code, out, err } = run(kernel, variable);
        assert_eq!(
            (code, out.as_str()),
            (2, ""),
            "{kernel:?} {variable}: {err}"
        );
        assert!(err.contains(says), "{kernel:?} {variable}: {err}");
    }
    // No kernel was named: the input is right, and a kernel must be built first.
    let Ended { code, err, .. } = run(None, "");
    assert_eq!(code, 1, "{err}");
    assert!(err.contains("run `kernel/build um`"), "{err}");
}

#[test]
fn scenario_check_lists_every_mistake() {
    let dir = tempfile::tempdir().unwrap();
    let path = dir.path().join("s.toml");
    fs::write(&path, "nme = \"x\"\nfrobs = 3\n").unwrap();
    let Ended { code, out, err } = LAB.run(&["scenario", "check", path.to_str().unwrap()]);
    assert_eq!(code, 2, "{err}");
    assert!(
        out.contains("s.toml:1:") && out.contains("s.toml:2:"),
        "{out}"
    );

    let Ended { code, out, .. } = LAB.run(&[
        "scenario",
        "check",
        "--format",
        "json",
        path.to_str().unwrap(),
    ]);
    assert_eq!(code, 2);
    let shown: Value = serde_json::from_str(&out).unwrap();
    let lines: Vec<_> = shown["files"][0]["mistakes"]
        .as_array()
        .unwrap()
        .iter()
        .map(|m| &m["line"])
        .collect();
    assert!(
        lines.contains(&&Value::from(1)) && lines.contains(&&Value::from(2)),
        "{out}"
    );
}

#[test]
fn the_scenarios_that_come_with_it_are_right() {
    let dir = concat!(env!("CARGO_MANIFEST_DIR"), "/../../../scenarios");
    let mut files: Vec<_> = fs::read_dir(dir)
        .unwrap()
        .map(|f| f.unwrap().path().to_str().unwrap().to_owned())
        .filter(|f| f.ends_with(".toml"))
        .collect();
    files.sort();
    assert!(
        files.iter().any(|f| f.ends_with("/asymmetric.toml")),
        "{files:?}"
    );
    let args: Vec<_> = ["scenario", "check"]
        .into_iter()
        .chain(files.iter().map(String::as_str))
        .collect();
    let Ended { code, out, err } = LAB.run(&args);
    assert_eq!(code, 0, "{out}{err}");
}

#[test]
fn completions_are_a_script() {
    LAB.completes(&["ackwise-lab", "max-events"]);
}

#[test]
fn the_version_is_the_workspaces() {
    LAB.has_version("ackwise-lab", env!("CARGO_PKG_VERSION"));
}

#[test]
fn traces_are_printed_and_bad_ones_refused() {
    let steps = LAB.run(&["trace", "lte", "--seed", "1", "--duration", "1s"]);
    assert_eq!(steps.code, 0, "{}", steps.err);
    let lines: Vec<&str> = steps.out.lines().collect();
    assert_eq!(lines.len(), 51);
    assert_eq!((lines[0], lines[50]), ("0 s 2975140 bit/s", "1 s repeat"));
    let mahimahi = ["trace", "leo", "--as", "mahimahi", "--duration", "2s"];
    let chances = LAB.run(&mahimahi);
    assert_eq!(chances.code, 0, "{}", chances.err);
    assert_eq!(chances.out.lines().last(), Some("2000"));
    for bad in [
        &["trace", "3g"][..],
        &["trace", "lte", "--mean", "20"],
        &["trace", "lte", "--mean", "0 Mbit/s"],
        &["trace", "lte", "--mean", "NaN Mbit/s"],
        &["trace", "lte", "--mean", "900 Gbit/s"],
        &["trace", "lte", "--duration", "0s"],
        &["trace", "lte", "--duration", "48h"],
        &[
            "trace",
            "lte",
            "--mean",
            "1 bit/s",
            "--duration",
            "1s",
            "--as",
            "mahimahi",
        ],
        &["trace", "5g", "--mean", "99 Gbit/s", "--as", "mahimahi"],
    ] {
        let ended = LAB.run(bad);
        assert_eq!(ended.code, 2, "{bad:?}: {}", ended.err);
        assert!(
            ended.out.is_empty() && ended.err.lines().count() > 0,
            "{bad:?}"
        );
    }
}
