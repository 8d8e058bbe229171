"""How often the public BLEST overflows, how often it waits, and how often that is not what its formula says.

    python3 experiments/blest_overflow.py

The formula is that of banksemi/mpquic-rl at c5db733, quic-go/scheduler.go, lines 421 to 425: two products of round-trip
times in nanoseconds and bytes, in unsigned 64-bit integers. For each network, 20,000 states are drawn: round trips from the
least of the path to twice that, the fast window from 10 packets to two bandwidth-delay products, the slow path's bytes in
flight up to two of its own, and what flow control allows up to 6 MB. The same states are decided in integers without a limit.
"""

import random

STATES = 20_000
MSS = 1460
WRAP = 2**64
FLOW_CONTROL = 6_000_000

# Name: rate [Mbit/s] and one-way delay [ms] of the fast path, then of the slow one.
NETWORKS = {
    "Peekaboo, figures 2 and 5": (50, 20, 2, 100),
    "DQN, section 5.2": (20, 5, 15, 77),
    "DQN, section 5.3": (50, 6, 5, 8),
    "DQN, section 5.5": (9, 5, 9, 450),
}


def products(fast, slow, window, in_flight, credit, wrap):
    """Both sides of the test; unsigned differences wrap before they are multiplied, as in the source."""
    difference = credit - (in_flight + MSS)
    if wrap:
        difference %= WRAP
    return MSS * slow * (2 * window * fast + slow - fast), 2 * fast * fast * difference


def count(rate_fast, delay_fast, rate_slow, delay_slow, draw):
    """The shares of the states: left side too large, right side too large, waits, and differs from what is meant."""
    left_wraps = right_wraps = waits = differs = meant_waits = 0
    for _ in range(STATES):
        least = [2_000_000 * delay for delay in (delay_fast, delay_slow)]
        fast, slow = (draw.randrange(rtt, 2 * rtt) for rtt in least)
        capacity = [rate * 125_000 * rtt // 1_000_000_000 for rate, rtt in zip((rate_fast, rate_slow), least)]
        window = draw.randrange(10 * MSS, max(2 * capacity[0], 20 * MSS))
        in_flight = draw.randrange(max(2 * capacity[1], 20 * MSS))
        credit = draw.randrange(FLOW_CONTROL)
        left, right = products(fast, slow, window, in_flight, credit, wrap=False)
        meant = left > right
        left_wraps += left >= WRAP
        right_wraps += not 0 <= right < WRAP
        left, right = products(fast, slow, window, in_flight, credit, wrap=True)
        done = left % WRAP > right % WRAP
        waits += done
        meant_waits += meant
        differs += done != meant
    return [100 * x / STATES for x in (left_wraps, right_wraps, waits, meant_waits, differs)]


def main():
    draw = random.Random(1)
    print("| network | left side overflows | right side | waits | would wait without overflow | decides otherwise |")
    print("|---|---|---|---|---|---|")
    for name, network in NETWORKS.items():
        print(f"| {name} | " + " | ".join(f"{share:.1f} %" for share in count(*network, draw)) + " |")


main()
