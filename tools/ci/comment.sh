#!/usr/bin/env bash
# Put a plan, or the outcome of an apply, under a pull request: update the comment that an earlier run made, or make one.
#
# Usage: comment.sh FILE, which `topiarist plan --format markdown` or outcome.py wrote; its first line is the marker.
# Wanted beside what github.sh wants: PULL_REQUEST, its number. COMMENT_AUTHOR is whose comments are updated;
# COMMENT_KEY, if given, keeps several plans, or outcomes, under one pull request apart.
set -euo pipefail
# shellcheck source=tools/ci/github.sh
source "$(dirname "$0")/github.sh"

need GITHUB_API_URL GITHUB_REPOSITORY GITHUB_TOKEN PULL_REQUEST
author=${COMMENT_AUTHOR:-github-actions[bot]}
permission="pull-requests: write"

[[ ${COMMENT_KEY:-} =~ ^[A-Za-z0-9._-]*$ ]] || fail "COMMENT_KEY: wanted letters, digits, . _ - only"
[[ $PULL_REQUEST =~ ^[0-9]+$ ]] || fail "PULL_REQUEST: wanted a number"
[[ $(head -n 1 "$1") =~ ^'<!-- topiarist '(plan|apply)' -->'$ ]] ||
  fail "$1 does not begin with the marker of a plan or an apply"
marker="<!-- topiarist ${BASH_REMATCH[1]}${COMMENT_KEY:+ $COMMENT_KEY} -->"
python3 "$here/answers.py" body "$marker" <"$1" >"$work/payload"

# The id of our earlier comment in $found, empty if there is none; it may stand on any page.
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
  # Somebody may have deleted it since: then there is none to update.
  [[ $status == 404 ]] || refused "cannot update comment $found" "$permission"
fi
api POST "repos/$GITHUB_REPOSITORY/issues/$PULL_REQUEST/comments" --data-binary "@$work/payload"
[[ $status == 201 ]] || refused "cannot comment on pull request $PULL_REQUEST" "$permission"
echo "made a comment on pull request $PULL_REQUEST"
