"""The masked language model: loss and gradients of the reference, the choice of masked pieces, stored weights."""

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from test_bert import FACTS, parameters

from mednli_jax.models import bert_import, masked_lm
from mednli_jax.models.bert import BERT, STATES, rows_of_pairs
from mednli_jax.models.layers import SIDES
from mednli_jax.models.masked_lm import MaskedLM
from mednli_jax.training.step import row_keys

GOLDEN = np.load(bert_import.Path(__file__).parents[1] / "golden" / "golden_mlm.npz", allow_pickle=False)
SIZES = {ours: FACTS["sizes"][theirs] for theirs, ours in bert_import.SIZES.items()}
MODEL = MaskedLM(**SIZES, cls_id=FACTS["cls"], sep_id=FACTS["sep"], mask_id=1, dropout=0.0)


def golden_parameters(kind):
    """Our parameter tree from the reference's arrays: BERT's encoder and the head."""

    def weight(name):
        absent = name.startswith(("bert.pooler", "classifier"))
        return np.zeros((1, 1), np.float32) if absent else GOLDEN[f"{kind}/{name}"]

    tree = {name: part for name, part in parameters(weight).items() if name not in ("pooler", "logits")}
    head = "cls.predictions"
    tree["transform"] = {
        "kernel": weight(f"{head}.transform.dense.weight").T,
        "bias": weight(f"{head}.transform.dense.bias"),
    }
    norm = f"{head}.transform.LayerNorm"
    tree["norm_transform"] = {"scale": weight(f"{norm}.weight"), "bias": weight(f"{norm}.bias")}
    return {**tree, "decoder_bias": weight(f"{head}.bias")}


def test_loss_and_gradients_equal_the_reference(monkeypatch):
    given = tuple(jnp.asarray(GOLDEN[name]) for name in ("given", "places", "predicted"))
    monkeypatch.setattr(masked_lm, "masked", lambda *_: given)
    with jax.enable_x64(True):
        params = jax.tree.map(lambda leaf: jnp.asarray(leaf, jnp.float64), golden_parameters("weight"))
        batch = {name: jnp.asarray(GOLDEN[name]) for side in SIDES for name in (side, f"{side}_length")}
        batch |= {"mask": jnp.ones(5), "row_number": jnp.arange(5)}

        def loss(params):
            loss_B, _, count_B = MODEL.apply({"params": params}, batch, train=False).T
            return (loss_B * count_B).sum() / count_B.sum()

        value, gradient = jax.jit(jax.value_and_grad(loss))(params)
        assert value == pytest.approx(float(GOLDEN["loss"]), abs=1e-10)
        golden = golden_parameters("gradient")
        assert jax.tree.structure(golden) == jax.tree.structure(gradient)
        for (path, ours), theirs in zip(
            jax.tree_util.tree_leaves_with_path(gradient), jax.tree.leaves(golden), strict=True
        ):
            np.testing.assert_allclose(ours, theirs, rtol=1e-5, atol=1e-5, err_msg=jax.tree_util.keystr(path))


# ---- what is masked ----

CLS, SEP, MASK, WORDS = 2, 3, 1, 1000


def rows(count=2000, width=(40, 20), seed=0):
    rng = np.random.default_rng(seed)
    batch = {
        "premise": rng.integers(4, WORDS, (count, width[0])),
        "hypothesis": rng.integers(4, WORDS, (count, width[1])),
        "premise_length": rng.integers(0, 41, count),
        "hypothesis_length": rng.integers(0, 21, count),
    }
    return {name: jnp.asarray(array, jnp.int32) for name, array in batch.items()}


def masked_of(batch, step=0, size=63, seed=0):
    row = rows_of_pairs(batch | {"mask": jnp.ones(len(batch["premise"]))}, CLS, SEP, size)
    keys_B2 = jax.vmap(jax.random.key_data)(row_keys(seed, step, jnp.arange(len(batch["premise"]))))
    return row, *masked_lm.masked(row, keys_B2, MASK, WORDS)


def test_fifteen_of_a_hundred_pieces_are_predicted_in_three_ways():
    row, given_BT, places_BM, predicted_BM = (
        jnp.asarray(x) if not hasattr(x, "real_BT") else x for x in masked_of(rows())
    )
    gold_BM, seen_BM = (np.asarray(jnp.take_along_axis(x, places_BM, axis=1)) for x in (row.pieces_BT, given_BT))
    predicted_BM, own_BT = np.asarray(predicted_BM), np.asarray(row.premise_BT | row.hypothesis_BT)
    length_B = own_BT.sum(axis=1)
    np.testing.assert_array_equal(predicted_BM.sum(axis=1), masked_lm.predicted_pieces(length_B))
    assert predicted_BM.sum() / length_B.sum() == pytest.approx(0.15, abs=0.005)
    gold, seen = gold_BM[predicted_BM], seen_BM[predicted_BM]
    assert (seen == MASK).mean() == pytest.approx(0.8, abs=0.01)
    assert (seen == gold).mean() == pytest.approx(0.1, abs=0.01)
    other = seen[(seen != MASK) & (seen != gold)]
    assert len(np.unique(other)) > WORDS / 2  # drawn from all pieces
    changed_BT = np.asarray(given_BT != row.pieces_BT)
    assert not changed_BT[~own_BT].any()  # neither special pieces nor padding change
    assert changed_BT.sum() == (seen != gold).sum()
    where = np.bincount(np.asarray(places_BM)[predicted_BM], minlength=63)[1:20]
    assert where.max() < 1.4 * where.min()  # all places are equally likely


@pytest.mark.parametrize(("length", "predicted"), [(0, 0), (1, 1), (3, 1), (9, 1), (10, 2), (20, 3), (100, 15)])
def test_a_short_row_predicts_one_piece_at_least(length, predicted):
    assert int(masked_lm.predicted_pieces(length)) == predicted


def test_what_is_masked_depends_on_the_row_and_the_step_alone():
    batch = rows(50)
    whole = np.asarray(masked_of(batch)[1])
    wider = {name: jnp.pad(x, ((0, 0), (0, 7))) if x.ndim == 2 else x for name, x in batch.items()}
    np.testing.assert_array_equal(np.asarray(masked_of(wider, size=77)[1])[:, :63], whole)
    np.testing.assert_array_equal(masked_of({name: x[:20] for name, x in batch.items()})[1], whole[:20])
    assert (np.asarray(masked_of(batch, step=1)[1]) != whole).any()
    assert (np.asarray(masked_of(batch, seed=1)[1]) != whole).any()


def test_dev_masks_the_same_places_each_time():
    batch = rows(8, width=(8, 4)) | {"mask": jnp.ones(8), "row_number": jnp.arange(8)}
    batch |= {f"{side}_length": jnp.minimum(batch[f"{side}_length"], batch[side].shape[1]) for side in SIDES}
    model = MaskedLM(**(SIZES | {"vocab_size": WORDS}), cls_id=CLS, sep_id=SEP, mask_id=MASK)
    params = model.init({"params": jax.random.key(0)}, batch, train=False)
    first = model.apply(params, batch, train=False)
    np.testing.assert_array_equal(model.apply(params, batch, train=False), first)
    other = model.apply(params, batch | {"row_number": jnp.arange(8, 16)}, train=False)
    assert (np.asarray(other)[:, 0] != np.asarray(first)[:, 0]).any()


# ---- weights ----


def drawn(model, batch):
    return model.init({"params": jax.random.key(3)}, batch, train=False)["params"]


def small_batch():
    batch = rows(4, width=(8, 4)) | {"mask": jnp.ones(4), "row_number": jnp.arange(4)}
    batch = {name: x % 20 if name in SIDES else x for name, x in batch.items()}
    return batch | {f"{side}_length": jnp.minimum(batch[f"{side}_length"], batch[side].shape[1]) for side in SIDES}


def write_weights(folder, params, model):
    for name, content in bert_import.weight_files(params, vars(model)).items():
        (folder / name).write_bytes(content)


def test_written_weights_are_read_again(tmp_path):
    params = golden_parameters("weight")
    write_weights(tmp_path, params, MODEL)
    assert bert_import.read_architecture(tmp_path) == SIZES | {"epsilon": 1e-12, "activation": "gelu"}
    batch = small_batch()
    again, unused, lacking = bert_import.load_weights(tmp_path, drawn(MODEL, batch))
    assert (unused, lacking) == ([], [])
    jax.tree.map(np.testing.assert_array_equal, again, params)


def test_weights_without_a_pooler_or_a_decoder_leave_these_as_they_were_drawn(tmp_path):
    batch, fields = small_batch(), {"cls_id": FACTS["cls"], "sep_id": FACTS["sep"], **SIZES}
    bert = BERT(**fields)
    write_weights(tmp_path, golden_parameters("weight"), MODEL)
    params, unused, lacking = bert_import.load_weights(tmp_path, before := drawn(bert, batch))
    assert lacking == ["pooler"]
    assert all(name.startswith("cls.predictions") for name in unused)
    jax.tree.map(np.testing.assert_array_equal, params["pooler"], before["pooler"])
    np.testing.assert_array_equal(
        params["embeddings"]["words"], GOLDEN["weight/bert.embeddings.word_embeddings.weight"]
    )
    (tmp_path / "bert").mkdir()
    write_weights(tmp_path / "bert", params, bert)
    again, unused, lacking = bert_import.load_weights(tmp_path / "bert", before := drawn(MODEL, batch))
    assert (unused, lacking) == (["pooler.dense.bias", "pooler.dense.weight"], ["transform"])
    np.testing.assert_array_equal(again["decoder_bias"], before["decoder_bias"])


def test_the_transformers_library_reads_the_weights(tmp_path):
    transformers, torch = pytest.importorskip("transformers"), pytest.importorskip("torch")
    write_weights(tmp_path, golden_parameters("weight"), MODEL)
    theirs = transformers.BertModel.from_pretrained(tmp_path, attn_implementation="eager").eval()
    batch = small_batch()
    row = rows_of_pairs(batch, FACTS["cls"], FACTS["sep"], 15)
    numbers, real, second = (torch.tensor(np.asarray(x)).long() for x in (row.pieces_BT, row.real_BT, row.second_BT))
    with torch.no_grad():
        states = theirs(numbers, attention_mask=real, token_type_ids=second).last_hidden_state.numpy()
    bert = BERT(cls_id=FACTS["cls"], sep_id=FACTS["sep"], dropout=0.0, **SIZES)
    params = bert_import.load_weights(tmp_path, drawn(bert, batch))[0]
    _, made = bert.apply({"params": params}, batch, train=False, mutable=[STATES])
    kept = np.asarray(row.real_BT)
    np.testing.assert_allclose(np.asarray(made[STATES]["last"][0])[kept], states[kept], rtol=0, atol=1e-5)
