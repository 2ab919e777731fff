"""The budget: a charge is a reservation made before the forward pass, a query is a row that was answered."""

from dataclasses import dataclass


class BudgetError(RuntimeError):
    """A charge beyond the budget; it is refused before anything is sent."""


@dataclass
class Account:
    """One image's account.

    Attributes:
        budget: The most queries the image may cost.
        charged: Queries reserved or answered; never above the budget.
        queries: Rows answered.
        sent: Rows handed to the target, answered or not.
    """

    budget: int
    charged: int = 0
    queries: int = 0
    sent: int = 0

    @property
    def remaining(self) -> int:
        """How many more queries can be charged."""
        return self.budget - self.charged


class Ledger:
    """The accounts of the images that are being attacked now."""

    def __init__(self) -> None:
        self._accounts: dict[int, Account] = {}

    def open(self, image: int, budget: int, sent: int = 0) -> None:
        """Start an account of `budget` queries for an image, of which `sent` rows were handed over in vain before."""
        self._accounts[image] = Account(budget, sent=sent)

    def account(self, image: int) -> Account:
        """The account of an image."""
        return self._accounts[image]

    def remaining(self, image: int) -> int:
        """How many more queries an image can pay for."""
        return self._accounts[image].remaining

    def charge(self, image: int, n: int) -> None:
        """Reserve n queries, or raise BudgetError and reserve none."""
        account = self._accounts[image]
        if n > account.remaining:
            raise BudgetError(f"image {image} asks for {n} queries and has {account.remaining} left")
        account.charged += n

    def settle(self, image: int, *, charged: int, answered: int, sent: int) -> None:
        """Turn a reservation into what happened: rows answered are queries, the rest goes back to the budget."""
        account = self._accounts[image]
        account.charged -= charged - answered
        account.queries += answered
        account.sent += sent

    def close(self, image: int) -> Account:
        """End an account and hand it over."""
        return self._accounts.pop(image)
