#!/usr/bin/env bash
# Run topiarist for action.yml: plan for a pull request, or apply after a merge.
#
# Usage: run.sh plan|apply FOLDER. `plan` writes plan.json and plan.md into the folder; `apply` reads plan.json there if
# it exists, and writes report.jsonl.
# ACTION_PATHS and ACTION_ARGS have a word a line. PLATFORM, SNAPSHOT and CLUSTER may be empty. Ends with 0 where
# topiarist ran, however it ended: its exit code goes to GITHUB_OUTPUT, so that the plan is shown before the job fails.
set -euo pipefail

command=$1 folder=$2
mkdir -p "$folder"

words=()
while IFS= read -r word; do
  [[ -z $word ]] || words+=("$word")
done <<<"${ACTION_PATHS:-}"$'\n'"${ACTION_ARGS:-}"
[[ -z ${PLATFORM:-} ]] || words+=(--platform "$PLATFORM")
[[ -z ${SNAPSHOT:-} ]] || words+=(--snapshot "$SNAPSHOT")
[[ -z ${CLUSTER:-} ]] || words+=(--cluster "$CLUSTER")

# What manifests and clusters hold is printed here: nothing of it may be a command to the runner.
quietly() {
  local token
  token=$(python3 -c 'import secrets; print(secrets.token_hex(16))')
  printf '::stop-commands::%s\n' "$token"
  "$@"
  printf '\n::%s::\n' "$token"
}

plan() {
  code=0
  topiarist plan "${words[@]}" --format markdown --out "$folder/plan.json" >"$folder/plan.md" 2>"$folder/errors" || code=$?
  quietly cat "$folder/errors"
  rm "$folder/errors"
  if [[ ! -s $folder/plan.md ]]; then
    printf '%s\n' '<!-- topiarist plan -->' "### No plan: topiarist ended with $code. The log of the run says why." >"$folder/plan.md"
  elif [[ $code != 2 ]]; then
    topiarist plan "${words[@]}" --format github 2>/dev/null || true
  fi
  cat "$folder/plan.md" >>"$GITHUB_STEP_SUMMARY"
}

apply() {
  [[ ! -s $folder/plan.json ]] || words+=(--reviewed "$folder/plan.json")
  code=0
  quietly applied
}

applied() {
  topiarist apply "${words[@]}" --yes --report "$folder/report.jsonl" 2>&1 || code=$?
}

"$command"
echo "exit-code=$code" >>"$GITHUB_OUTPUT"
