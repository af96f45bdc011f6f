{{/* Where Topics are: read them, set our finalizer, write their status, tell what happened to them. */}}
{{- define "topiarist.rules.topics" -}}
- apiGroups: [topiarist.dev]
  resources: [topics]
  verbs: [list, watch, patch]
- apiGroups: [topiarist.dev]
  resources: [topics/status]
  verbs: [patch]
- apiGroups: [events.k8s.io]
  resources: [events]
  verbs: [create]
{{- end }}

{{- define "topiarist.rules.read" -}}
- apiGroups: [topiarist.dev]
  resources: [clusters, policies]
  verbs: [list, watch]
{{- end }}

{{/* The operator's own namespace: statuses of Clusters and Policies, the Secrets that are named, the Lease. */}}
{{- define "topiarist.rules.home" -}}
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
# The name of what is to be created cannot be said.
- apiGroups: [coordination.k8s.io]
  resources: [leases]
  verbs: [create]
- apiGroups: [coordination.k8s.io]
  resources: [leases]
  resourceNames: [{{ include "topiarist.release" . }}]
  verbs: [get, update]
{{- end }}
{{- end }}

{{/* Who it is that gets a role. */}}
{{- define "topiarist.subjects" -}}
- kind: ServiceAccount
  name: {{ include "topiarist.account" . }}
  namespace: {{ .Release.Namespace }}
{{- end }}
