"""Fuzzing with hostile actions, changed files and killed processes: ``python -m benchmarks.fuzz``.

`changes` makes changes from a record's schema, `arena` the honest runs whose `files` `mutations` changes;
`hostile` makes texts that `actions` plays in every suite; `kills` ends benchmarks at random and resumes them.
"""
