"""Do the demo's 95 % intervals hold its own full ranking in 95 %? The demo over many seeds.

python benchmarks/demo.py [--seeds 60] [--first 0]
"""

from __future__ import annotations

import argparse

from fullrank.demo import run


def main() -> None:
    parser = argparse.ArgumentParser(description="Coverage of the demo's intervals over seeds.")
    parser.add_argument("--seeds", type=int, default=60)
    parser.add_argument("--first", type=int, default=0, help="the first seed")
    options = parser.parse_args()
    held = bounded = total = 0
    for seed in range(options.first, options.first + options.seeds):
        demo = run(seed)
        for row in demo.corrected.rows:
            true = demo.truth.value(row["model"], row["metric"])
            held += row["low"] <= true <= row["high"]
            bounded += row["bounds"][0] <= true <= row["bounds"][1]
            total += 1
    print(f"{options.seeds} seeds: intervals hold in {held} of {total} ({held / total:.1%}), bounds in {bounded}.")


if __name__ == "__main__":
    main()
