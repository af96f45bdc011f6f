#!/usr/bin/env bash
# Fetch the plan that was reviewed: the artifact of the newest run for the pull request whose merge made this commit.
#
# Usage: reviewed.sh FILE, where the plan goes. The number of the pull request goes to GITHUB_OUTPUT as soon as it is known.
# Needs the variables of github.sh, GITHUB_SHA, GITHUB_REF_NAME, ARTIFACT (its name), and PLAN_WORKFLOW (the file name
# of the workflow that planned) or GITHUB_WORKFLOW_REF (then it is this one).
#
# The plan was built on a branch and is not trusted: it only limits what is applied to what was reviewed. Only runs of
# branches of this repository are used, because a run of a fork could upload anything.
set -euo pipefail
# shellcheck source=tools/ci/github.sh
source "$(dirname "$0")/github.sh"

need GITHUB_API_URL GITHUB_REPOSITORY GITHUB_TOKEN GITHUB_SHA GITHUB_REF_NAME ARTIFACT
workflow=${PLAN_WORKFLOW:-}
if [[ -z $workflow ]]; then
  need GITHUB_WORKFLOW_REF
  workflow=${GITHUB_WORKFLOW_REF%@*}
  workflow=${workflow##*/}
fi
plan_again="Open a pull request and merge it, or apply without a reviewed plan: \`reviewed: false\`"

api GET "repos/$GITHUB_REPOSITORY/commits/$GITHUB_SHA/pulls?per_page=100"
[[ $status == 200 ]] || refused "cannot find the pull request of $GITHUB_SHA" "pull-requests: read"
read -r number head repository < <(answer pull "$GITHUB_SHA" "$GITHUB_REF_NAME") || true
[[ -n ${number:-} ]] || fail "no pull request was merged as $GITHUB_SHA: no plan of it was reviewed. $plan_again"
[[ -z ${GITHUB_OUTPUT:-} ]] || echo "pull-request=$number" >>"$GITHUB_OUTPUT"
[[ $repository == "$GITHUB_REPOSITORY" ]] ||
  fail "pull request $number came from $repository: artifacts of other repositories are not trusted. $plan_again"

api GET "repos/$GITHUB_REPOSITORY/actions/workflows/$workflow/runs?head_sha=$head&event=pull_request&status=success&per_page=100"
[[ $status == 200 ]] || refused "cannot find the run that planned pull request $number" "actions: read"
run=$(answer run "$GITHUB_REPOSITORY" "$number")
[[ -n $run ]] || fail "no run of $workflow planned commit $head of pull request $number and succeeded. $plan_again"

api GET "repos/$GITHUB_REPOSITORY/actions/runs/$run/artifacts?name=$ARTIFACT&per_page=100"
[[ $status == 200 ]] || refused "cannot list the artifacts of run $run" "actions: read"
archive=$(answer artifact "$ARTIFACT")
[[ -n $archive ]] || fail "run $run has no artifact $ARTIFACT any more. Run it again, then this one"

api GET "repos/$GITHUB_REPOSITORY/actions/artifacts/$archive/zip"
if [[ $status == 30[27] ]]; then
  # The archive is on another host, which must not get the token.
  address=$(sed -n 's/^[Ll]ocation: *//p' "$work/headers" | tr -d '\r')
  curl --silent --show-error --fail --max-time 300 --output "$work/body" --url "$address" 2>"$work/curl" ||
    fail "cannot fetch artifact $ARTIFACT of run $run: $(cut -c1-200 "$work/curl")"
elif [[ $status != 200 ]]; then
  refused "cannot fetch artifact $ARTIFACT of run $run" "actions: read"
fi
[[ -n $(answer unpack "$work/body" plan.json "$1") ]] || fail "artifact $ARTIFACT of run $run contains no plan.json"
[[ -s $1 ]] || fail "the plan.json in artifact $ARTIFACT of run $run is empty. Run it again, then this one"
echo "the plan of pull request $number at commit $head, from run $run"
