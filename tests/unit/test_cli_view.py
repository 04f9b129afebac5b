"""supple view and replay, and recordings."""

import json
import signal
import socket
import subprocess
import sys
from urllib.request import urlopen

import numpy as np
import pytest

from browser.browsing import free_port
from supple.recording import Recording

SCENE_OPTIONS = [
    ("--springs", "5"),
    ("--damping", "1"),
    ("--keyframe", "home"),
    ("--base", "free"),
    ("--q", "a", "1"),
    ("--target", "a", "1"),
]


@pytest.mark.parametrize("options", SCENE_OPTIONS)
def test_options_that_a_scene_does_not_take(run, options):
    result = run("view", "trampoline", "--no-browser", *options)
    assert result.exit_code == 2
    assert "are for mechanisms" in result.output


def test_a_run_is_recorded_and_converted_to_other_files(run, tmp_path):
    args = ("--force", "tip", "0", "20", "0", "--time", "0.5", "-o", "run.npz", "-o", "run.glb", "-o", "run.png")
    result = run("run", "robot_arm", *args, "--json")
    assert result.exit_code == 0, result.stderr
    found = json.loads(result.stdout)
    assert (found["files"], found["picture"]) == (["run.npz", "run.glb", "run.png"], "run.png")
    recording = Recording.load("run.npz")
    assert len(recording.times) == 16
    np.testing.assert_allclose(recording.at(9.0)[-1, :3, 3], found["bodies"][-1]["position"], atol=1e-6)
    assert (tmp_path / "run.glb").read_bytes().startswith(b"glTF")
    again = run("replay", "run.npz", "-o", "again.glb")
    assert again.exit_code == 0, again.stderr
    assert (tmp_path / "again.glb").read_bytes() == (tmp_path / "run.glb").read_bytes()
    assert run("replay", "run.npz", "-o", "end.png").stdout.endswith("the start pale, the end solid.\n")
    assert (tmp_path / "end.png").read_bytes().startswith(b"\x89PNG")
    assert "supple replay run.npz" in run("run", "y", "--time", "0.1", "-o", "run.npz").stdout


def test_a_port_in_use_is_one_line(run):
    with socket.socket() as taken:
        taken.bind(("127.0.0.1", 0))
        taken.listen()
        port = taken.getsockname()[1]
        result = run("view", "ladder", "--no-browser", "--port", str(port))
    assert result.exit_code == 1
    assert result.stderr == f"supple: port {port} is in use; choose another one (--port), or end what uses it\n"


@pytest.mark.parametrize(
    ("args", "text"),
    [
        (("view", "nope.xml"), "'nope.xml' does not exist"),
        (("view", "broken.xml"), "broken.xml, line 1: not well-formed XML"),
        (("view", "nosuch"), "rapper), nor a scene ("),
        (("view", "ladder", "-e", "tap"), "did you mean 'tip'"),
        (("view", "ladder", "--target", "left_pin_999", "1"), "named 'left_pin_999'"),
        (("view", "robot_arm", "--q", "nothing", "1"), "no coordinate of 'robot_arm' named 'nothing'"),
        (("view", "ladder", "--method", "magic"), "no method named 'magic'"),
        (("view", "ladder", "--port", "99999"), "a port is a number from 1 to 65535"),
        (("view", "ladder", "--host", "192.0.2.1"), "cannot listen on 192.0.2.1"),
        (("view", "trampoline", "-e", "tip"), "comes with its own end effectors"),
        (("replay", "nope.npz"), "there is no file nope.npz"),
        (("replay", "broken.npz"), "is not a recording, or is damaged"),
        (("compare", "broken.xml"), "broken.xml, line 1: not well-formed XML"),
    ],
)
def test_errors_of_view_are_one_line(run, tmp_path, args, text):
    (tmp_path / "broken.xml").write_text("<mujoco><body")
    (tmp_path / "broken.npz").write_text("nothing")
    free = () if "--port" in args or args[0] == "compare" else ("--port", str(free_port()))
    result = run(*args, *free, *(() if args[0] == "compare" else ("--no-browser",)))
    assert result.exit_code == 1
    assert text in result.stderr
    assert len(result.stderr.splitlines()) == 1


def test_without_viser_it_says_what_to_install(run, monkeypatch):
    monkeypatch.setitem(sys.modules, "viser", None)
    result = run("view", "ladder", "--no-browser")
    assert result.exit_code == 1
    assert "pip install 'supple[all]'" in result.stderr


def test_view_shows_a_page_until_it_is_ended(tmp_path):
    port = free_port()
    command = [sys.executable, "-u", "-c", "from supple.cli import main; main()"]
    command += ["view", "ladder", "--no-browser", "--port", str(port)]
    process = subprocess.Popen(command, cwd=tmp_path, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True)
    try:
        first = process.stdout.readline()
        assert first == f"'ladder' is at http://localhost:{port}, pulled at tip.\n"
        assert process.stdout.readline() == "Open that address in a browser; end with Ctrl-C.\n"
        with urlopen(f"http://127.0.0.1:{port}", timeout=600) as page:
            assert b"<html" in page.read().lower()
    finally:
        process.send_signal(signal.SIGINT)
        _, errors = process.communicate(timeout=600)
    assert process.returncode == 0
    assert errors == ""
