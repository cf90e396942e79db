import os

from conan import ConanFile
from conan.errors import ConanInvalidConfiguration
from conan.tools.files import copy, get

SHA256 = {
    "x86_64-linux-gnu": "@SHA256:x86_64-linux-gnu@",
    "x86_64-linux-musl": "@SHA256:x86_64-linux-musl@",
    "aarch64-linux-gnu": "@SHA256:aarch64-linux-gnu@",
    "aarch64-linux-musl": "@SHA256:aarch64-linux-musl@",
}


class Libdpb(ConanFile):
    name = "libdpb"
    version = "@VERSION@"
    license = "MIT"
    url = homepage = "https://github.com/libdpb/libdpb"
    description = "Differentially private multi-armed bandits"
    topics = ("differential-privacy", "bandit")
    package_type = "library"
    settings = "os", "arch"
    options = {"shared": [True, False], "libc": ["gnu", "musl"]}
    default_options = {"shared": False, "libc": "gnu"}

    @property
    def _archive(self):
        processor = {"armv8": "aarch64"}.get(str(self.settings.arch), str(self.settings.arch))
        return f"{processor}-linux-{self.options.libc}"

    def validate(self):
        if self.settings.os != "Linux" or self._archive not in SHA256:
            raise ConanInvalidConfiguration("no archive for this system: install libdpb from source")

    def build(self):
        release = os.environ.get("DPB_RELEASE", f"{self.url}/releases/download/v{self.version}")
        archive = f"libdpb-{self.version}-{self._archive}.tar.gz"
        get(self, f"{release}/{archive}", sha256=SHA256[self._archive], strip_root=True)

    def package(self):
        copy(self, "LICENSE", self.build_folder, os.path.join(self.package_folder, "licenses"))
        copy(self, "*.h*", os.path.join(self.build_folder, "include"), os.path.join(self.package_folder, "include"))
        library = "libdpb.so*" if self.options.shared else "libdpb.a"
        copy(self, library, os.path.join(self.build_folder, "lib"), os.path.join(self.package_folder, "lib"))

    def package_info(self):
        self.cpp_info.set_property("cmake_file_name", "dpb")
        self.cpp_info.set_property("cmake_target_name", "dpb::dpb")
        self.cpp_info.set_property("pkg_config_name", "dpb")
        self.cpp_info.libs = ["dpb"]
        if not self.options.shared:
            self.cpp_info.system_libs = ["pthread", "m", "dl"]
            if self.options.libc == "musl":
                self.cpp_info.exelinkflags = self.cpp_info.sharedlinkflags = ["-Wl,--eh-frame-hdr"]
