#!/usr/bin/env python3
"""Prints as JSON what the loader of macOS reads in a shared library: its name, the libraries that it loads, the oldest
macOS, what it exports, and the number of pages whose hashes the signature has. A hash that is wrong is an error.

    tests/support/macho.py LIBRARY
"""

import hashlib
import json
import struct
import sys

with open(sys.argv[1], "rb") as file:
    data = file.read()
magic, processor, _, kind, commands, _, _, _ = struct.unpack_from("<8I", data)
assert magic == 0xFEEDFACF and kind == 6, "no shared library for 64 bits"
found = {"processor": {0x01000007: "x86_64", 0x0100000C: "arm64"}[processor], "loads": [], "signed_pages": 0}


def text(at):
    return data[at : data.index(b"\0", at)].decode()


def number(at):
    """A ULEB128 number, and where it ends."""
    value = shift = 0
    while True:
        value |= (data[at] & 127) << shift
        shift += 7
        at += 1
        if data[at - 1] < 128:
            return value, at


def exports(trie, at, prefix):
    """The names below a node of the trie that the loader searches."""
    size, at = number(at)
    names = [prefix] if size else []
    at += size
    children, at = data[at], at + 1
    for _ in range(children):
        label = text(at)
        node, at = number(at + len(label) + 1)
        names += exports(trie, trie + node, prefix + label)
    return names


def signed_pages(at):
    """Checks the hash of each page, which the kernel compares when it maps the page."""
    magic, _, count = struct.unpack_from(">3I", data, at)
    assert magic == 0xFADE0CC0
    (directory,) = (at + offset for slot, offset in struct.iter_unpack(">2I", data[at + 12 : at + 12 + 8 * count]) if slot == 0)
    magic, _, _, flags, hashes, _, _, pages, limit = struct.unpack_from(">9I", data, directory)
    size, algorithm, _, page = struct.unpack_from(">4B", data, directory + 36)
    assert (magic, flags & 2, size, algorithm) == (0xFADE0C02, 2, 32, 2), "no ad-hoc signature with SHA-256"
    assert limit == at and pages == -(-limit >> page), "the signature does not cover all that is before it"
    for i in range(pages):
        end = min(limit, (i + 1) << page)
        hashed = data[directory + hashes + 32 * i :][:32]
        assert hashlib.sha256(data[i << page : end]).digest() == hashed, f"page {i} is not as signed"
    return pages


at = 32
for _ in range(commands):
    command, length = struct.unpack_from("<2I", data, at)
    words = struct.unpack_from(f"<{length // 4}I", data, at)
    if command == 0xD:
        found["name"] = text(at + words[2])
    elif command in (0xC, 0x80000018, 0x8000001F):
        found["loads"].append(text(at + words[2]))
    elif command in (0x24, 0x32):
        oldest = words[3] if command == 0x32 else words[2]
        found["oldest"] = f"{oldest >> 16}.{oldest >> 8 & 255}"
    elif command in (0x80000022, 0x80000033):
        trie = words[10] if command == 0x80000022 else words[2]
        found["exports"] = sorted(exports(trie, trie, ""))
    elif command == 0x1D:
        found["signed_pages"] = signed_pages(words[2])
    at += length
print(json.dumps(found))
