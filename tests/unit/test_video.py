"""Videos of recordings, and the canvas that they are drawn on."""

import sys

import numpy as np
import pytest

import supple
from supple import _core
from supple.recording import Recording
from supple.viewer.rendering import Renderer
from supple.viewer.video import write_video

ffmpeg = pytest.importorskip("imageio_ffmpeg")


@pytest.fixture(scope="module")
def recording():
    sim = supple.Simulation(supple.library.robot_arm(), 5e-3)
    sim.apply("tip", [0, 60, 0, 0, 0, 0])
    with sim.record(rate=20) as own:
        sim.step(60)
    return own.recording


def frames(path):
    """Size, rate and pictures of a video, by ffmpeg."""
    reader = ffmpeg.read_frames(str(path))
    about = next(reader)
    shape = about["size"][1], about["size"][0], 3
    return about, [np.frombuffer(each, dtype=np.uint8).reshape(shape) for each in reader]


# the canvas


def canvas(corners, colours, size=(20, 10), samples=1):
    own = _core.Canvas(*size, samples)
    own.clear(np.zeros((size[1], 3)))
    own.draw(np.array(corners, dtype=float), np.array(colours, dtype=float))
    return own.picture()


def flat(*colour):
    return np.tile(np.array(colour, dtype=float), (3, 1))


def test_a_triangle_covers_the_pixels_whose_centres_it_contains():
    a, b, c = np.array([2.2, 1.1]), np.array([17.3, 3.4]), np.array([6.7, 9.2])
    picture = canvas([[[*a, 1], [*b, 1], [*c, 1]]], [flat(255, 0, 0)])
    x, y = np.meshgrid(np.arange(20) + 0.5, np.arange(10) + 0.5)

    def side(p, q):
        return (q[0] - p[0]) * (y - p[1]) - (q[1] - p[1]) * (x - p[0])

    inside = (side(a, b) > 0) & (side(b, c) > 0) & (side(c, a) > 0)
    np.testing.assert_array_equal(picture[..., 0] == 255, inside)
    assert not picture[..., 1:].any()


def test_neighbours_leave_no_gap_and_the_nearer_one_is_seen():
    quad = [[0, 0], [20, 0], [20, 10], [0, 10]]

    def two(z, turn=0):
        order = np.roll([0, 1, 2, 3], turn)
        corners = [[*quad[i], z] for i in order]
        return [corners[:3], [corners[0], corners[2], corners[3]]]

    red, blue = flat(200, 0, 0), flat(0, 0, 200)
    for turn in range(4):
        assert (canvas(two(1.0, turn), [red, red])[..., 0] == 200).all()
    for near, far in ((2.0, 1.0), (1.0, 2.0)):
        picture = canvas([*two(near), *two(far)], [red, red, blue, blue])
        assert (picture[..., 0] == (200 if near > far else 0)).all()


def test_samples_are_averaged_and_colours_interpolated():
    half = [[[0, 0, 1], [9.5, 0, 1], [9.5, 10, 1]], [[0, 0, 1], [9.5, 10, 1], [0, 10, 1]]]
    picture = canvas(half, [flat(100, 100, 100)] * 2, samples=2)
    assert (picture[:, :9] == 100).all()
    assert (picture[:, 9] == 50).all()
    assert not picture[:, 10:].any()
    ramp = [[[0, 0, 1], [20, 0, 1], [0, 10, 1]]]
    shown = canvas(ramp, [[[0, 0, 0], [200, 0, 0], [0, 0, 0]]])
    np.testing.assert_allclose(shown[0, :18, 0], 10 * (np.arange(18) + 0.5), atol=1)


def test_points_that_are_not_finite_draw_nothing():
    assert not canvas([[[np.nan, 0, 1], [20, 0, 1], [0, 10, 1]], [[1e300, 0, 1], [20, 0, 1], [0, 10, 1]]],
                      [flat(9, 9, 9)] * 2).any()  # fmt: skip


# pictures


def test_the_camera_sees_everything(recording):
    """Nothing is drawn at the edges, whatever the view, and the arm covers a good part of the picture."""
    for view in ((18, -60), (70, 20), (5, 90)):
        picture = Renderer(recording, (160, 90), view).picture(0.3).astype(int)
        darker = picture.min(axis=2) < 150  # not floor, lines or shadows
        assert darker.sum() > 30
        assert not darker[[0, -1]].any()
        assert not darker[:, [0, -1]].any()


def test_the_camera_follows_a_body(recording):
    still, moving = Renderer(recording, (160, 90)), Renderer(recording, (160, 90), follow="tip")
    assert (still.picture(0.0) != still.picture(0.3)).any()
    camera = moving._camera
    for time in (0.0, 0.3):
        moving.picture(time)
        tip = recording.at(time)["tip"][:3, 3]
        at = type(camera)(tip, camera.axes, camera.distance).project(tip, 160, 90)
        np.testing.assert_allclose(at[:2], [80, 45])
    with pytest.raises(supple.MechanismError, match="did you mean 'tip'"):
        Renderer(recording, follow="tap")


# videos


@pytest.mark.parametrize(("name", "options", "size", "fps", "count"), [
    ("run.mp4", {"size": (320, 180)}, (320, 180), 30, 10),
    ("run.gif", {"size": (160, 90)}, (160, 90), 20, 7),
    ("slow.mp4", {"size": (64, 48), "fps": 10, "speed": 0.5}, (64, 48), 10, 7),
])  # fmt: skip
def test_a_video_has_its_size_rate_and_pictures(recording, tmp_path, name, options, size, fps, count):
    done = []
    assert write_video(recording, tmp_path / name, progress=done.append, **options) == count
    about, pictures = frames(tmp_path / name)
    assert about["size"] == size
    assert about["fps"] == pytest.approx(fps, rel=0.01)
    assert len(pictures) == count
    assert done[-1] == 1.0
    exact = Renderer(recording, size).picture(0.0)
    assert np.abs(pictures[0].astype(int) - exact).mean() < 8


@pytest.mark.parametrize(
    ("name", "options", "text"),
    [
        ("run.avi", {}, "ends in .mp4 or .gif"),
        ("run.mp4", {"size": (0, 10)}, "even numbers from 2 to 7680"),
        ("run.mp4", {"size": (101, 100)}, "even numbers"),
        ("run.mp4", {"fps": 0}, "fps of a video must be positive"),
        ("run.mp4", {"speed": -1}, "speed of a video must be positive"),
        ("run.mp4", {"view": (1, np.nan)}, "view"),
        ("none/run.mp4", {"size": (16, 16)}, "cannot write the file"),
    ],
)
def test_videos_that_cannot_be_made(recording, tmp_path, name, options, text):
    with pytest.raises(supple.MechanismError, match=text):
        write_video(recording, tmp_path / name, **options)
    assert not (tmp_path / name).exists()


def test_without_ffmpeg_it_says_what_to_install(recording, tmp_path, monkeypatch):
    monkeypatch.setitem(sys.modules, "imageio_ffmpeg", None)
    with pytest.raises(ImportError, match=r"pip install 'supple\[video\]'"):
        write_video(recording, tmp_path / "run.mp4", size=(16, 16))


def test_the_command_line_makes_videos_and_tables(run, tmp_path):
    done = run("run", "robot_arm", "--force", "tip", "0", "20", "0", "--time", "0.2", "-o", "run.npz", "-o", "run.csv")
    assert done.exit_code == 0, done.stderr
    made = run("replay", "run.npz", "-o", "run.mp4", "--size", "160", "90", "--fps", "10", "--view", "10", "30")
    assert made.exit_code == 0, made.stderr
    assert made.stdout == "The video is in run.mp4.\n"
    assert frames(tmp_path / "run.mp4")[0]["size"] == (160, 90)
    table = run("replay", "run.npz", "-o", "tip.csv", "--column", "tip", "--column", "energy")
    assert table.exit_code == 0, table.stderr
    assert (tmp_path / "tip.csv").read_text().startswith("time [s],tip x [m],tip y [m],tip z [m],energy kinetic [J]")
    assert len((tmp_path / "run.csv").read_text().splitlines()) == len(Recording.load("run.npz")) + 1
    assert "would overwrite the recording" in run("replay", "run.npz", "-o", "run.npz").stderr
    (tmp_path / "cut.npz").write_bytes((tmp_path / "run.npz").read_bytes()[:-30])
    whole = run("replay", "cut.npz", "-o", "whole.npz")
    assert whole.exit_code == 0, whole.stderr
    assert Recording.load("whole.npz").complete
