"""Make the bundled model again: corpus, tokenizer, train, export, check. Finished steps are kept and not repeated."""

from __future__ import annotations

import argparse
import json
import sys
from pathlib import Path

STEPS = ("corpus", "tokenizer", "train", "export", "check")


def parse(argv: list[str] | None = None) -> argparse.Namespace:
    """Read the command line."""
    parser = argparse.ArgumentParser(prog="python -m tools.storyteller", description=__doc__)
    parser.add_argument("--minutes", type=float, default=40.0, help="a worker's processor time to train (default 40)")
    parser.add_argument("--seed", type=int, default=1, help="the seed of the corpus and the training (default 1)")
    parser.add_argument("--documents", type=int, default=60_000, help="how many documents to train on (default 60000)")
    parser.add_argument("--workers", type=int, default=2, help="processes to use (default 2)")
    parser.add_argument("--out", type=Path, default=Path("srb/models/storyteller.gguf"), help="the model file to write")
    parser.add_argument(
        "--work-dir", type=Path, default=Path("build/storyteller"), help="where the steps leave their files"
    )
    parser.add_argument("--only", choices=STEPS, action="append", help="run only this step (may be given again)")
    parser.add_argument("--show", type=int, metavar="N", help="print N stories of the corpus and stop")
    return parser.parse_args(argv)


def show(seed: int, count: int) -> None:
    """Print stories of the corpus."""
    from tools.storyteller.stories import tell_seeded

    for number in range(count):
        story = tell_seeded(seed, number)
        print(f"--- {story.form}, {story.world}, {story.plot}\n{story.text}\n")


def main(argv: list[str] | None = None) -> int:
    """Run the steps and return an exit status."""
    args = parse(argv)
    if args.show:
        show(args.seed, args.show)
        return 0
    from tools.storyteller import corpus, tokenizer
    from tools.storyteller.check import check
    from tools.storyteller.export import export
    from tools.storyteller.network import Shape
    from tools.storyteller.train import Plan, train

    work: Path = args.work_dir
    work.mkdir(parents=True, exist_ok=True)
    steps = args.only or STEPS
    tokens = work / "tokenizer.json"
    # The tokenizer comes before the encoded corpus, which is made of its ids.
    if "tokenizer" in steps and not tokens.exists():
        tokenizer.train(corpus.texts(args.seed, 12_000), tokens)
        print(f"tokenizer: {tokens}")
    if "corpus" in steps:
        for split, documents in (("held_out", 600), ("train", args.documents)):
            path = work / f"{split}.npy"
            if not path.exists():
                count = corpus.encode(args.seed, split, documents, tokens, path, workers=args.workers)
                print(f"corpus: {documents} documents, {count} tokens in {path}")
    if "train" in steps:
        print("train:", json.dumps(train(work, Shape(), Plan(args.minutes, args.seed, workers=args.workers))))
    if "export" in steps:
        print(f"export: {export(work / 'checkpoint.pt', tokens, args.out)} bytes in {args.out}")
    if "check" in steps:
        report = check(args.out, work / "checkpoint.pt", tokens, args.seed)
        print(f"check: {report}")
        return 0 if report is None or report.passed else 1
    return 0


if __name__ == "__main__":
    sys.exit(main())
