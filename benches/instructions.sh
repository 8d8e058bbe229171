#!/usr/bin/env bash
# How many instructions the benches `transfer` and `decision` execute, counted by valgrind: unlike times, the same on a
# busy machine. Prints a line for each bench: its name and the instructions of a transfer, of a call or of a packet.
#
#   benches/instructions.sh >before.txt     and, after a change,
#   benches/instructions.sh before.txt      which adds the count before and the ratio
set -euo pipefail
before=$(realpath -e "${1:-/dev/null}")
cd "$(dirname "${BASH_SOURCE[0]}")/.."
out=$(mktemp -d)
trap 'rm -rf "$out"' EXIT

cargo bench -q -p mpquic-benches --bench transfer --bench decision --no-run --message-format=json >"$out/build"
bench() {
    grep -o "\"executable\":\"[^\"]*/$1-[^\"]*\"" "$out/build" | cut -d '"' -f 4
}
transfer=$(bench transfer)
decision=$(bench decision)

# The number on the last line of this kind in callgrind's files.
total() {
    sed -n 's/^\(summary\|totals\): //p' "$1" | tail -n 1
}

count() {
    local name
    for name in mpquic/1path mpquic/2path mpquic-qlog/2path mpquic-datagrams/2path mpquic-tagged/2path quinn-proto/1path; do
        valgrind --tool=callgrind --callgrind-out-file="$out/transfer" \
            "$transfer" --bench --test "transfer/$name" >"$out/log" 2>&1 || { cat "$out/log" >&2; return 1; }
        printf 'transfer/%s %s\n' "$name" "$(total "$out/transfer")"
    done

    # A part for each bench, in the order in which their names are printed.
    valgrind --tool=callgrind --callgrind-out-file="$out/decision" \
        --toggle-collect='*instructions::counted' --dump-after='*instructions::counted' \
        "$decision" --count >"$out/names" 2>"$out/log" || { cat "$out/log" >&2; return 1; }
    local part=1 calls
    while read -r name calls; do
        printf '%s %s\n' "$name" "$(($(total "$out/decision.$part") / calls))"
        part=$((part + 1))
    done <"$out/names"
}

count | awk -v before="$before" '
    BEGIN { while ((getline line <before) > 0) { split(line, field, " "); old[field[1]] = field[2] } }
    { printf "%-42s %12d", $1, $2 }
    $1 in old { printf " %12d %7.3f", old[$1], $2 / old[$1] }
    { printf "\n" }
'
