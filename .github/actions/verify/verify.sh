#!/usr/bin/env bash
# Run a command under `corun verify` with options from variables, and report the result to the step. The exit status is corun's.
set -euo pipefail

corun=${CORUN:-$HOME/.local/share/corun-action/bin/corun}
json=${CORUN_JSON:-corun-verify.json}

# With these two capabilities corun sees who took CPU time. The command does not get them. Without them corun reports what it cannot
# tell.
if [ "$(id -u)" != 0 ]; then
    sudo -n setcap cap_bpf,cap_perfmon+ep "$(command -v "$corun")" 2>/dev/null ||
        echo "corun runs without CAP_BPF: it cannot name who disturbs the command" >&2
fi

if [ -n "${CORUN_NOISE:-}" ]; then
    noise=$("$corun" doctor --noise "$CORUN_NOISE" --json corun-noise.json)
    {
        echo "### How noisy this runner was before"
        echo '```'
        echo "$noise"
        echo '```'
    } | tee -a "$GITHUB_STEP_SUMMARY"
    # One thread comes first: the loss of a single-threaded benchmark.
    sed -n 's/^      "taken": \(.*\),$/noise=\1/p' corun-noise.json | sed -n 1p >>"$GITHUB_OUTPUT"
fi

flags=(--github --json "$json" --policy "${CORUN_POLICY:-fail}")
flags+=(--max-disturbance "${CORUN_MAX_DISTURBANCE:-2%}" --retries "${CORUN_RETRIES:-0}")
[ -z "${CORUN_RESULTS:-}" ] || flags+=(--results "$CORUN_RESULTS")
[ -z "${CORUN_JUNIT:-}" ] || flags+=(--junit "$CORUN_JUNIT")
[ -z "${CORUN_BMF:-}" ] || flags+=(--bmf "$CORUN_BMF")

rm -f "$json"
status=0
"$corun" verify "${flags[@]}" -- bash -eo pipefail -c "$CORUN_COMMAND" || status=$?

# The report is indented, so its own fields are on lines with two leading blanks.
if [ -s "$json" ]; then
    {
        sed -n 's/^  "verdict": "\(.*\)",$/verdict=\1/p' "$json"
        sed -n 's/^  "disturbance": \(.*\),$/disturbance=\1/p' "$json"
        sed -n '/^  "culprits": \[/,/^  \]/s/^      "tenant": "\(.*\)",$/culprit=\1/p' "$json" | sed -n 1p
    } >>"$GITHUB_OUTPUT"
fi
exit "$status"
