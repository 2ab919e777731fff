"""Two defences side by side: what do they cost an attacker, and what do they cost those who use the model?"""

# %% One network, bare and behind two defences that stand in front of anything.
import tempfile
from contextlib import closing
from pathlib import Path

from dowse.experiment.file import load_experiment
from dowse.models.shapes import classifier, shapes
from dowse.report import write_html, write_text
from dowse.running.engines import make_engine
from dowse.running.run_experiment import run_experiment
from dowse.targets import resolve_target

NET = "torch:dowse.models.shapes:classifier"
DEFENCES = {"none": NET, "jpeg:60": f"jpeg:60+{NET}", "noise:0.05": f"noise:0.05+{NET}"}

# %% What they cost those who use the model: accuracy on images that nobody touched.
x, y = shapes(30, seed=7)
for defence, spec in DEFENCES.items():
    right = (resolve_target(spec)(x).argmax(1) == y).float().mean()
    print(f"{defence:12} {right:.0%} of {len(x)} shapes right")
assert (classifier()(x).argmax(1) == y).float().mean() > 0.9

# %% What they cost an attacker: the same images and the same two methods against each, kept in a store.
FILE = f"""
name = "two defences"
target = "{NET}"
defence = {list(DEFENCES)}
surrogate = "{NET}#seed=1"
images = {{path = "demo:shapes", count = 3}}
budget = 40
method = ["dowse", "square"]
"""
folder = Path(tempfile.mkdtemp())
(folder / "defences.toml").write_text(FILE)
with closing(make_engine("local")) as engine:
    run_experiment(load_experiment(folder / "defences.toml"), folder / "out", engine)

# %% The table, with intervals; the page has curves and paired tests too.
print(write_text(folder / "out", "markdown"))
print(write_html(folder / "out"))
