"""Answer formats: each a writer, and a reader that undoes it."""
