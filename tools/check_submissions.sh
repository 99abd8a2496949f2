#!/usr/bin/env bash
# Check the archives of benchmarks/submissions that a change brings: AGENTGYM [COMMIT]. The change is what follows
# the commit: where a branch left main, or on main itself the commit before; else all there is.
set -euo pipefail
cd "$(dirname "${BASH_SOURCE[0]}")/.."
agentgym=$1 since=${2:-}
if [ -z "$since" ]; then
    since=$(git merge-base HEAD origin/main 2>/dev/null || true)
    if [ -z "$since" ] || [ "$since" = "$(git rev-parse HEAD)" ]; then
        since=$(git rev-parse -q --verify HEAD~1 || git hash-object -t tree /dev/null)
    fi
fi
changed() { git diff --name-only --diff-filter=d "$since" -- 'benchmarks/submissions/*.submission.zip'; }
[ -n "$(changed)" ] || echo "no committed archive since $since: commit yours first (git status shows it)"
changed | xargs -r "$agentgym" submit check
