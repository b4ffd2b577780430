#!/usr/bin/env bash
# Real parallel programs, solo and next to an interferer: where their time went, and who took it.
#
# Each program runs once solo and once under `corun profile` while an endless loop is pinned to each CPU. The loops have their own
# session, like a neighbor: with autogroup, the kernel shares CPUs between sessions first. (Without pinning it may put all loops on one
# CPU and the program on the others.)
#
# Then one of the programs runs again, for longer. `predict` says while it runs how much slower it is than alone. `control` lets it take
# turns with the loops (as root).
#
# All inputs are made here. The results are in out/demo: for each program the report as text, JSON, HTML and, with eBPF, a timeline for
# Perfetto.
#
# Usage: demo/run.sh [PROGRAM...]     of: cg barrier x264 pigz gcc redis predict control (all of them)
set -euo pipefail
cd "$(dirname "$0")/.."

corun=${CORUN:-${CARGO_TARGET_DIR:-target}/release/corun}
out=out/demo
cpus=$(nproc)
allowed=$(taskset -pc $$ | sed 's/.*: //') # without CPUs that are possible but not there
threads=$((cpus < 16 ? cpus : 16))
work=$out/work
loops=
others=()

[ -x "$corun" ] || { echo "no $corun; run \`make build\` first" >&2; exit 2; }

# ---------------------------------------------------------------------------------------------- the interferer --

# The name is `neighbour`, so that nobody mistakes it for the profiler.
start_loops() {
    ln -sf "$(realpath "$corun")" "$work/neighbour"
    setsid "$work/neighbour" load persistent --threads "$cpus" --cpus "$allowed" --quiet >/dev/null &
    loops=$!
    sleep 0.3 # they measure their pace first
    kill -0 "$loops" 2>/dev/null || { echo "demo: the loops do not run on CPUs $allowed" >&2; exit 1; }
}

stop_loops() {
    [ -n "$loops" ] || return 0
    kill "$loops" 2>/dev/null || true
    wait "$loops" 2>/dev/null || true
    loops=
}

clean_up() {
    stop_loops
    [ ${#others[@]} -eq 0 ] || kill "${others[@]}" 2>/dev/null || true
    wait
    rm -rf "$work"
}
trap clean_up EXIT
trap 'exit 130' INT
trap 'exit 143' TERM

# ------------------------------------------------------------------------------------------------- measuring --

# The way in which corun can see here, and the reports that it allows.
how_to_see() {
    local why
    if why=$("$corun" profile --all --for 1ms --source ebpf --quiet --json "$work/probe.json" 2>&1 >/dev/null); then
        trace=yes
        echo "Seen through eBPF: the exact ledger, and who took the stolen time."
    else
        trace=
        echo "Seen through schedstat: the ledger without culprits and without a timeline for Perfetto, because"
        echo "  $why" | sed 's/corun: //' | fold -s -w 96
        echo "For all of it, run this as root: sudo demo/run.sh"
    fi
}

# profile NAME TARGET...: run `corun profile TARGET`, with all reports in out/demo/NAME.*
profile() {
    local name=$1
    shift
    local watch=("$corun" profile --quiet --json "$out/$name.json" --html "$out/$name.html")
    [ -z "$trace" ] || watch+=(--trace "$out/$name.pftrace")
    case $1 in
    --) "${watch[@]}" "$@" 2>"$out/$name.txt" >/dev/null ;; # what is on standard output is the command's own
    *) "${watch[@]}" "$@" >"$out/$name.txt" 2>&1 ;;
    esac || failed "$name"
}

# failed NAME: its report says why.
failed() {
    echo "demo: $1 failed; $out/$1.txt says how" >&2
    tail -n 5 "$out/$1.txt" >&2
    exit 1
}

now_ms() { echo $((${EPOCHREALTIME/[.,]/} / 1000)); }

seconds() { awk -v ns="$1" 'BEGIN { printf "%.1f s", ns / 1e9 }'; }

# first_ns NAME FIELD: print the first number with that name in NAME's JSON, of the window or of the subject.
first_ns() { sed -n "s/^ *\"$2\": \([0-9]*\),\{0,1\}$/\1/p" "$out/$1.json" | head -n 1; }

heading() { printf '\n%s: %s\n' "$1" "$2"; }

# tell NAME ALONE BESIDE RATIO [CPU]: print the answer of NAME's report, and a line for the summary.
tell() {
    echo "  alone $2, next to the loops $3: slowed down $4 times."
    # The answer is between the report's first line and its first empty line.
    awk 'answer && /^$/ { exit } answer { print "  " $0 } /^corun profile: / { answer = 1 }' "$out/$1.txt"
    printf '%s\t%s\t%s\t%s\t%s\n' "$1" "$2" "$3" "$4" "${5:-}" >>"$work/summary"
}

# program NAME ABOUT COMMAND...: run it solo, then next to the loops.
program() {
    local name=$1 about=$2 alone cpu_alone beside ratio TIMEFORMAT='%R %U %S'
    shift 2
    heading "$name" "$about"
    { time "$@" >/dev/null 2>"$work/stderr"; } 2>"$work/time" ||
        { echo "demo: $name failed: $(tail -n 1 "$work/stderr")" >&2; exit 1; }
    read -r alone cpu_alone < <(awk '{ print $1 * 1e9, ($2 + $3) * 1e9 }' "$work/time")
    start_loops
    profile "$name" -- "$@"
    stop_loops
    beside=$(first_ns "$name" window_ns)
    ratio=$(awk -v a="$alone" -v b="$beside" 'BEGIN { printf "%.1f", b / a }')
    tell "$name" "$(seconds "$alone")" "$(seconds "$beside")" "$ratio" \
        "$(seconds "$cpu_alone") to $(seconds "$(first_ns "$name" compute_ns)")"
}

# ------------------------------------------------------------------------------------------------ the programs --

make_solver() {
    gcc -O2 -fopenmp -o "$out/cg" demo/cg.c -lm
    export OMP_WAIT_POLICY=active OMP_NUM_THREADS=$threads
}

run_cg() {
    make_solver
    program cg "a conjugate-gradient solver in OpenMP; $threads threads that spin at every barrier" "$out/cg" 300 4
}

run_barrier() {
    program barrier "a synthetic program; $threads threads, 1 ms of work, then a barrier at which they sleep" \
        "$corun" load parallel --sync barrier --wait block --grain 1ms --iterations 1500 --threads "$threads" --quiet
}

run_x264() {
    head -c $((80 * 1280 * 720 * 3 / 2)) < <(seq 99999999) >"$work/video.yuv"
    program x264 "a video encoder; frame threads that sleep until the rows they need are there" \
        x264 --quiet --no-progress --threads "$threads" --input-res 1280x720 --fps 25 -o "$work/video.264" \
        "$work/video.yuv"
    rm "$work/video.yuv"
}

run_pigz() {
    seq 10000000 >"$work/numbers"
    program pigz "a compressor; $threads threads fed and emptied through queues" \
        pigz -p "$threads" -9 -k -f "$work/numbers"
    rm "$work/numbers"
}

run_gcc() {
    seq 1000 |
        awk '{ print "int f" $1 "(int x) { int s = 0; for (int i = 0; i < x; i++) s += (i ^ " $1 ") % (x + 1); return s; }" }' \
            >"$work/many.c"
    program gcc "a compiler; one thread after the other, no synchronisation" \
        gcc -O2 -c -o "$work/many.o" "$work/many.c"
}

run_redis() {
    heading redis "a key-value server with 20 busy clients in another session; profiled for 3 s as it runs"
    local socket=$PWD/$work/socket server rate_alone rate_beside
    setsid redis-server --port 0 --unixsocket "$socket" --dir "$PWD/$work" --save '' >/dev/null &
    server=$!
    others+=("$server")
    until redis-cli -s "$socket" ping >/dev/null 2>&1; do
        kill -0 "$server" 2>/dev/null || { echo "demo: redis-server did not start" >&2; exit 1; }
        sleep 0.05
    done
    setsid redis-benchmark -s "$socket" -c 20 -t get -l -q >/dev/null &
    others+=("$!")
    sleep 0.5

    # Requests per second for this start and this count. The solo rate is measured before and after, since it drifts.
    local before start rate_before
    served() { redis-cli -s "$socket" info stats | tr -d '\r' | sed -n 's/^total_commands_processed://p'; }
    per_second() { echo $((($(served) - before) * 1000 / ($(now_ms) - start))); }
    before=$(served) start=$(now_ms)
    sleep 1.5
    rate_before=$(per_second)
    start_loops
    before=$(served) start=$(now_ms)
    profile redis -p "$server" --for 3s
    rate_beside=$(per_second)
    stop_loops
    before=$(served) start=$(now_ms)
    sleep 1.5
    rate_alone=$((($(per_second) + rate_before) / 2))
    kill "${others[@]}"
    wait "${others[@]}" 2>/dev/null || true
    others=()
    tell redis "$rate_alone requests/s" "$rate_beside requests/s" \
        "$(awk -v a="$rate_alone" -v b="$rate_beside" 'BEGIN { printf "%.1f", a / b }')"
}

# ----------------------------------------------------------------------------------- to foretell and to do about it --

# The solver for some seconds, with its time alone.
longer() {
    solver=("$out/cg" 300 12)
    [ -z "${longer_alone:-}" ] || return 0
    make_solver
    local before
    before=$(now_ms)
    "${solver[@]}"
    longer_alone=$(($(now_ms) - before))
}

times() { awk -v a="$longer_alone" -v b="$1" 'BEGIN { printf "%.1f s, %.1f times", b / 1000, b / a }'; }

more() {
    echo "  $1"
    echo "  $1" >>"$work/more"
}

run_predict() {
    heading predict "the solver for longer, and how much slower than alone it is, said while it runs"
    longer
    local before took how=()
    # Only the loops are parked, for short times.
    start_loops
    [ "$(id -u)" -ne 0 ] || how=(--dedicated --park "$loops")
    before=$(now_ms)
    "$corun" predict --quiet "${how[@]}" --json "$out/predict.json" --html "$out/predict.html" -- "${solver[@]}" \
        >"$out/predict.txt" 2>&1 || failed predict
    took=$(($(now_ms) - before))
    stop_loops
    more "alone $(seconds "${longer_alone}000000"), next to the loops $(times "$took") as long"
    more "predict: $(sed -n '/ slower than alone/,/^$/p' "$out/predict.txt" | paste -s -d ' ' | sed 's/ *$//')"
}

run_control() {
    heading control "the solver and the loops in turns, by a policy that is told neither's nature"
    if [ "$(id -u)" -ne 0 ]; then
        more "control: skipped, since parking other programs takes root: sudo demo/run.sh control"
        return
    fi
    longer
    local before took controller pid used
    ticks() { awk '{ print $14 + $15 }' "/proc/$loops/stat"; }
    start_loops
    used=$(ticks) before=$(now_ms)
    setsid "${solver[@]}" &
    pid=$!
    sleep 0.1 # until then it is a shell
    "$corun" control auto --tenant "$loops" --tenant "$pid" --for 1m --quiet --json "$out/control.json" --html "$out/control.html" \
        >"$out/control.txt" 2>&1 &
    controller=$!
    wait "$pid"
    took=$(($(now_ms) - before)) used=$(($(ticks) - used))
    kill "$controller" 2>/dev/null || true # TERM: a shell without jobs starts what is in the background with INT ignored
    wait "$controller" || failed control
    stop_loops
    more "control: $(times "$took") as long, the loops had $((used * 100000 / ($(getconf CLK_TCK) * took * cpus))) % of the CPUs"
}

# ------------------------------------------------------------------------------------------------------ the end --

most_striking() { sort -t "$(printf '\t')" -k 4,4 -g -r "$work/summary" | head -n 1 | cut -f 1; }

finish() {
    local name
    if [ ! -e "$work/summary" ]; then
        printf '\n%s\n' "All reports are in $out."
        return
    fi
    name=$(most_striking)
    printf '\n%s\n\n' "The whole report of $name, which suffered most:"
    sed -n '/^corun profile: /,$p' "$out/$name.txt"

    printf '\nWhat a loop on each of %s CPUs did to each:\n\n' "$cpus"
    sort -t "$(printf '\t')" -k 4,4 -g -r "$work/summary" | awk -F '\t' '
        BEGIN { printf "  %-8s %11s  %18s  %18s  %s\n", "", "slowed down", "alone", "with loops", "its CPU time grew" }
        { printf "  %-8s %5s times  %18s  %18s  %s\n", $1, $4, $2, $3, $5 ? "from " $5 : "-" }'
    echo
    echo "CPU time that grows is spinning, which still counts as compute in the reports, or colder caches."
    [ ! -e "$work/more" ] || { printf '\n%s\n\n' "The solver for longer:" && fold -s -w 96 "$work/more"; }
    printf '\n%s\n' "All reports are in $out:"
    printf '  %-28s %s\n' \
        "$name.html" "pictures: open it in a browser, it needs no network" \
        "$name.json" "every number, for scripts (docs/json.md says what each means)"
    [ ! -e "$out/predict.html" ] || printf '  %-28s %s\n' "predict.html" "slowdown over time, with its interval"
    [ ! -e "$out/control.html" ] || printf '  %-28s %s\n' "control.html" "who was parked when, why, and what it gained"
    [ -z "$trace" ] || printf '  %-28s %s\n' "$name.pftrace" "every context switch: open it at https://ui.perfetto.dev"
    printf '\nTo go on:\n'
    printf '  %-46s %s\n' \
        "$corun profile -- make -j$cpus" "your own program" \
        "$corun profile --all --for 5s" "everybody on this machine: who steals from whom" \
        "$corun doctor" "what can be seen and done here, and why not"
}

rm -rf "$work" && mkdir -p "$work"
[ $# -gt 0 ] || set -- cg barrier x264 pigz gcc redis predict control
for name in "$@"; do
    declare -F "run_$name" >/dev/null || { echo "demo: no program $name; choose from cg barrier x264 pigz gcc redis predict control" >&2; exit 2; }
done
how_to_see
case $(cat /proc/sys/kernel/sched_autogroup_enabled 2>/dev/null || echo none) in
1) echo "Layout: a loop pinned to each CPU, in a session of their own; autogroup is on, so the two sessions get equal shares." ;;
*) echo "Layout: a loop pinned to each CPU, in a session of their own; no autogroup, so every task gets an equal share." ;;
esac
for name in "$@"; do
    "run_$name"
done
finish
