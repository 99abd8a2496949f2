# Installs the package and plays the suite `quick`: docker build -t agentgym . && docker run --rm agentgym
# Linted by hadolint; not built where it was written, since no daemon runs there. Results stay with:
# docker run --rm -v "$PWD/results:/work/results" agentgym
FROM python:3.11-slim

COPY pyproject.toml constraints.txt README.md LICENSE THIRD_PARTY.md /source/
COPY agentgym /source/agentgym
COPY trainers /source/trainers
RUN PIP_CONSTRAINT=/source/constraints.txt pip install --no-cache-dir /source \
    && useradd --uid 1000 --create-home --home-dir /work player

USER 1000
WORKDIR /work
CMD ["agentgym", "bench", "quick"]
