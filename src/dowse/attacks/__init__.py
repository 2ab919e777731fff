"""Attacks on one image, each a conversation: PGD around an estimator, and those that are not that."""

from dowse.attacks.baselines import Transfer, WhiteBox
from dowse.attacks.pgd import PGD, pgd

__all__ = ["PGD", "Transfer", "WhiteBox", "pgd"]
