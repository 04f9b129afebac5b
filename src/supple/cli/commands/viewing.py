"""`supple view`, `replay` and `demo`: in the browser, and as files."""

from __future__ import annotations

import warnings
from pathlib import Path
from typing import Annotated

import typer

import supple
from supple.cli.motion_files import MOTIONS, describe_file, write_motion
from supple.cli.options import (
    FINGER,
    PICTURES,
    Base,
    Browser,
    Coordinates,
    Damping,
    EndEffectors,
    Host,
    KeyframeName,
    Picture,
    Port,
    Springs,
    Targets,
    check_file,
    completions,
    values_by_name,
)
from supple.cli.output import errors_in_one_line
from supple.cli.preparing import Preparation, movable, with_targets
from supple.cli.source import library_names
from supple.cli.standing import open_standing, world_of
from supple.mechanism import Mechanism
from supple.recording import Recording
from supple.viewer import draw
from supple.viewer.methods import METHODS
from supple.viewer.rendering import VIEW
from supple.viewer.scenery import SCENES, SceneModels
from supple.viewer.server import HOST, PORT

VIEW_DT = 2e-3
"""s, time step of a world in the viewer."""
MethodName = Annotated[
    str | None,
    typer.Option("--method", help=f"Method at the start: {', '.join(METHODS)} (default: the fastest that is possible)"),
]


def view(
    source: Annotated[
        str,
        typer.Argument(
            metavar="NAME_OR_FILE",
            help=f"Mechanism of the library; scene ({', '.join(SCENES)}); {FINGER} (with a skin); MJCF, URDF, JSON; "
            "Python file that leaves a world or simulation",
            autocompletion=lambda incomplete: completions([*library_names(), *SCENES, FINGER], incomplete),
        ),
    ],
    end_effector: EndEffectors = None,
    method: MethodName = None,
    target: Targets = None,
    q: Coordinates = None,
    base: Base = None,
    keyframe: KeyframeName = None,
    springs: Springs = None,
    damping: Damping = None,
    motion: Annotated[
        str | None, typer.Option("--motion", metavar="NAME", help="Motion of a character, such as dance of dancer")
    ] = None,
    host: Host = HOST,
    port: Port = PORT,
    browser: Browser = True,
) -> None:
    """Simulate a mechanism, a contact scene or your own Python file in the browser, where you can pull it.

    A file with ground or a free base is simulated by the engine with contact, from its keyframe (home or the first).
    For example: supple view ladder, supple view trampoline, or supple view scene.py. With --motion, a character
    performs: the target, its motion as given and the optimised one, side by side: supple view dancer --motion dance
    """
    from supple.viewer import view as show

    with errors_in_one_line():
        warnings.simplefilter("ignore", supple.RangeWarning)  # the page shows it
        preparation = Preparation(keyframe, base, values_by_name("--q", q), springs, damping)
        if motion is not None:
            if not preparation.is_empty or target or end_effector or method:
                raise typer.BadParameter("--motion shows a recording and takes none of these options")
            from supple.cli.performing import performance
            from supple.viewer.showing import replay as play

            play(performance(source, motion), host=host, port=port, browser=browser, say=typer.echo)
            return
        if source == FINGER:
            if not preparation.is_empty or target or end_effector or method:
                raise typer.BadParameter(f"'{FINGER}' is a finger with a skin and takes none of these options")
            from supple.viewer import view_skin
            from supple.zones import finger

            view_skin(finger(cells=(12, 10, 3)), host=host, port=port, browser=browser, say=typer.echo)
            return
        if Path(source).suffix == ".py":
            if not preparation.is_empty or target or end_effector or method:
                raise typer.BadParameter(f"--keyframe, --q and the like are for mechanisms; '{source}' is a script")
            from supple.viewer import view_script

            view_script(source, host=host, port=port, browser=browser, say=typer.echo)
            return
        if source in SCENES:
            if not preparation.is_empty or target:
                raise typer.BadParameter(f"--keyframe, --q and the like are for mechanisms; '{source}' is a scene")
            subject: Mechanism | supple.World | SceneModels = SceneModels(source)
        else:
            mech, has_contact = open_standing(preparation, source, SCENES)
            subject = mech = movable(with_targets(mech, values_by_name("--target", target)))
            if has_contact and method in (None, "engine"):
                subject, method = world_of(supple.Simulation(mech, VIEW_DT)), None
                end_effector = end_effector and [f"{mech.name}:{name}" for name in end_effector]
        show(subject, end_effector, method=method, host=host, port=port, browser=browser, say=typer.echo)


def replay(
    recording: Annotated[Path, typer.Argument(metavar="RECORDING", help="Recording of a run, a .npz file")],
    out: Annotated[
        Path | None,
        typer.Option(
            "--out",
            "-o",
            help="Write a video (.mp4, .gif), a glTF animation (.glb), a table (.csv), a complete copy (.npz) or a "
            "picture of the end (.png) instead",
        ),
    ] = None,
    size: Annotated[
        tuple[int, int] | None,
        typer.Option(metavar="WIDTH HEIGHT", help="Pixels of a video (default 1920 1080, 640 360 for .gif)"),
    ] = None,
    fps: Annotated[float | None, typer.Option(help="Pictures of a video per second (default 30, 20 for .gif)")] = None,
    speed: Annotated[float, typer.Option(help="Seconds of the recording per second of the video")] = 1.0,
    camera: Annotated[
        tuple[float, float],
        typer.Option("--view", metavar="ELEVATION AZIMUTH", help="Direction of a video's camera, degrees"),
    ] = VIEW,
    follow: Annotated[
        str | None, typer.Option(metavar="BODY", help="Body or site that a video's camera moves along with")
    ] = None,
    columns: Annotated[
        list[str] | None,
        typer.Option(
            "--column", metavar="NAME", help="Quantity in a table: q, qd, energy, a body or joint; may be repeated"
        ),
    ] = None,
    host: Host = HOST,
    port: Port = PORT,
    browser: Browser = True,
) -> None:
    """Play a recording in the browser, with a timeline, or convert it to a video, to glTF for Blender, or to a table.

    For example: supple run ladder --force tip 0 50 0 --time 2 -o run.npz, then supple replay run.npz -o run.mp4
    """
    from supple.viewer import replay as show

    with errors_in_one_line():
        if out is not None:
            check_file(out, (*PICTURES, *MOTIONS), "a picture or motion")
            if out.resolve() == recording.resolve():
                raise supple.MechanismError(f"{out} would overwrite the recording; choose another name")
        kept = Recording.load(recording)
        if out is None:
            show(kept, host=host, port=port, browser=browser, say=typer.echo)
            return
        if out.suffix.lower() in MOTIONS:
            write_motion(kept, out, columns, size=size, fps=fps, speed=speed, view=camera, follow=follow)
            typer.echo(describe_file(out))
        else:
            last = kept.at(float(kept.times[-1]))
            draw(kept.mechanism, last, path=out, ghost=kept.at(float(kept.times[0])), title=kept.mechanism.name)
            typer.echo(f"The picture is in {out}: the start pale, the end solid.")


def demo(picture: Picture = Path("supple-demo.png")) -> None:
    """Pull the top rung of the ladder, and compare all methods with the engine and MuJoCo."""
    from supple.cli.demo import run_demo

    with errors_in_one_line(), warnings.catch_warnings():
        warnings.simplefilter("ignore", supple.RangeWarning)
        check_file(picture, PICTURES, "a picture")
        run_demo(picture)
