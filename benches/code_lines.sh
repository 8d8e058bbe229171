#!/usr/bin/env bash
# Through how many lines of code of 64 bytes a small request runs, and how many instructions it takes: of mpquic and of
# quinn, on each side, counted by valgrind. Between two requests a core sleeps or is in the kernel, so code is fetched anew,
# and its extent says more of the time than the instructions do. Instructions are those of 3,000 further requests: the start
# of the program, the handshake and the end are not in them. The client's have 64 KiB of zeros in them, which the bench reads
# into.
#
#   benches/code_lines.sh               a line each
#   benches/code_lines.sh mpquic        of mpquic alone
set -euo pipefail
cd "$(dirname "${BASH_SOURCE[0]}")/.."
out=$(mktemp -d)
trap 'rm -rf "$out"' EXIT

cargo build -q --release -p mpquic-bench-loopback
loopback=${CARGO_TARGET_DIR:-target}/release/loopback

# What runs in at least four of five requests is part of a request.
requests=3000

until_said() {
    for _ in $(seq 600); do
        grep -q "$1" "$2" && return
        sleep 0.1
    done
    echo "code_lines.sh: no '$1' from the measured process in a minute" >&2
    return 1
}

# Runs both sides for so many requests, one of them counted.
run() {
    local stack=$1 side=$2 requests=$3 count="valgrind --tool=callgrind --dump-instr=yes --compress-pos=no
        --callgrind-out-file=$out/counts --log-file=$out/log"
    local server=() client=()
    # shellcheck disable=SC2206
    if [ "$side" = server ]; then server=($count); else client=($count); fi
    rm -f "$out"/{to_,from_}{server,client}
    mkfifo "$out"/to_{server,client}
    "${server[@]}" "$loopback" server --stack "$stack" --cores 0 --certificate "$out/certificate" \
        <"$out/to_server" >"$out/from_server" &
    exec 7>"$out/to_server"
    until_said address "$out/from_server"
    local address
    address=$(sed -n 's/.*"address":"\([^"]*\)".*/\1/p' "$out/from_server")
    "${client[@]}" "$loopback" client --stack "$stack" --cores 1 --certificate "$out/certificate" \
        --server "$address" --work requests --amount "$requests" <"$out/to_client" >"$out/from_client" &
    exec 8>"$out/to_client"
    until_said ready "$out/from_client"
    echo >&8
    until_said seconds "$out/from_client"
    exec 7>&- 8>&-
    wait
}

# The bench makes a tenth more to warm up.
made=$((requests + requests / 10))

for stack in ${*:-mpquic quinn}; do
    for side in server client; do
        run "$stack" "$side" $((2 * requests))
        twice=$(sed -n 's/^totals: //p' "$out/counts")
        run "$stack" "$side" "$requests"
        awk -v name="$stack/$side" -v requests="$made" -v twice="$twice" '
            # The line behind it says what the called function took.
            /^calls=/ { getline; next }
            /^0x/ { count[$1] += $NF }
            END {
                for (at in count) {
                    instructions += count[at]
                    if (count[at] < requests * 0.8) continue
                    nibble = index("0123456789abcdef", substr(at, length(at) - 1, 1)) - 1
                    line[substr(at, 1, length(at) - 2) int(nibble / 4)] = 1
                }
                for (at in line) lines++
                printf "%-14s %6d lines %8d instructions\n", name, lines, (twice - instructions) / requests
            }' "$out/counts"
    done
done
