"""Pictures of figures, for documents: ``pip install matplotlib`` (scripts/install does)."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from bench._report import percentile


def bars(
    path: str | Path,
    title: str,
    left: Mapping[str, Sequence[float]],
    right: Mapping[str, Sequence[float]],
    names: tuple[str, str] = ("whole turn", "first token"),
) -> None:
    """Two figures side by side for each name: the median as a bar, p90 as its whisker, in ms."""
    plt = _pyplot()
    figure, axes = plt.subplots(figsize=(8, 0.55 * len(left) + 1.2))
    for offset, samples, name, colour in (
        (0.2, left, names[0], "#2563eb"),
        (-0.2, right, names[1], "#93c5fd"),
    ):
        middles = [max(0.0, percentile(each, 0.5) * 1000) for each in samples.values()]
        whiskers = [
            max(0.0, percentile(each, 0.9) * 1000 - middle)
            for each, middle in zip(samples.values(), middles, strict=True)
        ]
        places = [len(left) - place + offset for place in range(len(left))]
        axes.barh(places, middles, 0.38, label=name, color=colour)
        empty = [0.0] * len(middles)
        axes.errorbar(middles, places, xerr=[empty, whiskers], fmt="none", ecolor="#6b7280")
        for place, middle in zip(places, middles, strict=True):
            axes.annotate(f" {middle:.1f}", (middle, place), va="bottom", fontsize=8)
    axes.set_yticks([len(left) - place for place in range(len(left))], list(left))
    axes.set_xlabel("ms")
    axes.set_title(title, fontsize=10)
    axes.legend(loc="lower right", frameon=False)
    _save(figure, axes, path)


def quantiles(path: str | Path, title: str, gains: Mapping[str, Sequence[float]]) -> None:
    """For each name, how many times faster how large a share of the samples was."""
    figure, axes = _pyplot().subplots(figsize=(8, 4))
    colours = ("#9ca3af", "#2563eb", "#f59e0b", "#dc2626")
    for (name, values), colour in zip(gains.items(), colours, strict=False):
        ordered = sorted(values)
        shares = [100 * (place + 0.5) / len(ordered) for place in range(len(ordered))]
        middle = percentile(ordered, 0.5)
        axes.plot(shares, ordered, label=f"{name}: median {middle:.1f}", color=colour)
    axes.axhline(1, color="#6b7280", linewidth=0.8, linestyle=":")
    axes.set_xlabel("share of the edits (%)")
    axes.set_ylabel("times plain decoding")
    axes.set_title(title, fontsize=10)
    axes.legend(loc="upper left", frameon=False)
    _save(figure, axes, path)


def growth(
    path: str | Path,
    title: str,
    points: Sequence[tuple[float, int]],
    losses: Sequence[tuple[float, str]],
) -> None:
    """How much there was after how many seconds, and what was lost when."""
    figure, axes = _pyplot().subplots(figsize=(8, 3.6))
    seconds, counts = zip(*points, strict=True)
    axes.step(seconds, counts, where="post", color="#2563eb", linewidth=1.8)
    for at, words in losses:
        axes.axvline(at, color="#dc2626", linewidth=1, linestyle="--")
        axes.annotate(
            words, (at, counts[-1]), (6, 0), textcoords="offset points", va="top", fontsize=8
        )
    axes.set_xlim(left=0)
    axes.set_ylim(bottom=0)
    axes.set_xlabel("seconds since the question")
    axes.set_ylabel("tokens at the client")
    axes.set_title(title, fontsize=10)
    _save(figure, axes, path)


def _pyplot() -> Any:
    import matplotlib as mpl

    mpl.use("svg")
    mpl.rcParams["svg.hashsalt"] = "vivace"
    from matplotlib import pyplot as plt

    return plt


def _save(figure: Any, axes: Any, path: str | Path) -> None:
    axes.spines[["top", "right"]].set_visible(False)
    figure.tight_layout()
    figure.savefig(path, metadata={"Date": None})
