"""Mistakes that are easily made with recordings, logs and controllers."""

import numpy as np
import pytest

import supple
from supple.recording import Recording
from supple.viewer.control import Control, ControllerError

ARM = supple.library.robot_arm(3)


def test_a_recording_is_not_overwritten_by_its_copy(tmp_path):
    path = tmp_path / "run.npz"
    sim = supple.Simulation(ARM, 2e-3)
    with sim.record(path):
        sim.step(50)
    content = path.read_bytes()
    (tmp_path / "link.npz").symlink_to(path)
    run = Recording.load(path)
    for name in ("run.npz", "link.npz"):
        with pytest.raises(supple.MechanismError, match="is the file of this recording; choose another name"):
            run.save(tmp_path / name)
    assert path.read_bytes() == content
    run.save(tmp_path / "copy.npz")
    assert len(Recording.load(tmp_path / "copy.npz")) == len(run)
    for time in (np.nan, np.inf):
        with pytest.raises(supple.MechanismError, match="time of a frame must be finite"):
            run.at(time)


def test_a_log_of_no_names():
    with pytest.raises(supple.MechanismError, match="name the quantities to log"):
        supple.Simulation(ARM, 2e-3).log(3)


def test_the_line_of_a_controller_in_a_folder_named_supple(tmp_path):
    folder = tmp_path / "supple"
    folder.mkdir()
    (folder / "mine.py").write_text("def f(sim):\n    return 1 / 0\n")
    names = {}
    exec(compile((folder / "mine.py").read_text(), str(folder / "mine.py"), "exec"), names)
    with pytest.raises(ControllerError, match=r"\(mine.py, line 2\): ZeroDivisionError"):
        Control(names["f"]).step(supple.Simulation(ARM, 2e-3), 1)
