"""Your own model in ten lines: how few queries fool it, with a network like it at hand and without?"""

# %% A model and images. Any nn.Module in eval mode, or any function from points to scores, can stand here.
import dowse
from dowse.models.shapes import NAMES, classifier, shapes

x, y = shapes(5)  # images (n, 3, 32, 32) in [0, 1], and what they show
target = classifier(seed=0)

# %% The attack. The target is asked for its scores and nothing else.
alone = dowse.attack(target, x, y, budget=60)

# %% The same with a surrogate: a network of one's own, whose gradients cost no query.
helped = dowse.attack(target, x, y, surrogate=classifier(seed=1), budget=60)

# %% What it cost. A failure counts at the budget, or a method that fails on hard images would look cheap.
for title, result in (("without a surrogate", alone), ("with one", helped)):
    print(f"{title}: {result.summary()}")

# %% Image by image: what it showed, what the target takes it for now, after how many queries, how far away.
for outcome, taken_for in zip(helped.outcomes, target(helped.adversarial).argmax(1), strict=True):
    assert outcome.label is not None
    showed, shows = NAMES[outcome.label], NAMES[taken_for]
    print(f"{showed:9} -> {shows:9} {outcome.queries:4} queries, l2 {outcome.distance:.2f}, {outcome.end}")
