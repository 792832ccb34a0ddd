{{/*
The name of all that `helm test` makes. One name, since `helm test --logs` asks for a pod of the name of each. Like
no other's, since what has it is deleted before each test: the namespace's and the release's, as a hash.
*/}}
{{- define "chiplog-monitoring.testName" -}}
{{- $hash := printf "%s/%s" .Release.Namespace .Release.Name | sha256sum | trunc 8 -}}
{{- printf "%s-test-%s" (.Release.Name | trunc 40 | trimSuffix "-") $hash -}}
{{- end -}}

{{/* Of what `helm test` makes. */}}
{{- define "chiplog-monitoring.testLabels" -}}
app.kubernetes.io/name: chiplog-monitoring-test
app.kubernetes.io/instance: {{ .Release.Name }}
app.kubernetes.io/part-of: chiplog
app.kubernetes.io/managed-by: {{ .Release.Service }}
helm.sh/chart: {{ printf "%s-%s" .Chart.Name .Chart.Version | replace "+" "_" }}
{{- end -}}

{{/* The whole reference of the image of `helm test`. */}}
{{- define "chiplog-monitoring.testImage" -}}
{{- with .Values.test.image -}}
{{- .reference | default (printf "%s:%s" .repository (.tag | default $.Chart.AppVersion)) -}}
{{- end -}}
{{- end -}}

{{- define "chiplog-monitoring.labels" -}}
app.kubernetes.io/name: chiplog-monitoring
app.kubernetes.io/instance: {{ .Release.Name }}
app.kubernetes.io/part-of: chiplog
app.kubernetes.io/managed-by: {{ .Release.Service }}
app.kubernetes.io/version: {{ .Chart.AppVersion | quote }}
helm.sh/chart: {{ printf "%s-%s" .Chart.Name .Chart.Version | replace "+" "_" }}
{{- end -}}

{{/*
The metadata of an object called like `name`, for `root`, with `labels` and `annotations`. No name
is cut: a release's has at most 53 characters, and these kinds take 253.
*/}}
{{- define "chiplog-monitoring.metadata" -}}
name: {{ printf "%s-%s" .root.Release.Name .name }}
namespace: {{ .root.Release.Namespace }}
labels:
  {{- toYaml (merge (include "chiplog-monitoring.labels" .root | fromYaml) .labels) | nindent 2 }}
{{- with .annotations }}
annotations:
  {{- toYaml . | nindent 2 }}
{{- end }}
{{- end -}}

{{/* The groups of a rule file's `text` as `values` want them, without those that became empty. */}}
{{- define "chiplog-monitoring.groups" -}}
{{- $values := .values -}}
{{- $groups := list -}}
{{- range (.text | fromYaml).groups -}}
{{- $rules := list -}}
{{- range .rules -}}
{{- $own := get $values.alerts .alert | default dict -}}
{{- if ne (toString $own.enabled) "false" -}}
{{- if $values.runbooks -}}
{{- $_ := set .annotations "runbook_url" ($values.runbooks | replace "{alert}" .alert) -}}
{{- else -}}
{{- $_ := unset .annotations "runbook_url" -}}
{{- end -}}
{{- $expr := $own.expr | default .expr -}}
{{- if hasKey $own "threshold" -}}
{{- if not (regexMatch "[<>] [0-9.]+$" .expr) }}{{ fail (printf "alerts.%s.threshold: this alert has none, only expr can change it" .alert) }}{{ end -}}
{{- $expr = regexReplaceAll "[0-9.]+$" .expr (printf "%v" $own.threshold) -}}
{{- end -}}
{{- $labels := merge (dict "severity" ($own.severity | default .labels.severity)) .labels -}}
{{- $changed := dict "expr" $expr "for" (get $own "for" | default (get . "for")) "labels" $labels -}}
{{- $rules = append $rules (merge $changed .) -}}
{{- end -}}
{{- end -}}
{{- if $rules }}{{ $groups = append $groups (dict "name" .name "rules" $rules) }}{{ end -}}
{{- end -}}
{{- with $groups }}{{ toYaml (dict "groups" .) }}{{ end -}}
{{- end -}}

{{/* Where a PodMonitor looks for pods: in `namespaces`, or everywhere. */}}
{{- define "chiplog-monitoring.namespaces" -}}
namespaceSelector:
  {{- if .namespaces }}
  matchNames:
    {{- toYaml .namespaces | nindent 4 }}
  {{- else }}
  any: true
  {{- end }}
{{- end -}}
