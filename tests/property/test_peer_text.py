"""Text of peers is parsed without regular expressions, with the same results as with them."""

import ast
import re
import subprocess
import sys
from pathlib import Path

import pytest
from hypothesis import example, given
from hypothesis import strategies as st

from ottla.broker.handlers.api_versions import _names_software
from ottla.errors import PeerError
from ottla.metadata.topic_names import check_topic_name
from ottla.settings import kinds
from ottla.settings.kinds import ConfigType, Double, NotAllowed, WholeNumber
from ottla.settings.listeners import ListenerList
from tests.support.paths import ROOT

# Modules of the broker that may use regular expressions, and what on: never what a peer sent.
ALLOWED = {
    "ottla.cli.log.broker_files": "names of files on disk, at a start",
    "ottla.metadata.embedded.snapshot_file": "a file of ours, a line of fixed length",
    "ottla.metadata.zookeeper.layout": "names and numbers that brokers wrote to ZooKeeper",
    "ottla.protocol.messages": "names of our own classes",
    "ottla.settings.zookeeper_connect": "a setting, which only the operator gives",
    "ottla.storage.directory.checkpoint_format": "files on disk",
    "ottla.storage.directory.checkpoint_files": "files on disk",
}


def modules_of_a_broker() -> dict[str, Path]:
    script = (
        "import importlib, pkgutil, sys\n"
        "import ottla.cli.broker.process, ottla.cli.broker.serve, ottla.broker.node.node\n"
        "for package in ('broker', 'coordinators', 'metadata', 'protocol', 'replication',\n"
        "                'settings', 'storage', 'native', 'metrics', 'seams'):\n"
        "    root = importlib.import_module(f'ottla.{package}')\n"
        "    for found in pkgutil.walk_packages(root.__path__, root.__name__ + '.'):\n"
        "        if found.name != 'ottla.storage.compaction.cleaner_worker':\n"
        "            importlib.import_module(found.name)\n"
        "for name, module in list(sys.modules.items()):\n"
        "    if name.startswith('ottla.'):\n"
        "        print(name)\n"
    )
    names = subprocess.run(
        [sys.executable, "-c", script], capture_output=True, text=True, check=True
    ).stdout.split()
    source = ROOT / "src"
    found = {}
    for name in names:
        path = source / name.replace(".", "/")
        found[name] = path / "__init__.py" if path.is_dir() else path.with_suffix(".py")
    return found


def test_no_regular_expression_of_ours_is_applied_to_what_peers_send() -> None:
    users = set()
    modules = modules_of_a_broker()
    assert "ottla.broker.handlers.api_versions" in modules
    for name, path in modules.items():
        for node in ast.walk(ast.parse(path.read_text())):
            imported = []
            if isinstance(node, ast.Import):
                imported = [alias.name for alias in node.names]
            elif isinstance(node, ast.ImportFrom):
                imported = [node.module or ""]
            if {"re", "fnmatch", "regex"} & set(imported):
                users.add(name)
    assert users == set(ALLOWED)


NUMBERS = st.text("0123456789+-.eE ", max_size=30) | st.text(max_size=8) | st.floats().map(str)


def is_taken(kind: kinds.Kind[object], text: str) -> bool:
    try:
        kind.parse(text)
    except NotAllowed:
        return False
    return True


@given(NUMBERS)
@example("1" * 21)
@example("٣")
def test_whole_numbers_are_what_they_were(text: str) -> None:
    once = re.fullmatch(r"[+-]?[0-9]{1,20}", text.strip())
    kind = WholeNumber(config_type=ConfigType.LONG, least=-(10**30), most=10**30)
    assert is_taken(kind, text) is (once is not None)


@given(NUMBERS)
@example(".")
@example("1.")
@example("-.5e-3")
@example("1e1234")
@example("1e5e")
@example("1E+")
def test_doubles_are_what_they_were(text: str) -> None:
    pattern = r"[+-]?([0-9]{1,20}(\.[0-9]{0,20})?|\.[0-9]{1,20})([eE][+-]?[0-9]{1,3})?"
    once = re.fullmatch(pattern, text.strip())
    expected = once is not None and abs(float(text)) <= 1e300
    assert is_taken(Double(-1e300, 1e300), text) is expected


@given(st.text("aZ09.-_ \n", max_size=12) | st.text(max_size=5))
def test_software_names_are_what_they_were(text: str) -> None:
    once = re.fullmatch(r"[a-zA-Z0-9]([a-zA-Z0-9.-]*[a-zA-Z0-9])?", text)
    assert _names_software(text) is (once is not None)


@given(st.text("aZ09.-_ \n", max_size=260) | st.text(max_size=5))
def test_topic_names_are_what_they_were(name: str) -> None:
    once = re.fullmatch(r"[a-zA-Z0-9._-]{1,249}", name) and name not in (".", "..")
    if once:
        check_topic_name(name)
    else:
        with pytest.raises(PeerError):
            check_topic_name(name)


HOSTS = st.text("a0:.[]/, \u3000", max_size=8) | st.sampled_from(["[::1]", "[]", "[", "localhost"])


@given(
    st.sampled_from(["PLAINTEXT", "plaintext", "", "a b", "PLAINTEXT:"]),
    st.sampled_from(["://", ":/", "", ":// "]),
    HOSTS,
    st.sampled_from([":9092", ":0", ":", "", ":99999", ":123456", ":٣", ": 1", ":1 "]),
)
def test_listeners_are_what_they_were(name: str, slashes: str, host: str, port: str) -> None:
    text = name + slashes + host + port
    pattern = (
        r"(?P<name>[-.A-Za-z0-9_]+)://(\[(?P<v6>[0-9A-Fa-f:.]+)\]|(?P<host>[^\s:/\[\],]*))"
        r":(?P<port>[0-9]{1,5})"
    )
    expected = []
    for one in text.split(","):
        found = re.fullmatch(pattern, one.strip())
        if found is None or int(found["port"]) > 65535:
            expected = None
            break
        expected.append((found["v6"] or found["host"] or "", int(found["port"])))
    if expected is not None and len(expected) > 1:
        expected = None
    try:
        parsed = [(one.host, one.port) for one in ListenerList().parse(text)]
    except NotAllowed:
        parsed = None
    assert parsed == expected
