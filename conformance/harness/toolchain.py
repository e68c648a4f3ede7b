"""Toolchains: installs the libraries into `conformance/.cache`, and says how to start each client.

Owns        `.cache`: one folder per client and a stamp of what it was made from.
Invariants  versions are pinned by the committed lock files; an up-to-date cache is not touched.
Not here    which modes exist: `modes.py`.
"""
import hashlib
import os
import pathlib
import shutil
import subprocess
import sys

from .failure import Failure

ROOT = pathlib.Path(__file__).resolve().parent.parent
CACHE = ROOT / ".cache"
CLIENTS = ROOT / "clients"

LOG_TAIL_LINES = 25

# The features of the twilight crate by the compression they stand for.
TWILIGHT_FEATURES = {"none": "", "zlib-stream": "zlib", "zstd-stream": "zstd"}


def output(*command):
    """What a command says, for the stamp."""
    return subprocess.run(command, check=True, capture_output=True, text=True).stdout.strip()


def tail(path, lines=LOG_TAIL_LINES):
    """The last lines of a log."""
    if not path.exists():
        return "(none)"
    return "\n".join(path.read_text(encoding="utf-8", errors="replace").splitlines()[-lines:]) or "(empty)"


class Toolchain:
    """One client's libraries."""

    # The programs it needs, each with what it is for.
    tools = ()

    def __init__(self, name):
        self.name = name
        self.source = CLIENTS / name
        self.folder = CACHE / name
        self.log = CACHE / f"setup-{name}.log"

    def missing_tools(self):
        return [tool for tool in self.tools if shutil.which(tool) is None]

    def ensure(self):
        """Installs what is not there or out of date."""
        stamp_path = self.folder / "stamp"
        stamp = self._stamp()
        if stamp_path.exists() and stamp_path.read_text() == stamp:
            return
        print(f"setting up {self.name}", flush=True)
        stamp_path.unlink(missing_ok=True)
        self.folder.mkdir(parents=True, exist_ok=True)
        self.log.write_bytes(b"")
        self.install()
        stamp_path.write_text(stamp)

    def _stamp(self):
        digest = hashlib.sha256(self.tool_version().encode())
        for path in self.inputs():
            digest.update(path.relative_to(self.source).as_posix().encode() + b"\0" + path.read_bytes())
        return digest.hexdigest()

    def run_logged(self, *command, **options):
        """Runs one step of the installation."""
        with open(self.log, "ab") as log:
            log.write(f"$ {' '.join(map(str, command))}\n".encode())
            log.flush()
            code = subprocess.run(command, stdout=log, stderr=subprocess.STDOUT, check=False, **options).returncode
        if code != 0:
            raise Failure(f"setting up {self.name} failed ({command[0]} ended with {code}):\n{tail(self.log)}")

    def tool_version(self):
        """What else the installation depends on."""
        raise NotImplementedError

    def inputs(self):
        """The files it is made from."""
        raise NotImplementedError

    def install(self):
        raise NotImplementedError

    def missing_module(self, mode):
        """The first of the mode's optional modules that could not be installed, if any."""
        return None

    def command(self, mode):
        """How the client is started."""
        raise NotImplementedError

    def environment(self):
        return dict(os.environ)


class Node(Toolchain):
    """npm packages, native ones included where they can be compiled."""

    tools = ("node", "npm")

    def tool_version(self):
        # Native modules are built for one ABI.
        return output("node", "-p", "`${process.versions.modules} ${process.platform} ${process.arch}`")

    def inputs(self):
        return [self.source / "package.json", self.source / "package-lock.json"]

    def install(self):
        for path in self.inputs():
            shutil.copy(path, self.folder)
        self.run_logged("npm", "ci", "--no-audit", "--no-fund", cwd=self.folder)

    def missing_module(self, mode):
        for name in mode.needs:
            program = ("node", "-e", f"require({name!r})")
            if subprocess.run(program, env=self.environment(), capture_output=True, check=False).returncode != 0:
                return name
        return None

    def command(self, mode):
        return ["node", str(self.source / "client.js")]

    def environment(self):
        return {**super().environment(), "NODE_PATH": str(self.folder / "node_modules")}


class Python(Toolchain):
    """A virtual environment."""

    tools = ("python3",)

    def tool_version(self):
        return output("python3", "--version") + str(self.folder)

    def inputs(self):
        return [self.source / "requirements.txt"]

    def install(self):
        self.run_logged("python3", "-m", "venv", "--clear", self._venv)
        self.run_logged(self._venv / "bin" / "pip", "install", "--no-input", "-r", self.inputs()[0])

    @property
    def _venv(self):
        return self.folder / "venv"

    def command(self, mode):
        return [str(self._venv / "bin" / "python"), str(self.source / "client.py")]


class Rust(Toolchain):
    """One binary for each compression."""

    tools = ("cargo",)

    def tool_version(self):
        return output("cargo", "--version")

    def inputs(self):
        return [self.source / "Cargo.toml", self.source / "Cargo.lock", self.source / "src" / "main.rs"]

    def install(self):
        target = CACHE / "target"
        environment = {**os.environ, "CARGO_TARGET_DIR": str(target)}
        for compression, feature in TWILIGHT_FEATURES.items():
            command = ("cargo", "build", "--locked", "--features", feature)
            self.run_logged(*command, cwd=self.source, env=environment)
            shutil.copy(target / "debug" / "conformance-twilight", self._binary(compression))

    def _binary(self, compression):
        return self.folder / f"client-{compression}"

    def command(self, mode):
        return [str(self._binary(mode.compression))]


TOOLCHAINS = {
    "discord.js": Node("discord.js"),
    "eris": Node("eris"),
    "oceanic.js": Node("oceanic.js"),
    "detritus": Node("detritus"),
    "discord.py": Python("discord.py"),
    "discord.py-self": Python("discord.py-self"),
    "nextcord": Python("nextcord"),
    "disnake": Python("disnake"),
    "twilight": Rust("twilight"),
    "ws": Node("ws"),
}


def set_up(names):
    """Makes the toolchains of these clients ready; returns what failed, by client."""
    CACHE.mkdir(exist_ok=True)
    failed = {}
    for name in names:
        toolchain = TOOLCHAINS[name]
        if missing := toolchain.missing_tools():
            failed[name] = f"{' and '.join(missing)} not found; needed to run {name}"
        else:
            try:
                toolchain.ensure()
            except (Failure, OSError, subprocess.SubprocessError) as error:
                failed[name] = str(error)
        if name in failed:
            print(failed[name], file=sys.stderr, flush=True)
    return failed
