#!/usr/bin/env bash
# What TCP flows have through a tunnel of mpquic-bond, beside its SOCKS proxy, over emulated links in namespaces: as root.
#
#   experiments/bond/tunnel.sh NETWORK BYTES
#
# such as '20Mbit 20ms | 20Mbit 40ms' 12000000. BOND and LAB name the programs, else those of target/release are taken. Prints, twice, what curl has for one flow through the
# tunnel, for four at a time with their sum, and for one through the proxy: bytes per second, seconds.
set -euo pipefail
cd "$(dirname "${BASH_SOURCE[0]}")/../.."
network=${1:-20Mbit 20ms | 20Mbit 40ms} bytes=${2:-12000000}
bond=${BOND:-$PWD/target/release/mpquic-bond} lab=${LAB:-$PWD/target/release/mpquic-lab}
outer=bondout$$ behind=bondtail$$
folder=$(mktemp -d)
started=()
finish() {
    ((${#started[@]})) && kill "${started[@]}" 2>/dev/null || true
    wait
    ip netns del "$outer" || true
    ip netns del "$behind" || true
    rm -r "$folder"
}
trap finish EXIT

mkdir "$folder/www"
head -c 32 /dev/urandom | base64 >"$folder/token"
head -c "$bytes" /dev/urandom >"$folder/www/file"
for name in "$outer" "$behind"; do
    ip netns add "$name"
    ip -n "$name" link set lo up
done
ip -n "$outer" link add t0 type veth peer name t1 netns "$behind"
ip -n "$outer" addr add 10.88.0.1/24 dev t0
ip -n "$behind" addr add 10.88.0.2/24 dev t1
ip -n "$outer" link set t0 up
ip -n "$behind" link set t1 up
ip -n "$behind" route add default via 10.88.0.1
ip netns exec "$outer" sysctl -qw net.ipv4.ip_forward=1

ip netns exec "$behind" python3 -m http.server 8000 --bind 10.88.0.2 --directory "$folder/www" >"$folder/http" 2>&1 &
started+=($!)
XDG_DATA_HOME=$folder/far ip netns exec "$outer" "$bond" serve --token-file "$folder/token" --tun 10.66.0.0/24 \
    --allow '10.88.0.2/32:*' >"$folder/far.log" 2>&1 &
started+=($!)
until pin=$(grep -o 'sha256:[0-9a-f]*' "$folder/far.log"); do sleep 0.1; done

cat >"$folder/inside.sh" <<END
set -eu
XDG_DATA_HOME=$folder/near $bond connect \$LAB_OUTSIDE --tun --tun-no-dns --token-file $folder/token --pin $pin >$folder/near.log 2>&1 &
client=\$!
until grep -q '^tunnel' $folder/near.log; do sleep 0.1; done
one() { curl --silent --output /dev/null \${2:-} --write-out "\$1 %{speed_download} %{time_total}\n" http://10.88.0.2:8000/file; }
for run in 1 2; do
    one 'one flow, tunnel:'
    begun=\$(date +%s%N) flows=
    for flow in 1 2 3 4; do
        one 'of four, tunnel:' &
        flows="\$flows \$!"
    done
    wait \$flows
    echo "four, tunnel: \$((4 * $bytes * 8000 / (\$(date +%s%N) - begun))) Mbit/s"
    one 'one flow, proxy:' '--socks5-hostname 127.0.0.1:1080'
done
kill \$client
wait \$client || true
END
ip netns exec "$outer" "$lab" shell --network "$network" -- bash "$folder/inside.sh"
