import pickle

import numpy as np
import pytest
import scipy.sparse as sp
from hypothesis import given, settings
from hypothesis import strategies as st

from fullrank.data import Split, given_test, interactions, k_core

TRAIN = sp.csr_matrix(np.array([[1, 1, 0, 0], [0, 1, 1, 0], [0, 0, 0, 1]]))


def split(**changes):
    return Split(**{"train": TRAIN, "users": [0, 1, 1], "items": [3, 0, 3], **changes})


def test_sizes_lookups_and_one_line():
    toy = split(name="toy")
    assert (toy.n_users, toy.n_items, toy.cases, len(toy)) == (3, 4, 3, 3)
    assert toy.targets_per_user.tolist() == [1, 2, 0]
    assert toy.test_users.tolist() == [0, 1]
    assert toy.seen(1).tolist() == [1, 2]
    assert repr(toy) == "Split('toy': 3 users × 4 items, 5 in train, 3 cases of 2 users)"
    assert toy.users.dtype == toy.items.dtype == np.int64


def test_cases_keep_the_order_given():
    toy = split(users=[1, 0, 1], items=[3, 2, 0])
    assert toy.users.tolist() == [1, 0, 1]
    assert toy.items.tolist() == [3, 2, 0]


@pytest.mark.parametrize("kind", [sp.csr_matrix, sp.coo_array, np.asarray])
def test_two_matrices_are_a_split(kind):
    test = np.array([[0, 0, 0, 2], [1, 0, 0, 1], [0, 0, 0, 0]])
    toy = Split(TRAIN, kind(test), name="two")
    assert toy == split()
    assert toy.name == "two"


@pytest.mark.parametrize(
    ("test", "error", "message"),
    [
        (sp.csr_matrix((3, 5)), ValueError, r"`test` has shape \(3, 5\) and `train` \(3, 4\); they must be the same"),
        ([0, 1], TypeError, r"`items` is missing.*matrix of shape \(3, 4\), got a list of shape \(2,\)"),
        (sp.csr_matrix((3, 4)), ValueError, "there are no test cases"),
        (TRAIN, ValueError, r"target item 0 of user 0 \(case 0\) is also in `train` \(and 4 more\); leave .* 'given'"),
    ],
)
def test_a_second_matrix_that_does_not_fit_is_refused(test, error, message):
    with pytest.raises(error, match=message):
        Split(TRAIN, test)


@pytest.mark.parametrize("kind", ["pandas", "polars", "pyarrow", "dict"])
def test_two_frames_are_a_split(kind):
    make = {"dict": lambda x: x, "pandas": lambda x: pytest.importorskip("pandas").DataFrame(x),
            "polars": lambda x: pytest.importorskip("polars").DataFrame(x),
            "pyarrow": lambda x: pytest.importorskip("pyarrow").table(x)}[kind]  # fmt: skip
    train = {"userId": ["b", "a", "a"], "movieId": [10, 20, 30]}
    test = {"user_id": ["a", "c", "a"], "item_id": [10, 40, 10]}
    toy = Split.from_frames(make(train), make(test), name="mine")
    assert toy.user_ids.tolist() == ["a", "b", "c"]
    assert toy.item_ids.tolist() == [10, 20, 30, 40]
    assert (toy.users.tolist(), toy.items.tolist(), toy.seen(0).tolist()) == ([0, 2], [0, 3], [1, 2])
    assert toy.notes == ("1 of the 3 rows of `test` repeat a pair, which counts once.",)
    with pytest.raises(ValueError, match=r"the target item 20 of user a \(case 0\) is also in `train`"):
        Split.from_frames(make(train), make({"user_id": ["a"], "item_id": [20]}))
    with pytest.raises(TypeError, match="`user` holds strings in one of `train` and `test` and numbers in the other"):
        Split.from_frames(make(train), make({"user_id": [1], "item_id": [20]}))
    with pytest.raises(ValueError, match="no column looks like the item"):
        Split.from_frames(make(train), make({"user_id": ["a"], "thing": [20]}))


def test_train_is_made_canonical_without_touching_what_was_given():
    columns = [2, 1, 2]
    given_ = sp.csr_matrix((np.array([1.0, 2.0, 3.0]), np.array(columns), np.array([0, 3])), shape=(1, 4))
    assert not given_.has_canonical_format
    toy = Split(given_, [0], [0])
    assert toy.train.has_canonical_format
    assert toy.train.toarray().tolist() == [[0, 2, 4, 0]]
    assert given_.indices.tolist() == columns


@pytest.mark.parametrize("kind", [sp.csc_matrix, sp.coo_array, sp.csr_array, sp.lil_matrix, np.asarray])
def test_any_matrix_becomes_csr(kind):
    toy = split(train=kind(TRAIN.toarray()))
    assert isinstance(toy.train, sp.csr_matrix)
    assert toy == split()


def test_a_canonical_train_is_shared_not_copied():
    train = TRAIN.astype(np.float32)
    assert np.shares_memory(split(train=train).train.data, train.data)


def test_checksum_sees_everything_but_integer_width_name_and_notes():
    wide = TRAIN.copy()
    wide.indices, wide.indptr = wide.indices.astype(np.int64), wide.indptr.astype(np.int64)
    assert split(train=wide, name="x", notes=["y"]).checksum == split().checksum
    assert split() == split()
    assert hash(split()) == hash(split())
    assert split() != "split"
    others = [
        split(items=[2, 0, 3]),
        split(users=[0, 1, 2], items=[3, 0, 0]),
        split(weights=[1, 2, 2]),
        split(train=TRAIN * 2),
        split(train=sp.csr_matrix(np.c_[TRAIN.toarray(), [0, 0, 0]])),
    ]
    assert len({other.checksum for other in [*others, split()]}) == 6
    assert split().checksum == "fa65ebed42fbf027aafc6aaf4c28ff49fcb9f4c6d9b044f872a8aad2b557060c"


def test_it_survives_pickling():
    toy = split(weights=[1, 2, 2], notes=["a"])
    assert pickle.loads(pickle.dumps(toy)) == toy


def test_an_empty_train_and_users_without_history_are_allowed():
    assert Split(sp.csr_matrix((2, 3)), [0, 1], [0, 0]).seen(1).tolist() == []


@pytest.mark.parametrize(
    ("changes", "message"),
    [
        (
            {"users": [0, 1, 3]},
            r"`users` must be from 0 to 2, since `train` has 3 users, got 3 in case 2",
        ),
        ({"users": [0, -1, 1]}, r"`users` must .*got -1 in case 1"),
        ({"items": [4, 0, 3]}, r"`train` has 4 items, got 4 in case 0"),
        ({"items": [1, 0, 3]}, r"target item 1 of user 0 \(case 0\) is also in `train`; leave"),
        ({"items": [1, 1, 3]}, r"is also in `train` \(and 1 more\)"),
        ({"users": [1, 0, 1], "items": [3, 3, 3]}, r"target item 3 of user 1 appears twice \(case 2 repeats"),
        ({"users": [0, 1]}, r"`users` and `items` must have the same length, got 2 and 3 entries"),
        ({"users": [], "items": []}, r"no test cases"),
        ({"users": [[0, 1, 1]]}, r"`users` must .*shape \(1, 3\)"),
        ({"weights": [1, 1]}, r"`weights` must .*shape \(2,\)"),
        ({"weights": [1, np.nan, 1]}, r"`weights` must .*got nan for user 1 \(case 1\)"),
        ({"weights": [-1, 1, 1]}, r"`weights` must .*got -1.0 for user 0 \(case 0\)"),
        ({"weights": [np.inf, 1, 1]}, r"`weights` must .*got inf for user 0"),
        ({"weights": [0, 0, 0]}, r"`weights` are all 0"),
        ({"weights": [1, 1, 2]}, r"cases of user 1 carry different `weights`"),
        ({"train": sp.csr_matrix((0, 4))}, r"`train` must .*shape \(0, 4\)"),
        ({"train": sp.csr_matrix((3, 0))}, r"`train` must .*shape \(3, 0\)"),
        (
            {"train": sp.csr_matrix(np.array([[np.nan, 1], [0, 1]])), "users": [1], "items": [0]},
            "nan for user 0, item 0",
        ),
        (
            {"train": sp.csr_matrix(([1.0, 0.0], [0, 1], [0, 1, 2]), shape=(2, 2)), "users": [0], "items": [1]},
            r"`train` stores 0 for user 1, item 1; store",
        ),
        ({"user_ids": ["a"]}, r"`user_ids` has shape \(1,\).*shape \(3,\)"),
        ({"item_ids": [1, 2, 3]}, r"`item_ids` has shape"),
        ({"users": np.array([0, 1, 2**63], dtype=np.uint64)}, "must be from 0 to 2, .*got 9223372036854775808"),
    ],
)
def test_bad_input_is_one_sentence(changes, message):
    with pytest.raises(ValueError, match=message) as raised:
        split(**changes)
    assert "\n" not in str(raised.value)


@pytest.mark.parametrize(
    ("changes", "message"),
    [
        ({"users": [0.0, 1.0, 1.0]}, r"`users` must .*got float64 values"),
        ({"users": ["a", "b", "c"]}, r"`users` must .*got <U1 values"),
        ({"items": [True, False, True]}, r"`items` must .*got bool"),
        ({"train": "ml-1m"}, r"`train` must .*got a str"),
        ({"train": [1, 2, 3]}, r"`train` must .*got a list of int64 values and shape \(3,\)"),
        ({"train": TRAIN.astype(complex)}, r"`train` must .*of complex128 values"),
        ({"weights": ["x", "y", "z"]}, r"`weights` must hold numbers"),
        ({"notes": "mine"}, r"`notes` must be a sequence of sentences, got the string 'mine'"),
    ],
)
def test_wrong_types(changes, message):
    with pytest.raises(TypeError, match=message):
        split(**changes)


def test_a_matrix_with_columns_out_of_range_is_refused():
    broken = TRAIN.copy()
    broken.indices = np.array([0, 9, 1, 2, 3], dtype=np.int32)
    with pytest.raises(ValueError, match="`train` is not a valid sparse matrix"):
        split(train=broken)


@pytest.mark.parametrize("user", [-1, 3, 0.5, "a"])
def test_lookup_out_of_range(user):
    with pytest.raises(ValueError, match="must be from 0 to 2"):
        split().seen(user)


# ---- splitters -------------------------------------------------------------------------------------------------------


def pairs(toy):
    rows, columns = toy.train.nonzero()
    return set(zip(rows.tolist(), columns.tolist(), strict=True))


def test_last_by_time_and_ties_go_to_the_later_row():
    users, items, times = [0, 0, 0, 1, 1, 1, 2], [0, 1, 2, 2, 1, 0, 3], [3, 9, 4, 5, 7, 7, 1]
    toy = Split.from_interactions((users, items, None, times), "last")
    assert toy.users.tolist() == [0, 1]
    assert toy.items.tolist() == [1, 0]  # user 1: items 1 and 0 share time 7, item 0 comes later in the data
    assert pairs(toy) == {(0, 0), (0, 2), (1, 2), (1, 1), (2, 3)}


def test_a_repeated_pair_counts_once_at_its_earliest_time():
    # item 0 was met first (time 1) although it comes up again last (time 9)
    toy = Split.from_interactions(([0, 0, 0], [0, 1, 0], None, [1, 5, 9]), "last")
    assert toy.items.tolist() == [1]
    assert toy.train.data.tolist() == [1]


def test_min_items_keeps_small_users_in_train():
    toy = Split.from_interactions(([0, 0, 0, 1, 1], [0, 1, 2, 0, 1]), "random", min_items=3)
    assert toy.test_users.tolist() == [0]
    assert toy.seen(1).tolist() == [0, 1]


def test_last_ratio_takes_the_latest_share():
    toy = Split.from_interactions(([0] * 10, range(10), None, range(10)[::-1]), "last-ratio", share=0.3)
    assert sorted(toy.items.tolist()) == [0, 1, 2]


@pytest.mark.parametrize(
    ("size", "share", "held"), [(2, 0.9, 1), (2, 0.1, 1), (10, 0.25, 3), (3, 0.5, 2), (5, 0.99, 4)]
)
def test_ratio_rounds_half_up_and_leaves_both_sides_something(size, share, held):
    assert Split.from_interactions(([0] * size, range(size)), "ratio", share=share).cases == held


def test_the_random_split_does_not_see_the_order_of_rows_and_follows_its_seed():
    rng = np.random.default_rng(5)
    users, items = rng.integers(0, 50, 900), rng.integers(0, 40, 900)
    order = rng.permutation(900)
    for how in ("random", "ratio"):
        one = Split.from_interactions((users, items), how, rng=3)
        assert Split.from_interactions((users[order], items[order]), how, rng=3) == one
        assert Split.from_interactions((users, items), how, rng=np.random.default_rng(3)) == one
        assert Split.from_interactions((users, items), how, rng=4) != one


def test_leave_one_out_is_uniform():
    counts = np.zeros(5)
    for seed in range(100):
        toy = Split.from_interactions((np.repeat(np.arange(50), 5), np.tile(np.arange(5), 50)), "random", rng=seed)
        counts += np.bincount(toy.items, minlength=5)
    chi_square = ((counts - 1000) ** 2 / 1000).sum()
    assert chi_square < 13.3  # 99 % of chi-square with 4 degrees of freedom


def naive_last(rows):
    """Second, stupid implementation: walk through each user's rows in order of time."""
    first: dict = {}
    for place, (user, item, time) in enumerate(rows):
        if (user, item) not in first or time < first[user, item][0]:
            first[user, item] = (time, place)
    held = {}
    for user in sorted({user for user, _, _ in rows}):
        mine = sorted((time, place, item) for (who, item), (time, place) in first.items() if who == user)
        if len(mine) >= 2:
            held[user] = mine[-1][2]
    return held, {pair for pair in first if held.get(pair[0]) != pair[1]}


@given(st.lists(st.tuples(st.integers(0, 3), st.integers(0, 4), st.integers(0, 3)), min_size=1, max_size=25))
@settings(max_examples=150, deadline=None)
def test_last_equals_a_naive_loop(rows):
    held, rest = naive_last(rows)
    users, items, times = (list(column) for column in zip(*rows, strict=True))
    data = (users, items, None, times)
    if not held:
        with pytest.raises(ValueError, match="nothing to hold out"):
            Split.from_interactions(data, "last", n_users=4, n_items=5)
        return
    toy = Split.from_interactions(data, "last", n_users=4, n_items=5)
    assert dict(zip(toy.users.tolist(), toy.items.tolist(), strict=True)) == held
    assert pairs(toy) == rest


@given(st.lists(st.tuples(st.integers(0, 5), st.integers(0, 6)), min_size=2, max_size=40), st.floats(0.05, 0.95))
@settings(max_examples=100, deadline=None)
def test_every_pair_is_in_exactly_one_half(rows, share):
    users, items = (list(column) for column in zip(*rows, strict=True))
    if max(len({item for who, item in rows if who == user}) for user in users) < 2:
        return
    for how in ("random", "ratio"):
        toy = Split.from_interactions((users, items), how, share=share, n_users=6, n_items=7)
        test = set(zip(toy.users.tolist(), toy.items.tolist(), strict=True))
        assert not test & pairs(toy)
        assert test | pairs(toy) == set(rows)
        assert all(len(toy.seen(user)) for user in toy.test_users)


def test_given_test_takes_pairs_out_of_the_data_or_adds_them():
    inside = given_test(([0, 0, 1], [0, 1, 0]), ([0], [1]))
    outside = given_test(([0, 1], [0, 0]), ([0], [1]))
    assert inside == outside
    assert inside.items.tolist() == [1]


def test_given_test_numbers_strings_jointly_and_keeps_cold_targets():
    toy = given_test({"user": ["b", "a"], "item": ["x", "y"]}, {"user": ["c", "a"], "item": ["w", "x"]})
    assert toy.user_ids.tolist() == ["a", "b", "c"]
    assert toy.item_ids.tolist() == ["w", "x", "y"]
    assert list(zip(toy.users.tolist(), toy.items.tolist(), strict=True)) == [(2, 0), (0, 1)]
    assert pairs(toy) == {(1, 1), (0, 2)}


def test_given_test_with_a_sparse_matrix_keeps_its_positions():
    toy = given_test(TRAIN, ([2], [0]))
    assert toy.train.shape == TRAIN.shape
    assert toy.user_ids is None
    assert given_test(interactions(TRAIN), interactions(([2], [0]), n_users=3, n_items=4)) == toy


def test_a_repeated_pair_counts_once_however_it_is_given():
    data, test = ([0, 0, 0, 1], [1, 1, 2, 0]), ([1, 0, 1], [2, 0, 2])
    given = Split.from_interactions(data, "given", test=test, notes=("mine",))
    frames = Split.from_frames(*({"user": users, "item": items} for users, items in (data, test)))
    assert given == frames
    assert given.train.data.tolist() == [1, 1, 1]
    assert (given.users.tolist(), given.items.tolist()) == ([1, 0], [2, 0])
    note = "1 of the 3 rows of `test` repeat a pair, which counts once."
    assert (given.notes, frames.notes) == (("mine", note), (note,))


@pytest.mark.parametrize(
    "call",
    [
        lambda data, **given: Split.from_frames(data, {"user": [1], "item": [1]}, **given),
        lambda data, **given: Split.from_interactions(data, "given", test={"user": [1], "item": [1]}, **given),
        lambda data, **given: Split.from_interactions(data, "random", **given),
        lambda data, **given: k_core(data, 1, 1, **given),
    ],
)
def test_keywords_that_nobody_reads_are_refused(call):
    data = {"user": [0, 0, 1], "item": [0, 2, 2]}
    for word, value, meant in (("n_item", 10, "'n_items'"), ("usr", "user", "'user")):
        with pytest.raises(TypeError, match=f"`{word}` is not a keyword here; did you mean {meant}"):
            call(data, **{word: value})
    with pytest.raises(TypeError, match=r"is not a keyword here; the keywords are .*user, item, rating, timestamp"):
        call(data, quux=1)
    call(data, user="user", n_items=10)


@pytest.mark.parametrize(
    ("call", "message"),
    [
        (lambda: Split.from_interactions(([0, 0], [0, 1]), "lst"), "`how` must .*got 'lst'"),
        (lambda: Split.from_interactions(([0, 0], [0, 1])), "have no time"),
        (lambda: Split.from_interactions(([0, 0], [0, 1]), "given"), "`test` is missing"),
        (lambda: Split.from_interactions(([0, 0], [0, 1]), "random", test=([0], [1])), "they go together"),
        (lambda: Split.from_interactions(([0, 0], [0, 1]), "ratio", share=1.0), "`share` must .*got 1.0"),
        (lambda: Split.from_interactions(([0, 0], [0, 1]), "ratio", share=np.nan), "`share` must .*got nan"),
        (lambda: Split.from_interactions(([0, 0], [0, 1]), "ratio", share="0.2"), "`share` must .*got '0.2'"),
        (
            lambda: Split.from_interactions(([0, 0], [0, 1]), "random", min_items=1),
            "`min_items` must .*got 1",
        ),
        (lambda: Split.from_interactions(([0, 0], [0, 1]), "random", min_items=3), "no user has 3 or more"),
        (lambda: Split.from_interactions(([], []), "random"), "nothing to hold out"),
        (lambda: Split.from_interactions(([0, 0], [0, 1]), "random", rng=-1), "`rng` must .*got -1"),
        (lambda: given_test(([0, 0], [0, 1]), ([], [])), "no test cases"),
    ],
)
def test_bad_splits(call, message):
    with pytest.raises(ValueError, match=message):
        call()


def test_bad_types_of_splits():
    with pytest.raises(ValueError, match=r"`rng` must .*got 'x'"):
        Split.from_interactions(([0, 0], [0, 1]), "random", rng="x")
    with pytest.raises(TypeError, match="strings in one"):
        given_test(([0, 0], [0, 1]), (["0"], [1]))


# ---- k-core ----------------------------------------------------------------------------------------------------------


def naive_core(rows, users, items):
    rows = set(rows)
    while True:
        kept = {
            (u, i) for u, i in rows if sum(w == u for w, _ in rows) >= users and sum(j == i for _, j in rows) >= items
        }
        if kept == rows:
            return rows
        rows = kept


@given(
    st.lists(st.tuples(st.integers(0, 7), st.integers(0, 7)), min_size=1, max_size=50),
    st.integers(0, 4),
    st.integers(0, 4),
)
@settings(max_examples=150, deadline=None)
def test_k_core_equals_a_naive_loop(rows, users, items):
    expected = naive_core(rows, users, items)
    data = tuple(list(column) for column in zip(*rows, strict=True))
    if not expected:
        with pytest.raises(ValueError, match="nothing is left"):
            k_core(data, users, items)
        return
    core = k_core(data, users, items)
    who = core.users if core.user_ids is None else core.user_ids[core.users]
    what = core.items if core.item_ids is None else core.item_ids[core.items]
    assert set(zip(who.tolist(), what.tolist(), strict=True)) == expected
    assert core.n_users == len(set(who.tolist()))
    assert core.n_items == len(set(what.tolist()))


def test_one_pass_drops_items_first_and_does_not_come_back():
    # item 5 has one user; without it user 1 has one item and goes; item 0 then has one user, and one pass keeps it
    data = ([0, 0, 0, 1, 1, 2, 2], [0, 1, 2, 0, 5, 1, 2])
    once = k_core(data, users=2, items=2, iterate=False)
    assert len(once) == 5
    assert once.item_ids.tolist() == [0, 1, 2]
    assert once.user_ids.tolist() == [0, 2]
    assert len(k_core(data, users=2, items=2)) == 4


def test_k_core_keeps_names_and_times():
    core = k_core({"user": ["a", "a", "b"], "item": ["x", "y", "x"], "time": [1, 2, 3]}, users=2, items=1)
    assert core.user_ids.tolist() == ["a"]
    assert core.item_ids.tolist() == ["x", "y"]
    assert core.timestamps.tolist() == [1, 2]


@pytest.mark.parametrize("bar", [-1, 1.5, True, "2"])
def test_k_core_refuses_strange_bars(bar):
    with pytest.raises(ValueError, match=r"`users` must be a whole number of at least 0"):
        k_core(([0], [0]), users=bar)
