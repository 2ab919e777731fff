"""Attacks on one image, each a conversation: PGD around an estimator, and those that are not that."""

from dowse.attacks.autozoom import AutoZOOM
from dowse.attacks.base import Attack
from dowse.attacks.baselines import Transfer, WhiteBox
from dowse.attacks.bases import BASES
from dowse.attacks.dowse import Dowse
from dowse.attacks.gfcs import GFCS, SimBAODS
from dowse.attacks.pbo import PBO
from dowse.attacks.pgd import PGD
from dowse.attacks.signhunter import SignHunter
from dowse.attacks.simba import SimBA
from dowse.attacks.spsa import SPSA
from dowse.attacks.square import Square
from dowse.attacks.zoo import ZOO

__all__ = [
    "BASES",
    "GFCS",
    "PBO",
    "PGD",
    "SPSA",
    "ZOO",
    "Attack",
    "AutoZOOM",
    "Dowse",
    "SignHunter",
    "SimBA",
    "SimBAODS",
    "Square",
    "Transfer",
    "WhiteBox",
]
