"""The command line: train, curves, check, evaluate, figure; the work is done elsewhere."""

import argparse
import json
import sys
import time
from pathlib import Path

from . import check, curve, evaluate, export, figures, recipes
from .states import MODELS


def parser():
    top = argparse.ArgumentParser(prog="python -m mpquic_training", description=__doc__)
    commands = top.add_subparsers(dest="command", required=True)

    train = commands.add_parser(
        "train",
        help="train a model, write it with its card, its curve and recorded states",
        description="Train a model. The same seed and amount give the same model on the same machine.",
    )
    train.add_argument("model", choices=sorted(MODELS))
    train.add_argument("--seed", type=int, default=1)
    train.add_argument("--minutes", type=float, default=55.0, help="give up after so long (default 55)")
    train.add_argument("--amount", type=int, help="decisions (dqn, gaps) or pages (sailfish); default: the recipe's")
    train.add_argument(
        "--variant", choices=sorted({one for names in recipes.VARIANTS.values() for one in names}),
        help="another way to train it, for comparisons; give --out and --curves, too",
    )  # fmt: skip
    train.add_argument("--out", type=Path, default=recipes.SHIPPED, help="folder of the model (default: models/)")
    train.add_argument("--curves", type=Path, default=recipes.curve_file("x").parent, help="folder of the curve")

    plain = commands.add_parser(
        "export", help="write a model's network as it is before training, with its card: what stands in for the trained"
    )
    plain.add_argument("model", choices=sorted(MODELS))
    plain.add_argument("--seed", type=int, default=1)
    plain.add_argument("--out", type=Path, required=True, help="folder")

    curves = commands.add_parser("curves", help="print what training runs came to against minRTT, and draw them in one picture")
    curves.add_argument("runs", nargs="+", type=Path, metavar="CSV", help="learning curves")
    curves.add_argument("--picture", type=Path, help="the PNG file")

    checked = commands.add_parser("check", help="compare onnxruntime and the Rust engines on random and recorded states")
    checked.add_argument("model", choices=sorted(MODELS))
    checked.add_argument("--file", type=Path, help="the ONNX file (default: the shipped one)")
    checked.add_argument("--states", type=int, default=10_000)

    judged = commands.add_parser("evaluate", help="compare a model with other schedulers on held-back networks")
    judged.add_argument("model", choices=sorted(MODELS))
    judged.add_argument("--file", type=Path, help="the ONNX file (default: the shipped one)")
    judged.add_argument("--seeds", type=int, default=5, help="runs per network and workload")
    judged.add_argument("--networks", choices=("held-back", "training"), default="held-back")
    judged.add_argument("--congestion", default="olia", help="the congestion controller (default olia)")
    judged.add_argument("--threads", type=int, default=2)
    judged.add_argument("--only", default="", metavar="PATTERN", help="only workloads that match, as 'facebook|youtube'")
    judged.add_argument("--rivals", type=lambda text: text.split(","), help="schedulers to compare with, as minrtt,stms")
    judged.add_argument(
        "--also", action="append", default=[], type=named, metavar="NAME=CONFIG",
        help='another learned one beside it, with its configuration in JSON, as \'oracle={"model": "x.onnx", "rates": '
        '"oracle"}\'; may be repeated',
    )  # fmt: skip
    judged.add_argument("--out", type=Path, help="the JSON file (default: results/MODEL.json here)")
    drawn = commands.add_parser("figure", help="run a figure of a paper on networks of its ranges, and compare")
    drawn.add_argument("figure", choices=sorted(figures.FIGURES))
    drawn.add_argument("--also", action="append", default=[], type=named, metavar="NAME=CONFIG", help="as in evaluate")
    drawn.add_argument("--threads", type=int, default=1)
    drawn.add_argument("--out", type=Path, help="the JSON file (default: results/FIGURE.json here)")
    return top


def named(text):
    """`NAME=CONFIG` as a pair."""
    name, equals, config = text.partition("=")
    config = json.loads(config) if equals else None
    if not isinstance(config, dict):
        raise ValueError(text)
    return name, config


def command_of(args):
    """The command for the card: without folders, which are the caller's."""
    text = f"python -m mpquic_training {args.command} {args.model} --seed {args.seed}"
    for option in ("amount", "variant"):
        if (value := getattr(args, option, None)) is not None:
            text += f" --{option} {value}"
    return text


def main(arguments=None):
    args = parser().parse_args(arguments)
    began = time.monotonic()
    if args.command == "train":
        path = recipes.train(
            args.model, args.seed, args.minutes, args.amount, args.out, args.curves, command_of(args), args.variant
        )
        print(f"{path} after {(time.monotonic() - began) / 60:.1f} minutes")
        return 0
    if args.command == "export":
        print(recipes.untrained(args.model, args.seed, args.out, command_of(args)))
        return 0
    if args.command == "curves":
        print(curve.compare(args.runs, args.picture))
        return 0
    if args.command == "figure":
        figure = figures.FIGURES[args.figure]
        also = [(name, args.figure.partition("-")[0], config) for name, config in args.also]
        report = figures.compare(figure, also, args.threads, say=lambda text: print(text, flush=True))
        print(figures.table(args.figure, figure, report))
        evaluate.save(figures.as_json(figure, report), args.out or recipes.result_file(args.figure))
        return 0
    file = args.file or recipes.model_file(args.model)
    if args.command == "check":
        found = check.check(file, MODELS[args.model], args.states, more=check.recorded(recipes.states_file(args.model)))
        for what, value in found.items():
            print(f"{what}: {value:.2e}" if isinstance(value, float) else f"{what}: {value}")
        for line in (wrong := check.fails(found)):
            print(f"more than {check.TOLERANCE:g} apart: {line}", file=sys.stderr)
        if not check.has_rust():
            print("mpquic_lab is not installed: the Rust engines were not asked", file=sys.stderr)
        return 1 if wrong or not check.has_rust() else 0

    from .networks import HELD_BACK, TRAINING

    networks = (HELD_BACK if args.networks == "held-back" else TRAINING)[args.model]
    report = evaluate.evaluate(
        args.model,
        file,
        networks,
        args.seeds,
        args.congestion,
        args.threads,
        say=lambda text: print(text, flush=True),
        also=args.also,
        only=args.only,
        rivals=args.rivals,
    )
    print(evaluate.table(report["metrics"]))
    out = args.out or recipes.result_file(args.model)
    evaluate.save(report, out)
    if not (args.file or args.out or args.only or args.rivals) and args.networks == "held-back":
        export.judged(file, evaluate.in_short(report, out.relative_to(recipes.TRAINING.parent)))
    print(f"{time.monotonic() - began:.0f} s")
    return 0


if __name__ == "__main__":
    sys.exit(main())
