"""One round of adversarial filtering at MedNLI's size: `python launch/aflite_scale.py [--vectors=FILE --dim=100 ...]`.

The corpus is the demo with as many pairs as MedNLI (14,049). Each hypothesis is represented by the mean of its word
vectors (300-d, random unless a file is given). A round has 64 training subsets of 5,620 rows. The script times the 64
logistic regressions in two ways: all at once by training.logistic (without compilation), and one after the other by
scikit-learn with its default tolerance. The default tolerance stops before the optimum. Therefore held-out predictions
are compared with scikit-learn's at the default tolerance and at 1e-6, where they hardly change any more. The output is
a list of figures and a JSON line. The script takes about two minutes on two cores. On a busy machine scikit-learn is
faster with OPENBLAS_NUM_THREADS=1.
"""

import argparse
import json
import sys
import time

import numpy as np
from sklearn.linear_model import LogisticRegression

from mednli_jax import defaults
from mednli_jax.analysis.artifacts.difficulty import mean_features
from mednli_jax.analysis.subject import Subject
from mednli_jax.examples import LABELS
from mednli_jax.experiment import nli_corpus
from mednli_jax.training import logistic

TIMES_FASTER, AGREEMENT = 10, 0.995


def main() -> int:
    """Print the figures. Returns 1 where the claim does not hold."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--variant", default="demo_full", help="demo_full (14,049 pairs) or demo (4,200)")
    parser.add_argument("--vectors", default="", help="a file of word vectors (default: random vectors)")
    parser.add_argument("--dim", type=int, default=300)
    parser.add_argument("--inputs", default="hypothesis", choices=("hypothesis", "pair"))
    parser.add_argument("--models", type=int, default=64)
    parser.add_argument("--rows", type=int, default=5_620, help="rows of a training subset")
    parser.add_argument("--repeats", type=int, default=3)
    parser.add_argument("--seed", type=int, default=0)
    options = parser.parse_args()
    features, labels = corpus(options)
    rng = np.random.default_rng(options.seed)
    chosen = np.stack([np.sort(rng.permutation(len(labels))[: options.rows]) for _ in range(options.models)])
    print(f"{features.shape[0]:,} x {features.shape[1]}, {options.models} models of {options.rows:,} rows", flush=True)
    first, fits = timed(lambda: logistic.fit(features, labels, chosen))
    ours = [timed(lambda: logistic.fit(features, labels, chosen))[0] for _ in range(options.repeats)]
    print(
        f"together: {np.median(ours):.2f} s ({', '.join(f'{s:.2f}' for s in ours)}), the first time, with compiling, "
        f"{first:.1f} s; {fits.start_passes} + {fits.passes} passes, {fits.converged.sum()} converged",
        flush=True,
    )
    held = np.ones(fits.predicted.shape, bool)
    np.put_along_axis(held, chosen, False, axis=1)
    figures = {
        "rows": len(labels), "dim": features.shape[1], "models": options.models, "subset": options.rows,
        "seconds": float(np.median(ours)), "first_seconds": first, "passes": fits.passes,
        "start_passes": fits.start_passes, "converged": int(fits.converged.sum()),
        "accuracy": float((fits.predicted == labels)[held].mean()),
    }  # fmt: skip
    for name, tolerance, numbers in (("default", 1e-4, np.float32), ("tight", 1e-6, np.float64)):
        seconds, predicted, stopped = one_by_one(features.astype(numbers), labels, chosen, tolerance)
        ratio, same = seconds / figures["seconds"], float((fits.predicted == predicted)[held].mean())
        print(
            f"scikit-learn, {name} tolerance {tolerance:g}: {seconds:.1f} s, {stopped} not converged; "
            f"{ratio:.1f} times our time; held-out predictions agree on {100 * same:.3f} %",
            flush=True,
        )
        accuracy = float((predicted == labels)[held].mean())
        figures[name] = {"seconds": seconds, "ratio": ratio, "agreement": same, "accuracy": accuracy}
    print(json.dumps(figures))
    return 0 if figures["default"]["ratio"] >= TIMES_FASTER and figures["tight"]["agreement"] >= AGREEMENT else 1


def corpus(options) -> tuple[np.ndarray, np.ndarray]:
    """(features float32 [N, D], labels [N])."""
    config = defaults.nli("esim", options.variant, knowledge="replace")
    config.vectors.update(path=options.vectors or None, dim=options.dim)
    subject = Subject(nli_corpus(config))
    features = mean_features(subject, options.inputs).matrix
    return features, np.array([LABELS.index(example.label) for example in subject.examples])


def one_by_one(features, labels, chosen, tolerance) -> tuple[float, np.ndarray, int]:
    """(seconds of fitting and predicting, predicted [n, N], models that reached the limit of iterations)."""
    predicted, stopped, started = [], 0, time.perf_counter()
    for rows in chosen:
        model = LogisticRegression(tol=tolerance, max_iter=5_000).fit(features[rows], labels[rows])
        predicted.append(model.predict(features))
        stopped += int(model.n_iter_.max() >= 5_000)
    return time.perf_counter() - started, np.stack(predicted), stopped


def timed(call):
    started = time.perf_counter()
    result = call()
    return time.perf_counter() - started, result


if __name__ == "__main__":
    sys.exit(main())
