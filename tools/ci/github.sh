# shellcheck shell=bash
# GitHub's API for the other scripts, which source this file: curl sends the requests, Python reads the responses.
#
# The token is never on a command line, where other processes could read it, nor in any output.
# Needs in the environment: GITHUB_API_URL, GITHUB_REPOSITORY, GITHUB_TOKEN.

here=$(cd "$(dirname "${BASH_SOURCE[0]}")" && pwd)
work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT
status=0

# say LEVEL TEXT: one annotation of the run; the text is escaped, so that it is one line and no other command.
say() {
  local text=${2//'%'/'%25'}
  text=${text//$'\r'/'%0D'}
  printf '::%s title=topiarist::%s\n' "$1" "${text//$'\n'/'%0A'}"
}

fail() {
  say error "$1"
  exit 1
}

need() {
  local name
  for name in "$@"; do
    [[ -n ${!name:-} ]] || fail "$name is not set"
  done
}

# api METHOD PATH [CURL OPTION...]: one request. The response is in $status, $work/body and $work/headers.
api() {
  local method=$1 path=$2
  shift 2
  status=$(curl --silent --show-error --connect-timeout 20 --max-time 120 --request "$method" \
    --header @<(printf 'Authorization: Bearer %s\n' "$GITHUB_TOKEN") \
    --header 'Accept: application/vnd.github+json' --header 'X-GitHub-Api-Version: 2022-11-28' \
    --output "$work/body" --dump-header "$work/headers" --write-out '%{http_code}' \
    "$@" "$GITHUB_API_URL/$path" 2>"$work/curl") || fail "cannot reach GitHub's API: $(cat "$work/curl")"
}

# answer COMMAND [WORD...]: the value that answers.py finds in the last response.
answer() {
  python3 "$here/answers.py" "$@" <"$work/body"
}

# refused WHAT PERMISSION: end the run with an error that explains the unexpected response.
refused() {
  local words
  words="$1: GitHub returned $status, $(answer message)"
  case $status in
    401 | 403) fail "$words. Give the job \`permissions: $2\`; a run for a pull request from a fork never has it" ;;
    404) fail "$words. It does not exist in $GITHUB_REPOSITORY, or the token may not read it: \`permissions: $2\`" ;;
    429 | 5??) fail "$words. GitHub is busy or has an error: run the job again" ;;
    *) fail "$words" ;;
  esac
}
