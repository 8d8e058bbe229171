#!/usr/bin/env bash
# What the protocol does, as hashes of what crosses the wire: a change that only moves code changes none of them. Prints a
# line for each cell of some experiments, and for each seed of the two random tests.
#
#   benches/same_behaviour.sh >before.txt     and, after a change,
#   benches/same_behaviour.sh before.txt      which prints what differs, and fails if anything does
#
# SEEDS_OF_QUICK (12), SCENARIOS (2000) and INTERACTIONS (2000) are the numbers of seeds. Compare lines of the same
# numbers only. PROGRAMS names a folder with `mpquic-lab`, `random_scenarios` and `stack` that are built already.
set -euo pipefail
before=${1:+$(realpath -e "$1")}
cd "$(dirname "${BASH_SOURCE[0]}")/.."
out=$(mktemp -d)
trap 'rm -rf "$out"' EXIT

# A network of each file: those whose first network takes seconds.
experiments=(
    'agreement uneven' 'agreement_start uneven' 'csc579/both_orders unequal' 'csc579/fig04_competing_flows V1'
    'csc579/fig06_07_growing_delay equal' 'dqn/both_orders f5' 'dqn/table1_chunk_tail t1' 'gaps/fig09_delay_poor poor'
    'headroom/waiting loss' 'mobile/two_paths car, two operators' 'mqvpn/profiles baseline' 'ours/symmetric 10 Mbit, 20 ms'
    'ours/wait_for_pacer equal' 'peekaboo/both_orders dynamicity' 'peekaboo/fig02_dynamicity low'
    'peekaboo/fig05b_jitter jitter' 'peekaboo/fig11_12_places Residence' 'real_sockets het' 'resume PB-F2a'
    'sailfish/both_orders LS-q' 'sailfish/ch6_pages LS-q' 'start PB-F2a' 'start_now PB-F2a' 'tail PB-F2a'
)

# The folder with the programs.
build() {
    [[ -n ${PROGRAMS:-} ]] && return
    PROGRAMS=$out/programs
    mkdir "$PROGRAMS"
    # With a test of mpquic-lab, so that its program is built: as the tests build it, and once.
    cargo test -q --locked --workspace --test random_scenarios --test stack --test replicas --no-run \
        --message-format=json >"$out/build"
    local name path
    for name in mpquic-lab random_scenarios stack; do
        path=$(grep -oE "\"executable\":\"[^\"]*/$name(-[0-9a-f]{16})?\"" "$out/build" | tail -n 1 | cut -d '"' -f 4)
        ln -s "$path" "$PROGRAMS/$name"
    done
}

lab() {
    local file=$1
    shift
    "$PROGRAMS/mpquic-lab" run "experiments/$file.toml" "$@" --json --fresh --out "$out/lab" 2>"$out/log" >"$out/cells" ||
        { cat "$out/log" >&2; return 1; }
    sed "s|^|$file |" "$out/cells"
}

behaviour() {
    local cell
    lab quick --seeds "${SEEDS_OF_QUICK:-12}"
    for cell in "${experiments[@]}"; do
        lab "${cell%% *}" --seeds 1 --only "^${cell#* }/"
    done
    export TRACE_HASHES=$out/hashes
    SEEDS=0..${SCENARIOS:-2000} "$PROGRAMS/random_scenarios" >"$out/log" || { cat "$out/log" >&2; return 1; }
    SEEDS=0..${INTERACTIONS:-2000} "$PROGRAMS/stack" random_interaction >"$out/log" || { cat "$out/log" >&2; return 1; }
    cat "$TRACE_HASHES"
}

build
if [[ -z $before ]]; then
    behaviour
else
    behaviour >"$out/after"
    diff "$before" "$out/after" >"$out/diff" || { head -n 20 "$out/diff"; echo "$(grep -c '^>' "$out/diff") lines differ"; exit 1; }
    echo "$(wc -l <"$out/after") lines, none differs"
fi
