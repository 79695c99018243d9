"""The folds of DisKnE in one program: no slot sees its test, each ends as it would alone, and
finished chunks stay."""

import json
from types import SimpleNamespace

import jax
import numpy as np
import pytest
from support.commands import call_command, config_flag
from support.diskne import seven_diseases
from support.models import as_type

from mednli_jax import defaults, train
from mednli_jax.data.batching import BatchPlan
from mednli_jax.diskne import fit as folds
from mednli_jax.diskne import folds as diskne_folds
from mednli_jax.diskne.corpus import folds_of, write_benchmark
from mednli_jax.diskne.folds import MOST_SEED, FoldBatches, of_code, slot_code
from mednli_jax.diskne.task import DisKnETask, PartRows
from mednli_jax.errors import RunError, UserError
from mednli_jax.report import __main__ as report
from mednli_jax.run import Experiment, experiment_of, load_run
from mednli_jax.rundir import RunDirectory
from mednli_jax.training import devices, state
from mednli_jax.training.loop import Interrupted
from mednli_jax.training.session import Session

SEEDS = (0, 3)
SMALL = {
    "model.hidden_size": 4,
    "vectors.dim": 6,
    "train.epochs": 2,
    "train.batch_size": 16,
    "seeds": SEEDS,
}
# One of the two groups, with all folds of a seed at once.
MEDICAL = {"diskne.categories": ("symptoms", "tests"), "diskne.at_once": 7}
WORDS = SimpleNamespace(shares_words=True)  # replaces a model where batches are made


@pytest.fixture(scope="module")
def folder(tmp_path_factory):
    """The folder of a benchmark with seven diseases."""
    place = tmp_path_factory.mktemp("diskne") / "made"
    return write_benchmark(seven_diseases(), diskne_folds.folds(seven_diseases()), place)


@pytest.fixture(scope="module", autouse=True)
def _one_program():
    """All runs of this file share compiled programs, because compilation takes most of their
    time."""
    made, make = [], Experiment.program

    def program(own, prepared, names):
        made[:] = made or [make(own, prepared, names)]
        return made[0][0], dict(made[0][1])

    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(Experiment, "program", program)
        yield


def config_of(folder, model="bow", **fields):
    config = defaults.diskne(model, "file")
    config.data.dir = str(folder)
    for name, value in {**SMALL, **fields}.items():
        section, _, field = name.rpartition(".")
        (config[section] if section else config)[field] = value
    return config


def loaded(config):
    return experiment_of(config).prepare()[0]


@pytest.fixture(scope="module")
def prepared(folder, tmp_path_factory):
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("MEDNLI_JAX_CACHE", str(tmp_path_factory.getbasetemp() / "cache"))
        return loaded(config_of(folder))


@pytest.mark.parametrize("together", [1, 4])
def test_no_batch_of_a_slot_has_a_row_of_its_test_or_names_its_disease(folder, prepared, together):
    """Checks the rows that reach the device through the task, for every slot over several
    epochs."""
    own = experiment_of(config_of(folder, **{"train.group": together}))
    benchmark, made = seven_diseases(), folds_of(prepared)
    assert [e.uid for e in benchmark.examples] == list(prepared.splits["train"].uids)
    for group in dict.fromkeys(fold.group for fold in made):
        batches = own.scorer.batches(prepared, f"{group}/train", own.batches, shares=1, model=WORDS)
        codes = [
            slot_code(f, seed)
            for f, fold in enumerate(made)
            if fold.group == group
            for seed in SEEDS
        ]
        for epoch in (1, 2):
            plan = batches.epoch(epoch, np.array(codes, np.uint32))
            for place, code in enumerate(codes):
                fold = made[of_code(code)[0]]
                rows = np.concatenate([index[place].ravel() for _, index in plan])
                rows = rows[rows >= 0].tolist()
                assert sorted(rows) == fold.train.tolist()  # each row once and no other row
                assert not set(rows) & {*fold.test.tolist(), *fold.dev.tolist()}


@pytest.mark.parametrize("most", [1, 3])
@pytest.mark.parametrize("shares", [1, 2])
def test_folds_of_other_sizes_have_the_same_batches_and_none_is_empty(most, shares):
    """A batch without rows would be a step of the optimiser that learns from nothing."""
    rng = np.random.default_rng(0)
    member = np.array([rng.permutation(90) < size for size in (80, 33, 61)])
    lengths = rng.integers(1, 13, 90), rng.integers(1, 5, 90)
    plan = BatchPlan(8, (12, 4), shares=shares, max_buckets=most, seeds=SEEDS, epochs=3)
    batches = FoldBatches(*lengths, plan, member=member, group=(0, 1, 2))
    codes = [slot_code(fold, seed) for seed in SEEDS for fold in range(3)]
    for epoch in (1, 2, 3):
        plan = batches.epoch(epoch, codes)
        for place, code in enumerate(codes):
            rows = [index[place][index[place] >= 0] for _, index in plan]
            assert min(map(len, rows)) > 0
            assert (
                sorted(np.concatenate(rows).tolist())
                == np.flatnonzero(member[of_code(code)[0]]).tolist()
            )
        assert all(index.shape == (len(codes), layout.units * shares, 1) for layout, index in plan)
    assert len({layout for layout, _ in plan}) <= 2 * most
    other = batches.epoch(2, codes)
    assert [index.tolist() for _, index in plan] != [index.tolist() for _, index in other]
    for place, code in enumerate(codes):  # a slot's batches are the same in any company
        for (_, all_SQG), (_, one_SQG) in zip(plan, batches.epoch(3, [code]), strict=True):
            np.testing.assert_array_equal(all_SQG[place], one_SQG[0])


def test_what_is_predicted_is_each_row_once_and_coarse_batches_share_a_shape(prepared):
    task, layouts = DisKnETask(), set()
    for chosen, coarse in ((slice(0, None, 3), False), (slice(0, 70), True), (slice(40, 48), True)):
        rows = np.zeros(len(prepared.splits["train"]), bool)
        rows[chosen] = True
        plan = task.prediction(prepared, rows, shares=1, model=WORDS, coarse=coarse).once()
        found = np.concatenate([index.ravel() for _, index in plan])
        assert sorted(found[found >= 0].tolist()) == np.flatnonzero(rows).tolist()
        layouts |= {layout for layout, _ in plan if coarse}
    assert len(layouts) == 1


def test_a_slot_is_scored_on_the_rows_of_its_own_fold():
    """In slot 0 (rows 0 to 2) one positive is found, one missed, one alarm false. Slot 1 (rows 2,
    3) is right."""
    label = np.array([0, 0, 1, 0])
    member = np.array([[1, 1, 1, 0], [0, 0, 1, 1]], bool)
    right, wrong = np.log([0.6, 0.3, 0.1]), np.log([0.3, 0.6, 0.1])
    logits = np.array([[right, wrong, right, wrong], [wrong, wrong, wrong, right]])
    found = DisKnETask().slot_scores(
        PartRows(label, member, 3), logits, [slot_code(0, 5), slot_code(1, 0)]
    )
    assert found["accuracy"]["per_seed"] == [pytest.approx(1 / 3), 1]
    assert found["f1"]["per_seed"] == [pytest.approx(1 / 2), 1]
    np.testing.assert_allclose(
        found["loss"]["per_seed"], [-np.log([0.6, 0.3, 0.3]).mean(), -np.log(0.6)]
    )


@pytest.fixture(scope="module", autouse=True)
def _float64():
    """Adam magnifies rounding errors, so these tests run in float64."""
    draw = state.init_learner
    with jax.enable_x64(True), pytest.MonkeyPatch.context() as patch:
        patch.setattr(state, "init_learner", lambda *given: as_type(draw(*given), np.float64))
        yield


def training_of(config, place, *, resume=False):
    own = experiment_of(config)
    session = Session(RunDirectory.create(place, config.to_dict(), resume=resume), resume=resume)
    return folds.FoldTraining(own, own.prepare()[0], session, **own.trained_by.keywords)


def slots_of(training):
    return {(slot["group"], slot["disease"], slot["seed"]): slot for slot in training.slots}


def check_same(training, whole):
    """Each slot of a training ended as it did in another one."""
    for key, one in slots_of(training).items():
        other = slots_of(whole)[key]
        assert one["test"].keys() == other["test"].keys()
        assert one["best_epoch"] == other["best_epoch"]
        np.testing.assert_allclose(
            list(one["test"].values()), list(other["test"].values()), atol=2e-6, rtol=0
        )
        assert one["dev"]["loss"] == pytest.approx(other["dev"]["loss"], abs=1e-6)


@pytest.fixture(scope="module")
def unbroken(folder, prepared, tmp_path_factory):
    training = training_of(
        config_of(folder, **MEDICAL), tmp_path_factory.mktemp("unbroken") / "run"
    )
    training.run()
    return training


def test_a_slot_ends_as_it_would_alone_and_the_program_of_chunks_is_compiled_once(
    unbroken, folder, tmp_path
):
    whole = unbroken
    first, second = (fold.disease for fold in whole.folds[1:3])
    some = (first, whole.benchmark.names[second].upper())  # by id or by name
    how = {**MEDICAL, "diskne.at_once": 1, "diskne.diseases": some}
    one_by_one = training_of(config_of(folder, **how), tmp_path / "single")
    assert len(one_by_one.chunks) == 2 * len(SEEDS)
    before = len(whole.program.compiled)
    one_by_one.run()
    assert set(slots_of(one_by_one)) == {
        ("medical", of, seed) for of in (first, second) for seed in SEEDS
    }
    check_same(one_by_one, whole)
    assert len(whole.slots) == 7 * len(SEEDS)
    probabilities = [next(iter(slot["test"].values()))[0] for slot in whole.slots]
    assert len(set(probabilities)) > len(probabilities) // 2  # the slots do differ
    # At most four programs for all chunks: training (fitted, and roomy for batches that do not
    # fit), dev and test.
    assert len(one_by_one.program.compiled) - before <= 4


def test_as_many_slots_as_the_memory_holds_are_trained_at_once(
    unbroken, folder, tmp_path, monkeypatch
):
    """Each slot takes 1 MiB here. Chunks are for the memory of the first session, even when a
    resumed run has more."""
    program, batches = unbroken.program, unbroken.batches["medical/train"]
    monkeypatch.setattr(program, "train_bytes", lambda layout, learner, index: len(index) << 20)
    program.optimizer, all_fit = unbroken.optimizers["medical"], 1 << 40
    rooms = ((1, all_fit), (all_fit, 1), (7 << 19, all_fit), (all_fit, all_fit))  # memory, disk
    assert [program.fitting_seeds(batches, 7, *room) for room in rooms] == [1, 1, 3, 7]
    config = config_of(folder, **{**MEDICAL, "diskne.at_once": 0, "seeds": (0,)})

    def interrupted(training, chunk):
        raise Interrupted

    monkeypatch.setattr(folds.FoldTraining, "_train", interrupted)
    for resume, room in ((False, 7 << 19), (True, all_fit)):
        monkeypatch.setattr(devices, "room", lambda device, room=room: room)
        stopped = training_of(config, tmp_path / "run", resume=resume)
        with pytest.raises(Interrupted):
            stopped.run()
        stopped.directory.close()
        assert [len(chunk.slots) for chunk in stopped.chunks] == [3, 2, 2]


def test_train_and_report_from_one_end_to_the_other(folder, tmp_path):
    flags = [
        config_flag("diskne_esim", "file"),
        f"--config.data.dir={folder}",
        "--config.model.name=bow",
    ]
    given = {**SMALL, "seeds": "0,3", **MEDICAL, "diskne.categories": "symptoms,tests"}
    small = [f"--config.{name}={value}" for name, value in given.items()]
    place = tmp_path / "runs" / "BOW"
    code, out, err = call_command(train, *flags, *small, f"--workdir={place}")
    assert (code, str(place / "result.json") in out, "slots done: " in err) == (0, True, True)
    result = json.loads((place / "result.json").read_text())
    assert (result["status"], result["task"], result["seeds"]) == (
        "complete",
        "diskne",
        list(SEEDS),
    )
    scored = result["categories"]["symptoms"]
    assert len(scored["macro"]["per_seed"]) == len(SEEDS)
    assert "Symptoms &gt; Disease" in (place / "report.html").read_text()
    code, out, err = call_command(report, "--table=diskne2", f"--runs={place.parent}")
    assert (code, "Table 2" in out, "macro average" in out) == (0, True, True), err
    assert call_command(report, place)[0] == 0
    with pytest.raises(RunError):
        load_run(place)


REFUSED = {
    "seeds": (MOST_SEED + 1,),
    "diskne.wording": "full",
    "data.dir": "/nowhere",
    "data.name": "snli",
}


@pytest.mark.parametrize(("field", "value"), REFUSED.items())
def test_settings_that_folds_do_not_go_with_are_refused(folder, field, value):
    with pytest.raises(UserError, match=f"{field}|/nowhere"):
        loaded(config_of(folder, **{field: value}))


def test_a_disease_or_category_without_a_fold_is_refused(prepared):
    with pytest.raises(UserError):
        folds.chunks_of(folds.FoldChoice(diseases=("gout",)), SEEDS, prepared)
    some = folds.chunks_of(folds.FoldChoice(categories=("symptoms",)), SEEDS, prepared)
    assert {chunk.group for chunk in some} == {"medical"}
