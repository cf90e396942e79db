"""Puts the library into the wheel: that of the variable DPB_LIBRARY, or one that cargo builds; and its declarations,
compiled by cffi, so that an import parses none. (The parser needs docstrings, which `python -OO` removes.)

`make dist` sets DPB_LIBRARY and DPB_PLATFORM, such as manylinux_2_28_x86_64. A wheel contains no code of one Python
version, so it is tagged py3-none.
"""

import os
import runpy
import subprocess
import sys
import sysconfig
import tempfile
from pathlib import Path

from cffi import FFI

from hatchling.builders.hooks.plugin.interface import BuildHookInterface

BUILT = {"win32": "dpb_python.dll", "darwin": "libdpb_python.dylib"}.get(sys.platform, "libdpb_python.so")

# What only this package calls: bindings/python/native.
NATIVE = """
typedef struct dpb_log {
  size_t entries; const uint32_t *arm; const double *propensity; const double *reward;
  const uint32_t *eligible; const size_t *eligible_ends; const double *values, *costs; const double *examined;
  const float *features; size_t features_len; uint32_t arms;
} dpb_log;
int32_t dpb_plan(const uint8_t *arguments, size_t len, const dpb_log *log, double *progress, uint32_t *stop,
                 uint8_t **out, size_t *out_len);
void dpb_plan_free(uint8_t *out, size_t len);
void dpb_plan_estimate(const double *weighted, const double *weights, const double *robust, size_t n, double *out);
"""


class Library(BuildHookInterface):
    def initialize(self, version, build_data):
        library = os.environ.get("DPB_LIBRARY")
        if library is None:
            top = Path(self.root).parents[1]
            target = Path(os.environ.get("CARGO_TARGET_DIR") or top / "target")
            build = ["cargo", "rustc", "--release", "--locked", "-p", "dpb-python", "--lib", "--target-dir", str(target)]
            build += ["--crate-type", "cdylib", "--", "-C", "strip=symbols"]
            try:
                subprocess.run(build, cwd=top, check=True)
            except FileNotFoundError:
                raise SystemExit("no cargo: install Rust 1.88 or newer from https://rustup.rs") from None
            library = target / "release" / BUILT
        platform = os.environ.get("DPB_PLATFORM") or sysconfig.get_platform().replace("-", "_").replace(".", "_")
        build_data["tag"] = f"py3-none-{platform}"
        build_data["pure_python"] = False
        build_data["force_include"][str(library)] = f"dpb/_native{Path(library).suffix}"
        self.made = tempfile.TemporaryDirectory()
        declarations = FFI()
        declarations.cdef(runpy.run_path(str(Path(self.root) / "src/dpb/_cdef.py"))["CDEF"])
        declarations.cdef(NATIVE)
        declarations.set_source("dpb._ffi", None)
        compiled = Path(self.made.name) / "_ffi.py"
        declarations.emit_python_code(str(compiled))
        build_data["force_include"][str(compiled)] = "dpb/_ffi.py"

    def finalize(self, version, build_data, artifact_path):
        self.made.cleanup()
