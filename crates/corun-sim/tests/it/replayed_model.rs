//! Replays of runs on the modelled machine. Another run of the same program, without the others, gives the
//! true solo time.

use crate::rig;
use corun_model::TenantId;
use corun_sim::replay::{modelled, Alone, Conditions, Transcriber, Transcript};
use corun_sim::scenario::Participants;

const SUBJECT: TenantId = TenantId(0);
const MS: u64 = 1_000_000;

struct Replayed {
    truth_ns: u64,
    transcript: Transcript,
    alone: Alone,
}

fn replayed(program: &str, loops: u32) -> Replayed {
    let scenario = rig::scenario(&format!(
        "[[tenant]]\nname = \"subject\"\nprogram = {{ kind = \"parallel\", {program} }}\n\
         [[tenant]]\nname = \"loops\"\nprogram = {{ kind = \"interference\", threads = {loops} }}\n"
    ));
    let ends = |participants| {
        let mut engine = scenario.engine(1, participants, 1 << 22).unwrap();
        assert!(engine.run_to_end(1_000_000 * MS).unwrap());
        let run = engine.progress()[0].completions.first.unwrap();
        (engine.trace().unwrap().clone(), run.end_ns - run.start_ns, run.end_ns)
    };
    let (trace, _, end_ns) = ends(Participants::All);
    let (_, truth_ns, _) = ends(Participants::Solo(0));
    let mut transcriber = Transcriber::default();
    transcriber.push(&modelled::run_log(&trace, SUBJECT, 2, end_ns, &[]));
    let transcript = transcriber.cut(true);
    let conditions = Conditions { wake_up_ns: 0, ..Conditions::default() };
    let alone = transcript.alone(&conditions).unwrap();
    Replayed { truth_ns, transcript, alone }
}

#[test]
fn the_solo_time_of_programs_that_block_results_on_the_modelled_machine() {
    let mut errors = Vec::new();
    for (name, sync) in [
        ("independent", "sync = \"none\""),
        ("barrier", "sync = \"barrier\""),
        ("barrier, uneven", "sync = \"barrier\", imbalance = 0.3"),
        ("barrier, sleeping", "sync = \"barrier\", sleep = \"3ms\""),
        ("lock", "sync = \"lock\", critical = 0.2"),
        ("lock, always taken", "sync = \"lock\", critical = 0.6"),
        ("lock, devices", "sync = \"lock\", critical = 0.1, io = \"3ms\""),
        ("pipeline", "sync = \"pipeline\", stages = 2"),
        ("queue", "sync = \"queue\""),
        ("work stealing", "sync = \"steal\""),
    ] {
        for (threads, loops) in [(2, 1), (2, 2), (3, 2), (4, 2)] {
            let stages = sync.replace("stages = 2", &format!("stages = {threads}"));
            let program =
                format!("threads = {threads}, {stages}, wait = \"block\", grain = \"3ms\", iterations = 400");
            let Replayed { truth_ns, transcript, alone } = replayed(&program, loops);
            let error = (alone.likely_ns as f64 / truth_ns as f64).ln();
            println!(
                "{name}, {threads} threads, {loops} loops: took {} ms, alone {} ms, replayed {} ({}-{}), {:+.1} %",
                transcript.lasted_ns / MS,
                truth_ns / MS,
                alone.likely_ns / MS,
                alone.least_ns / MS,
                alone.most_ns / MS,
                100.0 * error
            );
            // No longer than it took, and no shorter than its work or its longest task.
            let scripts = &transcript.program.scripts;
            let work_ns: u64 = scripts.iter().map(|s| s.compute_ns()).sum();
            let longest_ns = scripts.iter().map(|s| s.compute_ns()).max().unwrap_or(0);
            assert!(alone.most_ns <= transcript.lasted_ns + MS, "{name}: longer than it took");
            assert!(alone.likely_ns + 1 >= (work_ns / 2).max(longest_ns), "{name}: shorter than its work");
            errors.push(error.abs());
        }
    }
    let mean = errors.iter().sum::<f64>() / errors.len() as f64;
    let worst = errors.iter().copied().fold(0.0, f64::max);
    println!("mean {:.1} %, worst {:.1} %", 100.0 * mean, 100.0 * worst);
    // 2.4 % and 15 %. The worst is a lock that four threads hold while they use devices.
    assert!(mean < 0.03 && worst < 0.16, "{mean} {worst}");
}
