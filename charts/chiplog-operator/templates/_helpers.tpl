{{- define "chiplog-operator.name" -}}
{{- printf "%s-operator" (trimSuffix "-operator" .Release.Name) | trunc 63 | trimSuffix "-" -}}
{{- end -}}

{{- define "chiplog-operator.selector" -}}
app.kubernetes.io/name: chiplog-operator
app.kubernetes.io/instance: {{ .Release.Name }}
{{- end -}}

{{- define "chiplog-operator.labels" -}}
{{ include "chiplog-operator.selector" . }}
app.kubernetes.io/part-of: chiplog
app.kubernetes.io/managed-by: {{ .Release.Service }}
app.kubernetes.io/version: {{ .Chart.AppVersion | quote }}
helm.sh/chart: {{ printf "%s-%s" .Chart.Name .Chart.Version | replace "+" "_" }}
{{- end -}}

{{/* A whole image reference of the values in `image`, whose tag is by default `version`. */}}
{{- define "chiplog-operator.image" -}}
{{- .image.reference | default (printf "%s:%s" .image.repository (.image.tag | default .version)) -}}
{{- end -}}
