"""The paper's figures: each computes its numbers, keeps them as JSON, and draws itself in the paper's layout."""

from dowse.figures.catalogue import FIGURES, find_figure, make_figure
from dowse.figures.figure_settings import FigureSettings

__all__ = ["FIGURES", "FigureSettings", "find_figure", "make_figure"]
