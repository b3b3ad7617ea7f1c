"""`make chaos RUNS=100 FROM=0`: one run for each seed, up to the first anomaly."""

import argparse
import shutil
import sys
import time
from pathlib import Path

from tests.cluster.chaos.plan import plan
from tests.cluster.chaos.run import run_rounds


def main() -> int:
    """0 if all runs are clean; the directory of a run that is not is kept."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--runs", type=int, default=100, help="the number of seeds")
    parser.add_argument("--from", type=int, default=0, dest="first", help="the first seed")
    parser.add_argument("--directory", type=Path, default=Path("chaos-runs"))
    parser.add_argument("--keep", action="store_true", help="keep the files of clean runs too")
    arguments = parser.parse_args()
    acknowledged = 0
    for seed in range(arguments.first, arguments.first + arguments.runs):
        directory = (arguments.directory / f"seed-{seed}").absolute()
        shutil.rmtree(directory, ignore_errors=True)
        begin = time.monotonic()
        try:
            outcome = run_rounds(seed, plan(seed), directory, lambda line: _say(f"  {line}"))
        except Exception as error:  # noqa: BLE001 - told with the seed, and the runs end
            _say(f"seed {seed}: {type(error).__name__}: {error}; kept in {directory}")
            return 1
        _say(f"seed {seed}: {outcome.verdict}; {time.monotonic() - begin:.0f} s")
        if outcome.verdict.anomalies:
            _say(f"kept in {directory}")
            return 1
        acknowledged += outcome.verdict.acknowledged
        if not arguments.keep:
            shutil.rmtree(directory)
    _say(f"{arguments.runs} runs, {acknowledged} records acknowledged, no anomaly")
    return 0


def _say(line: str) -> None:
    sys.stdout.write(f"{line}\n")
    sys.stdout.flush()


if __name__ == "__main__":
    sys.exit(main())
