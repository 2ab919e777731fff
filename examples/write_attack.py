"""Write an attack: a conversation about one image, tested without a model, then run and compared like the rest."""

# %% An attack asks and hears. It holds no model, no counter, no budget and no loop limit.
from dataclasses import dataclass

import torch

import dowse
from dowse.attacks import Attack
from dowse.core.flow import Answer, check
from dowse.maths.geometry import Linf
from dowse.models.shapes import classifier, shapes


@dataclass(frozen=True, kw_only=True)
class Rows(Attack):
    """Whole rows of pixels at ±ε, one row a query, kept where f grows."""

    name = "rows"
    cost = "1"
    norms = ("linf",)
    loss = "margin"

    height: int = 4

    def flow(self, x, f, ball, rng):
        x0 = x
        while True:
            top = int(torch.randint(x.shape[1] - self.height + 1, (), generator=rng))
            signs = torch.randint(2, (len(x), 1, 1), generator=rng).to(x) * 2 - 1
            candidate = x.clone()
            candidate[:, top : top + self.height] = x0[:, top : top + self.height] + ball.eps * signs
            candidate = ball.project(candidate, x0)
            loss = yield from check(candidate)  # one query; success is looked for here
            if loss > f:
                x, f = candidate, loss


# %% Without a model: send it answers of your own and look at what it asks.
x, y = shapes(6)
flow = Rows().flow(x[0], f=0.0, ball=Linf(0.1), rng=torch.Generator().manual_seed(0))
question = next(flow)
for _ in range(5):
    assert question.points.shape == (1, *x[0].shape)
    assert (question.points[0] - x[0]).abs().max() <= 0.1 + 1e-6
    question = flow.send(Answer(loss=torch.rand(1), adversarial=torch.tensor([False]), scores=torch.zeros(1, 6)))

# %% Against a model. Budgets are hard, counts exact, and an image's result is its own, alone or in company.
target = classifier()
together = dowse.attack(target, x, y, method=Rows(), norm="linf", eps=0.15, budget=80)
first = dowse.attack(target, x[:1], y[:1], method=Rows(), norm="linf", eps=0.15, budget=80)
assert max(together.queries) <= 80
assert first.queries[0] == together.queries[0]

# %% Beside the others. In an experiment or on the command line it is "write_attack:Rows".
for method in (Rows(), "square", "dowse"):
    result = dowse.attack(target, x, y, method=method, norm="linf", eps=0.15, budget=80)
    print(f"{method if isinstance(method, str) else method.name:8} {result.summary()}")
