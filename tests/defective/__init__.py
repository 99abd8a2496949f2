"""Environments with one defect each, and the check that must refuse each."""

from agentgym.checking.interface import check_splits_are_disjoint


def breaks(check, message):
    """Note on a broken class which check must refuse it, and what that check must say."""

    def note(broken):
        broken.refused_by = (check, message)
        return broken

    return note


def defects(module):
    """Return the broken classes of a module, in order, as ``(check, class, message)``."""
    classes = [each for each in vars(module).values() if "refused_by" in getattr(each, "__dict__", {})]
    return [
        (each.refused_by[0], each, each.refused_by[1])
        for each in classes
        if each.__module__ == module.__name__
    ]


def splits_are_disjoint(make):
    """Check the splits of the test corridor."""
    check_splits_are_disjoint(make, ("train", "test"))
