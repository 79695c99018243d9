"""`python -m mednli_jax.evaluate`: scores of a finished run, or of any system's answers.

From Python: `load_run(dir).predict([(p, h), ...])`.
"""

import json
import sys
from pathlib import Path

from absl import flags

from mednli_jax import cli
from mednli_jax.errors import UserError
from mednli_jax.examples import LABELS

USAGE = """Score a finished run on a split of its corpus with the best parameters of each seed, or any system's answers.

  python -m mednli_jax.evaluate --run=runs/esim_kd-demo --split=test
  python -m mednli_jax.evaluate --run=runs/esim_kd-demo --split=dev --json
  python -m mednli_jax.evaluate --run=runs/esim-snli --config=configs/esim.py:mednli
  python -m mednli_jax.evaluate --run=runs/esim-mednli --partition=easy.txt,difficult.npy
  python -m mednli_jax.evaluate --predictions=answers.jsonl --corpus=clicr --vectors=glove.txt

  --run=DIR       the run directory
  --config=FILE[:VARIANT]   another corpus: of this config the data section counts (direct transfer); of its files the
                            one of --split is needed
  --workdir=DIR   with --config: keep scores and predictions there, as a run that `report` reads
  --split=NAME    train, dev or test (default: test)
  --partition=FILE[,FILE]   also the split's pairs that a file names, one id a line or an .npy of strings
  --predictions=FILE        answers to cloze queries, lines {"uid": ..., "answer": ...} or one object {uid: text}; with
  --corpus=NAME|FOLDER      demo_cloze, clicr, or a folder in its layout (queries without an answer count as wrong),
  of --predictions and of --run of a cloze run alike:
  --vectors=FILE            word vectors for the embedding score
  --skills=FILE             skills that queries need, uid TAB skill, for scores by skill
  --scores=FILE             also write what each query scores, JSON lines over older ones; of several seeds, the mean
  --json          all scores as one JSON object"""


def define(values: cli.Flags) -> None:
    flags.DEFINE_string("run", None, "run directory", flag_values=values)
    cli.define_config(values)
    flags.DEFINE_string("split", "test", "split to score", flag_values=values)
    flags.DEFINE_list("partition", [], "files of ids", flag_values=values)
    flags.DEFINE_string("workdir", None, "run directory to write", flag_values=values)
    flags.DEFINE_string("predictions", None, "file of answers", flag_values=values)
    flags.DEFINE_string("corpus", None, "cloze corpus", flag_values=values)
    flags.DEFINE_string("vectors", None, "word vectors", flag_values=values)
    flags.DEFINE_string("skills", None, "skills of cloze queries", flag_values=values)
    flags.DEFINE_string("scores", None, "file of scores to write", flag_values=values)
    flags.DEFINE_bool("json", False, "print JSON", flag_values=values)


def load_run(folder):
    """Opens a finished run (trained.TrainedRun): `.predict(pairs)`, `.scores(split)`, `.result`, `.config`."""
    from mednli_jax import trained

    return trained.load_run(folder)


def main(values: cli.Flags) -> None:
    if values.predictions is not None:
        score_answers(values)
        return
    folder = cli.required(values, "run", "--run=runs/esim_kd-demo")
    elsewhere = cli.config(values) if values.config is not None else None
    if values.workdir and elsewhere is None:
        raise UserError("E-USE-016 --workdir keeps what --config asks for. Fix: give --config too, or leave it out.")
    from mednli_jax.corpora.nli.partitions import read_partitions

    parts = read_partitions(values.partition)
    from mednli_jax import experiment, trained

    experiment.use_compile_cache()
    run = trained.load_run(folder)
    if run.task.name == "cloze":
        score_queries(values, run)
        return
    _refuse(values, ("vectors", "skills", "scores"), "is of cloze queries, and the run of sentence pairs")
    if elsewhere is not None and elsewhere.task != "nli":
        raise UserError("E-USE-023 --config is of cloze queries, and the run of sentence pairs. Fix: give another.")
    if elsewhere is None:
        corpus, there = run.result["corpus"], run.own()
    else:
        corpus, there = cli.corpus_name(elsewhere), run.on(elsewhere.data, values.split)
        if values.workdir:
            there.write(Path(values.workdir).expanduser(), corpus)
    scores, _ = there.scores(values.split)
    found = {part.name: _beside(there.partition_scores(values.split, part)) for part in parts}
    if not values.json:
        print("\n".join([*_table(scores, run.result, corpus, values.split), *_partition_table(scores, found)]))
        return
    about = {"run": str(folder), "corpus": corpus, "trained_on": run.result["corpus"], "split": values.split}
    told = {**about, "seeds": run.result["seeds"], **_beside(scores)}
    print(json.dumps({**told, "partitions": found} if parts else told, indent=2))


def score_queries(values: cli.Flags, run) -> None:
    """Scores of a run on the cloze queries of its corpus."""
    _refuse(values, ("config", "workdir"), "asks for another corpus, and a cloze run is scored on its own alone")
    _refuse(values, ("partition",), "is of sentence pairs, and the run of cloze queries")
    from mednli_jax import answers
    from mednli_jax.analysis.cloze import tables as cloze_tables
    from mednli_jax.analysis.cloze.skills import read_skills
    from mednli_jax.files import write_over
    from mednli_jax.metrics import wilson_interval

    skills = read_skills(Path(values.skills).expanduser()) if values.skills else None
    there = run.own()
    if values.vectors and values.split in there.prepared.splits:
        _give_words(there, values.split, values.vectors)
    scores, logits = there.scores(values.split)
    if values.scores or skills:
        rows = there.prepared.splits[values.split]
        queries, words = rows.queries(), rows.words or ()
        each = [answers.query_scores(queries, run.task.answers(rows, part), *words) for part in logits]
        if skills:
            named = answers.slices(queries, skills).get("skill", {})
            found = {name: cloze_tables.seed_scores(each, places) for name, places in named.items()}
            scores = {**scores, "families": {**scores["families"], "skill": found}}
        if values.scores:
            lines = (json.dumps(row) + "\n" for row in cloze_tables.mean_rows(each))
            write_over(Path(values.scores).expanduser(), "".join(lines), '{"uid": ')
    corpus, seeds = run.result["corpus"], run.result["seeds"]
    if values.json:
        low, high = wilson_interval(round(scores["accuracy"]["mean"] * scores["examples"]), scores["examples"])
        about = {"run": str(run.directory.folder), "corpus": corpus, "split": values.split, "seeds": seeds}
        print(json.dumps({**about, **scores, "interval": {"low": low, "high": high, "level": 0.95}}, indent=2))
        return
    title = (
        f"{run.result['model']} on {corpus}, {values.split}, seed{'s' * (len(seeds) > 1)} {', '.join(map(str, seeds))}"
    )
    print("\n".join([*cloze_tables.run_lines(title, scores), *run.result["notes"]]))


def _give_words(there, split, path):
    """Word vectors for the embedding score of a split."""
    from dataclasses import replace

    from mednli_jax.baselines.entity import known_vectors

    rows = there.prepared.splits[split]
    texts = {answer.text for query in rows.queries() for answer in query.answers}
    texts |= {phrase for row in range(len(rows)) for phrase in rows.candidates(row)}
    known = replace(rows, words=known_vectors(path, (), sorted(texts)))
    there.prepared = replace(there.prepared, splits={**there.prepared.splits, split: known})


def _refuse(values, names, why):
    for name in names:
        if values[name].value:
            raise UserError(f"E-USE-024 --{name} {why}. Fix: leave it out.")


def score_answers(values: cli.Flags) -> None:
    """Scores of answers to cloze queries, whoever gave them."""
    given = [name for name in ("run", "config", "workdir", "partition") if values[name].value]
    if given:
        flag = given[0]
        raise UserError(f"E-CLZ-071 --{flag} has no meaning beside --predictions. Fix: leave one of them out.")
    name = cli.required(values, "corpus", "--corpus=demo_cloze, clicr or a folder")
    from mednli_jax import answers
    from mednli_jax.analysis.cloze import tables as cloze_tables
    from mednli_jax.analysis.cloze.skills import read_skills
    from mednli_jax.baselines.entity import known_vectors
    from mednli_jax.files import write_over

    examples = cloze_tables.split_of(cloze_tables.corpus(name), values.split).examples
    said = cloze_tables.read_answers(Path(values.predictions).expanduser(), examples)
    skills = read_skills(Path(values.skills).expanduser()) if values.skills else None
    vocab = vectors = None
    if values.vectors:
        texts = [*said.values(), *(text for example in examples for text in answers.texts(example))]
        vocab, vectors = known_vectors(values.vectors, (), texts)
    each = answers.query_scores(examples, said, vocab, vectors)
    scores = answers.figures(examples, each, skills)
    if values.scores:
        lines = (json.dumps(row) + "\n" for row in answers.rows(each))
        write_over(Path(values.scores).expanduser(), "".join(lines), '{"uid": ')
    if values.json:
        about = {"predictions": values.predictions, "corpus": name, "split": values.split}
        print(json.dumps({**about, **scores}, indent=2))
    else:
        print("\n".join(cloze_tables.lines(f"{values.predictions} on {name}, {values.split}", scores)))


def _beside(scores):
    """The scores, the 95 % interval of one run's accuracy, and the share of the pairs' most frequent label."""
    if not scores["examples"]:
        return scores
    from mednli_jax.metrics import majority_share, wilson_interval

    low, high = wilson_interval(round(scores["accuracy"]["mean"] * scores["examples"]), scores["examples"])
    interval = {"low": low, "high": high, "level": 0.95}
    return {**scores, "interval": interval, "majority": majority_share(scores["per_class"])}


def _partition_table(scores, found):
    """A line for each partition, beside the whole split."""
    if not found:
        return
    width = max(map(len, ("partition", *found))) + 2
    heading = f"{'partition':{width}} {'pairs':>7} {'majority':>8} {'accuracy':>8} {'less all':>8}"
    yield f"{heading}  95 % interval of one run"
    for name, part in found.items():
        if not part["examples"]:
            yield f"{name:{width}} {0:>7}"
            continue
        accuracy, low, high = part["accuracy"]["mean"], part["interval"]["low"], part["interval"]["high"]
        difference = accuracy - scores["accuracy"]["mean"]
        figures = f"{part['examples']:>7,} {part['majority']:>8.4f} {accuracy:>8.4f} {difference:>+8.4f}"
        yield f"{name:{width}} {figures}  {low:.4f}-{high:.4f}"


def _table(scores, result, corpus, split):
    from mednli_jax.metrics import wilson_interval

    accuracy, pairs = scores["accuracy"], scores["examples"]
    low, high = wilson_interval(round(accuracy["mean"] * pairs), pairs)
    several = len(result["seeds"]) > 1
    seeds = ("seeds " if several else "seed ") + ", ".join(map(str, result["seeds"]))
    trained = "" if corpus == result["corpus"] else f", trained on {result['corpus']}"
    yield f"{result['model']}{trained} on {corpus}, {split}: {pairs:,} pairs, {seeds}"
    sd = f"sd {accuracy['sd']:.4f}; " if several else ""  # of one seed it says nothing
    yield f"accuracy {accuracy['mean']:.4f} ({sd}95 % interval of one run {low:.4f}-{high:.4f})"
    text = f"macro F1 {scores['macro_f1']['mean']:.4f}, loss {scores['loss']['mean']:.4f}, "
    yield text + f"expected calibration error {scores['calibration']['ece']['mean']:.4f}"
    yield f"{'':14} {'precision':>9} {'recall':>7} {'F1':>7}   predicted " + " ".join(f"{n[:7]:>8}" for n in LABELS)
    for label, row in zip(LABELS, scores["confusion"], strict=True):
        s = scores["per_class"][label]
        counts = " ".join(f"{n:>8}" for n in row)
        yield f"{label:14} {s['precision']:>9.4f} {s['recall']:>7.4f} {s['f1']:>7.4f}   {'':9} {counts}"
    if several:
        yield f"predicted: pairs summed over the {len(result['seeds'])} seeds"
    if "slices" in scores:
        for name, s in scores["slices"].items():
            yield f"{name}: accuracy {s['accuracy']['mean']:.4f} ({s['examples']:,} pairs)"
    yield from result["notes"]


if __name__ == "__main__":
    sys.exit(cli.run(main, USAGE, define))
