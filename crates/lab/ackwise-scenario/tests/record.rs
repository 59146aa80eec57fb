//! The record keeps its format, and survives a round trip through JSON.

use std::path::Path;

use ackwise_scenario::record::{
    AckKinds, Completion, CompletionOfSize, Content, FlowRecord, NodeRecord, Quantiles,
    RecordError, Report, Run, Series, Traffic,
};
use ackwise_scenario::tables::TABLES;
use ackwise_scenario::{Metric, Scenario};
use proptest::prelude::*;

fn report() -> Report {
    let path = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../../scenarios/quick.toml");
    let mut report = Report::new("live", &Scenario::load(path).unwrap());
    let traffic = Traffic {
        duration_s: 5.0,
        bytes: 1_000_000,
        goodput_bps: 1_600_000.0,
        data_segments: 700,
        acks_on_wire: 100,
        retransmits: 3,
        rtt_us: Quantiles::of(&[40_000.0, 41_000.0, 90_000.0]),
        acks: Some(AckKinds {
            pure: 90,
            sack: 10,
            ..AckKinds::default()
        }),
        ack_bytes_on_wire: Some(5_200),
        completion: Some(Completion {
            time_us: Quantiles::of(&[5e6]).unwrap(),
            count: 1,
            unfinished: 0,
            late: None,
            by_size: CompletionOfSize::of(1_000_000, &[5e6], 100)
                .into_iter()
                .collect(),
        }),
        content: Some(Content {
            ok: true,
            sha256: Some("00ff".into()),
            bytes: 1_000_000,
        }),
        series: Some(Series {
            t_s: vec![0.1, 0.2],
            goodput_bps: vec![Some(1.0), Some(2.5)],
            ssthresh_segments: vec![None, Some(10.0)],
            ..Series::default()
        }),
        ..Traffic::default()
    };
    report.runs.push(Run {
        id: "baseline/cubic/1".into(),
        arm: "baseline".into(),
        cc: "cubic".into(),
        seed: 1,
        totals: traffic.clone(),
        flows: vec![FlowRecord {
            flow: "bulk, \"first\"".into(),
            cc: None,
            traffic,
        }],
        nodes: vec![NodeRecord {
            name: "sender".into(),
            cpu_process_s: Some(0.25),
            cpu_stack_s: Some(0.5),
            energy_j: None,
        }],
        datapath: Some(serde_json::json!({"held": 600, "reasons": {"sack": 1}})),
        ..Run::default()
    });
    report
}

#[test]
fn json_has_the_published_shape() {
    let value: serde_json::Value = serde_json::from_str(&report().to_json().unwrap()).unwrap();
    let run = &value["runs"][0];
    for key in [
        "arm",
        "cc",
        "seed",
        "goodput_bps",
        "data_segments",
        "acks_on_wire",
        "retransmits",
    ] {
        assert!(!run[key].is_null(), "{key} is missing: {run}");
    }
    assert_eq!(run["arm"], "baseline");
    assert_eq!(run["acks_on_wire"], 100);
    assert_eq!(run["rtt_us"]["p50"], 41_000.0);
    assert_eq!(run["rtt_us"]["p99"], 90_000.0);
    assert_eq!(run["flows"][0]["acks"]["pure"], 90);
    assert_eq!(
        run["series"]["ssthresh_segments"][0],
        serde_json::Value::Null
    );
    assert_eq!(value["schema"], 1);
    assert_eq!(value["scenario"]["name"], "quick");
    assert!(
        run.get("uplink_share").is_none(),
        "what is not known is left out"
    );
}

#[test]
fn json_comes_back() {
    let report = report();
    assert_eq!(
        Report::from_json(&report.to_json().unwrap()).unwrap(),
        report
    );
}

#[test]
fn what_is_not_a_report_is_refused() {
    assert!(matches!(Report::from_json("{"), Err(RecordError::Json(_))));
    assert!(matches!(
        Report::from_json(r#"{"schema": 99, "runs": []}"#),
        Err(RecordError::Schema { found: 99 })
    ));
    assert!(matches!(
        Report::from_json(r#"{"runs": []}"#),
        Err(RecordError::Schema { found: 0 })
    ));
}

#[test]
fn csv_has_these_columns() {
    let columns = "engine,scenario,arm,cc,seed,point,draw,line,flow,duration_s,bytes,goodput_bps,\
                   data_segments,acks_on_wire,segments_per_ack,ack_bytes_on_wire,uplink_share,retransmits,timeouts,\
                   rtt_p50_us,rtt_p99_us,acks_pure,acks_sack,acks_dup,acks_window_update,acks_old,\
                   acks_other,completed,completion_p50_us,completion_p99_us,content_ok,cpu_process_s,\
                   cpu_stack_s,sha256,errors";
    assert_eq!(report().runs_csv().unwrap().lines().next(), Some(columns));
    let none = Report::default().runs_csv().unwrap();
    assert_eq!(none, format!("{columns}\n"), "without runs, too");
}

#[test]
fn tables_have_cells_of_one_number_and_names_of_one_kind() {
    for name in TABLES {
        let columns = report().table(name).unwrap();
        let rows = columns[0].values.len();
        let empty = Report::default().table(name).unwrap();
        assert_eq!(
            empty.len(),
            columns.len(),
            "{name}: no column hangs on the runs"
        );
        for column in columns {
            assert_eq!(column.values.len(), rows, "{name}.{}", column.name);
            assert!(!column.about.is_empty(), "{name}.{}", column.name);
        }
    }
    assert!(report().table("run").is_none());
}

#[test]
fn csv_has_a_row_for_the_run_and_for_each_flow() {
    let report = report();
    let table = report.runs_csv().unwrap();
    let mut reader = csv::Reader::from_reader(table.as_bytes());
    let headers = reader.headers().unwrap().clone();
    let rows: Vec<csv::StringRecord> = reader.records().map(Result::unwrap).collect();
    let cell = |row: usize, name: &str| {
        let column = headers.iter().position(|h| h == name).unwrap();
        rows[row][column].to_owned()
    };
    assert_eq!(rows.len(), 2);
    assert_eq!(cell(0, "flow"), "");
    assert_eq!(cell(1, "flow"), "bulk, \"first\"");
    assert_eq!(cell(0, "segments_per_ack"), "7");
    assert_eq!(cell(0, "cpu_stack_s"), "0.5");
    assert_eq!(cell(1, "cpu_stack_s"), "");
    assert_eq!(cell(0, "uplink_share"), "");
    let series = report.series_csv().unwrap();
    let lines: Vec<&str> = series.lines().collect();
    assert_eq!(lines[0], "arm,cc,seed,point,flow,t_s,name,value");
    assert_eq!(lines[1], "baseline,cubic,1,,,0.1,goodput_bps,1");
    assert_eq!(lines.len(), 1 + 2 * 3, "null is no row");
}

#[test]
fn metrics_have_names_that_lead_back() {
    let run = &report().runs[0];
    for (metric, name) in Metric::ALL {
        assert_eq!(Metric::from_name(name), Some(metric));
        assert_eq!(metric.name(), name);
    }
    assert_eq!(Metric::SegmentsPerAck.of(run), Some(7.0));
    assert_eq!(Metric::CpuPerGigabyte.of(run), Some(750.0));
    assert_eq!(Metric::UplinkShare.of(run), None);
    assert_eq!(Metric::AcksPerSegment.of(&Run::default()), None);
}

#[test]
fn quantiles_are_values_that_occurred() {
    let samples: Vec<f64> = (1..=200).rev().map(f64::from).collect();
    let q = Quantiles::of(&samples).unwrap();
    assert_eq!((q.p50, q.p99), (100.0, 198.0));
    assert_eq!((q.min, q.max, q.count), (Some(1.0), Some(200.0), Some(200)));
    assert_eq!(Quantiles::of(&[]), None);
    assert_eq!(Quantiles::of(&[f64::NAN]), None);
    let short = CompletionOfSize::of(10, &samples, 5).unwrap();
    assert_eq!(short.cdf_us, [1.0, 50.0, 100.0, 150.0, 200.0]);
    assert_eq!(short.count, 200);
}

proptest! {
    #[test]
    fn quantiles_lie_within(samples in prop::collection::vec(-1e9..1e9f64, 1..300)) {
        let q = Quantiles::of(&samples).unwrap();
        prop_assert!(q.min.unwrap() <= q.p50 && q.p50 <= q.p99 && q.p99 <= q.max.unwrap());
        let below = samples.iter().filter(|v| **v <= q.p99).count();
        prop_assert!(below as f64 >= 0.99 * samples.len() as f64);
    }
}
