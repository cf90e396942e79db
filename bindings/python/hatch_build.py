"""Puts the library into the wheel: that of the variable DPB_LIBRARY, or one that cargo builds.

`make dist` sets DPB_LIBRARY and DPB_PLATFORM, such as manylinux_2_28_x86_64. A wheel contains no code of one Python
version, so it is tagged py3-none.
"""

import os
import subprocess
import sys
import sysconfig
from pathlib import Path

from hatchling.builders.hooks.plugin.interface import BuildHookInterface

NAMES = {"win32": ("dpb_python.dll", "_native.dll"), "darwin": ("libdpb_python.dylib", "_native.dylib")}


class Library(BuildHookInterface):
    def initialize(self, version, build_data):
        built, name = NAMES.get(sys.platform, ("libdpb_python.so", "_native.so"))
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
            library = target / "release" / built
        platform = os.environ.get("DPB_PLATFORM") or sysconfig.get_platform().replace("-", "_").replace(".", "_")
        build_data["tag"] = f"py3-none-{platform}"
        build_data["pure_python"] = False
        build_data["force_include"][str(library)] = f"dpb/{name}"
