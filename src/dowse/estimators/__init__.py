"""Estimators of the gradient of f from queries: frozen parameters, explicit state, randomness passed in."""

from dowse.estimators.averaging import Averaging
from dowse.estimators.bandits import Bandits
from dowse.estimators.base import Estimator
from dowse.estimators.nes import NES
from dowse.estimators.ods import ODSRGF
from dowse.estimators.prgf import PRGF
from dowse.estimators.rgf import RGF
from dowse.estimators.span import PRGFSpan

__all__ = ["NES", "ODSRGF", "PRGF", "RGF", "Averaging", "Bandits", "Estimator", "PRGFSpan"]
