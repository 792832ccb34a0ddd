{{- define "chiplog-cluster.name" -}}
{{- .Values.cluster.name | default .Release.Name -}}
{{- end -}}

{{- define "chiplog-cluster.labels" -}}
app.kubernetes.io/name: chiplog
app.kubernetes.io/instance: {{ .Release.Name }}
app.kubernetes.io/part-of: chiplog
app.kubernetes.io/managed-by: {{ .Release.Service }}
helm.sh/chart: {{ printf "%s-%s" .Chart.Name .Chart.Version | replace "+" "_" }}
{{- end -}}

{{/*
The name of all that `helm test` makes. One name, since `helm test --logs` asks for a pod of the name of each. Like
no other's, since what has it is deleted before each test: the namespace's and the release's, as a hash.
*/}}
{{- define "chiplog-cluster.testName" -}}
{{- $hash := printf "%s/%s" .Release.Namespace .Release.Name | sha256sum | trunc 8 -}}
{{- printf "%s-test-%s" (.Release.Name | trunc 40 | trimSuffix "-") $hash -}}
{{- end -}}

{{/* Of what `helm test` makes. */}}
{{- define "chiplog-cluster.testLabels" -}}
app.kubernetes.io/name: chiplog-test
app.kubernetes.io/instance: {{ .Release.Name }}
app.kubernetes.io/part-of: chiplog
app.kubernetes.io/managed-by: {{ .Release.Service }}
helm.sh/chart: {{ printf "%s-%s" .Chart.Name .Chart.Version | replace "+" "_" }}
{{- end -}}

{{/* The whole reference of the image of `helm test`. */}}
{{- define "chiplog-cluster.testImage" -}}
{{- with .Values.test.image -}}
{{- .reference | default (printf "%s:%s" .repository (.tag | default $.Chart.AppVersion)) -}}
{{- end -}}
{{- end -}}

{{/* The metadata of an object called `name`, with the `labels` and `annotations` of its values. */}}
{{- define "chiplog-cluster.metadata" -}}
name: {{ .name }}
namespace: {{ .root.Release.Namespace }}
labels:
  {{- toYaml (merge (include "chiplog-cluster.labels" .root | fromYaml) (.labels | default dict)) | nindent 2 }}
{{- with .annotations }}
annotations:
  {{- toYaml . | nindent 2 }}
{{- end }}
{{- end -}}

{{/* The reference to the cluster, as a value. */}}
{{- define "chiplog-cluster.reference" -}}
name: {{ include "chiplog-cluster.name" . }}
{{- if and (not .Values.cluster.create) .Values.cluster.namespace }}
namespace: {{ .Values.cluster.namespace }}
{{- end }}
{{- end -}}

{{/* What clients call the topic `name` of the values. The cluster's own have no environment. */}}
{{- define "chiplog-cluster.topic" -}}
{{- if not (hasPrefix "__" .name) }}{{ .root.Values.topicPrefix }}{{ end }}{{ .name -}}
{{- end -}}
