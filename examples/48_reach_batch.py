"""Learning in a batch: a compliant arm learns to reach points by set-points of its joints (cross-entropy method).

Every copy of the arm's linear model is one trial: 64 candidates of a policy, each with the same 4 goals. The policy is
linear, from the goal to the set-points. Needs gymnasium (extra `gym`). Writes a plot into the folder given (by default
the current one):  python 48_reach_batch.py docs/pictures
"""

import sys
from pathlib import Path
from time import perf_counter

import matplotlib.pyplot as plt
import numpy as np

import supple
from supple.learning import ReachEnv

folder = Path(sys.argv[1] if len(sys.argv) > 1 else ".")
GENERATIONS = int(sys.argv[2]) if len(sys.argv) > 2 else 40
CANDIDATES, GOALS, ELITE = 64, 4, 8

mech = supple.library.robot_arm(7)
model = supple.reduce(mech, ["tip"])
batch = supple.Batch(model, CANDIDATES * GOALS, dt=5e-3)
env = ReachEnv(
    batch, mech.coordinates[:6], span=0.5, reach=(0.03, 0.06, 0.03), steps_per_action=4, episode_steps=50
)
actions, goals = env.single_action_space.shape[0], 3


def final_distances(policies):
    """(candidates,) mean distance from the goals at the end of an episode, m."""
    env.reset()
    env.goals[:] = np.tile(env.goals[:GOALS], (CANDIDATES, 1))  # the same goals for every candidate
    setpoints = np.repeat(policies, GOALS, axis=0) @ env.goals[..., None]
    for _ in range(env.episode_steps):
        env.step(setpoints[..., 0])
    return env.distances.reshape(CANDIDATES, GOALS).mean(axis=1)


rng = np.random.default_rng(0)
env.reset(seed=0)
mean, spread = np.zeros((actions, goals)), np.full((actions, goals), 10.0)  # of set-points over span, per m
start = final_distances(np.zeros((CANDIDATES, actions, goals)))[0]
best, began = [], perf_counter()
for _ in range(GENERATIONS):
    policies = mean + spread * rng.normal(size=(CANDIDATES, actions, goals))
    distances = final_distances(policies)
    elite = policies[np.argsort(distances)[:ELITE]]
    mean, spread = elite.mean(axis=0), elite.std(axis=0) + 0.05
    best.append(distances.min())
took = perf_counter() - began
steps = GENERATIONS * env.episode_steps * env.steps_per_action * batch.n

reached = final_distances(np.tile(mean, (CANDIDATES, 1, 1)))[0]
print(f"{GENERATIONS} generations, {steps / 1e6:.1f} million time steps of the arm, {took:.1f} s")
print(f"mean distance from the goals: {1e3 * start:.1f} mm without action, {1e3 * reached:.1f} mm after learning")

figure, place = plt.subplots(figsize=(5, 3.4), layout="constrained")
place.semilogy(range(1, GENERATIONS + 1), 1e3 * np.array(best), color="#d1495b", lw=1.6)
place.axhline(1e3 * start, color="#c3ccd4", lw=1)
place.set(xlabel="generation", ylabel="mean distance of the best candidate, mm", title="reaching with set-points")
place.spines[["top", "right"]].set_visible(False)
figure.savefig(folder / "reach_batch.png", dpi=90)
