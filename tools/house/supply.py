"""Where dependencies come from, under which licences, and which of them there are twice. No network.

Invariants  S1 every package that is not ours comes from crates.io, with a checksum.
            S2 every package that the host builds has a licence that a distribution under MIT or Apache-2.0 can include.
            S3 no package is locked in two versions, except `DUPLICATES`; and each of those still is.
Not here    advisories: they need a database from the network.
"""
import re

from . import ROOT

# CDLA-Permissive-2.0 is for data: the certificates of public authorities (webpki-roots, by sqlx).
LICENCES = {
    *("0BSD", "Apache-2.0", "BSD-3-Clause", "BSL-1.0", "CDLA-Permissive-2.0", "ISC", "MIT", "MIT-0", "Unicode-3.0", "Zlib"),
}
REGISTRY = "registry+https://github.com/rust-lang/crates.io-index"
# The reason for each duplicate. A package that is not listed is a new one: update the dependency that requires the
# older version, or add the reason here.
DUPLICATES = {
    "base64": "0.22 (ours) and 0.23 (object_store)",
    "block-buffer": "sha2 0.10 (ours) and 0.11 (sqlx)",
    "cpufeatures": "sha2 0.10 (ours) and 0.11 (sqlx)",
    "crypto-common": "sha2 0.10 (ours) and 0.11 (sqlx)",
    "digest": "sha2 0.10 (ours) and 0.11 (sqlx)",
    "getrandom": "ring 0.17, and everything newer",
    "hashbrown": "hashlink of sqlx, and indexmap",
    "rand": "nkeys of async-nats, and everything newer",
    "rand_core": "sha1 and rand of sqlx, and proptest",
    "sha1": "0.10 (ours) and 0.11 (sqlx)",
    "sha2": "0.10 (ours) and 0.11 (sqlx)",
    "spin": "sqlx, and crc-fast of object_store",
    "syn": "derive macros that have not moved to 3",
    "untrusted": "ring, and rustls-webpki",
    "windows-sys": "only on Windows, which is not built",
}


def locked(text):
    """Name, version, source and checksum of each package of a lock file."""
    for block in text.split("[[package]]")[1:]:
        field = dict(re.findall(r'(?m)^(name|version|source|checksum) = "([^"]*)"', block))
        yield field["name"], field["version"], field.get("source"), field.get("checksum")


def check_sources(name, text):
    for package, version, source, checksum in locked(text):
        if source is not None and (source != REGISTRY or not checksum):
            yield f"{name}:1: {package} {version} comes from {source}{'' if checksum else ', without a checksum'}"


def check_duplicates(text, known=DUPLICATES):
    versions = {}
    for package, version, *_ in locked(text):
        versions.setdefault(package, []).append(version)
    for package, found in sorted(versions.items()):
        if len(found) > 1 and package not in known:
            which = " and ".join(found)
            yield f"Cargo.lock:1: {package} is there twice, {which}: tools/house/supply.py lists the known ones"
    for package in sorted(known):
        if len(versions.get(package, ())) < 2:
            yield f"tools/house/supply.py:1: {package} is no longer there twice: take it off the list"


def is_allowed(expression):
    """Whether an SPDX expression can be satisfied with `LICENCES`; an exception (`WITH`) only adds permissions."""
    tokens = expression.replace("/", " OR ").replace("(", " ( ").replace(")", " ) ").split()

    def either():
        allowed = both()
        while tokens[:1] == ["OR"]:
            tokens.pop(0)
            allowed = both() or allowed
        return allowed

    def both():
        allowed = one()
        while tokens[:1] == ["AND"]:
            tokens.pop(0)
            allowed = one() and allowed
        return allowed

    def one():
        if not tokens:
            return False
        token = tokens.pop(0)
        if token == "(":
            allowed = either()
            return bool(tokens) and tokens.pop(0) == ")" and allowed
        if tokens[:1] == ["WITH"]:
            del tokens[:2]
        return token in LICENCES

    return either() and not tokens


def check_licences(resolved):
    used = {node["id"] for node in resolved["resolve"]["nodes"]}
    for package in resolved["packages"]:
        licence = package["license"] or ""
        if package["id"] in used and not is_allowed(licence):
            yield f"Cargo.lock:1: {package['name']} {package['version']} has the licence {licence!r}"


def check(resolved, files):
    for path in files:
        if path.name == "Cargo.lock":
            yield from check_sources(str(path.relative_to(ROOT)), path.read_text(encoding="utf-8"))
    yield from check_duplicates((ROOT / "Cargo.lock").read_text(encoding="utf-8"))
    yield from check_licences(resolved)
