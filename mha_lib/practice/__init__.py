"""Practice: predictions, concept questions, exercises and their checkers, and what became of them.

What a notebook calls is here by name: ``practice.predict``, ``practice.ask``, ``practice.check`` and so on.
Each is looked up when it is first used, because the process that judges exercises needs none of the widgets.
"""

from __future__ import annotations

import importlib

#: What a notebook calls, and the module and name behind it.
_CALLED = {
    "predict": ("predictions", "predict"),
    "ask": ("questions", "ask"),
    "review": ("reviews", "review"),
    "check": ("bench", "check"),
    "order": ("parsons", "order"),
    "kill": ("mutants", "kill"),
    "my_progress": ("progress_panel", "progress_panel"),
}

__all__ = list(_CALLED)


def __getattr__(name: str):
    if name not in _CALLED:
        raise AttributeError(f"mha_lib.practice has no {name!r}; a notebook calls {', '.join(_CALLED)}")
    module, attribute = _CALLED[name]
    return getattr(importlib.import_module(f".{module}", __name__), attribute)


def __dir__() -> list[str]:
    return sorted([*globals(), *_CALLED])
