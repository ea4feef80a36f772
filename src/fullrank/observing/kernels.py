"""The inner loops of observing, compiled: ties, draws, scores and counts, each decided in exactly one place.

Three promises hold for everything in this file.

* **One order.** Whether an item is ranked above a target is decided by :func:`beats` and nothing else. Tied scores are
  ordered by a 64-bit key of (seed, user, item), the same in every design, so that sampled and exhaustive ranks agree.
* **Negatives depend on nothing but the case.** Draw k of case (user, target) is a hash of (seed, user, target, k): the
  same for every model, whatever the batch, the thread or the restart, and a longer sample begins with the shorter one.
* **One arithmetic.** The score of (user, item) is a fixed sequence of roundings, the same for a gathered item, a target
  and a whole row. Matrix products only sort out the clear cases: what lies within their rounding error of the target's
  score is scored again by :func:`dot_rows` (see :func:`count_tile`), so ranks do not depend on the BLAS or its threads.

Kernels release the GIL and hold no state; threads are the caller's. Nothing is compiled before it is first used, and
what is compiled is kept on disk.
"""

from __future__ import annotations

from typing import Any, NamedTuple

import numpy as np
from llvmlite import ir
from numba import njit, types
from numba.core import cgutils
from numba.extending import intrinsic, overload

__all__ = [
    "CHUNK",
    "NAN_SCORE",
    "NO_CANDIDATE",
    "OPTIMISTIC",
    "PESSIMISTIC",
    "RANDOM",
    "Cases",
    "DenseItemModel",
    "FactorModel",
    "RowModel",
    "Rules",
    "Scratch",
    "SparseItemModel",
    "SparseRowModel",
    "beats",
    "by_norm",
    "choose_courses",
    "count_batch",
    "count_tile",
    "exhaust",
    "fill_draws",
    "next_goals",
    "order_targets",
    "prepare",
    "row_norms",
    "sample",
]

#: How tied scores are ordered.
RANDOM, OPTIMISTIC, PESSIMISTIC = 0, 1, 2
#: What can be wrong with a user.
NAN_SCORE, NO_CANDIDATE = 1, 2
#: Items scored at a time: small enough for the nearest cache; counts up to it are exact in float32.
CHUNK = 1024
#: Scores looked at more closely where some of a chunk are too near to the target's.
FINE = 64
#: How many gathered rows are asked for ahead of the one being scored.
AHEAD = 16
#: Lanes of the fixed summation order of :func:`dot_rows`.
LANES = 8

_GOLDEN = np.uint64(0x9E3779B97F4A7C15)
_MIX_1 = np.uint64(0xBF58476D1CE4E5B9)
_MIX_2 = np.uint64(0x94D049BB133111EB)
_ODD = np.uint64(0xD1342543DE82EF95)
_LOW_32 = np.uint64(0xFFFFFFFF)
_TWO_32 = np.uint64(1 << 32)

Array = Any  # numba sees the concrete type; mypy cannot

# Kernels own no memory (callers pass in what they work on), so nothing is reference-counted: with it, a third of the time
# went into atomic increments. Helpers that are called once per case are folded in, which halves the compilation.
_LEAN = {"nogil": True, "error_model": "numpy", "_nrt": False}
_kernel = njit(cache=True, **_LEAN)
_helper = njit(**_LEAN)
_folded = njit(inline="always", **_LEAN)


class Cases(NamedTuple):
    """Test cases grouped by user: the targets of user g are ``targets[ptr[g]:ptr[g+1]]``, sorted.

    ``listed[lo[g]:hi[g]]`` (sorted) are the items user g does *not* compare with (``explicit`` false) or the only ones
    it does (``explicit`` true). A user's own targets are never negatives, listed or not.
    """

    users: Array
    rows: Array  # where the model keeps each user: its id, or its place in a batch of rows
    ptr: Array
    targets: Array
    lo: Array
    hi: Array
    listed: Array
    explicit: bool
    n_items: int
    longest: int  # room for the listed items and targets of any one user
    most: int  # targets of any one user
    course: Array  # the row of `Rules.stages` that each case goes through


class Rules(NamedTuple):
    """How to draw and compare: the courses that cases go through, the tie rule, and the two seeds."""

    stages: Array  # a row per course: negatives after each stage (0: all), the last one repeated
    stop_at: Array  # of each course
    replace: Array  # of each course
    ties: int
    tie_seed: Any
    draw_seed: Any


class Scratch(NamedTuple):
    """What one thread works on; contents do not survive a user, except that ``deck`` stays in order and the rest of
    ``row`` and ``marks`` as they came.
    """

    row: Array  # a score per item, for models that make rows
    places: Array  # items listed, or left out, of one user
    marks: Array  # a bit per item
    deck: Array  # 0, 1, 2, …: one card per item
    moved: Array
    ids: Array
    scores: Array
    target_scores: Array


class FactorModel(NamedTuple):
    """score = users[u] · items[i] (+ bias[i] when ``bias`` is not empty)."""

    users: Array
    items: Array
    bias: Array


class SparseItemModel(NamedTuple):
    """score = Σ_j history[u, j] · similarity[j, i], both CSR."""

    history_ptr: Array
    history: Array
    history_weight: Array
    ptr: Array
    index: Array
    value: Array


class DenseItemModel(NamedTuple):
    """score = Σ_j history[u, j] · matrix[j, i], history CSR and the matrix dense."""

    history_ptr: Array
    history: Array
    history_weight: Array
    matrix: Array


class SparseRowModel(NamedTuple):
    """score = a stored value, −∞ where there is none (CSR by user)."""

    ptr: Array
    index: Array
    value: Array


class RowModel(NamedTuple):
    """score = matrix[u, i]."""

    matrix: Array


# -------------------------------------------------------------------------------------------------------- hashing


@_helper
def mix64(z: Any) -> Any:
    """The finaliser of splitmix64: a bijection of 64-bit words whose output passes as random."""
    z = (z ^ (z >> np.uint64(30))) * _MIX_1
    z = (z ^ (z >> np.uint64(27))) * _MIX_2
    return z ^ (z >> np.uint64(31))


@_helper
def user_key(seed: Any, user: int) -> Any:
    """The part of a hash that depends on the user."""
    return mix64(mix64(np.uint64(user) + _GOLDEN) + np.uint64(seed))


@_helper
def item_key(key: Any, item: int) -> Any:
    """A 64-bit key of (seed, user, item); for one user no two items share one (every step is a bijection)."""
    return mix64(key + np.uint64(item) * _ODD)


@_helper
def bounded(word: Any, n: Any) -> int:
    """A whole number below ``n`` < 2³², exactly uniform when ``word`` is (Lemire's multiply and reject)."""
    product = (word >> np.uint64(32)) * n
    low = product & _LOW_32
    if low < n:
        threshold = (_TWO_32 - n) % n
        while low < threshold:
            word = mix64(word + _GOLDEN)
            product = (word >> np.uint64(32)) * n
            low = product & _LOW_32
    return np.int64(product >> np.uint64(32))


# -------------------------------------------------------------------------------------------------------- ties


@_helper
def beats(score: Any, target_score: Any, key: Any, item: int, target: int, ties: int) -> bool:
    """Whether ``item`` is ranked above ``target``: the only place where ties are decided. NaN beats nothing."""
    if score > target_score:
        return True
    if score == target_score:
        if ties == RANDOM:
            return item_key(key, item) > item_key(key, target)
        return ties == PESSIMISTIC
    return False


@_folded
def target_order(scores: Array, targets: Array, n: int, c: int, key: Any) -> int:
    """The place, from 1, of target ``c`` among a user's ``n`` targets.

    Tied targets are ordered by their keys under every tie rule: places must be 1..T, and which of two relevant items
    takes which place changes no metric.
    """
    place = 1
    for other in range(n):
        if other == c:
            continue
        if targets[other] == targets[c]:
            place += scores[other] >= scores[c] and other < c
        else:
            place += beats(scores[other], scores[c], key, targets[other], targets[c], RANDOM)
    return place


# -------------------------------------------------------------------------------------------------------- scores


def _dots(context: Any, builder: Any, left: Any, right: Any, kind: Any, row: Any, others: list[Any]) -> list[Any]:
    """Code for ``left[row] · right[other]`` of each of ``others``: the row is loaded once, and all run side by side."""
    element = context.get_value_type(kind)
    size = 4 if kind == types.float32 else 8
    word, short = context.get_value_type(types.intp), ir.IntType(32)
    vector = ir.VectorType(element, LANES)
    width = cgutils.unpack_tuple(builder, left.shape)[1]
    p = builder.gep(left.data, [builder.mul(row, width)])
    qs = [builder.gep(right.data, [builder.mul(other, width)]) for other in others]
    lanes = ir.Constant(word, LANES)

    def load(pointer: Any, k: Any) -> Any:
        # aligned like one element: rows of a matrix need not start at a multiple of the vector's size
        return builder.load(builder.bitcast(builder.gep(pointer, [k]), vector.as_pointer()), align=size)

    sums = [cgutils.alloca_once_value(builder, ir.Constant(vector, [0.0] * LANES)) for _ in qs]
    chunks = builder.udiv(width, lanes)
    with cgutils.for_range(builder, chunks) as loop:
        k = builder.mul(loop.index, lanes)
        x = load(p, k)
        for q, each in zip(qs, sums, strict=True):
            builder.store(builder.fadd(builder.load(each), builder.fmul(x, load(q, k))), each)
    outs = []
    for each in sums:
        half, total = LANES // 2, builder.load(each)
        while half:
            nothing = ir.Constant(total.type, ir.Undefined)
            pick = ir.VectorType(short, half)
            low = builder.shuffle_vector(total, nothing, ir.Constant(pick, list(range(half))))
            high = builder.shuffle_vector(total, nothing, ir.Constant(pick, list(range(half, 2 * half))))
            total, half = builder.fadd(low, high), half // 2
        outs.append(cgutils.alloca_once_value(builder, builder.extract_element(total, ir.Constant(short, 0))))
    first = builder.mul(chunks, lanes)
    with cgutils.for_range_slice(builder, first, width, ir.Constant(word, 1), word) as (k, _):
        x = builder.load(builder.gep(p, [k]))
        for q, out in zip(qs, outs, strict=True):
            builder.store(builder.fadd(builder.load(out), builder.fmul(x, builder.load(builder.gep(q, [k])))), out)
    return [builder.load(out) for out in outs]


def _matrices(a: Any, b: Any) -> bool:
    return isinstance(a, types.Array) and isinstance(b, types.Array) and bool(a.dtype == b.dtype)


@intrinsic
def dot_rows(typingctx: Any, a: Any, row: Any, b: Any, other: Any) -> Any:
    """``a[row] · b[other]`` of two C-ordered matrices, summed in one fixed order on every machine.

    Eight running sums over k mod 8, added pairwise, then the rest one by one; no fused multiply-add. Left to itself the
    compiler would either keep the sum sequential (slow) or choose an order per call (not reproducible).
    """
    if not _matrices(a, b):
        return None

    def codegen(context: Any, builder: Any, sig: Any, args: Any) -> Any:
        left, right = (context.make_array(sig.args[i])(context, builder, args[i]) for i in (0, 2))
        return _dots(context, builder, left, right, sig.return_type, args[1], [args[3]])[0]

    return a.dtype(a, types.intp, b, types.intp), codegen


@intrinsic
def dot_two(typingctx: Any, a: Any, row: Any, b: Any, one: Any, two: Any) -> Any:
    """:func:`dot_rows` with two rows of ``b`` at once, to the same digit: half the loads of ``a[row]``."""
    if not _matrices(a, b):
        return None

    def codegen(context: Any, builder: Any, sig: Any, args: Any) -> Any:
        left, right = (context.make_array(sig.args[i])(context, builder, args[i]) for i in (0, 2))
        both = _dots(context, builder, left, right, sig.return_type.dtype, args[1], [args[3], args[4]])
        return context.make_tuple(builder, sig.return_type, both)

    return types.UniTuple(a.dtype, 2)(a, types.intp, b, types.intp, types.intp), codegen


@intrinsic
def prefetch_row(typingctx: Any, a: Any, row: Any) -> Any:
    """Ask for a row of a C-ordered matrix (its first 512 bytes) before it is needed; changes no result."""
    if not isinstance(a, types.Array):
        return None
    signature = types.void(a, types.intp)

    def codegen(context: Any, builder: Any, sig: Any, args: Any) -> Any:
        array = context.make_array(sig.args[0])(context, builder, args[0])
        stride = cgutils.unpack_tuple(builder, array.strides)[0]
        byte, short = ir.IntType(8).as_pointer(), ir.IntType(32)
        start = builder.gep(builder.bitcast(array.data, byte), [builder.mul(args[1], stride)])
        prefetch = builder.module.declare_intrinsic(
            "llvm.prefetch", [byte], ir.FunctionType(ir.VoidType(), [byte, short, short, short])
        )
        word = context.get_value_type(types.intp)
        end = builder.select(builder.icmp_signed("<", stride, ir.Constant(word, 512)), stride, ir.Constant(word, 512))
        with cgutils.for_range_slice(builder, ir.Constant(word, 0), end, ir.Constant(word, 64), word) as (k, _):
            builder.call(prefetch, [builder.gep(start, [k]), *(ir.Constant(short, x) for x in (0, 3, 1))])
        return context.get_dummy_value()

    return signature, codegen


def announce_user(model: Any, row: int) -> None:
    """Ask for what the user after this one needs before it is needed; changes no result."""
    raise NotImplementedError


def open_user(model: Any, row: int, work: Array) -> None:
    """Spread a user's scores over ``work`` where they are made row by row."""
    raise NotImplementedError


def close_user(model: Any, row: int, work: Array) -> None:
    """Put ``work`` back as it was."""
    raise NotImplementedError


def score_items(model: Any, row: int, work: Array, items: Array, n: int, out: Array) -> None:
    """The scores of ``items[:n]`` into ``out``."""
    raise NotImplementedError


def score_range(model: Any, row: int, work: Array, first: int, n: int, out: Array) -> None:
    """The scores of items first..first+n−1 into ``out``; each equal to what :func:`score_items` gives."""
    raise NotImplementedError


@overload(announce_user, jit_options=_LEAN)
def _announce_user(model: Any, row: Any) -> Any:
    if getattr(model, "instance_class", None) is FactorModel:

        def factors(model: Any, row: Any) -> None:
            prefetch_row(model.users, row)

        return factors

    def nothing(model: Any, row: Any) -> None:
        pass

    return nothing


@overload(open_user, jit_options=_LEAN)
def _open_user(model: Any, row: Any, work: Any) -> Any:
    kind = getattr(model, "instance_class", None)
    if kind is SparseItemModel:

        def spread(model: Any, row: Any, work: Any) -> None:
            for h in range(model.history_ptr[row], model.history_ptr[row + 1]):
                j, weight = model.history[h], model.history_weight[h]
                for k in range(model.ptr[j], model.ptr[j + 1]):
                    work[model.index[k]] += weight * model.value[k]

        return spread
    if kind is SparseRowModel:

        def copy(model: Any, row: Any, work: Any) -> None:
            for k in range(model.ptr[row], model.ptr[row + 1]):
                work[model.index[k]] = model.value[k]

        return copy

    def nothing(model: Any, row: Any, work: Any) -> None:
        pass

    return nothing


@overload(close_user, jit_options=_LEAN)
def _close_user(model: Any, row: Any, work: Any) -> Any:
    kind = getattr(model, "instance_class", None)
    if kind is SparseItemModel:

        def clear(model: Any, row: Any, work: Any) -> None:
            for h in range(model.history_ptr[row], model.history_ptr[row + 1]):
                j = model.history[h]
                for k in range(model.ptr[j], model.ptr[j + 1]):
                    work[model.index[k]] = 0

        return clear
    if kind is SparseRowModel:

        def forget(model: Any, row: Any, work: Any) -> None:
            for k in range(model.ptr[row], model.ptr[row + 1]):
                work[model.index[k]] = -np.inf

        return forget

    def nothing(model: Any, row: Any, work: Any) -> None:
        pass

    return nothing


@overload(score_items, jit_options=_LEAN)
def _score_items(model: Any, row: Any, work: Any, items: Any, n: Any, out: Any) -> Any:
    kind = getattr(model, "instance_class", None)
    if kind is FactorModel:

        def factors(model: Any, row: Any, work: Any, items: Any, n: Any, out: Any) -> None:
            left, right, bias = model.users, model.items, model.bias  # once: each access counts a reference
            for k in range(min(n, AHEAD)):
                prefetch_row(right, items[k])
            for k in range(0, n - 1, 2):
                if k + AHEAD + 1 < n:
                    prefetch_row(right, items[k + AHEAD])
                    prefetch_row(right, items[k + AHEAD + 1])
                out[k], out[k + 1] = dot_two(left, row, right, items[k], items[k + 1])
            if n % 2:
                out[n - 1] = dot_rows(left, row, right, items[n - 1])
            if len(bias) > 0:
                for k in range(n):
                    out[k] += bias[items[k]]

        return factors
    if kind is DenseItemModel:

        def dense(model: Any, row: Any, work: Any, items: Any, n: Any, out: Any) -> None:
            for k in range(n):
                out[k] = 0
            for h in range(model.history_ptr[row], model.history_ptr[row + 1]):
                j, weight = model.history[h], model.history_weight[h]
                for k in range(n):
                    out[k] += weight * model.matrix[j, items[k]]

        return dense
    if kind is RowModel:

        def rows(model: Any, row: Any, work: Any, items: Any, n: Any, out: Any) -> None:
            for k in range(n):
                out[k] = model.matrix[row, items[k]]

        return rows

    def spread(model: Any, row: Any, work: Any, items: Any, n: Any, out: Any) -> None:
        for k in range(n):
            out[k] = work[items[k]]

    return spread


@overload(score_range, jit_options=_LEAN)
def _score_range(model: Any, row: Any, work: Any, first: Any, n: Any, out: Any) -> Any:
    kind = getattr(model, "instance_class", None)
    if kind is FactorModel:

        def factors(model: Any, row: Any, work: Any, first: Any, n: Any, out: Any) -> None:
            left, right, bias = model.users, model.items, model.bias
            for k in range(n):
                out[k] = dot_rows(left, row, right, first + k)
            if len(bias) > 0:
                for k in range(n):
                    out[k] += bias[first + k]

        return factors
    if kind is DenseItemModel:

        def dense(model: Any, row: Any, work: Any, first: Any, n: Any, out: Any) -> None:
            sums = out[:n]
            for k in range(len(sums)):
                sums[k] = 0
            for h in range(model.history_ptr[row], model.history_ptr[row + 1]):
                values, weight = model.matrix[model.history[h], first : first + n], model.history_weight[h]
                for k in range(len(sums)):
                    sums[k] += weight * values[k]

        return dense
    if kind is RowModel:

        def rows(model: Any, row: Any, work: Any, first: Any, n: Any, out: Any) -> None:
            for k in range(n):
                out[k] = model.matrix[row, first + k]

        return rows

    def spread(model: Any, row: Any, work: Any, first: Any, n: Any, out: Any) -> None:
        for k in range(n):
            out[k] = work[first + k]

    return spread


# -------------------------------------------------------------------------------------------------------- counting


@_helper
def _tally(scores: Array, low: Any, high: Any) -> tuple[int, int]:
    """How many scores are above ``high``, and how many at or above ``low``.

    Counted in 32 bits: eight comparisons then run at once, and what they give is added as it comes.
    """
    above, near = np.int32(0), np.int32(0)
    for k in range(len(scores)):
        above = np.int32(above + np.int32(scores[k] > high))
        near = np.int32(near + np.int32(scores[k] >= low))
    return int(above), int(near)


@_folded
def _any_nan(scores: Array, n: int) -> bool:
    found = False
    for k in range(n):
        found |= scores[k] != scores[k]
    return found


@_folded
def _beaten(scores: Array, items: Array, first: int, n: int, score: Any, key: Any, target: int, ties: int) -> int:
    """How many of ``n`` scored items beat the target; their ids are first, first+1, …, or ``items`` if first < 0."""
    row = scores[:n]
    above, near = _tally(row, score, score)
    if near > above:
        for k in range(n):
            if row[k] == score:
                item = items[k] if first < 0 else first + k
                above += beats(row[k], score, key, item, target, ties)
    return above


@_folded
def _negatives(
    listed: Array, a: int, a_end: int, targets: Array, b: int, b_end: int, explicit: bool, n_items: int, out: Array
) -> tuple[int, int]:  # fmt: skip
    """The negatives of a user: how many there are, and how many entries of ``out`` describe them.

    The user's listed items are ``listed[a:a_end]``, the targets ``targets[b:b_end]``. ``explicit``: ``out`` lists the
    negatives; otherwise it lists, in order, what is left out.
    """
    n = 0
    if explicit:
        for k in range(a, a_end):
            item = listed[k]
            while b < b_end and targets[b] < item:
                b += 1
            if b < b_end and targets[b] == item:
                continue
            out[n] = item
            n += 1
        return n, n
    last = -1
    while a < a_end or b < b_end:
        if b >= b_end or (a < a_end and listed[a] <= targets[b]):
            item = np.int64(listed[a])
            a += 1
        else:
            item = np.int64(targets[b])
            b += 1
        if item != last:
            out[n] = item
            n += 1
            last = item
    return n_items - n, n


@_folded
def _mark(
    listed: Array, a: int, a_end: int, targets: Array, b: int, b_end: int, explicit: bool, n_items: int, marks: Array,
    places: Array,
) -> tuple[int, bool]:  # fmt: skip
    """How many negatives a user has, and whether they are in ``places`` or are what is not in ``marks`` (one bit an item).

    Pools of less than a quarter of the catalogue are listed: drawing from the catalogue until one is hit would take long.
    """
    if explicit:
        return _negatives(listed, a, a_end, targets, b, b_end, True, n_items, places)[0], True
    left_out = 0
    one = np.uint64(1)
    for k in range(a, a_end):
        word, bit = listed[k] >> 6, one << np.uint64(listed[k] & 63)
        left_out += (marks[word] & bit) == 0
        marks[word] |= bit
    for k in range(b, b_end):
        word, bit = targets[k] >> 6, one << np.uint64(targets[k] & 63)
        left_out += (marks[word] & bit) == 0
        marks[word] |= bit
    pool = n_items - left_out
    if 4 * pool >= n_items:
        return pool, False
    n = 0
    for item in range(n_items):
        if (marks[item >> 6] >> np.uint64(item & 63)) & one == 0:
            places[n] = item
            n += 1
    return pool, True


@_folded
def _unmark(listed: Array, a: int, a_end: int, targets: Array, b: int, b_end: int, marks: Array) -> None:
    for k in range(a, a_end):
        marks[listed[k] >> 6] = 0
    for k in range(b, b_end):
        marks[targets[k] >> 6] = 0


@_folded
def _draw(
    stream: Any, k: int, stop: int, dealt: int, replace: bool, by_list: bool, size: int, places: Array, marks: Array,
    deck: Array, moved: Array, out: Array,
) -> int:  # fmt: skip
    """Draws k..stop−1 of a case, as items, into ``out``; returns how many cards have been dealt.

    Out of the listed ``places[:size]``, or out of the ``size`` items of the catalogue, drawn again while marked: both are
    uniform over the pool. Without replacement, Fisher and Yates' shuffle of a deck, stopped early and skipping what is
    marked; the deck is in order but for the cards ``moved``. A longer sample begins with the shorter one.
    """
    one = np.uint64(1)
    if replace:
        for d in range(k, stop):
            word = mix64(stream + np.uint64(d + 1) * _GOLDEN)
            item = bounded(word, np.uint64(size))
            if by_list:
                item = np.int64(places[item])
            else:
                while (marks[item >> 6] >> np.uint64(item & 63)) & one != 0:
                    word = mix64(word + _GOLDEN)
                    item = bounded(word, np.uint64(size))
            out[d - k] = item
        return dealt
    n = 0
    while n < stop - k:
        word = mix64(stream + np.uint64(dealt + 1) * _GOLDEN)
        r = dealt + bounded(word, np.uint64(size - dealt))
        card = np.int64(deck[r])
        deck[r] = deck[dealt]
        moved[dealt] = r
        dealt += 1
        if by_list:
            out[n] = places[card]
            n += 1
        elif (marks[card >> 6] >> np.uint64(card & 63)) & one == 0:
            out[n] = card
            n += 1
    return dealt


@_folded
def _in_order(scores: Array, targets: Array, n: int, key: Any, order: Array, b: int) -> bool:
    """Put a user's targets in order, into ``order[b:b + n]``; false if a score is not a number."""
    if _any_nan(scores, n):
        return False
    for c in range(n):
        order[b + c] = target_order(scores, targets, n, c, key)
    return True


@_helper
def next_goal(
    stages: Array, stop_at: Array, replace: Array, course: int, done: int, beaten: int, n_negatives: int
) -> int:  # fmt: skip
    """How many negatives a case goes on to; as many as it has, if it rests: the only place where that is decided."""
    for stage in stages[course]:
        goal = n_negatives if stage == 0 or (not replace[course] and stage > n_negatives) else stage
        if done < goal:
            return goal
        if done == goal and beaten >= stop_at[course]:
            return done
    return done


@_kernel
def next_goals(cases: Any, rules: Any, compared: Array, hits: Array, pool: Array, out: Array) -> None:
    """:func:`next_goal` of every case."""
    stages, stop_at, replace, course = rules.stages, rules.stop_at, rules.replace, cases.course
    for c in range(len(out)):
        out[c] = next_goal(stages, stop_at, replace, course[c], compared[c], hits[c], pool[c] - 1)


@_kernel
def choose_courses(cases: Any, rules: Any, bounds: Array, out: Array) -> None:
    """Which course each case goes through: the first whose entry in ``bounds`` is above a hash of the case, in 0..1."""
    users, ptr, targets, draw_seed = cases.users, cases.ptr, cases.targets, rules.draw_seed
    for g in range(len(users)):
        draws = user_key(draw_seed, users[g])
        for c in range(ptr[g], ptr[g + 1]):
            # the word before those that negatives are drawn with
            place = np.float64(mix64(item_key(draws, targets[c])) >> np.uint64(11)) / 9007199254740992.0
            out[c] = 0
            while out[c] < len(bounds) - 1 and place >= bounds[out[c]]:
                out[c] += 1


@_kernel
def sample(
    model: Any, cases: Any, rules: Any, first: int, last: int, scratch: Any,
    compared: Array, hits: Array, pool: Array, order: Array, status: Array,
) -> None:  # fmt: skip
    """Draw, score and count for the users first..last−1.

    ``compared`` and ``hits`` come in as what each case has seen so far (0, 0 for a new one) and go out as what it has
    seen when its design lets it rest. A case that has stopped at the end of a stage stays stopped.
    """
    users, model_rows, ptr, targets, lo, hi = cases.users, cases.rows, cases.ptr, cases.targets, cases.lo, cases.hi
    listed, explicit, n_items = cases.listed, cases.explicit, cases.n_items
    stages, stop_at, replace_in, ties, tie_seed = rules.stages, rules.stop_at, rules.replace, rules.ties, rules.tie_seed
    draw_seed, courses = rules.draw_seed, cases.course
    work, places, marks, deck, moved = scratch.row, scratch.places, scratch.marks, scratch.deck, scratch.moved
    ids, scores, target_scores = scratch.ids, scratch.scores, scratch.target_scores
    for g in range(first, last):
        n_negatives, by_list = _mark(
            listed, lo[g], hi[g], targets, ptr[g], ptr[g + 1], explicit, n_items, marks, places
        )
        size = n_negatives if by_list else n_items
        if n_negatives < 1:
            status[g] = NO_CANDIDATE
            break
        row, b, T = model_rows[g], ptr[g], ptr[g + 1] - ptr[g]
        key = user_key(tie_seed, users[g])
        draws = user_key(draw_seed, users[g])
        if g + 1 < last:
            announce_user(model, model_rows[g + 1])
        open_user(model, row, work)
        for c in range(T):
            ids[c] = targets[b + c]
        score_items(model, row, work, ids, T, target_scores)
        if not _in_order(target_scores, ids, T, key, order, b):
            status[g] = NAN_SCORE
        for c in range(b, ptr[g + 1]):
            pool[c] = n_negatives + 1
            target, score = np.int64(targets[c]), target_scores[c - b]
            stream = item_key(draws, target)
            done, beaten = compared[c], hits[c]
            replace = replace_in[courses[c]]
            k, dealt = done if replace else 0, 0  # without replacement, cards dealt before are dealt again, unscored
            while True:
                goal = next_goal(stages, stop_at, replace_in, courses[c], done, beaten, n_negatives)
                if goal <= done:
                    break
                while done < goal:
                    stop = min(done if k < done else goal, k + CHUNK)
                    dealt = _draw(stream, k, stop, dealt, replace, by_list, size, places, marks, deck, moved, ids)
                    if k == done:
                        score_items(model, row, work, ids, stop - k, scores)
                        if _any_nan(scores, stop - k):
                            status[g] = NAN_SCORE
                        beaten += _beaten(scores, ids, -1, stop - k, score, key, target, ties)
                        done = stop
                    k = stop
            compared[c], hits[c] = done, beaten
            for d in range(dealt):
                deck[moved[d]] = moved[d]
        close_user(model, row, work)
        if not explicit:
            _unmark(listed, lo[g], hi[g], targets, ptr[g], ptr[g + 1], marks)


@_kernel
def exhaust(
    model: Any, cases: Any, rules: Any, first: int, last: int, scratch: Any,
    compared: Array, hits: Array, pool: Array, order: Array, status: Array,
) -> None:  # fmt: skip
    """Compare every candidate of the users first..last−1."""
    users, model_rows, ptr, targets, lo, hi = cases.users, cases.rows, cases.ptr, cases.targets, cases.lo, cases.hi
    listed, explicit, n_items = cases.listed, cases.explicit, cases.n_items
    ties, tie_seed = rules.ties, rules.tie_seed
    work, places, ids = scratch.row, scratch.places, scratch.ids
    scores, target_scores = scratch.scores, scratch.target_scores
    for g in range(first, last):
        n_negatives, n_places = _negatives(listed, lo[g], hi[g], targets, ptr[g], ptr[g + 1], explicit, n_items, places)
        if n_negatives < 1:
            status[g] = NO_CANDIDATE
            continue
        row, b, e = model_rows[g], ptr[g], ptr[g + 1]
        T = e - b
        key = user_key(tie_seed, users[g])
        open_user(model, row, work)
        for c in range(T):
            ids[c] = targets[b + c]
        score_items(model, row, work, ids, T, target_scores)
        if not _in_order(target_scores, ids, T, key, order, b):
            status[g] = NAN_SCORE
        for c in range(b, e):
            compared[c], hits[c], pool[c] = n_negatives, 0, n_negatives + 1
        total, at = n_negatives if explicit else n_items, 0
        for k in range(0, total, CHUNK):
            n = min(CHUNK, total - k)
            if explicit:
                for d in range(n):
                    ids[d] = places[k + d]
                score_items(model, row, work, ids, n, scores)
            else:
                score_range(model, row, work, k, n, scores)
            if _any_nan(scores, n):
                status[g] = NAN_SCORE
            if not explicit:
                while at < n_places and places[at] < k + n:
                    scores[places[at] - k] = np.nan  # no candidate: compares as neither above nor equal
                    at += 1
            for c in range(b, e):
                target = np.int64(targets[c])
                first_id = -1 if explicit else k
                hits[c] += _beaten(scores, ids, first_id, n, target_scores[c - b], key, target, ties)
        close_user(model, row, work)


# -------------------------------------------------------------------------------------------- factors, by matrix products


@_kernel
def row_norms(matrix: Array, first: int, last: int, out: Array) -> None:
    """Euclidean norms of rows first..last−1, a little above the true ones (a bound must not be rounded down)."""
    slack = 1 + (matrix.shape[1] + 8) * 1.2e-7
    for i in range(first, last):
        total = np.float64(dot_rows(matrix, i, matrix, i))
        if total < 1e-30:  # squares may have vanished
            total = 0.0
            for k in range(matrix.shape[1]):
                total += np.float64(matrix[i, k]) * np.float64(matrix[i, k])
        out[i] = np.sqrt(total) * slack


@_kernel
def prepare(
    model: Any, cases: Any, rules: Any, first: int, last: int, scratch: Any, out_ptr: Array,
    out: Array, target_scores: Array, compared: Array, pool: Array, order: Array, status: Array,
) -> None:  # fmt: skip
    """What :func:`count_tile` needs to know of the users first..last−1: who is left out, and the targets' scores.

    ``out[out_ptr[g]:…]`` receives the left-out items, ``status`` what is wrong.
    """
    users, model_rows, ptr, targets, lo, hi = cases.users, cases.rows, cases.ptr, cases.targets, cases.lo, cases.hi
    listed, explicit, n_items = cases.listed, cases.explicit, cases.n_items
    tie_seed = rules.tie_seed
    work, ids, scores = scratch.row, scratch.ids, scratch.target_scores
    for g in range(first, last):
        places = out[out_ptr[g] : out_ptr[g + 1]]
        n_negatives, n = _negatives(listed, lo[g], hi[g], targets, ptr[g], ptr[g + 1], explicit, n_items, places)
        for k in range(n, len(places)):
            places[k] = 2147483647  # an id no tile reaches
        if n_negatives < 1:
            status[g] = NO_CANDIDATE
            continue
        b, e = ptr[g], ptr[g + 1]
        key = user_key(tie_seed, users[g])
        for c in range(b, e):
            ids[c - b] = targets[c]
        score_items(model, model_rows[g], work, ids, e - b, scores)
        if not _in_order(scores, ids, e - b, key, order, b):
            status[g] = NAN_SCORE
        for c in range(b, e):
            target_scores[c] = scores[c - b]
            compared[c], pool[c] = n_negatives, n_negatives + 1


@_kernel
def by_norm(place: Array, first: int, last: int, ptr: Array, out: Array) -> None:
    """Turn the left-out items of the users first..last−1 into places, in ascending order (a heap: no room is needed)."""
    for g in range(first, last):
        part = out[ptr[g] : ptr[g + 1]]
        size = len(part)
        for k in range(size):
            if part[k] < len(place):
                part[k] = place[part[k]]
        for start in range(size // 2 - 1, -1, -1):
            _sink(part, start, size)
        for end in range(size - 1, 0, -1):
            part[0], part[end] = part[end], part[0]
            _sink(part, 0, end)


@_helper
def _sink(heap: Array, root: int, size: int) -> None:
    while True:
        child = 2 * root + 1
        if child >= size:
            return
        if child + 1 < size and heap[child + 1] > heap[child]:
            child += 1
        if heap[root] >= heap[child]:
            return
        heap[root], heap[child] = heap[child], heap[root]
        root = child


@_kernel
def count_tile(
    model: Any, cases: Any, rules: Any, group: Array, tile: Array, place: int, items: Array, cursor: Array, out_ptr: Array,
    out: Array, target_scores: Array, user_bound: Array, item_bound: Array, tile_bound: float, later: float, limit: Array,
    hits: Array, closed: Array, going: Array,
) -> None:  # fmt: skip
    """Count in a tile of a matrix product: the users ``group``; ``items[place]``, ``items[place+1]``, …

    The product rounds as the BLAS pleases. |product − score| ≤ user_bound · item_bound, so scores further from the
    target's than that are decided by the product, and the few others by :func:`dot_rows`: the same count as by
    :func:`exhaust`, to the last tie, whatever the BLAS. Tiles of a user come in ascending order of places; ``cursor`` is
    how far their left-out items have been crossed out.

    A case is closed when ``limit`` items beat its target, or when no later item can: their scores are at most
    user_bound · ``later``. ``going`` says whose cases are not all closed.
    """
    users, model_rows, ptr, targets = cases.users, cases.rows, cases.ptr, cases.targets
    ties, tie_seed = rules.ties, rules.tie_seed
    width, biased = tile.shape[1], len(model.bias) > 0
    outside = tile.dtype.type(-np.inf)
    tiny = 1e-37 if tile.itemsize == 4 else 1e-300  # what products that vanish can add up to, and more
    for r in range(tile.shape[0]):
        g = group[r]
        row = tile[r]
        if biased:
            for k in range(width):
                row[k] += model.bias[items[place + k]]
        at, end = cursor[g], out_ptr[g + 1]
        while at < end and out[at] < place + width:
            row[out[at] - place] = outside
            at += 1
        cursor[g] = at
        slack = tile.dtype.type(user_bound[g] * tile_bound + tiny)
        going[r] = False
        for c in range(ptr[g], ptr[g + 1]):
            if closed[c]:
                continue
            score = target_scores[c]
            low, high = score - slack, score + slack
            for k in range(0, width, CHUNK):
                stop = min(k + CHUNK, width)
                above, near = _tally(row[k:stop], low, high)
                hits[c] += above
                if near == above:
                    continue
                key = user_key(tie_seed, users[g])
                for fine in range(k, stop, FINE):
                    part = row[fine : min(fine + FINE, stop)]
                    above, near = _tally(part, low, high)
                    if near == above:
                        continue
                    for n in range(len(part)):
                        s, i = part[n], items[place + fine + n]
                        if low <= s <= high:
                            bound = user_bound[g] * item_bound[i]
                            if bound > 0 and abs(s - score) <= bound + tiny:
                                s = dot_rows(model.users, model_rows[g], model.items, i)
                                if biased:
                                    s += model.bias[i]
                            hits[c] += beats(s, score, key, i, targets[c], ties)
            closed[c] = hits[c] >= limit[c] or score > user_bound[g] * later + tiny
            going[r] |= not closed[c]


# -------------------------------------------------------------------------------------------- any other model, by batches


@_kernel
def fill_draws(
    cases: Any, rules: Any, rows: Array, groups: Array, begin: Array, end: Array, scratch: Any,
    pool: Array, out: Array, status: Array,
) -> None:  # fmt: skip
    """Row k of ``out``: the target of case ``rows[k]`` of user ``groups[k]``, its draws begin[k]..end[k]−1, and, where a
    row is longer than that, the target again.
    """
    users, ptr, targets, lo, hi, listed = cases.users, cases.ptr, cases.targets, cases.lo, cases.hi, cases.listed
    explicit, n_items = cases.explicit, cases.n_items
    replace_in, courses, draw_seed = rules.replace, cases.course, rules.draw_seed
    places, marks, deck, moved, ids = scratch.places, scratch.marks, scratch.deck, scratch.moved, scratch.ids
    known, n_negatives, by_list = -1, 0, False
    for k in range(len(rows)):
        c, g = rows[k], groups[k]
        if g != known:
            if known >= 0 and not explicit:
                _unmark(listed, lo[known], hi[known], targets, ptr[known], ptr[known + 1], marks)
            n_negatives, by_list = _mark(
                listed, lo[g], hi[g], targets, ptr[g], ptr[g + 1], explicit, n_items, marks, places
            )
            known = g
        pool[c] = n_negatives + 1
        if n_negatives < 1:
            status[g] = NO_CANDIDATE
            continue
        for d in range(out.shape[1]):
            out[k, d] = targets[c]
        replace = replace_in[courses[c]]
        stop = n_negatives if end[k] == 0 or (not replace and end[k] > n_negatives) else end[k]
        stop = min(stop, begin[k] + out.shape[1] - 1)
        stream = item_key(user_key(draw_seed, users[g]), targets[c])
        d, dealt = begin[k] if replace else 0, 0  # without replacement, earlier cards are dealt again
        size = n_negatives if by_list else n_items
        while d < stop:
            to = min(stop, d + CHUNK)
            dealt = _draw(stream, d, to, dealt, replace, by_list, size, places, marks, deck, moved, ids)
            for each in range(max(d, begin[k]), to):
                out[k, 1 + each - begin[k]] = ids[each - d]
            d = to
        for d in range(dealt):
            deck[moved[d]] = moved[d]
    if known >= 0 and not explicit:
        _unmark(listed, lo[known], hi[known], targets, ptr[known], ptr[known + 1], marks)


@_kernel
def count_batch(
    cases: Any, rules: Any, rows: Array, groups: Array, sizes: Array, items: Array, scores: Array,
    hits: Array, status: Array,
) -> None:  # fmt: skip
    """Add to ``hits`` how many of the ``sizes[k]`` negatives in row k beat the target in its first column."""
    users, targets = cases.users, cases.targets
    ties, tie_seed = rules.ties, rules.tie_seed
    for k in range(len(rows)):
        c, n = rows[k], sizes[k]
        key = user_key(tie_seed, users[groups[k]])
        for d in range(n + 1):
            if scores[k, d] != scores[k, d]:
                status[groups[k]] = NAN_SCORE
        for d in range(1, n + 1):
            hits[c] += beats(scores[k, d], scores[k, 0], key, items[k, d], targets[c], ties)


@_kernel
def order_targets(cases: Any, rules: Any, scratch: Any, scores: Array, order: Array) -> None:
    """The place of each target among its user's, from their scores."""
    users, ptr, targets = cases.users, cases.ptr, cases.targets
    tie_seed = rules.tie_seed
    ids, own = scratch.ids, scratch.target_scores
    for g in range(len(users)):
        b, e = ptr[g], ptr[g + 1]
        for c in range(b, e):
            ids[c - b], own[c - b] = targets[c], scores[c]
        _in_order(own, ids, e - b, user_key(tie_seed, users[g]), order, b)
