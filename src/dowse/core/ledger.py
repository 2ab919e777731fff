"""The budget: a charge is a reservation made before the forward pass, a query is a row that was answered."""

from dataclasses import dataclass


class BudgetError(RuntimeError):
    """A charge beyond the budget; it is refused before anything is sent."""


@dataclass
class Account:
    """One task's account.

    Attributes:
        budget: The most queries the task may cost.
        charged: Queries reserved or answered; never above the budget.
        queries: Rows answered.
        sent: Rows handed to the target, answered or not.
        refused: Rows among those answered that a detector refused.
        detected: The number of the first of them among the queries, counted from 1.
    """

    budget: int
    charged: int = 0
    queries: int = 0
    sent: int = 0
    refused: int = 0
    detected: int | None = None

    @property
    def remaining(self) -> int:
        """How many more queries can be charged."""
        return self.budget - self.charged


class Ledger:
    """The accounts of the tasks that are being attacked now, by their indices."""

    def __init__(self) -> None:
        self._accounts: dict[int, Account] = {}

    def open(self, index: int, budget: int) -> None:
        """Start an account of `budget` queries for a task."""
        self._accounts[index] = Account(budget)

    def account(self, index: int) -> Account:
        """The account of a task."""
        return self._accounts[index]

    def remaining(self, index: int) -> int:
        """How many more queries a task can pay for."""
        return self._accounts[index].remaining

    def charge(self, index: int, n: int) -> None:
        """Reserve n queries, or raise BudgetError and reserve none."""
        account = self._accounts[index]
        if n > account.remaining:
            raise BudgetError(f"image {index} asks for {n} queries and has {account.remaining} left")
        account.charged += n

    def settle(
        self, index: int, *, charged: int, answered: int, sent: int, refused: int = 0, first: int | None = None
    ) -> None:
        """Turn a reservation into what happened: rows answered are queries, the rest goes back to the budget.

        Of those answered so many were refused, the first of them being number `first`.
        """
        account = self._accounts[index]
        if refused and first is not None and account.detected is None:
            account.detected = account.queries + first
        account.refused += refused
        account.charged -= charged - answered
        account.queries += answered
        account.sent += sent

    def close(self, index: int) -> Account:
        """End an account and hand it over."""
        return self._accounts.pop(index)
