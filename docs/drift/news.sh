#!/usr/bin/env bash
# Send the news of a drift report to a service; copy and edit it. Needs bash, jq and curl.
#
#   news.sh slack [REPORT]      a message: the URL of an incoming webhook in SLACK_URL
#   news.sh teams [REPORT]      a message: the URL of a workflow that a webhook triggers in TEAMS_URL
#   news.sh jira [REPORT]       an issue for each critical finding: the site in JIRA_URL, user and token in
#                               JIRA_USER (ada@example.com:TOKEN)
#   news.sh pagerduty [REPORT]  an event for each critical finding, and one that resolves it: the integration key
#                               in PAGERDUTY_KEY
#
# REPORT is the folder of a report, by default "report". Only with --previous or --history each finding is sent once.
set -euo pipefail
report=${2:-report}
news=$(mktemp -d)
trap 'rm -r "$news"' EXIT
jq -c 'select(.status == "New" or .status == "Worse")' "$report/findings.jsonl" >"$news/all.jsonl"

# POST JSON from stdin. The URL is an option of a file, so that the list of processes does not have it.
post() {
  curl --silent --show-error --fail --max-time 10 --output /dev/null --header 'Content-Type: application/json' \
    -d @- -K <(printf '%s\n' "$@")
}

send_slack() {
  if [ -s "$news/all.jsonl" ]; then
    jq -s 'def plain: gsub("&"; "&amp;") | gsub("<"; "&lt;") | gsub(">"; "&gt;");
      {text: (["*Drift: \(length) new or worse*"]
        + [.[:20][] | "• \(.severity) `\(.topic)` on `\(.cluster)`: \(.field) \(.effectReason)" | plain] | join("\n"))}' \
      "$news/all.jsonl" | post "url = \"$SLACK_URL\""
  fi
}

send_teams() {
  if [ -s "$news/all.jsonl" ]; then
    jq -s '{type: "message", attachments: [{contentType: "application/vnd.microsoft.card.adaptive", content: {
        type: "AdaptiveCard", version: "1.4", body: ([{type: "TextBlock", weight: "Bolder", text: "Drift: \(length) new or worse"}]
          + [.[:20][] | {type: "TextBlock", wrap: true, text: "\(.severity) \(.topic) on \(.cluster): \(.field) \(.effectReason)"}])}}]}' \
      "$news/all.jsonl" | post "url = \"$TEAMS_URL\""
  fi
}

send_jira() {
  jq -c 'select(.severity == "Critical")' "$news/all.jsonl" | while read -r finding; do
    jq '{fields: {project: {key: "KAFKA"}, issuetype: {name: "Task"}, labels: ["drift", .id],
        summary: "\(.topic) on \(.cluster): \(.field) \(.effectReason)",
        description: "expected \(.expected), found \(.actual)\n\(.file):\(.line)\n\(.command)"}}' <<<"$finding" |
      post "url = \"$JIRA_URL/rest/api/2/issue\"" "user = \"$JIRA_USER\""
  done
}

send_pagerduty() {
  PAGERDUTY_URL=${PAGERDUTY_URL:-https://events.pagerduty.com/v2/enqueue}
  export PAGERDUTY_KEY
  jq -c 'select(.severity == "Critical") | {routing_key: env.PAGERDUTY_KEY, event_action: "trigger", dedup_key: .id, payload: {
      summary: "\(.topic) on \(.cluster): \(.field) \(.effectReason)", source: .cluster, severity: "critical"}}' \
    "$news/all.jsonl" >"$news/events.jsonl"
  jq -c 'select(.severity == "Critical" and (has("exception") | not))
    | {routing_key: env.PAGERDUTY_KEY, event_action: "resolve", dedup_key: .id}' "$report/resolved.jsonl" >>"$news/events.jsonl"
  while read -r event; do post "url = \"$PAGERDUTY_URL\"" <<<"$event"; done <"$news/events.jsonl"
}

case ${1:-} in
  slack | teams | jira | pagerduty) "send_$1" ;;
  *)
    echo "usage: news.sh slack|teams|jira|pagerduty [REPORT]" >&2
    exit 2
    ;;
esac
