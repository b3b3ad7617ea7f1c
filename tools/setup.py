"""Creates .venv in steps: `python3 tools/setup.py up | dev | spark | spark-background`.

up                the packages of a broker; Spark is installed in the background
dev               the same with Spark, and the tools of `make test` and `make check`
spark             only Spark and Arrow, and Java if apt can install it
spark-background  the same, without waiting for it

Each step leaves a stamp, a digest of its inputs. A step whose stamp is up to date is skipped, so an
interrupted set-up resumes where it stopped. Needs only Python.
"""

import fcntl
import hashlib
import os
import shlex
import shutil
import subprocess
import sys
import sysconfig
import time
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from functools import cache
from pathlib import Path

ROOT = Path(__file__).resolve().parents[1]
VENV = ROOT / ".venv"
BIN = VENV / "bin"
PYTHON = BIN / "python"
STAMPS = VENV / ".steps"
# The Makefile does not start this tool for Spark if this file exists.
SPARK_READY = VENV / ".ready-spark"
CACHE = ROOT / ".cache"
LOG = CACHE / "setup.log"
NATIVE = ROOT / "src" / "ottla" / "native"
BUILD = ROOT / "build" / "native"
MIN_PYTHON = (3, 11)
WAITING = "Another set-up is running here: waiting for it."
MAX_LOG_LINES_SHOWN = 20
# pip's settings for package indexes and their variables for uv, which does not read pip's files.
UV_VARIABLES = {
    "index-url": "UV_DEFAULT_INDEX",
    "extra-index-url": "UV_INDEX",
    "find-links": "UV_FIND_LINKS",
}


class Failed(Exception):
    """A step failed; the message is for the user."""


class Steps:
    """Prints numbered lines: a step's name when it begins, its duration when it ends."""

    def __init__(self, count):
        self._count = count
        self._number = 0

    @contextmanager
    def step(self, what):
        """Yields a list; its last text is printed after the duration."""
        self._number += 1
        print(f"[{self._number}/{self._count}] {what} …", end="", flush=True)
        began = time.monotonic()
        said = []
        try:
            yield said
        except BaseException:
            print(flush=True)
            raise
        rest = f" ({said[-1]})" if said else ""
        print(f" {time.monotonic() - began:.1f} s{rest}", flush=True)


def digest(*parts):
    """The digest of all inputs of a step."""
    found = hashlib.sha256()
    for part in parts:
        found.update(part if isinstance(part, bytes) else str(part).encode())
        found.update(b"\0")
    return found.hexdigest()


def is_done(name, made_from):
    try:
        return (STAMPS / name).read_text() == made_from
    except OSError:
        return False


def mark_done(name, made_from):
    STAMPS.mkdir(exist_ok=True)
    new = STAMPS / f"{name}.new"
    new.write_text(made_from)
    new.replace(STAMPS / name)


@contextmanager
def lock(name, *, waits=True, says=None):
    """Yields whether the lock is held. `says` is printed if the user has to wait for it."""
    CACHE.mkdir(exist_ok=True)
    with open(CACHE / name, "w") as file:
        try:
            fcntl.flock(file, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            if not waits:
                yield False
                return
            if says:
                print(says, flush=True)
            fcntl.flock(file, fcntl.LOCK_EX)
        yield True


def run(command, **environment):
    """Runs a command silently. Raises Failed with the end of its output if it fails."""
    with open(LOG, "ab") as log:
        log.write(f"$ {shlex.join(map(str, command))}\n".encode())
        log.flush()
        start = log.tell()
        done = subprocess.run(
            list(map(str, command)),
            cwd=ROOT,
            env={**os.environ, **environment},
            stdin=subprocess.DEVNULL,
            stdout=log,
            stderr=log,
            check=False,
        )
    if done.returncode:
        with open(LOG, errors="replace") as log:
            log.seek(start)
            last = "".join(log.readlines()[-MAX_LOG_LINES_SHOWN:])
        raise Failed(f"{shlex.join(map(str, command))} failed:\n{last}{LOG} has the whole output")


# Packages


def project():
    """pyproject.toml; imported here, because an older Python has no tomllib."""
    import tomllib

    return tomllib.loads((ROOT / "pyproject.toml").read_text())["project"]


def requirements(*extras):
    """The requirements of these extras, and of the extras that they include."""
    optional = project()["optional-dependencies"]
    found = []
    for extra in extras:
        for requirement in optional[extra]:
            if requirement.startswith("ottla["):
                inner = requirement[len("ottla[") : requirement.index("]")].split(",")
                found += requirements(*inner)
            else:
                found.append(requirement)
    return list(dict.fromkeys(found))


def install(*what, compiles=False):
    """Installs by uv, which is many times faster, or by pip if uv is missing or fails."""
    uv = BIN / "uv"
    common = ["--constraint", "constraints.txt", "--no-build-isolation", *what]
    # The build skips the native modules: a separate step compiles them.
    environment = {"NATIVE_MODULES": ""}
    if uv.exists():
        command = [uv, "pip", "install", "--quiet", "--python", PYTHON]
        try:
            bytecode = ["--compile-bytecode"] if compiles else []
            run([*command, *bytecode, *common], **environment, **uv_indexes())
        except Failed:
            pass
        else:
            return
    pip = [PYTHON, "-m", "pip", "--disable-pip-version-check", "install", "--quiet"]
    run([*pip, *common], **environment)


@cache
def uv_indexes():
    """pip's package indexes, from its files and variables, as variables for uv."""
    done = subprocess.run(
        [PYTHON, "-m", "pip", "config", "list"], capture_output=True, text=True, check=False
    )
    found = {}
    for line in done.stdout.splitlines():
        name, _, value = line.partition("=")
        variable = UV_VARIABLES.get(name.rpartition(".")[2])
        if variable and variable not in os.environ:
            found[variable] = value.strip("'\"")
    return found


# Steps


def make_environment():
    made_from = digest(sys.version, sys.base_prefix)
    if not is_done("environment", made_from):
        works = (
            PYTHON.exists()
            and not subprocess.run(
                [PYTHON, "-m", "pip", "--version"], capture_output=True, check=False
            ).returncode
        )
        if not works:
            run([sys.executable, "-m", "venv", "--clear", VENV])
        mark_done("environment", made_from)
    if not (BIN / "uv").exists():
        try:
            pip = [PYTHON, "-m", "pip", "--disable-pip-version-check", "install", "--quiet"]
            run([*pip, "--constraint", "constraints.txt", "uv"])
        except Failed:
            return "without uv: pip installs the rest, slower"
    return None


def install_broker():
    constraints = (ROOT / "constraints.txt").read_bytes()
    wanted = [*project()["dependencies"], *requirements("cluster"), "setuptools>=80"]
    made_from = digest(wanted, constraints)
    if not is_done("packages", made_from):
        install(*wanted, compiles=True)
        mark_done("packages", made_from)
    made_from = digest((ROOT / "pyproject.toml").read_bytes())
    if not (BIN / "ottla").exists() or not is_done("ottla", made_from):
        install("--no-deps", "--editable", ".")
        mark_done("ottla", made_from)


def install_extra(extra):
    wanted = requirements(extra)
    made_from = digest(wanted, (ROOT / "constraints.txt").read_bytes())
    if not is_done(extra, made_from):
        install(*wanted)
        mark_done(extra, made_from)


def compile_native():
    """Compiles changed modules, one per core at a time. Returns a summary for the user."""
    sources = sorted(path for path in NATIVE.glob("*.py") if path.stem != "__init__")
    suffix = sysconfig.get_config_var("EXT_SUFFIX")
    for left in NATIVE.glob("*.so"):
        if left.name not in {f"{source.stem}{suffix}" for source in sources}:
            left.unlink()
    works = compiler_works()
    common = ((ROOT / "setup.py").read_bytes(), (ROOT / "constraints.txt").read_bytes())

    def compile_one(source):
        target = NATIVE / f"{source.stem}{suffix}"
        made_from = digest(source.read_bytes(), *common, sys.version, compiler(), works)
        if is_done(f"native-{source.stem}", made_from) and target.exists() is works:
            return
        target.unlink(missing_ok=True)
        if works:
            build = BUILD / source.stem
            shutil.rmtree(build, ignore_errors=True)
            places = ("--build-lib", build / "lib", "--build-temp", build / "temp")
            command = [PYTHON, "setup.py", "--quiet", "build_ext", *places]
            run(command, NATIVE_MODULES=source.stem, NATIVE_BUILD=str(build))
            for built in build.glob("lib/**/*.so"):
                # Atomic: a killed set-up leaves no partial module.
                built.replace(target)
        mark_done(f"native-{source.stem}", made_from)

    pool = ThreadPoolExecutor(os.cpu_count())
    try:
        for compiling in [pool.submit(compile_one, source) for source in sources]:
            compiling.result()
    finally:
        # After Ctrl-C no further module is begun.
        pool.shutdown(cancel_futures=True)
    run([PYTHON, "-m", "compileall", "-q", "src"])
    compiled = sum((NATIVE / f"{source.stem}{suffix}").exists() for source in sources)
    if compiled == len(sources):
        return "compiled"
    if works:
        return f"{compiled} of {len(sources)} compiled, the others interpreted; see {LOG}"
    return "no working C compiler: interpreted, slower but complete"


def compiler():
    return os.environ.get("CC") or sysconfig.get_config_var("CC") or "cc"


def compiler_works():
    """Whether the compiler can compile a file that includes Python's headers."""
    BUILD.mkdir(parents=True, exist_ok=True)
    probe = BUILD / "probe.c"
    probe.write_text("#include <Python.h>\nint main(void) { return 0; }\n")
    include = sysconfig.get_path("include")
    command = [*shlex.split(compiler()), "-c", "-I", include, "-o", probe.with_suffix(".o"), probe]
    try:
        run(command)
    except (Failed, OSError):
        return False
    return True


# Commands


def set_up_broker(count, *, with_spark):
    steps = Steps(count)
    with steps.step("Python environment") as said:
        said += filter(None, [make_environment()])
    for stamp in VENV.glob(".ready-*"):
        if stamp != SPARK_READY:
            stamp.unlink()
    with steps.step("broker packages"):
        install_broker()
    if with_spark:
        spark_in_background()
    with steps.step("native modules") as said:
        said.append(compile_native())
    return steps


def up():
    with lock("terminal.lock", says=WAITING):
        set_up_broker(3, with_spark=True)
        if not SPARK_READY.exists():
            print(
                "Spark is being installed in the background; a line here says when it is ready.",
                flush=True,
            )


def dev():
    with lock("terminal.lock", says=WAITING):
        steps = set_up_broker(5, with_spark=False)
        with steps.step("Spark and Arrow"), lock("spark.lock"):
            install_extra("spark")
        with steps.step("test tools"):
            install_extra("dev")


def spark(*, in_background=False):
    """Prints one line when Spark is installed; nothing if another process is installing it."""
    began = time.monotonic()
    with lock("spark.lock", waits=not in_background) as is_held:
        if not is_held:
            return
        SPARK_READY.unlink(missing_ok=True)
        install_extra("spark")
        java = subprocess.run(
            [ROOT / "tools" / "need", "java", "default-jdk-headless"],
            stdin=subprocess.DEVNULL,
            capture_output=True,
            text=True,
            check=False,
        )
        if not java.returncode:
            SPARK_READY.touch()
    seconds = time.monotonic() - began
    with lock("terminal.lock"):
        if java.returncode:
            print(f"Spark is installed, but cannot run yet. {java.stderr.strip()}", flush=True)
        else:
            print(f"Spark is ready, for `.venv/bin/ottla sql` and pipelines: {seconds:.1f} s.")


def spark_in_background():
    """Starts a process that outlives this one; Ctrl-C in the terminal ends it too."""
    made_from = digest(requirements("spark"), (ROOT / "constraints.txt").read_bytes())
    if is_done("spark", made_from) and shutil.which("java"):
        SPARK_READY.touch()
        return
    SPARK_READY.unlink(missing_ok=True)
    subprocess.Popen(
        [sys.executable, __file__, "spark", "--background"],
        stdin=subprocess.DEVNULL,
        # The broker has priority.
        preexec_fn=lambda: os.nice(10),
    )


def main(words):
    if sys.version_info < MIN_PYTHON:
        wanted = ".".join(map(str, MIN_PYTHON))
        raise Failed(
            f"Python {wanted} or newer is needed; this is {sys.version.split()[0]}."
            f" Name another one with: make up PYTHON=python{wanted}"
        )
    CACHE.mkdir(exist_ok=True)
    if words == ["up"]:
        up()
    elif words == ["dev"]:
        dev()
    elif words == ["spark-background"]:
        spark_in_background()
    elif words[:1] == ["spark"]:
        spark(in_background="--background" in words)
    else:
        raise Failed(__doc__)


if __name__ == "__main__":
    try:
        main(sys.argv[1:])
    except Failed as failed:
        print(f"setup: {failed}", file=sys.stderr)
        sys.exit(1)
    except KeyboardInterrupt:
        sys.exit(130)
