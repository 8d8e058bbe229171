#!/usr/bin/env bash
# Two servers behind one address, and nftables that route by the server's ID in the connection ID: in network namespaces, with a
# client that has two addresses. Then a server is taken out, while a connection of its own goes on.
#
#   examples/fleet/nftables.sh
#
# Needs root, ip and nft; without, it says so and does nothing. Ends with status 1 if something is not as it should be.
set -euo pipefail
cd "$(dirname "${BASH_SOURCE[0]}")/../.."

skip() {
    echo "skipped: $1"
    exit 0
}
[ "$(id -u)" = 0 ] || skip "needs root for network namespaces"
for tool in ip nft; do
    command -v "$tool" >/dev/null || skip "needs $tool"
done
ip netns add mpquic-probe 2>/dev/null || skip "no network namespaces here"
ip netns del mpquic-probe

cargo build -q --example fleet
fleet=${CARGO_TARGET_DIR:-target}/debug/examples/fleet
out=$(mktemp -d)
server=()
clean() {
    for pid in "${server[@]}"; do
        kill -9 "$pid" 2>/dev/null || true
        wait "$pid" 2>/dev/null || true
    done
    for name in client balancer one two; do ip netns del "mpquic-$name" 2>/dev/null || true; done
    rm -rf "$out"
}
trap clean EXIT

fail() {
    echo "FAILED: $1"
    exit 1
}

# A link between the balancer and another namespace: 10.9.N.1 and 10.9.N.2.
link() {
    ip -n mpquic-balancer link add "b$2" type veth peer name "l$2" netns "mpquic-$1"
    ip -n mpquic-balancer addr add "10.9.$2.1/24" dev "b$2"
    ip -n mpquic-balancer link set "b$2" up
    ip -n "mpquic-$1" addr add "10.9.$2.2/24" dev "l$2"
    ip -n "mpquic-$1" link set "l$2" up
}
for name in client balancer one two; do
    ip netns add "mpquic-$name"
    ip -n "mpquic-$name" link set lo up
done
link one 1
link two 2
link client 11
link client 12
ip -n mpquic-one route add default via 10.9.1.1
ip -n mpquic-two route add default via 10.9.2.1
ip -n mpquic-client route add default via 10.9.11.1
ip -n mpquic-client route add default via 10.9.12.1 table 12
ip -n mpquic-client rule add from 10.9.12.2 table 12
ip netns exec mpquic-balancer sysctl -qw net.ipv4.ip_forward=1

ip netns exec mpquic-balancer nft -f - <<'RULES'
table ip fleet {
    chain prerouting {
        type filter hook prerouting priority raw;
        ip daddr 203.0.113.1 udp dport 4433 notrack jump by_server_id
    }
    chain by_server_id {
        @th,64,1 0 @th,72,3 0 @th,80,8 1 ip daddr set 10.9.1.2 accept
        @th,64,1 0 @th,72,3 0 @th,80,8 2 ip daddr set 10.9.2.2 accept
        jump new_clients
    }
    chain new_clients {
        ip daddr set jhash ip saddr . udp sport mod 2 map { 0 : 10.9.1.2, 1 : 10.9.2.2 }
    }
    chain postrouting {
        type filter hook postrouting priority srcnat;
        ip saddr { 10.9.1.2, 10.9.2.2 } udp sport 4433 ip saddr set 203.0.113.1
    }
}
RULES

for id in 1 2; do
    name=$([ "$id" = 1 ] && echo one || echo two)
    ip netns exec "mpquic-$name" "$fleet" server --listen "10.9.$id.2:4433" --server-id "$id" \
        --cert-out "$out/$id.pem" >"$out/server$id" &
    server[id]=$!
done
for id in 1 2; do
    for _ in $(seq 100); do grep -q listens "$out/server$id" && break; sleep 0.1; done
done

client() {
    ip netns exec mpquic-client "$fleet" client --server 203.0.113.1:4433 --local 10.9.11.2 \
        --local 10.9.12.2 --ca "$out/1.pem" --ca "$out/2.pem"
}

# Each connection says which server it reached, and the bytes that came on each of its two paths.
check() {
    grep -Eq '^server [12], bytes by path: \[[1-9][0-9]*, [1-9][0-9]*\]$' <<<"$1" \
        || fail "not over both paths: $1"
}

echo "# 12 connections, each over both addresses of the client"
for _ in $(seq 12); do
    line=$(echo | client) || fail "a connection broke off"
    check "$line"
    echo "$line"
done | tee "$out/before"
[ "$(grep -c . "$out/before")" = 12 ] || fail "connections are missing"
for id in 1 2; do
    grep -q "^server $id," "$out/before" || fail "server $id got none"
done

echo "# a connection to server 1 that stays"
for _ in $(seq 40); do
    coproc LONG { client; }
    long=$LONG_PID
    echo >&"${LONG[1]}"
    read -r line <&"${LONG[0]}"
    case $line in "server 1,"*) break ;; esac
    exec {LONG[1]}>&-
    wait "$long"
    line=
done
check "$line"
echo "$line"

echo "# server 1 gets no new clients, and ends with its last connection"
ip netns exec mpquic-balancer nft -f - <<'RULES'
flush chain ip fleet new_clients
add rule ip fleet new_clients ip daddr set 10.9.2.2
RULES
kill -TERM "${server[1]}"
for _ in $(seq 100); do grep -q drains "$out/server1" && break; sleep 0.1; done
grep drains "$out/server1" || fail "server 1 does not drain"

echo "# 6 new connections"
for _ in $(seq 6); do
    line=$(echo | client) || fail "a connection broke off"
    check "$line"
    echo "$line"
    [[ $line == "server 2,"* ]] || fail "a new connection to the server that drains"
done

echo "# the connection that stayed"
for _ in 1 2; do
    echo >&"${LONG[1]}"
    read -r line <&"${LONG[0]}"
    check "$line"
    echo "$line"
    [[ $line == "server 1,"* ]] || fail "the connection is not where it was"
done
kill -0 "${server[1]}" || fail "server 1 ended before its last connection"
exec {LONG[1]}>&-
wait "$long" || fail "the connection broke off"
wait "${server[1]}" || fail "server 1 failed"
grep "none left" "$out/server1"
unset 'server[1]'
echo "# all as it should be"
