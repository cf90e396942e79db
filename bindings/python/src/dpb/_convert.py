"""Numbers for C. Everything that a caller passes goes through these functions, which refuse what C would change: fractions
and booleans as integers, numbers beyond their type, masked and missing elements, dates, text."""

from __future__ import annotations

import array
from collections.abc import Sequence
from decimal import Decimal
from numbers import Real
from operator import index
from typing import Any

import numpy as np

from ._library import Error, InvalidConfigError, InvalidRequestError

_NUMBERS = (Real, Decimal, np.bool_)


def _scalar(value: Any) -> Any:
    """An array without dimensions, as numpy, JAX and PyTorch return one, as its element."""
    if getattr(value, "ndim", None) == 0 and not isinstance(value, np.generic):
        value = (value if isinstance(value, np.ma.MaskedArray) else np.asarray(value))[()]
        if value is np.ma.masked:
            raise TypeError("masked")
    return value


def _index(value: Any) -> int:
    if isinstance(value, (bool, np.bool_)):
        raise TypeError
    return index(value)


def integer(name: str, value: Any, bits: int = 64, error: type[Error] = InvalidConfigError) -> int:
    """An integer in 0 .. 2^bits - 1."""
    try:
        number = _index(_scalar(value))
    except TypeError:
        raise TypeError(f"{name} must be an integer, got {value!r}") from None
    if not 0 <= number < 1 << bits:
        raise error(f"{name} must be in 0 .. 2^{bits} - 1, got {number}")
    return number


def real(name: str, value: Any, error: type[Error] = InvalidConfigError) -> float:
    """A number, which need not be finite: C says which must be."""
    try:
        number = _scalar(value)
    except TypeError:
        number = None
    if not isinstance(number, _NUMBERS):
        raise TypeError(f"{name} must be a number, got {value!r}")
    try:
        return float(number)
    except (OverflowError, ValueError):
        raise error(f"{name} must fit into 64 bits, got {value!r}") from None


def flag(name: str, value: Any) -> bool:
    """True or False."""
    if not isinstance(value, (bool, np.bool_)):
        raise TypeError(f"{name} must be True or False, got {value!r}")
    return bool(value)


def flags(name: str, value: Any) -> np.ndarray[Any, Any]:
    """True or False, or an array of these."""
    found = np.asarray(value)
    if found.dtype != np.bool_ or np.ma.is_masked(value):
        raise TypeError(f"{name} must be True or False, got {value!r}")
    return found


def _listed(name: str, values: Any, error: type[Error]) -> np.ndarray[Any, Any]:
    """An array of what was given. Where numpy would change elements to give them one type, they are objects."""
    if isinstance(values, np.ma.MaskedArray) and np.ma.is_masked(values):
        raise error(f"{name} must have no masked elements")
    if isinstance(values, (array.array, memoryview)) or hasattr(values, "dtype") or hasattr(values, "__array__"):
        return np.asarray(values)
    parts = [values]
    single = isinstance(values, (str, bytes)) or not isinstance(values, Sequence)
    if not single:
        parts = list(values)
    if not single and any(is_row(part) for part in parts):
        rows = [_listed(name, part, error) for part in parts]
        shapes = sorted({row.shape for row in rows})
        if len(shapes) > 1:
            raise error(f"{name} must have rows of one length, got rows of shapes {shapes}")
        return np.stack(rows if len({row.dtype for row in rows}) == 1 else [row.astype(object) for row in rows])
    found = np.empty(len(parts), object)
    for at, part in enumerate(parts):
        found[at] = part
    return found.reshape(()) if single else found


def is_row(part: Any) -> bool:
    """Whether it is a list or an array, and no number."""
    listed = isinstance(part, (Sequence, array.array, memoryview)) and not isinstance(part, (str, bytes))
    return bool(getattr(part, "ndim", 0)) or listed


def _each(name: str, found: np.ndarray[Any, Any], convert: Any, kind: Any, error: type[Error]) -> np.ndarray[Any, Any]:
    """Converts objects one by one."""
    flat = np.empty(found.size, kind)
    for at, value in enumerate(found.ravel().tolist()):
        try:
            flat[at] = convert(name, value)
        except TypeError as wrong:
            raise error(f"element {at} of {wrong}") from None
    return flat.reshape(found.shape)


def _shaped(name: str, found: np.ndarray[Any, Any], ndim: int | None, error: type[Error]) -> np.ndarray[Any, Any]:
    if ndim is not None and found.ndim != ndim:
        raise error(f"{name} must have {ndim} dimension{'s' * (ndim > 1)}, got an array of shape {found.shape}")
    return found


def integers(
    name: str, values: Any, bits: int = 64, error: type[Error] = InvalidRequestError, ndim: int | None = 1
) -> np.ndarray[Any, Any]:
    """A contiguous array of uint32 or uint64, not copied if it is one."""
    kind = np.dtype(f"u{bits // 8}")
    found = _shaped(name, _listed(name, values, error), ndim, error)
    if found.dtype.kind == "O" and set(map(type, found.flat)) != {int}:
        found = _each(name, found, lambda name, value: integer(name, value, bits, error), kind, error)
    elif found.dtype.kind not in "iuO" and found.size:
        raise error(f"{name} must be integers, got {found.dtype}")
    elif found.size and found.dtype != kind:
        least, most = int(found.min()), int(found.max())
        if least < 0 or most >= 1 << bits:
            raise error(f"{name} must be in 0 .. 2^{bits} - 1, got {least if least < 0 else most}")
    return np.ascontiguousarray(found, kind).reshape(found.shape)


def reals(
    name: str, values: Any, kind: Any = np.float64, error: type[Error] = InvalidRequestError, ndim: int | None = 1
) -> np.ndarray[Any, Any]:
    """A contiguous array of float64 or float32, not copied if it is one."""
    found = _listed(name, values, error)
    if found.dtype.kind == "O" and found.ndim == 1 and found.size and all(is_row(part) for part in found):
        found = _listed(name, list(found), error)  # a column of lists
    found = _shaped(name, found, ndim, error)
    if found.dtype.kind == "O" and set(map(type, found.flat)) != {float}:
        found = _each(name, found, lambda name, value: real(name, value, error), np.float64, error)
    elif found.dtype.kind not in "biufO" and found.size:
        raise error(f"{name} must be numbers, got {found.dtype}")
    wide = found.astype(np.float64) if found.dtype.kind == "O" else found
    with np.errstate(over="ignore"):
        narrow = np.ascontiguousarray(wide, kind).reshape(wide.shape)
    if wide.dtype.kind == "f" and wide.dtype.itemsize > narrow.dtype.itemsize:
        beyond = np.isinf(narrow) & np.isfinite(wide)
        if beyond.any():
            raise error(f"{name} must fit into {narrow.dtype}, got {wide[beyond].flat[0]}")
    return narrow
