#!/usr/bin/env python3
"""Tables of docs/results/live.md from the results of camera.toml, messages.toml and streams.toml:

    experiments/live/table.py target/lab/live

Frames in time in %, and after a slash the bytes beyond those of the frames, by group of networks and over all groups.
"""

import json
import sys
from collections import defaultdict
from pathlib import Path

NAMES = {
    "": "**learned**",
    "retransmit": "retransmission",
    "fixed": "copies and hedge",
    "rule": "the same + a rule",
    "lin_ucb": "the same + LinUCB",
    "hedge": "the same + Hedge",
    "bare": "nothing sent again",
    "twice": "everything twice",
}


def name_of(workload, scheduler):
    kind = "messages" if ":messages" in workload else "camera"
    parts = [part for part in workload.split(":")[3:] if part != "messages"]
    rest = ":".join(parts)
    if rest == "streams":
        return kind, {"xlink": "streams, XLINK", "arrival": "streams, arrival", "minrtt": "streams, minRTT"}[scheduler]
    if rest.startswith("fixed:repair="):
        return kind, "the same + " + rest.removeprefix("fixed:repair=") + " of repair"
    if rest.startswith("price="):
        return kind, f"**learned, price {float(rest.removeprefix('price=').removesuffix('%')) / 100:g}**"
    return kind, NAMES[rest]


def main():
    cells = defaultdict(lambda: defaultdict(lambda: defaultdict(list)))
    for file in sorted(Path(sys.argv[1]).glob("*/results.jsonl")):
        for line in file.open():
            run = json.loads(line)
            values = run.get("values")
            if not values:
                if "network" in run:
                    print("no values:", line[:200], file=sys.stderr)
                continue
            kind, name = name_of(run["workload"], run["scheduler"])
            cells[kind][name][run["network"].split("/")[0]].append(values)
    for kind, policies in cells.items():
        networks = sorted({network for policy in policies.values() for network in policy})
        groups = list(dict.fromkeys(network.split(":")[0] for network in networks))
        mean = lambda values, key: sum(value[key] for value in values) / len(values)
        print(f"\n### {kind}\n\n| policy | {' | '.join(groups)} | all | late of retransmission's | behind the best fixed | freeze, worst |")
        print("|---|" + "--:|" * (len(groups) + 4))
        again = policies.get("retransmission", {})
        fixed = [policy for name, policy in policies.items() if name.startswith("the same +") and "repair" in name or name == "copies and hedge"]
        for name, policy in policies.items():
            row, late, extra, ratio_own, ratio_again, behind = [], [], [], 0.0, 0.0, 0.0
            for group in groups:
                mine = [policy[network] for network in networks if network.split(":")[0] == group and network in policy]
                in_time = sum(mean(values, "in_time") for values in mine) / len(mine)
                spent = sum(mean(values, "extra") for values in mine) / len(mine)
                row.append(f"{in_time:.2f} / {spent:.1f}")
            worst = ""
            for network in networks:
                late.append(mean(policy[network], "late"))
                extra.append(mean(policy[network], "extra"))
                ratio_again += mean(again[network], "late") if network in again else 0.0
                best = min((mean(other[network], "late") for other in fixed), default=late[-1])
                if late[-1] - best > behind:
                    behind, worst = late[-1] - best, f" ({network})"
            freeze = max(value["freeze_max"] for values in policy.values() for value in values)
            share = sum(late) / ratio_again if ratio_again else float("nan")
            print(
                f"| {name} | {' | '.join(row)} | {100 - sum(late) / len(late):.2f} / {sum(extra) / len(extra):.1f}"
                f" | {share:.2f} | {behind:.2f}{worst} | {1e3 * freeze:.0f} ms |"
            )


if __name__ == "__main__":
    main()
