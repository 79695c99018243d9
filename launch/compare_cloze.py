"""A reader against the baselines of the most frequent phrase, by paired bootstrap over queries and
seeds.

  python launch/compare_cloze.py --runs=runs/clicr
  python launch/compare_cloze.py --runs=runs/clicr --run=ga_ent --json

--runs: the folder that launch/clicr.sh wrote, with predictions of the run and answers of the baselines. No text
is printed.
"""

import argparse
import json
import sys
from pathlib import Path

from mednli_jax import cli
from mednli_jax.cloze import scores
from mednli_jax.cloze.tables import comparison_section
from mednli_jax.report.sections import lines


def against_baselines(folder: Path, split: str, run: str) -> list[dict]:
    """Each baseline of the most frequent phrase less a run of the folder: rows of
    scores.comparison."""
    queries, rows = scores.queries_of(folder / run, split), []
    reader = scores.finished(folder / run, split, queries)
    for name in ("maxfreq-entity", "maxfreq-entity-not_in_the_query"):
        said = scores.read_answers(
            folder / "baselines" / "private" / f"{name}.{split}.jsonl", queries
        )
        baseline = scores.scored_system(name, reader.corpus, queries, [said])
        rows.append({**scores.comparison(reader, baseline), "split": split})
    return rows


def main() -> int:
    form = argparse.RawDescriptionHelpFormatter
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=form, allow_abbrev=False)
    parser.add_argument(
        "--runs", type=cli.path, required=True, help="folder of the runs and the baselines"
    )
    parser.add_argument("--run", default="ga_anonym", help="the run (default ga_anonym)")
    parser.add_argument("--split", default="test", help="queries (default test)")
    parser.add_argument("--json", action="store_true", help="print JSON")
    options = parser.parse_args()

    def compare() -> None:
        found = against_baselines(options.runs, options.split, options.run)
        print(
            json.dumps(found, indent=2)
            if options.json
            else "\n".join(lines(comparison_section(found)))
        )

    return cli.script(compare)


if __name__ == "__main__":
    sys.exit(main())
