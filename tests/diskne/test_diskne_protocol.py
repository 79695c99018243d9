"""The folds of DisKnE in one program: no slot sees its test, each ends as it would alone, and
finished chunks stay. A slot is a fold and a seed."""

import contextlib
from types import SimpleNamespace

import jax
import numpy as np
import pytest
from support.commands import call_command, read_json
from support.diskne import seven_diseases
from support.models import as_type

from mednli_jax import experiment as experiments
from mednli_jax import load_run
from mednli_jax.cli import read_config
from mednli_jax.data.batching import BatchSettings
from mednli_jax.diskne.corpus import folds_of, write_benchmark
from mednli_jax.diskne.folds import FoldBatches, FoldChoice, folds, slot_code, slot_of
from mednli_jax.diskne.scorer import DisKnEScorer, FoldRows, FoldTraining, chunks_of
from mednli_jax.errors import RunError, UserError
from mednli_jax.experiment import experiment_of
from mednli_jax.rundir import RunDirectory
from mednli_jax.training import devices, state
from mednli_jax.training.devices import Devices
from mednli_jax.training.loop import Interrupted
from mednli_jax.training.session import Session

SEEDS = (0, 3)
SMALL = {
    "model.hidden_size": 4,
    "vectors.dim": 6,
    "train.epochs": 2,
    "train.batch_size": 16,
    "seeds": SEEDS,
    "diskne.categories": ("symptoms,tests",),  # of the medical group, as a flag gives them
    "diskne.at_once": 7,  # all folds of a seed
}
SHARES_WORDS = SimpleNamespace(shares_words=True)  # replaces a model where batches are made


@pytest.fixture(scope="module")
def folder(tmp_path_factory):
    """The folder of a benchmark with seven diseases."""
    benchmark = seven_diseases()
    place = tmp_path_factory.mktemp("diskne") / "benchmark"
    return write_benchmark(benchmark, folds(benchmark), place)


@contextlib.contextmanager
def devices_of_runs(count):
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(experiments, "Devices", lambda: Devices(jax.local_devices()[:count]))
        yield


@pytest.fixture(scope="module", autouse=True)
def _float64():
    """Adam magnifies rounding errors, so these tests run in float64. Runs have one device."""
    init_learner = state.init_learner

    def in_float64(*arguments):
        return as_type(init_learner(*arguments), np.float64)

    with jax.enable_x64(True), devices_of_runs(1), pytest.MonkeyPatch.context() as patch:
        patch.setattr(state, "init_learner", in_float64)
        yield


@pytest.fixture(scope="module")
def config_of(folder):
    def config_with(**fields):
        config = read_config("diskne_bow:file")
        config.update_from_flattened_dict({"data.dir": str(folder), **SMALL, **fields})
        return config

    return config_with


@pytest.fixture(scope="module")
def prepared(config_of, tmp_path_factory):
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("MEDNLI_JAX_CACHE", str(tmp_path_factory.getbasetemp() / "cache"))
        return experiment_of(config_of()).prepare()[0]


# ---- batches ----


@pytest.mark.parametrize("together", [1, 4])
def test_no_training_batch_of_a_fold_leaks_a_row_of_its_dev_or_test(config_of, prepared, together):
    """Of every slot, the batches that reach the device have the rows of train, each once."""
    experiment = experiment_of(config_of(**{"train.group": together}))
    all_folds = folds_of(prepared)
    for group in ("medical", "terminological"):
        batches = experiment.scorer.batches(
            prepared, f"{group}/train", experiment.batches, shares=1, model=SHARES_WORDS
        )
        numbers = [n for n, fold in enumerate(all_folds) if fold.group == group]
        codes = np.array([slot_code(n, SEEDS[1]) for n in numbers], np.uint32)
        for epoch in (1, 2):
            plan = batches.epoch(epoch, codes)
            for place, number in enumerate(numbers):
                assert rows_of(plan, place) == all_folds[number].train.tolist()


def rows_of(plan, slot):
    """The sorted rows of a slot's batches, without padding."""
    rows = np.concatenate([index[slot].ravel() for _, index in plan])
    return sorted(rows[rows >= 0].tolist())


def test_the_rows_of_prepared_arrays_are_those_of_the_benchmark(prepared):
    uids = [example.uid for example in seven_diseases().examples]
    assert list(prepared.splits["train"].uids) == uids


MEMBER = np.array(
    [np.random.default_rng(0).permutation(90) < size for size in (80, 33, 61)]
)  # bool [folds, rows]
CODES = [slot_code(fold, seed) for seed in SEEDS for fold in range(3)]


@pytest.fixture(params=[(1, 1), (1, 2), (3, 1), (3, 2)], ids="buckets and shares {}".format)
def fold_batches(request):
    """Batches of three folds that have unlike sizes."""
    most_buckets, shares = request.param
    rng = np.random.default_rng(1)
    lengths = rng.integers(1, 13, 90), rng.integers(1, 5, 90)
    settings = BatchSettings(
        8,
        (12, 4),
        shares=shares,
        max_buckets=most_buckets,
        seeds=SEEDS,
        epochs=3,
    )
    return FoldBatches(*lengths, settings, member=MEMBER, folds=(0, 1, 2))


def test_folds_of_unlike_sizes_have_batches_of_the_same_shapes(fold_batches):
    """A batch without rows would be a step of the optimiser that learns from nothing."""
    for epoch in (1, 2, 3):
        plan = fold_batches.epoch(epoch, CODES)
        for layout, index in plan:
            assert index.shape == (len(CODES), layout.group_count * fold_batches.settings.shares, 1)
            assert (index >= 0).any(axis=(1, 2)).all()
        for place, code in enumerate(CODES):
            assert rows_of(plan, place) == np.flatnonzero(MEMBER[slot_of(code).fold]).tolist()
    assert len({layout for layout, _ in plan}) <= 2 * fold_batches.settings.max_buckets


def test_each_epoch_of_a_fold_has_other_batches(fold_batches):
    def batches_of_first_slot(epoch):
        return [index[0].tolist() for _, index in fold_batches.epoch(epoch, CODES)]

    assert batches_of_first_slot(1) != batches_of_first_slot(2)


def test_the_batches_of_a_fold_and_seed_do_not_depend_on_the_others_of_its_program(fold_batches):
    plan = fold_batches.epoch(3, CODES)
    for place, code in enumerate(CODES):
        alone = fold_batches.epoch(3, [code])
        for (_, all_SQG), (_, alone_SQG) in zip(plan, alone, strict=True):
            np.testing.assert_array_equal(all_SQG[place], alone_SQG[0])


@pytest.mark.parametrize(
    "step, coarse",
    [
        (3, False),
        (1, True),
        (5, True),
    ],
)
def test_each_row_that_a_fold_needs_is_predicted_once_and_coarse_batches_share_a_shape(
    prepared, step, coarse
):
    is_wanted = np.arange(len(prepared.splits["train"])) % step == 0
    plan = (
        DisKnEScorer()
        .prediction(prepared, is_wanted, shares=1, model=SHARES_WORDS, coarse=coarse)
        .once()
    )
    index = np.concatenate([index.ravel() for _, index in plan])
    assert sorted(index[index >= 0]) == np.flatnonzero(is_wanted).tolist()
    if coarse:
        assert {layout.group_count for layout, _ in plan} == {64}


def test_a_fold_and_seed_is_scored_on_the_rows_of_its_own_fold():
    """Slot 0 has the rows 0 to 2: a positive that is found, one that is missed, and a false alarm.
    Slot 1 has the rows 2 and 3, which are right."""
    label = np.array([0, 0, 1, 0])
    member = np.array([[1, 1, 1, 0], [0, 0, 1, 1]], bool)
    yes = np.log([0.6, 0.3, 0.1])
    no = np.log([0.3, 0.6, 0.1])
    logits = np.array([[yes, no, yes, no], [no, no, no, yes]])

    scores = DisKnEScorer().slot_scores(
        FoldRows(label, member, 3), logits, [slot_code(0, 5), slot_code(1, 0)]
    )

    assert scores["accuracy"]["per_seed"] == pytest.approx([1 / 3, 1])
    assert scores["f1"]["per_seed"] == pytest.approx([1 / 2, 1])
    losses = [-np.log([0.6, 0.3, 0.3]).mean(), -np.log(0.6)]
    assert scores["loss"]["per_seed"] == pytest.approx(losses)


# ---- training ----


def training_of(config, place, *, resume=False):
    experiment = experiment_of(config)
    directory = RunDirectory.create(place, config.to_dict(), resume=resume)
    session = Session(directory, resume=resume)
    prepared, _ = experiment.prepare()
    return FoldTraining(experiment, prepared, session, **experiment.trained_by.keywords)


def slots_of(training):
    return {(slot["disease"], slot["seed"]): slot for slot in training.slots}


@pytest.fixture(scope="module")
def whole(config_of, tmp_path_factory):
    """The finished training of all folds, on two devices."""
    with devices_of_runs(2):
        training = training_of(config_of(), tmp_path_factory.mktemp("runs") / "BOW")
    training.run()
    training.directory.close()
    return training


@pytest.fixture(scope="module")
def alone(whole, config_of, tmp_path_factory):
    """The finished training of two folds, by id and by name, one slot at a time."""
    by_id = whole.folds[1].disease
    by_name = whole.benchmark.names[whole.folds[2].disease].upper()
    config = config_of(**{"diskne.at_once": 1, "diskne.diseases": (by_id, by_name)})
    training = training_of(config, tmp_path_factory.mktemp("alone") / "run")
    training.run()
    return training


def test_a_chosen_fold_and_seed_trained_with_others_ends_as_it_would_alone(whole, alone):
    slots = slots_of(whole)
    assert len(slots) == 7 * len(SEEDS)
    diseases = [fold.disease for fold in whole.folds[1:3]]
    assert set(slots_of(alone)) == {(disease, seed) for disease in diseases for seed in SEEDS}
    for key, slot in slots_of(alone).items():
        assert slot["best_epoch"] == slots[key]["best_epoch"]
        assert slot["dev"]["loss"] == pytest.approx(slots[key]["dev"]["loss"], abs=1e-6)
        assert slot["test"].keys() == slots[key]["test"].keys()
        for uid, probabilities in slot["test"].items():
            assert probabilities == pytest.approx(slots[key]["test"][uid], abs=2e-6)


def test_folds_and_seeds_of_one_program_predict_differently(whole):
    probabilities = {next(iter(slot["test"].values()))[0] for slot in whole.slots}
    assert len(probabilities) > len(whole.slots) // 2


def test_all_chunks_run_at_most_four_programs(alone):
    """Training (fitted, and full for batches that do not fit), dev and test."""
    assert len(alone.chunks) == 2 * len(SEEDS)
    assert len(alone.program.compiled) <= 4


ENOUGH = 1 << 40


@pytest.fixture
def _a_mebibyte_a_slot(whole, monkeypatch):
    def train_bytes(program, layout, learner, index):
        return len(index) << 20

    monkeypatch.setattr(type(whole.program), "train_bytes", train_bytes)


@pytest.mark.parametrize(
    "memory, disk, slots",
    [
        (1, ENOUGH, 1),
        (ENOUGH, 1, 1),
        (7 << 19, ENOUGH, 3),
        (ENOUGH, ENOUGH, 7),
    ],
)
@pytest.mark.usefixtures("_a_mebibyte_a_slot")
def test_as_many_folds_and_seeds_as_memory_and_disk_hold_are_trained_at_once(
    whole, memory, disk, slots
):
    whole.program.optimizer = whole.optimizers["medical"]
    batches = whole.batches["medical/train"]
    assert whole.program.fitting_seeds(batches, 7, memory, disk) == slots


def test_a_small_step_of_all_folds_fits_into_the_room_of_a_device_and_not_into_a_byte(whole):
    whole.program.optimizer = whole.optimizers["medical"]
    batches = whole.batches["medical/train"]
    for memory, slots in ((1, 1), (devices.room(jax.local_devices()[0]), 7)):
        assert whole.program.fitting_seeds(batches, 7, memory, ENOUGH) == slots


@pytest.mark.usefixtures("_a_mebibyte_a_slot")
def test_a_resumed_run_keeps_its_chunks_where_there_is_more_memory(
    config_of, tmp_path, monkeypatch
):
    def interrupted(*arguments, **options):
        raise Interrupted

    monkeypatch.setattr("mednli_jax.diskne.scorer.Trainer", interrupted)
    config = config_of(**{"diskne.at_once": 0, "seeds": (0,)})
    for resume, memory in ((False, 7 << 19), (True, ENOUGH)):
        monkeypatch.setattr(devices, "room", lambda device, memory=memory: memory)
        training = training_of(config, tmp_path / "run", resume=resume)
        with pytest.raises(Interrupted):
            training.run()
        training.directory.close()
        assert [len(chunk.slots) for chunk in training.chunks] == [3, 2, 2]


@pytest.fixture(scope="module")
def trained(whole, folder):
    """(folder of the run of all folds, stdout, stderr) of the command, which finds them trained."""
    place = whole.directory.folder
    fields = {**SMALL, "seeds": "0,3", "diskne.categories": "symptoms,tests"}
    code, out, err = call_command(
        f"train --config=diskne_bow:file --config.data.dir={folder}",
        *(f"--config.{name}={value}" for name, value in fields.items()),
        f"--workdir={place}",
        "--resume",
    )
    assert code == 0, err
    return place, out, err


def test_train_writes_the_scores_of_each_category(trained):
    place, out, err = trained
    assert str(place / "result.json") in out
    assert "14 slots in 2 chunks, 14 slots done" in err
    result = read_json(place, "result.json")
    assert result["status"] == "complete"
    assert result["task"] == "diskne"
    assert result["seeds"] == list(SEEDS)
    assert len(result["categories"]["symptoms"]["macro"]["per_seed"]) == len(SEEDS)


def test_a_run_has_a_page_and_a_column_of_its_table(trained):
    place, _, _ = trained
    assert "Symptoms &gt; Disease" in (place / "report.html").read_text()
    assert call_command("report", place)[0] == 0
    code, out, err = call_command(f"report --table=diskne2 --runs={place.parent}")
    assert code == 0, err
    assert "Table 2" in out
    assert "macro average" in out


def test_folds_are_not_opened_as_one_model(trained):
    with pytest.raises(RunError):
        load_run(trained[0]).evaluate()


@pytest.mark.parametrize(
    "field, value",
    [
        ("data.dir", "/nowhere"),
        ("data.name", "snli"),
    ],
)
def test_a_corpus_without_folds_is_refused(config_of, field, value):
    with pytest.raises(UserError, match=f"{field}|/nowhere"):
        experiment_of(config_of(**{field: value})).prepare()


def test_a_disease_without_a_fold_is_refused(prepared):
    with pytest.raises(UserError):
        chunks_of(FoldChoice(diseases=("gout",)), SEEDS, prepared)


def test_the_folds_of_a_category_are_those_of_its_group(prepared):
    chunks = chunks_of(FoldChoice(categories=("symptoms",)), SEEDS, prepared)
    assert {chunk.group for chunk in chunks} == {"medical"}
