#!/usr/bin/env bash
# The cost of watching: `perf bench sched pipe` on one CPU, bare and under each tool, interleaved.
#
# Every round runs the bare benchmark twice and each tool once, in turn, so that drift of the machine affects all. Results are medians
# of the ratios within a round. The second bare run shows the noise. `floor` (if it is built) shows the cost of two programs that do
# nothing: the least possible cost of any tool at these tracepoints.
# `rezolus` (if it is in the path, or named by REZOLUS) samples run queues alone: waits by cgroup, as a histogram, without culprits.
# Usage: bench/run.sh [ROUNDS [OPERATIONS]]      (7 rounds of 400,000 operations, two switches each)
set -euo pipefail
cd "$(dirname "$0")/.."

rounds=${1:-7}
operations=${2:-400000}
corun=${CORUN:-${CARGO_TARGET_DIR:-target}/release/corun}
floor=${FLOOR:-${CARGO_TARGET_DIR:-target}/release/examples/floor}
rezolus=${REZOLUS:-$(command -v rezolus || true)}
cpu=$(taskset -pc $$ | sed 's/.*[^0-9]//') # the last that may be used
work=$(mktemp -d)
trap 'kill $(jobs -p) 2>/dev/null || true; rm -rf "$work"' EXIT

[ -x "$corun" ] || { echo "no $corun; run \`make build\` first" >&2; exit 2; }
command -v perf >/dev/null || { echo "perf is not installed (Debian: linux-perf)" >&2; exit 2; }
[ "$(id -u)" = 0 ] || { echo "the probe and its peers need root" >&2; exit 2; }

pipe_seconds() {
    taskset -c "$cpu" perf bench sched pipe -l "$operations" 2>/dev/null | awk '/Total time/ { print $3 }'
}

# under COMMAND...: print the benchmark's seconds while COMMAND watches the machine.
under() {
    "$@" >"$work/tool.out" 2>&1 &
    local tool=$!
    sleep 0.7 # all of them have attached by then; corun counts its costs for half a second first
    pipe_seconds
    kill -TERM "$tool" 2>/dev/null || true # a background job ignores Ctrl-C
    wait "$tool" 2>/dev/null || true
}

tools=(corun)
[ -x "$floor" ] && tools+=(floor)
command -v runqlat >/dev/null && tools+=(runqlat)
# Whether it sees anything: if its program does not load in this kernel, it serves an empty page.
rezolus_sees() {
    # The configuration of bench/agents.py.
    sed -n '/^ONLY_RUN_QUEUES/,/^"""$/p' bench/agents.py | sed 's/.*"""//' >"$work/rezolus.toml"
    "$rezolus" "$work/rezolus.toml" >/dev/null 2>&1 &
    local tool=$!
    sleep 3
    curl -s 127.0.0.1:4241/metrics/json | grep -q scheduler_runqueue
    local found=$?
    kill -TERM "$tool" 2>/dev/null || true
    wait "$tool" 2>/dev/null || true
    return "$found"
}
if [ -z "$rezolus" ]; then
    echo "skipped: rezolus is not in the path (cargo install rezolus)" >&2
elif ! rezolus_sees; then
    echo "skipped: rezolus sees nothing here; does its program load in this kernel?" >&2
else
    tools+=(rezolus)
fi
tools+=(perf-sched)
run_tool() {
    case $1 in
    corun) under "$corun" profile --all --quiet --for 60s --json "$work/corun.json" ;;
    floor) under "$floor" 60 ;;
    runqlat) under runqlat 60 1 ;;
    rezolus) under "$rezolus" "$work/rezolus.toml" ;;
    perf-sched) under perf sched record -a -o "$work/perf.data" ;;
    esac
}

echo "perf bench sched pipe -l $operations on CPU $cpu, $rounds rounds"
for ((round = 1; round <= rounds; round++)); do
    bare=$(pipe_seconds)
    line="$bare"
    for tool in "${tools[@]}"; do line+=" $(run_tool "$tool")"; done
    line+=" $(pipe_seconds)"
    echo "$line" >>"$work/rounds"
    echo "  round $round: bare, ${tools[*]}, bare again [s]: $line"
done

median() { sort -n | awk '{ a[NR] = $1 } END { print a[int((NR + 1) / 2)] }'; }
n=$((${#tools[@]} + 2))
echo
printf '%-12s %8s %8s %8s\n' tool median lowest highest
for ((i = 0; i < ${#tools[@]}; i++)); do
    awk -v c=$((i + 2)) -v n="$n" '{ printf "%.4f\n", $c / (($1 + $n) / 2) }' "$work/rounds" | sort -n >"$work/ratios"
    printf '%-12s %8.3f %8.3f %8.3f\n' "${tools[$i]}" "$(median <"$work/ratios")" \
        "$(head -n 1 "$work/ratios")" "$(tail -n 1 "$work/ratios")"
done
awk -v n="$n" '{ printf "%.4f\n", $n / $1 }' "$work/rounds" | sort -n >"$work/ratios"
printf '%-12s %8.3f %8.3f %8.3f\n' "bare again" "$(median <"$work/ratios")" "$(head -n 1 "$work/ratios")" "$(tail -n 1 "$work/ratios")"

# The cost of one switch in the kernel's own count of its BPF programs, under the same load.
"$corun" profile --all --quiet --for 400ms --json "$work/warm.json" >/dev/null 2>&1 || true
(taskset -c "$cpu" perf bench sched pipe -l "$operations" >/dev/null 2>&1 &)
sleep 0.1
"$corun" profile --all --quiet --for 400ms --json "$work/cost.json" >/dev/null
echo
echo "cost per switch by the kernel's BPF statistics: $(grep -o '"ns_per_switch": *[0-9]*' "$work/cost.json" | grep -o '[0-9]*$') ns"
if [ -x "$floor" ]; then
    (taskset -c "$cpu" perf bench sched pipe -l "$operations" >/dev/null 2>&1 &)
    echo "by the same count: $("$floor" 0.6)"
fi

began=$(date +%s%N)
"$corun" profile --all --quiet --for 1ms --json "$work/first.json" >/dev/null
echo "from start to first sample and exit: $((($(date +%s%N) - began) / 1000000)) ms"
