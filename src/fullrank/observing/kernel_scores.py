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
    """Clear what :func:`open_user` put into ``work``."""
    raise NotImplementedError


def score_items(model: Any, row: int, work: Array, items: Array, n: int, out: Array) -> None:
    """The scores of ``items[:n]`` into ``out``."""
    raise NotImplementedError


def score_range(model: Any, row: int, work: Array, first: int, n: int, out: Array) -> None:
    """The scores of items first..first+n−1 into ``out``; each equal to what :func:`score_items` gives."""
    raise NotImplementedError


def _made(model: Any, row: int, work: Array, item: int) -> Any:
    """Return a score that is there already: a stored one, or one that :func:`open_user` made."""
    raise NotImplementedError


@overload(announce_user, jit_options=LEAN, strict=False)
def _announce_user(model: Any, row: Any) -> Any:
    if getattr(model, "instance_class", None) is FactorModel:
        return lambda model, row: prefetch_row(model.users, row)
    return lambda model, row: None


@overload(open_user, jit_options=LEAN)
def _open_user(model: Any, row: Any, work: Any) -> Any:
    if getattr(model, "instance_class", None) is not SparseModel:
        return _do_nothing

    def spread(model: Any, row: Any, work: Any) -> None:
        adds = model.empty == 0
        for h in range(model.history_ptr[row], model.history_ptr[row + 1]):
            j, weight = model.history[h], model.history_weight[h]
            for k in range(model.ptr[j], model.ptr[j + 1]):
                if adds:
                    work[model.items[k]] += weight * model.value[k]
                else:
                    work[model.items[k]] = weight * model.value[k]

    return spread


@overload(close_user, jit_options=LEAN)
def _close_user(model: Any, row: Any, work: Any) -> Any:
    if getattr(model, "instance_class", None) is not SparseModel:
        return _do_nothing

    def clear(model: Any, row: Any, work: Any) -> None:
        for h in range(model.history_ptr[row], model.history_ptr[row + 1]):
            j = model.history[h]
            for k in range(model.ptr[j], model.ptr[j + 1]):
                work[model.items[k]] = model.empty

    return clear


def _do_nothing(model: Any, row: Any, work: Any) -> None:
    pass


@overload(_made, jit_options=LEAN, strict=False)
def _made_score(model: Any, row: Any, work: Any, item: Any) -> Any:
    if getattr(model, "instance_class", None) is RowModel:
        return lambda model, row, work, item: model.matrix[row, item]
    return lambda model, row, work, item: work[item]


@overload(score_items, jit_options=LEAN)
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

    def made(model: Any, row: Any, work: Any, items: Any, n: Any, out: Any) -> None:
        for k in range(n):
            out[k] = _made(model, row, work, items[k])

    return made


@overload(score_range, jit_options=LEAN)
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

    def made(model: Any, row: Any, work: Any, first: Any, n: Any, out: Any) -> None:
        for k in range(n):
            out[k] = _made(model, row, work, first + k)

    return made
