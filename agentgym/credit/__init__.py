"""Credit: what a step was really worth, exactly or from continuations, and estimators held against it."""
