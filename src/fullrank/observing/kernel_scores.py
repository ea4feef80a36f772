"""The scores of a model, compiled: one arithmetic for a gathered item, a target and a whole row.

The score of (user, item) is a fixed sequence of roundings, so ranks do not depend on the batch, the thread or the BLAS.
"""

from typing import Any

from llvmlite import ir
from numba import types
from numba.core import cgutils
from numba.extending import intrinsic, overload

from fullrank.observing.compiled import LEAN, Array
from fullrank.observing.kernel_inputs import DenseItemModel, FactorModel, RowModel, SparseModel

#: How many gathered rows are asked for ahead of the one being scored.
AHEAD = 16
#: Lanes of the fixed summation order of :func:`dot_rows`.
LANES = 8


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


def _dot_intrinsic(a: Any, b: Any, others: int) -> Any:
    """The type and code of the products of a row of ``a`` with ``others`` rows of ``b``, for matrices of one type."""
    if not (isinstance(a, types.Array) and isinstance(b, types.Array) and a.dtype == b.dtype):
        return None

    def codegen(context: Any, builder: Any, sig: Any, args: Any) -> Any:
        left, right = (context.make_array(sig.args[i])(context, builder, args[i]) for i in (0, 2))
        found = _dots(context, builder, left, right, a.dtype, args[1], list(args[3:]))
        return found[0] if others == 1 else context.make_tuple(builder, sig.return_type, found)

    out = a.dtype if others == 1 else types.UniTuple(a.dtype, others)
    return out(a, types.intp, b, *(types.intp,) * others), codegen


@intrinsic
def dot_rows(typingctx: Any, a: Any, row: Any, b: Any, other: Any) -> Any:
    """``a[row] · b[other]`` of two C-ordered matrices, summed in one fixed order on every machine.

    Eight running sums over k mod 8, added pairwise, then the rest one by one; no fused multiply-add. Left to itself the
    compiler would either keep the sum sequential (slow) or choose an order per call (not reproducible).
    """
    return _dot_intrinsic(a, b, 1)


@intrinsic
def dot_two(typingctx: Any, a: Any, row: Any, b: Any, one: Any, two: Any) -> Any:
    """:func:`dot_rows` with two rows of ``b`` at once, to the same digit: half the loads of ``a[row]``."""
    return _dot_intrinsic(a, b, 2)


@intrinsic
def prefetch_row(typingctx: Any, a: Any, row: Any) -> Any:
    """Ask for a row of a C-ordered matrix (its first 512 bytes) before it is needed; changes no result."""
    if not isinstance(a, types.Array):
        return None

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

    return types.void(a, types.intp), codegen


def _ask_ahead(model: Any, row: int, following: int, work: Array) -> None:
    prefetch_row(model.users, following)


def _spread(model: Any, row: int, following: int, work: Array) -> None:
    adds = model.empty == 0
    for h in range(model.history_ptr[row], model.history_ptr[row + 1]):
        j, weight = model.history[h], model.history_weight[h]
        for k in range(model.ptr[j], model.ptr[j + 1]):
            if adds:
                work[model.items[k]] += weight * model.value[k]
            else:
                work[model.items[k]] = weight * model.value[k]


def _clear(model: Any, row: int, work: Array) -> None:
    for h in range(model.history_ptr[row], model.history_ptr[row + 1]):
        j = model.history[h]
        for k in range(model.ptr[j], model.ptr[j + 1]):
            work[model.items[k]] = model.empty


def _do_nothing(model: Any, row: int, *others: Any) -> None:
    pass


def _factor_items(model: Any, row: int, work: Array, items: Array, n: int, out: Array) -> None:
    left, right, bias = model.users, model.items, model.bias
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


def _factor_range(model: Any, row: int, work: Array, first: int, n: int, out: Array) -> None:
    for k in range(n):
        out[k] = dot_rows(model.users, row, model.items, first + k)
    if len(model.bias) > 0:
        for k in range(n):
            out[k] += model.bias[first + k]


def _dense_items(model: Any, row: int, work: Array, items: Array, n: int, out: Array) -> None:
    for k in range(n):
        out[k] = 0
    for h in range(model.history_ptr[row], model.history_ptr[row + 1]):
        j, weight = model.history[h], model.history_weight[h]
        for k in range(n):
            out[k] += weight * model.matrix[j, items[k]]


def _dense_range(model: Any, row: int, work: Array, first: int, n: int, out: Array) -> None:
    sums = out[:n]
    for k in range(len(sums)):
        sums[k] = 0
    for h in range(model.history_ptr[row], model.history_ptr[row + 1]):
        values, weight = model.matrix[model.history[h], first : first + n], model.history_weight[h]
        for k in range(len(sums)):
            sums[k] += weight * values[k]


def _stored_items(model: Any, row: int, work: Array, items: Array, n: int, out: Array) -> None:
    for k in range(n):
        out[k] = model.matrix[row, items[k]]


def _stored_range(model: Any, row: int, work: Array, first: int, n: int, out: Array) -> None:
    for k in range(n):
        out[k] = model.matrix[row, first + k]


def _spread_items(model: Any, row: int, work: Array, items: Array, n: int, out: Array) -> None:
    for k in range(n):
        out[k] = work[items[k]]


def _spread_range(model: Any, row: int, work: Array, first: int, n: int, out: Array) -> None:
    for k in range(n):
        out[k] = work[first + k]


def _by_kind(factors: Any, sparse: Any, dense: Any, stored: Any) -> Any:
    """Make a function whose first argument is a model, and which is compiled as the one of the four for its kind."""
    kinds = {FactorModel: factors, SparseModel: sparse, DenseItemModel: dense, RowModel: stored}

    def called(*arguments: Any) -> Any:
        raise NotImplementedError

    @overload(called, jit_options=LEAN, strict=False)
    def chosen(model: Any, *others: Any) -> Any:
        return kinds[model.instance_class]

    return called


#: Spread a user's scores over a working row where they are made row by row, or ask the memory for the factors of the user
#: that comes next: (model, row, following, work).
open_user = _by_kind(_ask_ahead, _spread, _do_nothing, _do_nothing)
#: Clear what :func:`open_user` put into the working row: (model, row, work).
close_user = _by_kind(_do_nothing, _clear, _do_nothing, _do_nothing)
#: The scores of ``items[:n]`` into ``out``: (model, row, work, items, n, out).
score_items = _by_kind(_factor_items, _spread_items, _dense_items, _stored_items)
#: The scores of items first..first+n−1, each equal to what :func:`score_items` gives: (model, row, work, first, n, out).
score_range = _by_kind(_factor_range, _spread_range, _dense_range, _stored_range)
