#!/usr/bin/env bash
# Through how many files of source a packet goes: of mpquic and of quinn-proto, counted by valgrind over the bench
# `transfer`. A file counts if it has at least one instruction per packet of data, inlined ones too.
#
#   benches/files_per_walk.sh           a line each
#   benches/files_per_walk.sh --files   and the files, with their instructions per packet
set -euo pipefail
cd "$(dirname "${BASH_SOURCE[0]}")/.."
out=$(mktemp -d)
trap 'rm -rf "$out"' EXIT

# 64 MiB in packets of 1,452 bytes.
packets=47000

cargo bench -q -p mpquic-benches --bench transfer --no-run --message-format=json >"$out/build"
transfer=$(grep -o '"executable":"[^"]*/transfer-[^"]*"' "$out/build" | cut -d '"' -f 4)

# walk LABEL BENCH FUNCTION FILES: the files whose names match FILES with instructions within FUNCTION.
walk() {
    valgrind --tool=callgrind --toggle-collect="$3" --callgrind-out-file="$out/walk" \
        "$transfer" --bench --test "transfer/$2" >"$out/log" 2>&1 || { cat "$out/log" >&2; return 1; }
    awk -v packets="$packets" -v ours="$4" '
        # A file has its name where it is first spoken of, which may be as that of a callee.
        match($0, /^c?f[lie]=\([0-9]+\)/) {
            id = substr($0, index($0, "(") , RLENGTH - index($0, "(") + 1)
            if (length($0) > RLENGTH) name[id] = substr($0, RLENGTH + 2)
            if ($0 !~ /^c/) file = name[id]
            next
        }
        /^calls=/ { skip = 1; next }
        /^[0-9+*-]/ { if (skip) skip = 0; else cost[file] += $2 }
        END { for (file in cost) if (file ~ ours && cost[file] >= packets) printf "%9.1f  %s\n", cost[file] / packets, file }
    ' "$out/walk" | sort -rn >"$out/files"
    printf '%-34s %3d files\n' "$1" "$(wc -l <"$out/files")"
    if [[ ${files:-} ]]; then sed -E 's|/[^ ]*/(crates/)|\1|' "$out/files"; fi
}

[[ ${1:-} == --files ]] && files=1
walk 'mpquic poll_transmit' mpquic/1path '*mpquic_proto*Connection*poll_transmit*' 'crates/[a-z-]+/src/'
walk 'mpquic handle_event' mpquic/1path '*mpquic_proto*Connection*handle_event*' 'crates/[a-z-]+/src/'
walk 'quinn-proto poll_transmit' quinn-proto/1path '*quinn_proto*Connection*poll_transmit*' 'quinn-proto'
walk 'quinn-proto handle_event' quinn-proto/1path '*quinn_proto*Connection*handle_event*' 'quinn-proto'
