"""A soak test: everything that runs for long at the same time, watched for what grows.

``make soak``, or ``python -m benchmarks.soak``. `workers` play, bench and publish, `traffic` visits the site,
and `watch` samples every process and holds it to its bounds.
"""
