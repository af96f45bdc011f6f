{{/* What all names begin with. */}}
{{- define "topiarist.fullname" -}}
{{- if .Values.fullnameOverride }}
{{- .Values.fullnameOverride | trunc 63 | trimSuffix "-" }}
{{- else if contains (include "topiarist.name" .) .Release.Name }}
{{- .Release.Name | trunc 63 | trimSuffix "-" }}
{{- else }}
{{- printf "%s-%s" .Release.Name (include "topiarist.name" .) | trunc 63 | trimSuffix "-" }}
{{- end }}
{{- end }}

{{- define "topiarist.name" -}}
{{- default .Chart.Name .Values.nameOverride | trunc 63 | trimSuffix "-" }}
{{- end }}

{{/* Names of what belongs to no namespace: two releases of one name may be in two namespaces. */}}
{{- define "topiarist.globalname" -}}
{{- printf "%s-%s" .Release.Namespace (include "topiarist.fullname" .) }}
{{- end }}

{{- define "topiarist.account" -}}
{{- if .Values.serviceAccount.create }}
{{- default (include "topiarist.fullname" .) .Values.serviceAccount.name }}
{{- else }}
{{- default "default" .Values.serviceAccount.name }}
{{- end }}
{{- end }}

{{/* The operator's word for itself in records, and the name of its Lease. */}}
{{- define "topiarist.release" -}}
{{- default .Release.Name .Values.release }}
{{- end }}

{{/* The owner in its records; empty where nobody has said it and there is no API server to ask. */}}
{{- define "topiarist.owner" -}}
{{- if .Values.owner }}
{{- .Values.owner }}
{{- else if $system := lookup "v1" "Namespace" "" "kube-system" }}
{{- printf "k8s/%s/%s/%s" (trunc 8 $system.metadata.uid) .Release.Namespace (include "topiarist.release" .) }}
{{- end }}
{{- end }}

{{- define "topiarist.image" -}}
{{- with .Values.image }}
{{- if .digest }}
{{- printf "%s@%s" .repository .digest }}
{{- else }}
{{- printf "%s:%s" .repository (default $.Chart.AppVersion .tag) }}
{{- end }}
{{- end }}
{{- end }}

{{- define "topiarist.selector" -}}
app.kubernetes.io/name: {{ include "topiarist.name" . | quote }}
app.kubernetes.io/instance: {{ .Release.Name | quote }}
{{- end }}

{{/* Labels of ours, and those of commonLabels where they say something else. */}}
{{- define "topiarist.labels" -}}
{{- $ours := dict
  "helm.sh/chart" (printf "%s-%s" .Chart.Name .Chart.Version | replace "+" "_" | trunc 63 | trimSuffix "-")
  "app.kubernetes.io/version" .Chart.AppVersion
  "app.kubernetes.io/managed-by" .Release.Service
  "app.kubernetes.io/part-of" "topiarist" }}
{{- $fixed := include "topiarist.selector" . | fromYaml }}
{{- toYaml (merge $fixed (deepCopy (default dict .Values.commonLabels)) $ours) }}
{{- end }}

{{/* metadata: of something in the release's namespace; takes (list . NAME LABELS ANNOTATIONS). */}}
{{- define "topiarist.metadata" -}}
{{- $ := index . 0 -}}
name: {{ index . 1 }}
namespace: {{ $.Release.Namespace | quote }}
{{ include "topiarist.marks" (list $ (index . 2) (index . 3)) }}
{{- end }}

{{/* Labels and annotations; takes (list . LABELS ANNOTATIONS). */}}
{{- define "topiarist.marks" -}}
{{- $ := index . 0 -}}
labels:
  {{- toYaml (merge (include "topiarist.labels" $ | fromYaml) (default dict (index . 1))) | nindent 2 }}
{{- with merge (dict) (default dict (index . 2)) (default dict $.Values.commonAnnotations) }}
annotations:
  {{- toYaml . | nindent 2 }}
{{- end }}
{{- end }}

{{/* Names of the Secrets that something names by secretKeyRef, at any depth, each with a blank behind it. */}}
{{- define "topiarist.secretKeyRefs" -}}
{{- if kindIs "map" . }}
{{- range $key, $value := . }}
{{- if and (eq $key "secretKeyRef") (kindIs "map" $value) }}
{{- printf "%s " $value.name }}
{{- else }}
{{- include "topiarist.secretKeyRefs" $value }}
{{- end }}
{{- end }}
{{- else if kindIs "slice" . }}
{{- range . }}
{{- include "topiarist.secretKeyRefs" . }}
{{- end }}
{{- end }}
{{- end }}

{{/* Names of the Secrets that the operator may read, as a YAML list. */}}
{{- define "topiarist.secrets" -}}
{{- $named := include "topiarist.secretKeyRefs" .Values.clusters | splitList " " | compact }}
{{- concat $named (default list .Values.secretNames) | uniq | sortAlpha | toYaml }}
{{- end }}

{{/* Ports of a NetworkPolicy, each once: numbers of values, and text from addresses. */}}
{{- define "topiarist.ports" -}}
{{- $known := list }}
{{- range . }}
{{- $known = append $known (toString .) }}
{{- end }}
{{- range uniq $known | sortAlpha }}
- port: {{ . }}
  protocol: TCP
{{- end }}
{{- end }}
