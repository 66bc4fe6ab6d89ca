"""Python's garbage collector in the engine process: it visits new objects, and older ones never while requests run.

The prefix tree is some ten thousand nodes, and a collection that visits them all takes as long as several steps. Requests
and nodes part from each other at their end, so reference counts free them; the collector is for what libraries leave.
"""

import gc

_YOUNG = 25_000  # new containers before a collection; a step makes some hundreds and frees most of them
_OLDER = 1  # collections before the next one visits the survivors of these as well
_NEVER = 2**31 - 1  # of a generation that no collection visits: Python's counter is a C int


def spare_old_objects() -> None:
    """Let no collection visit what exists now, and automatic ones only new objects. Called once the model is loaded.

    Modules and a model leave a thousand objects of garbage, and it takes 25 ms to look for them.
    """
    gc.freeze()
    gc.set_threshold(_YOUNG, _OLDER, _NEVER)


def tidy() -> None:
    """Collect the garbage that was made since the last call. No collection visits again what is left."""
    gc.collect()
    gc.freeze()
