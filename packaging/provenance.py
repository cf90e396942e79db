#!/usr/bin/env python3
"""Prints how the files of a release were made, as a provenance statement of SLSA 1.0 in the form of in-toto.

    packaging/provenance.py DIST VERSION COMMIT "$(rustc --version)" TARGET...

It names no time and no machine, so that everybody who builds the commit gets the same statement. A signature of it says who
built. The public CI makes one of its own, with its identity.
"""

import hashlib
import json
import os
import sys

dist, version, commit, rustc, *targets = sys.argv[1:]
repository = "https://github.com/libdpb/libdpb"


def digest(path):
    with open(path, "rb") as file:
        return {"sha256": hashlib.sha256(file.read()).hexdigest()}


statement = {
    "_type": "https://in-toto.io/Statement/v1",
    "subject": [{"name": name, "digest": digest(os.path.join(dist, name))} for name in sorted(os.listdir(dist))],
    "predicateType": "https://slsa.dev/provenance/v1",
    "predicate": {
        "buildDefinition": {
            "buildType": f"{repository}/blob/v{version}/packaging/dist",
            "externalParameters": {"command": "make dist", "targets": targets},
            "internalParameters": {"rustc": rustc},
            "resolvedDependencies": [
                {"uri": f"git+{repository}@refs/tags/v{version}", "digest": {"gitCommit": commit}},
                {"uri": "file:Cargo.lock", "digest": digest("Cargo.lock")},
            ],
        },
        "runDetails": {"builder": {"id": f"{repository}/blob/v{version}/docs/publishing.md"}},
    },
}
print(json.dumps(statement, indent=2))
