{{/* Where Topics may be: read them, set our finalizer, write their status, tell what happened to them. */}}
{{- define "topiarist.rules.watched" -}}
- apiGroups: [topiarist.dev]
  resources: [topics]
  verbs: [list, watch, patch]
- apiGroups: [topiarist.dev]
  resources: [topics/status]
  verbs: [patch]
# Those of other namespaces, for the Topics that another release serves.
- apiGroups: [topiarist.dev]
  resources: [clusters]
  verbs: [list, watch]
- apiGroups: [""]
  resources: [events]
  verbs: [create]
{{- if .Values.kafkaTopics.enabled }}
# Strimzi's, and whether a Kafka resource declares an operator for them.
- apiGroups: [kafka.strimzi.io]
  resources: [kafkatopics]
  verbs: [list, watch, patch]
- apiGroups: [kafka.strimzi.io]
  resources: [kafkatopics/status]
  verbs: [patch]
- apiGroups: [kafka.strimzi.io]
  resources: [kafkas]
  verbs: [list]
{{- end }}
{{- end }}

{{/* Whether the definitions are of this release, and whether Topics go because theirs does: then no topic goes with them. */}}
{{- define "topiarist.rules.definition" -}}
- apiGroups: [apiextensions.k8s.io]
  resources: [customresourcedefinitions]
  resourceNames: [topics.topiarist.dev, clusters.topiarist.dev, policies.topiarist.dev
    {{- if .Values.kafkaTopics.enabled }}, kafkatopics.kafka.strimzi.io{{ end }}]
  verbs: [get, list, watch]
{{- end }}

{{/* The operator's own namespace: statuses of Clusters and Policies, the Secrets that are named, the Lease. */}}
{{- define "topiarist.rules.home" -}}
- apiGroups: [topiarist.dev]
  resources: [clusters]
  verbs: [get, patch]
- apiGroups: [topiarist.dev]
  resources: [policies]
  verbs: [list, watch]
- apiGroups: [topiarist.dev]
  resources: [clusters/status, policies/status]
  verbs: [patch]
{{- with include "topiarist.secrets" . | fromYamlArray }}
- apiGroups: [""]
  resources: [secrets]
  resourceNames:
    {{- toYaml . | nindent 4 }}
  verbs: [get]
{{- end }}
{{- if .Values.leaderElection.enabled }}
- apiGroups: [coordination.k8s.io]
  resources: [leases]
  resourceNames: [{{ include "topiarist.release" . | quote }}]
  verbs: [get, update]
# No API server can limit this one by name.
- apiGroups: [coordination.k8s.io]
  resources: [leases]
  verbs: [create]
{{- end }}
{{- end }}

{{/* Who it is that gets a role. */}}
{{- define "topiarist.subjects" -}}
- kind: ServiceAccount
  name: {{ include "topiarist.account" . }}
  namespace: {{ .Release.Namespace | quote }}
{{- end }}
