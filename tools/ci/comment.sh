#!/usr/bin/env bash
# Post a plan, or the outcome of an apply, as a comment of a pull request, or update the comment of an earlier run.
#
# Usage: comment.sh FILE, which `topiarist plan --format markdown` or outcome.py wrote; its first line is the marker.
# Needs the variables of github.sh and PULL_REQUEST, its number. Only comments of COMMENT_AUTHOR are updated;
# COMMENT_KEY, if set, separates several plans, or outcomes, of one pull request. ARTIFACT_URL, if set, is the address of
# the artifact with the plan: the comment links to it if there is a plan.html beside FILE.
set -euo pipefail
# shellcheck source=tools/ci/github.sh
source "$(dirname "$0")/github.sh"

need GITHUB_API_URL GITHUB_REPOSITORY GITHUB_TOKEN PULL_REQUEST
author=${COMMENT_AUTHOR:-github-actions[bot]}
permission="pull-requests: write"

[[ ${COMMENT_KEY:-} =~ ^[A-Za-z0-9._-]*$ ]] || fail "COMMENT_KEY: wanted letters, digits, . _ - only"
[[ $PULL_REQUEST =~ ^[0-9]+$ ]] || fail "PULL_REQUEST: wanted a number"
[[ $(head -n 1 "$1") =~ ^'<!-- topiarist '(plan|apply)' -->'$ ]] ||
  fail "$1 does not start with the marker of a plan or an apply"
marker="<!-- topiarist ${BASH_REMATCH[1]}${COMMENT_KEY:+ $COMMENT_KEY} -->"
page=
if [[ -n ${ARTIFACT_URL:-} && -f $(dirname "$1")/plan.html ]]; then
  [[ $ARTIFACT_URL =~ ^https?://[A-Za-z0-9._:/-]{1,300}$ ]] || fail "ARTIFACT_URL: wanted a web address"
  page=$ARTIFACT_URL
fi
python3 "$here/answers.py" body "$marker" "$page" <"$1" >"$work/payload"

# Set $found to the id of the earlier comment, empty if there is none; it may be on any page.
earlier() {
  local page=1
  found=
  while :; do
    api GET "repos/$GITHUB_REPOSITORY/issues/$PULL_REQUEST/comments?per_page=100&page=$page"
    [[ $status == 200 ]] || refused "cannot read the comments of pull request $PULL_REQUEST" "$permission"
    found=$(answer comment "$marker" "$author")
    [[ -z $found ]] || return 0
    grep -qi '^link:.*rel="next"' "$work/headers" || return 0
    page=$((page + 1))
  done
}

earlier
if [[ -n $found ]]; then
  api PATCH "repos/$GITHUB_REPOSITORY/issues/comments/$found" --data-binary "@$work/payload"
  if [[ $status == 200 ]]; then
    echo "updated comment $found of pull request $PULL_REQUEST"
    exit 0
  fi
  # 404: a user has deleted the comment since; then post a new one.
  [[ $status == 404 ]] || refused "cannot update comment $found" "$permission"
fi
api POST "repos/$GITHUB_REPOSITORY/issues/$PULL_REQUEST/comments" --data-binary "@$work/payload"
[[ $status == 201 ]] || refused "cannot comment on pull request $PULL_REQUEST" "$permission"
echo "posted a comment on pull request $PULL_REQUEST"
