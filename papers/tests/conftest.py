"""Before NumPy is loaded: the matrices of the tests are small, and workers of pytest-xdist share the cores."""

import os

for _name in ("OMP_NUM_THREADS", "OPENBLAS_NUM_THREADS", "MKL_NUM_THREADS"):
    os.environ.setdefault(_name, "1")
