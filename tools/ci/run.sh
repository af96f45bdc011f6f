#!/usr/bin/env bash
# Run topiarist for action.yml: plan for a pull request, or apply after a merge.
#
# Usage: run.sh plan|apply FOLDER. `plan` writes plan.json, plan.md and plan.html into the folder; `apply` writes
# report.jsonl and outcome.md. With REVIEWED=true it applies only the changes that plan.json in the folder also has: without that file, or
# with an empty one, nothing. With REVIEWED=false it applies everything. Any other value is an error: a typing error must
# not mean either. The *.md file is added to the summary of the run. Paths without any topic are an error. ACTION_PATHS and
# ACTION_ARGS have one word per line. PLATFORM, SNAPSHOT, CLUSTER and BOOTSTRAP_SERVERS may be empty. Ends with 0 where
# topiarist ran, however it ended: its exit code goes to GITHUB_OUTPUT, so that the plan is shown before the job fails.
set -euo pipefail

command=$1 folder=$2

refuse() {
  printf '::error title=topiarist::%s\n' "$1"
  exit 2
}

[[ $command == plan || $command == apply ]] || refuse "command: wanted plan or apply"
[[ $command == plan || ${REVIEWED:-} == true || ${REVIEWED:-} == false ]] || refuse "reviewed: wanted true or false"
mkdir -p "$folder"

words=(--require-topics)
while IFS= read -r word; do
  [[ -z $word ]] || words+=("$word")
done <<<"${ACTION_PATHS:-}"$'\n'"${ACTION_ARGS:-}"
[[ -z ${PLATFORM:-} ]] || words+=(--platform "$PLATFORM")
[[ -z ${SNAPSHOT:-} ]] || words+=(--snapshot "$SNAPSHOT")
[[ -z ${CLUSTER:-} ]] || words+=(--cluster "$CLUSTER")
[[ -z ${BOOTSTRAP_SERVERS:-} ]] || words+=(--bootstrap-servers "$BOOTSTRAP_SERVERS")

# This prints text of manifests and clusters, which must not be executed as commands of the runner.
quietly() {
  local token
  token=$(python3 -c 'import secrets; print(secrets.token_hex(16))')
  printf '::stop-commands::%s\n' "$token"
  "$@"
  printf '\n::%s::\n' "$token"
}

plan() {
  code=0
  rm -f "$folder/plan.html" # a run without a plan must not keep the page of an earlier one
  topiarist plan "${words[@]}" --format markdown --out "$folder/plan.json" --page "$folder/plan.html" \
    >"$folder/plan.md" 2>"$folder/errors" || code=$?
  quietly cat "$folder/errors"
  rm "$folder/errors"
  if [[ ! -s $folder/plan.md ]]; then
    printf '%s\n' '<!-- topiarist plan -->' "### No plan: topiarist ended with $code. See the log of the run." >"$folder/plan.md"
  elif [[ $code != 2 ]]; then
    topiarist plan "${words[@]}" --format github 2>/dev/null || true
  fi
  cat "$folder/plan.md" >>"$GITHUB_STEP_SUMMARY"
}

apply() {
  [[ $REVIEWED == false ]] || words+=(--reviewed "$folder/plan.json")
  code=0
  quietly applied
  python3 "$(dirname "$0")/outcome.py" "$folder/report.jsonl" "$code" >"$folder/outcome.md"
  cat "$folder/outcome.md" >>"$GITHUB_STEP_SUMMARY"
}

applied() {
  topiarist apply "${words[@]}" --yes --report "$folder/report.jsonl" 2>&1 || code=$?
}

"$command"
echo "exit-code=$code" >>"$GITHUB_OUTPUT"
