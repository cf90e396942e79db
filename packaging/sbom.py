#!/usr/bin/env python3
"""Writes the CycloneDX bill of materials of a release: the packages that are linked, with versions, licences and the
hashes of Cargo.lock; and their notices, as their licences require.

    packaging/sbom.py SOURCE "$(rustc --version)" BILL NOTICE MINGW

MINGW is the licence of the runtime of mingw-w64.
"""

import json
import os
import subprocess
import sys
import time
import tomllib
import uuid

source, rustc, bill, notice, mingw = sys.argv[1:]
command = [os.environ.get("CARGO", "cargo"), "metadata", "--format-version=1", "--locked"]
metadata = json.loads(subprocess.run(command, cwd=source, check=True, stdout=subprocess.PIPE).stdout)
with open(os.path.join(source, "Cargo.lock"), "rb") as lock:
    hashes = {(p["name"], p["version"]): p.get("checksum") for p in tomllib.load(lock)["package"]}
packages = {package["id"]: package for package in metadata["packages"]}
# The dependencies that are linked on any platform, without those of builds and tests.
linked = {
    node["id"]: sorted(d["pkg"] for d in node["deps"] if any(kind["kind"] is None for kind in d["dep_kinds"]))
    for node in metadata["resolve"]["nodes"]
}


def purl(key):
    return f"pkg:cargo/{packages[key]['name']}@{packages[key]['version']}"


def component(key):
    package = packages[key]
    entry = {"type": "library", "bom-ref": purl(key), "name": package["name"], "version": package["version"]}
    if package["description"]:
        entry["description"] = " ".join(package["description"].split())
    if digest := hashes[package["name"], package["version"]]:
        entry["hashes"] = [{"alg": "SHA-256", "content": digest}]
    # The wheel's own packages have the licence of the library.
    licence = packages[root]["license"] if key in metadata["workspace_members"] else package["license"]
    entry["licenses"] = [{"expression": licence.replace("/", " OR ")}]
    entry["purl"] = purl(key)
    if package["repository"]:
        entry["externalReferences"] = [{"type": "vcs", "url": package["repository"]}]
    return entry


# The library, and what the wheels have besides.
(root,) = (key for key in metadata["workspace_members"] if packages[key]["name"] == "dpb")
(wheel,) = (key for key in metadata["workspace_members"] if packages[key]["name"] == "dpb-python")
reached, waiting = set(), [root, wheel]
while waiting:
    key = waiting.pop()
    if key not in reached:
        reached.add(key)
        waiting += linked[key]
# Of the workspace's optional dependencies these two packages have some: the metadata do not say which.
options = "--locked --package=dpb --package=dpb-python --no-dedupe --edges=normal --target=all --prefix=none --format={p}"
tree = subprocess.run([command[0], "tree", *options.split()], cwd=source, check=True, stdout=subprocess.PIPE).stdout.decode()
built = {tuple(line.split()[:2]) for line in tree.splitlines() if line}
reached = {key for key in reached if (packages[key]["name"], "v" + packages[key]["version"]) in built}
linked = {key: [other for other in linked[key] if other in reached] for key in reached}
components = [component(key) for key in sorted(reached - {root}, key=purl)]
# The libraries contain the parts of the Rust standard library that they use.
std = {"type": "library", "bom-ref": "rust-std", "name": "rust-std", "version": rustc.split()[1], "description": rustc}
std["licenses"] = [{"expression": "MIT OR Apache-2.0"}]
runtime = {"type": "library", "bom-ref": "mingw-w64-runtime", "name": "mingw-w64-runtime"}
runtime["description"] = "The start of a library, in those for Windows only"
runtime["licenses"] = [{"expression": "ZPL-2.1"}]
document = {
    "$schema": "http://cyclonedx.org/schema/bom-1.5.schema.json",
    "bomFormat": "CycloneDX",
    "specVersion": "1.5",
    "version": 1,
    "metadata": {
        "timestamp": time.strftime("%Y-%m-%dT%H:%M:%SZ", time.gmtime(int(os.environ["SOURCE_DATE_EPOCH"]))),
        "component": component(root),
    },
    "components": components + [std, runtime],
    "dependencies": [
        {"ref": purl(key), "dependsOn": [purl(d) for d in linked[key]] + (["rust-std", "mingw-w64-runtime"] if key == root else [])}
        for key in sorted(reached, key=purl)
    ],
}
text = json.dumps(document, indent=2, sort_keys=True)
# The serial number is a hash of the contents, so that two runs give the same file.
document["serialNumber"] = f"urn:uuid:{uuid.uuid5(uuid.NAMESPACE_URL, text)}"
with open(bill, "w") as file:
    file.write(json.dumps(document, indent=2) + "\n")

# The texts of the licences, each once, with the packages that have it.
texts = {}


def add(text, name):
    texts.setdefault("\n".join(line.rstrip() for line in text.strip().splitlines()), []).append(name)


def is_licence(file):
    return file.upper().startswith(("LICENSE", "LICENCE", "COPYING", "NOTICE", "COPYRIGHT", "UNLICENSE"))


for key in sorted(reached - set(metadata["workspace_members"]), key=purl):
    package, place = packages[key], os.path.dirname(packages[key]["manifest_path"])
    name = f"{package['name']} {package['version']} ({package['license']})"
    files = sorted(file for file in os.listdir(place) if is_licence(file) and os.path.isfile(os.path.join(place, file)))
    for file in files:
        with open(os.path.join(place, file), encoding="utf-8") as text:
            add(text.read(), name)
    if not files:
        authors = ", ".join(package["authors"]) or f"the authors of {package['name']}"
        add(f"Copyright (c) {authors}\nLicensed under {package['license']}; the package has no text of it.", name)
sysroot = subprocess.run([os.environ.get("RUSTC", "rustc"), "--print", "sysroot"], check=True, stdout=subprocess.PIPE)
licences = os.path.join(sysroot.stdout.decode().strip(), "share/doc/rust/licenses")
for file in ["Apache-2.0.txt", "MIT.txt"]:
    with open(os.path.join(licences, file), encoding="utf-8") as text:
        add(text.read(), f"the Rust standard library {rustc.split()[1]} (MIT OR Apache-2.0), copyright The Rust Project Developers")
with open(mingw, encoding="utf-8") as text:
    add(text.read(), "the runtime of mingw-w64 (ZPL-2.1), in the libraries for Windows")
with open(notice, "w", encoding="utf-8") as file:
    file.write("The libraries of libdpb contain parts of these packages. The wheels contain all of them.\n")
    for text, names in texts.items():
        file.write("\n" + "=" * 80 + "\n" + "\n".join(names) + "\n" + "-" * 80 + "\n" + text + "\n")
