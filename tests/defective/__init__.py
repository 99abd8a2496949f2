"""Environments with one defect each, and the check that must refuse each."""


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
