"""All figures of a report, numbered."""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING

from reports.attention_figures import attention_figures
from reports.cloze_figures import cloze_figures
from reports.conjunction_figures import conjunction_figures
from reports.cost_figures import cost_figures
from reports.drawing import DrawnFigure
from reports.mask_figures import mask_figures
from reports.neighbour_figures import neighbour_figures
from reports.palette import Style, theme
from reports.reach_figures import reach_figures
from reports.share_figures import share_figures
from reports.share_variant_figures import share_variant_figures
from reports.task_figures import task_figures

if TYPE_CHECKING:
    import pandas as pd


def draw_figures(
    results: pd.DataFrame, styles: Mapping[str, Style], costs: pd.DataFrame | None = None
) -> list[DrawnFigure]:
    """Draw every figure that the table has numbers for.

    Parameters
    ----------
    results : pandas.DataFrame
        The tidy table, seeds joined.
    styles : mapping
        Model -> style, see `reports.palette.model_styles`.
    costs : pandas.DataFrame, optional
        The table of costs, for what was timed.

    Returns
    -------
    list of DrawnFigure
        Numbered from 1: direction shares (one figure per sampling mode, data set and pooling), tasks, attention. The same table
        gives the same bytes.
    """
    found: list[DrawnFigure] = []
    with theme():
        for draw in (
            share_figures,
            share_variant_figures,
            reach_figures,
            mask_figures,
            neighbour_figures,
            conjunction_figures,
            cloze_figures,
            task_figures,
            attention_figures,
        ):
            for figure in draw(results, styles, len(found) + 1):
                found.append(figure)
        found.extend(cost_figures(results, styles, len(found) + 1, costs))
    return found
